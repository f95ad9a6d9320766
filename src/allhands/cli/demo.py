"""`allhands demo`: the embedded cluster in ten seconds, each step shown with what was asked and what came back."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.api.kinds import Resource
    from allhands.kube.objects import KubeObjects


@click.command("demo", short_help="Start an embedded cluster, make a few calls, show the answers, and end.")
def command() -> None:
    """Start an embedded cluster, make a few calls through our own client, show the answers, and end.

    Nothing is installed and nothing is left behind.
    """
    asyncio.run(_demo())


def _say(text: str) -> None:
    click.echo(click.style(f"\n# {text}", bold=True))


def _asked(text: str) -> None:
    click.echo(click.style(f"$ {text}", dim=True))


async def _demo() -> None:
    from allhands.compose import embedded  # noqa: PLC0415 (`--help` must not pay for a server)
    from allhands.kube import kubeconfig  # noqa: PLC0415
    from allhands.kube.objects import KubeObjects  # noqa: PLC0415

    with tempfile.TemporaryDirectory(prefix="allhands-") as folder:
        _say("An embedded cluster: a Kubernetes API in this process, on loopback, with its own certificate")
        async with embedded(Path(folder), nodes=3) as cluster:
            click.echo(f"ready at {cluster.url}")
            async with KubeObjects(kubeconfig.load(cluster.kubeconfig)) as client:
                await _tour(client)
    _say("Done. The cluster is gone and left nothing behind. `allhands up` keeps one running for your own kubectl.")


async def _tour(client: KubeObjects) -> None:
    from allhands.api.kinds import Resource  # noqa: PLC0415
    from allhands.cli.table_text import table_text  # noqa: PLC0415
    from allhands.ports import Query  # noqa: PLC0415

    pods = Resource("", "v1", "pods")

    async def show(resource: Resource, words: str, query: Query) -> None:
        _asked(f"get {words}")
        click.echo(table_text((await client.table(resource, query)).manifest()))

    await show(Resource("", "v1", "nodes"), "nodes", Query())
    _say("A gang: a native PodGroup that wants four pods or none, and its pods")
    begin = (await client.list(pods, Query(namespace="default"))).version
    for resource, manifest in gang():
        _asked(f"create {manifest['kind'].lower()} {manifest['metadata']['name']}")
        await client.create(resource, manifest, "default")
    await show(pods, "pods", Query(namespace="default"))
    _say("Binding by hand what a scheduler will bind: all four, and a second try is refused")
    for number in range(4):
        await client.bind("default", f"worker-{number}", {"target": {"name": f"node-{number % 3 + 1}"}})
    await show(
        pods, "pods --field-selector spec.nodeName=node-1", Query(namespace="default", fields="spec.nodeName=node-1")
    )
    await _refused(client, "bind pod/worker-0 to node-3")
    _say("What a watcher saw, from the version of the list before")
    await _watched(client, begin, 8)
    await _bad_input(client)


async def _refused(client: KubeObjects, words: str) -> None:
    from allhands.api.errors import StatusError  # noqa: PLC0415

    _asked(words)
    try:
        await client.bind("default", "worker-0", {"target": {"name": "node-3"}})
    except StatusError as refusal:
        click.echo(f"{refusal.code} {refusal.reason}: {refusal.message}")


async def _watched(client: KubeObjects, version: str, count: int) -> None:
    from allhands.api.kinds import Resource  # noqa: PLC0415
    from allhands.ports import Query  # noqa: PLC0415

    watch = await client.watch(Resource("", "v1", "pods"), Query(namespace="default", resource_version=version))
    _asked(f"get pods --watch (from version {version})")
    for _ in range(count):
        event = await watch.__anext__()
        pod = event.manifest()
        click.echo(f"{event.type:<8}  {pod['metadata']['name']}  on {pod['spec'].get('nodeName', 'no node yet')}")
    await watch.close()


async def _bad_input(client: KubeObjects) -> None:
    from allhands.api.errors import StatusError  # noqa: PLC0415
    from allhands.api.kinds import Resource  # noqa: PLC0415
    from allhands.ports import WriteOptions  # noqa: PLC0415

    _say("Bad input gets the field's path and what was wrong")
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}
    broken = {"metadata": {"name": "Bad_Name"}, "spec": {"containers": [container], "restartPolicy": "Sometimes"}}
    _asked("create pod Bad_Name")
    try:
        await client.create(Resource("", "v1", "pods"), broken, "default", WriteOptions(field_validation="Strict"))
    except StatusError as refusal:
        click.echo(f"{refusal.code} {refusal.reason}")
        for cause in (refusal.details or {}).get("causes", ()):
            click.echo(f"  {cause['field']}: {cause['message']}")


def gang() -> list[tuple[Resource, Manifest]]:
    """A native gang of four and its pods."""
    from allhands.api.kinds import Resource  # noqa: PLC0415

    group = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "training"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 4}}},
    }
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "2", "memory": "4Gi"}}}
    members: list[tuple[Resource, Manifest]] = [(Resource("scheduling.k8s.io", "v1alpha2", "podgroups"), group)]
    for number in range(4):
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"worker-{number}", "labels": {"job": "training"}},
            "spec": {"schedulingGroup": {"podGroupName": "training"}, "containers": [container]},
        }
        members.append((Resource("", "v1", "pods"), pod))
    return members
