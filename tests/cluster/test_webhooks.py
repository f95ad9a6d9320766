"""The webhooks on the real API server: what they refuse and fill in, whose rights they look at, what a webhook that is
down does not block, and keys that are exchanged while Jobs come in."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import datetime
import json
import logging
import ssl
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from click.testing import CliRunner

from allhands.api.errors import StatusError
from allhands.api.kinds import Resource
from allhands.api.volcano.command import COMMAND
from allhands.api.volcano.job import JOB
from allhands.api.volcano.podgroup import POD_GROUP
from allhands.api.volcano.queue import QUEUE
from allhands.cli import root
from allhands.compose.machine import SystemClock
from allhands.compose.process import ProcessOptions
from allhands.compose.webhooks import WebhookOptions, run_webhooks
from allhands.kube import kubeconfig
from allhands.kube.objects import KubeObjects
from allhands.measure.processes import free_ports
from allhands.ports import WriteOptions
from allhands.runtime.installation import InstallOptions, install_objects
from allhands.runtime.installation.applying import Installer
from allhands.runtime.installation.webhooks import (
    ANNOTATED_WEBHOOK,
    MUTATING,
    NAME,
    VALIDATING,
    by_url,
    configurations,
)
from allhands.runtime.installing import install_kinds
from allhands.server.live_tls import LiveTls
from allhands.server.serve import serving
from allhands.server.webhooks.app import LIMITS, MUTATE, VALIDATE, WebhookApp
from allhands.server.webhooks.judging import Judge
from allhands.server.webhooks.keyring import SECRETS, Keyring
from allhands.server.webhooks.keys import Terms
from allhands.server.webhooks.others import KnownObjects
from tests.controlplane import ControlPlane
from tests.manifests import CONFIG_MAPS, NAMESPACES, PODS, pod
from tests.webhook_cluster import review

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
    from pathlib import Path

    from allhands.runtime.installation.applying import Done
    from allhands.server.listening import Address

pytestmark = pytest.mark.timeout(300)
WITHIN_SECONDS = 60
SPACE = "webhooks"
SYSTEM = "webhooks-system"
ACCOUNTS = Resource("", "v1", "serviceaccounts")
ROLES = Resource("rbac.authorization.k8s.io", "v1", "roles")
DEPLOYMENTS = Resource("apps", "v1", "deployments")
BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "rolebindings")
CLUSTER_ROLES = Resource("rbac.authorization.k8s.io", "v1", "clusterroles")
CLUSTER_BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "clusterrolebindings")
DRY = WriteOptions(dry_run=True)


def job(name: str, **spec: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "main", "image": "x"}], "restartPolicy": "Never"}}
    tasks = [{"replicas": 2, "template": template}]
    return {
        "apiVersion": JOB.api_version,
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"tasks": tasks, **spec},
    }


def queue(name: str, **more: Any) -> dict[str, Any]:
    return {"apiVersion": QUEUE.api_version, "kind": "Queue", "metadata": {"name": name, **more}, "spec": {"weight": 1}}


@pytest.fixture(scope="module")
def plane(real_tools: Path) -> Iterator[ControlPlane]:
    """One of its own: what configurations of webhooks do to a server is not for others."""
    del real_tools

    async def prepare(plane: ControlPlane) -> None:
        async with KubeObjects(kubeconfig.load(plane.kubeconfig)) as objects:
            await install_kinds(objects)
            for name in (SPACE, SYSTEM):
                await objects.create(NAMESPACES, {"metadata": {"name": name}})

    with ControlPlane() as plane:
        asyncio.run(prepare(plane))
        yield plane


@pytest.fixture
async def objects(plane: ControlPlane) -> AsyncIterator[KubeObjects]:
    async with KubeObjects(kubeconfig.load(plane.kubeconfig)) as objects:
        yield objects


@pytest.fixture
async def webhooks(plane: ControlPlane, objects: KubeObjects) -> AsyncIterator[asyncio.Task[None]]:
    """The process, in this one; when the fixture is there the API server asks it."""
    (port,) = free_ports(1)
    options = WebhookOptions(port=port, url=f"https://127.0.0.1:{port}", look_seconds=1.0)
    working = asyncio.create_task(
        run_webhooks(kubeconfig.load(plane.kubeconfig), ProcessOptions(lease_namespace=SYSTEM), options)
    )
    try:
        await eventually(working, lambda: is_refused(objects, job("bad", plugins={"nope": []})))
        yield working
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        for resource in (MUTATING, VALIDATING):
            with contextlib.suppress(StatusError):
                await objects.delete(resource, NAME)


async def eventually(working: asyncio.Task[Any], condition: Callable[[], Awaitable[bool]]) -> None:
    """Until it is so; what has ended in the meantime says why it is not."""
    async with asyncio.timeout(WITHIN_SECONDS):
        while not await condition():
            if working.done():
                working.result()
            await asyncio.sleep(0.05)


async def is_refused(objects: KubeObjects, manifest: dict[str, Any]) -> bool:
    try:
        await objects.create(JOB.resource, manifest, SPACE, DRY)
    except StatusError as refusal:
        return refusal.code == 422
    return False


async def refusal_of(attempt: Awaitable[Any]) -> StatusError:
    with pytest.raises(StatusError) as caught:
        await attempt
    return caught.value


async def user(
    plane: ControlPlane, objects: KubeObjects, name: str, folder: Path, *rules: dict[str, Any]
) -> KubeObjects:
    """Somebody who may do this, in the one namespace."""
    await objects.create(ACCOUNTS, {"metadata": {"name": name}}, SPACE)
    await grant(objects, name, name, *rules)
    return KubeObjects(kubeconfig.load(await kubeconfig_of(plane, objects, name, SPACE, folder)))


async def kubeconfig_of(plane: ControlPlane, objects: KubeObjects, name: str, namespace: str, folder: Path) -> Path:
    """Of a service account."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    token = (await objects.request("POST", path, None, json.dumps(body).encode())).manifest()["status"]["token"]
    config = yaml.safe_load(plane.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    file = folder / name
    file.write_text(yaml.safe_dump(config))
    return file


async def grant(
    objects: KubeObjects, account: str, role: str, *rules: dict[str, Any], everywhere: bool = False
) -> None:
    kind, roles, bindings = (
        ("ClusterRole", CLUSTER_ROLES, CLUSTER_BINDINGS) if everywhere else ("Role", ROLES, BINDINGS)
    )
    space = "" if everywhere else SPACE
    await objects.create(roles, {"metadata": {"name": role}, "rules": list(rules)}, space)
    subjects = [{"kind": "ServiceAccount", "name": account, "namespace": SPACE}]
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role}
    await objects.create(bindings, {"metadata": {"name": role}, "roleRef": reference, "subjects": subjects}, space)


def rule(group: str, resource: str, verb: str, *names: str) -> dict[str, Any]:
    named = {"resourceNames": list(names)} if names else {}
    return {"apiGroups": [group], "resources": [resource], "verbs": [verb], **named}


async def test_what_is_wrong_is_refused_with_its_path_and_what_was_left_out_is_filled_in(
    objects: KubeObjects, webhooks: asyncio.Task[None]
) -> None:
    refusal = await refusal_of(objects.create(JOB.resource, job("bad", plugins={"nope": []}), SPACE))
    assert refusal.code == 422
    assert refusal.reason == "Invalid"
    assert 'admission webhook "validate.allhands.dev" denied the request: Job.batch.volcano.sh "bad" is invalid' in (
        refusal.message
    )
    assert [it["field"] for it in (refusal.details or {})["causes"]] == ["spec.plugins[nope]"]
    made = (await objects.create(JOB.resource, job("good"), SPACE)).manifest()
    assert made["spec"]["queue"] == "default"
    assert made["spec"]["schedulerName"] == "allhands"
    assert made["spec"]["minAvailable"] == 2
    assert made["spec"]["tasks"][0]["name"] == "default0"
    changed = json.loads(json.dumps(made))
    changed["spec"]["queue"] = "other"
    refusal = await refusal_of(objects.update(JOB.resource, "good", changed, SPACE))
    assert [it["field"] for it in (refusal.details or {})["causes"]] == ["spec.queue"]
    # Nobody is refused because what they need was made only a moment ago.
    for number in range(5):
        await objects.create(QUEUE.resource, queue(f"just-made-{number}"))
        await objects.create(JOB.resource, job(f"at-once-{number}", queue=f"just-made-{number}"), SPACE)
    refusal = await refusal_of(objects.create(JOB.resource, job("lost", queue="nowhere"), SPACE))
    assert [it["field"] for it in (refusal.details or {})["causes"]] == ["spec.queue"]
    refusal = await refusal_of(objects.delete(QUEUE.resource, "default"))
    assert refusal.code == 403
    assert not webhooks.done()


async def test_nobody_gets_through_a_job_what_they_could_not_get_without(
    plane: ControlPlane, objects: KubeObjects, webhooks: asyncio.Task[None], tmp_path: Path
) -> None:
    await objects.create(QUEUE.resource, queue("vault", annotations={"allhands.dev/restricted": "true"}))
    await eventually(webhooks, lambda: _are_pods_asked_about(objects))
    jobs = rule("batch.volcano.sh", "jobs", "create")
    async with await user(plane, objects, "eve", tmp_path, jobs) as eve:
        refusal = await refusal_of(eve.create(JOB.resource, job("deputy"), SPACE))
        assert refusal.code == 403
        who = f"system:serviceaccount:{SPACE}:eve"
        assert f'spec.tasks: Forbidden: user "{who}" may not create pods in namespace "{SPACE}"' in refusal.message
    async with await user(plane, objects, "bob", tmp_path, jobs, rule("", "pods", "create")) as bob:
        await bob.create(JOB.resource, job("his-own"), SPACE)
        refusal = await refusal_of(bob.create(JOB.resource, job("sneaky", queue="vault"), SPACE))
        assert 'may not use queues.scheduling.volcano.sh "vault"' in refusal.message
        refusal = await refusal_of(
            bob.create(
                PODS, {**pod("x"), "metadata": {"name": "x", "annotations": {"allhands.dev/queue": "vault"}}}, SPACE
            )
        )
        assert 'may not use queues.scheduling.volcano.sh "vault"' in refusal.message
        refusal = await refusal_of(
            bob.create(JOB.resource, job("royal", priorityClassName="system-node-critical"), SPACE)
        )
        assert "spec.priorityClassName: Forbidden" in refusal.message
        await grant(objects, "bob", "vault", rule(QUEUE.group, "queues", "use", "vault"), everywhere=True)
        await eventually(asyncio.create_task(asyncio.sleep(0)), lambda: _is_created(bob, job("allowed", queue="vault")))


async def test_nobody_closes_by_a_command_a_queue_that_they_may_not_change(
    plane: ControlPlane, objects: KubeObjects, webhooks: asyncio.Task[None], tmp_path: Path
) -> None:
    del webhooks
    made = (await objects.create(QUEUE.resource, queue("shared"))).manifest()
    command = {
        "apiVersion": "bus.volcano.sh/v1alpha1",
        "kind": "Command",
        "metadata": {"generateName": "close-"},
        "action": "CloseQueue",
        "target": {"apiVersion": made["apiVersion"], "kind": "Queue", "name": "shared", "uid": made["metadata"]["uid"]},
    }
    commands = rule("bus.volcano.sh", "commands", "create")
    async with await user(plane, objects, "mallory", tmp_path, commands) as mallory:
        refusal = await refusal_of(mallory.create(COMMAND.resource, command, SPACE))
        assert refusal.code == 403
        assert 'may not update queues.scheduling.volcano.sh "shared"' in refusal.message
    await objects.create(COMMAND.resource, command, SPACE)


async def _are_pods_asked_about(objects: KubeObjects) -> bool:
    found = (await objects.get(VALIDATING, NAME)).manifest()["webhooks"]
    (selector,) = [it["objectSelector"] for it in found if it["name"] == ANNOTATED_WEBHOOK]
    return not selector


async def _is_created(who: KubeObjects, manifest: dict[str, Any]) -> bool:
    try:
        await who.create(JOB.resource, manifest, SPACE)
    except StatusError as refusal:
        assert refusal.code == 403
        return False
    return True


async def test_a_webhook_that_is_down_blocks_new_jobs_and_nothing_else(
    objects: KubeObjects, webhooks: asyncio.Task[None]
) -> None:
    """volcano#2244, volcano#3734."""
    group = {"apiVersion": POD_GROUP.api_version, "kind": "PodGroup", "metadata": {"name": "there"}, "spec": {}}
    await objects.create(POD_GROUP.resource, group, SPACE)
    await objects.create(JOB.resource, job("there"), SPACE)
    kept = {it: (await objects.get(it, NAME)).manifest() for it in (MUTATING, VALIDATING)}
    webhooks.cancel()
    await asyncio.gather(webhooks, return_exceptions=True)
    assert {it: (await objects.get(it, NAME)).manifest() for it in (MUTATING, VALIDATING)} == kept
    refusal = await refusal_of(objects.create(JOB.resource, job("new"), SPACE))
    assert "failed calling webhook" in refusal.message
    await objects.create(PODS, pod("plain"), SPACE)
    named = {"name": "named", "annotations": {"allhands.dev/queue": "vault"}}
    await objects.create(PODS, {**pod("named"), "metadata": named}, SPACE)
    for space in (SYSTEM, "kube-system"):
        await objects.create(JOB.resource, job("of-the-system"), space)
        await objects.create(PODS, {**pod("named"), "metadata": named}, space)
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "main", "image": "x"}]}}
    deployment = {"selector": {"matchLabels": {"app": "x"}}, "template": template}
    await objects.create(DEPLOYMENTS, {"metadata": {"name": "plain"}, "spec": deployment}, SPACE)
    await objects.create(CONFIG_MAPS, {"metadata": {"name": "plain"}, "data": {"a": "b"}}, SPACE)
    # What is there can be written on and can go.
    await objects.patch(POD_GROUP.resource, "there", "merge", {"status": {"phase": "Running"}}, SPACE)
    await objects.patch(JOB.resource, "there", "merge", {"metadata": {"finalizers": ["a.b/c"]}}, SPACE)
    await objects.patch(JOB.resource, "there", "merge", {"metadata": {"finalizers": None}}, SPACE)
    await objects.delete(JOB.resource, "there", SPACE)


class OffsetClock:
    """The time of this machine, and so much later."""

    def __init__(self) -> None:
        self.ahead = datetime.timedelta(0)

    def now(self) -> datetime.datetime:
        return SystemClock().now() + self.ahead


class Noting:
    """Notes by which connections questions come."""

    def __init__(self, app: WebhookApp) -> None:
        self._app = app
        self.connections: set[tuple[str, int]] = set()

    def stop(self) -> None:
        self._app.stop()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.connections.add((scope["path"], scope["client"][1]))
        await self._app(scope, receive, send)

    def paths_beside(self, earlier: set[tuple[str, int]]) -> set[str]:
        return {path for path, _ in self.connections - earlier}


async def test_keys_and_authorities_are_exchanged_while_jobs_come_in_and_none_is_refused(objects: KubeObjects) -> None:
    (port,) = free_ports(1)
    clock = OffsetClock()
    terms = Terms(authority_days=30 / 1440, server_days=29 / 1440, learning_seconds=60.0)
    url = f"https://127.0.0.1:{port}"
    ring = Keyring(
        objects,
        clock,
        namespace=SYSTEM,
        names=("127.0.0.1",),
        wanted=configurations(SYSTEM, by_url(url)),
        makes_configurations=True,
        terms=terms,
        look_seconds=0.05,
    )
    with contextlib.suppress(StatusError):
        await objects.delete(SECRETS, NAME, SYSTEM)
    tls = LiveTls((await ring.keys()).server)
    known = KnownObjects(objects)
    app = Noting(WebhookApp(Judge(known, scheduler_name="allhands")))
    done = 0

    async def submit() -> None:
        nonlocal done
        while True:
            await objects.create(JOB.resource, job("again"), SPACE, DRY)
            done += 1

    async def ask_at_once(times: int) -> None:
        """More at once than there are connections: new ones are made, and are given the new certificate."""
        await asyncio.gather(*(objects.create(JOB.resource, job("burst"), SPACE, DRY) for _ in range(times)))

    async with serving(app, "127.0.0.1", port, tls, limits=LIMITS), asyncio.TaskGroup() as tasks:
        keeping = tasks.create_task(ring.run(lambda keys: tls.use(keys.server)))
        copying = tasks.create_task(known.run())
        await eventually(keeping, lambda: is_refused(objects, job("bad", plugins={"nope": []})))
        submitting = tasks.create_task(submit())
        for _ in range(2):
            earlier, before = set(app.connections), tls.pair.certificate
            clock.ahead += datetime.timedelta(minutes=20, seconds=30)  # less than a third is left of the authority

            async def are_told(earlier: set[tuple[str, int]] = earlier) -> bool:
                return {f"/{MUTATE}", f"/{VALIDATE}"} <= app.paths_beside(earlier)

            await eventually(submitting, are_told)
            assert tls.pair.certificate == before, "what everybody trusts is served until they trust the next"
            clock.ahead += datetime.timedelta(seconds=61)

            async def is_exchanged(before: object = before) -> bool:
                return tls.pair.certificate != before

            await eventually(submitting, is_exchanged)
            assert tls.pair.certificate.issuer != before.issuer
            await ask_at_once(40)
        for task in (submitting, keeping, copying):
            task.cancel()
    assert done > 0
    for resource in (MUTATING, VALIDATING):
        await objects.delete(resource, NAME)


async def test_an_installation_has_the_rights_that_its_webhooks_need(
    plane: ControlPlane, objects: KubeObjects, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "allhands")
    options = InstallOptions(webhooks=True)
    brought = [it for it in install_objects(options) if it["kind"] != "CustomResourceDefinition"]  # they are there
    await Installer(objects, lambda _done: None).install(brought)
    config = await kubeconfig_of(plane, objects, NAME, "allhands-system", tmp_path)
    listening: asyncio.Future[Address] = asyncio.get_running_loop().create_future()
    working = asyncio.create_task(
        run_webhooks(kubeconfig.load(config), ProcessOptions(), WebhookOptions(), listening.set_result)
    )
    try:

        async def bundles() -> set[str]:
            found = [(await objects.get(it, NAME)).manifest() for it in (MUTATING, VALIDATING)]
            return {each["clientConfig"].get("caBundle", "") for it in found for each in it["webhooks"]}

        async def are_told() -> bool:
            return "" not in await bundles()

        await eventually(working, are_told)
        (bundle,) = await bundles()
        address = await listening
        trusting = ssl.create_default_context(cadata=base64.b64decode(bundle).decode())
        who = {"username": "nobody-in-particular", "groups": ["system:authenticated"]}
        question = review({**job("by-hand", queue="nowhere"), "metadata": {"name": "by-hand"}}, userInfo=who)
        body = json.dumps(question).encode()
        head = f"POST /validate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
        reader, writer = await asyncio.open_connection(
            address.host, address.port, ssl=trusting, server_hostname=f"{NAME}.allhands-system.svc"
        )
        writer.write(f"{head}\r\nConnection: close\r\n\r\n".encode() + body)
        answer = (await reader.read()).partition(b"\r\n\r\n")[2]
        writer.close()
        assert "spec.queue" in json.loads(answer)["response"]["status"]["message"]
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
    assert "missing rights" not in caplog.text
    assert "forbidden" not in caplog.text
    done: list[Done] = []
    await Installer(objects, done.append).install(brought)
    assert {it.what for it in done} == {"unchanged"}, "what the webhooks have written is theirs"
    runner = CliRunner(env={"KUBECONFIG": str(plane.kubeconfig)})
    gone = await asyncio.to_thread(runner.invoke, root, ["uninstall", "--keep-kinds", "--no-wait"])
    assert gone.exit_code == 0, gone.output
    for resource in (MUTATING, VALIDATING):
        assert (await refusal_of(objects.get(resource, NAME))).code == 404
