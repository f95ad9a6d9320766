"""The cluster that schedulers are compared on: a real API server with played nodes, filled and emptied run by run.

Nothing here is inside a clock. What a run has left is checked by listing it, not by believing the scheduler.
"""

from __future__ import annotations

import asyncio
import compileall
import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import msgspec
import yaml

import allhands
from allhands.api.errors import StatusError
from allhands.api.kinds import Resource
from allhands.kube import kubeconfig
from allhands.kube.objects import KubeObjects
from allhands.measure.api import audit
from allhands.measure.api.usage import cpu_seconds
from allhands.measure.api.workload import (
    GROUP_LABEL,
    GROUP_RESOURCES,
    NODE_CPU,
    NODE_MEMORY,
    Gangs,
    Shape,
    group_manifests,
    node_manifests,
    pod_manifests,
)
from allhands.measure.controlplane import ControlPlane
from allhands.ports import DeleteOptions, Query

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Sequence

PODS: Final = Resource("", "v1", "pods")
NODES: Final = Resource("", "v1", "nodes")
NAMESPACES: Final = Resource("", "v1", "namespaces")
CRDS: Final = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions")
WRITERS: Final = 32
"""Requests at a time while the cluster is filled."""
CREATE_ATTEMPTS: Final = 5
DELETE_SECONDS: Final = 180.0
CONFLICT: Final = 409
SERVER_ERROR: Final = 500
CALM_SHARE: Final = 0.1
"""Of one core: an API server that uses less has nothing to do."""
CALM_SECONDS: Final = 0.5
MOST_CALM_LOOKS: Final = 20
ESTABLISHED_SECONDS: Final = 30
POLL_SECONDS: Final = 0.05
AGAIN_SECONDS: Final = 0.5
AT_ONCE: Final = DeleteOptions(grace_seconds=0, propagation="Background")
"""Jobs would else be kept for a collector of garbage that does not run here."""
SERVERS: Final = ("kube-apiserver", "etcd")


class Placed(msgspec.Struct, frozen=True, kw_only=True):
    """What a run has left on the API server."""

    bound: int
    half_gangs: int
    """Groups of which some pods are bound and some are not."""
    overfull_nodes: int


class _PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str = ""


class _PodMeta(msgspec.Struct, frozen=True):
    labels: dict[str, str] = {}


class _Pod(msgspec.Struct, frozen=True):
    metadata: _PodMeta
    spec: _PodSpec


_pods = msgspec.json.Decoder(_Pod)


class JudgedPlane(ControlPlane):
    """A control plane that keeps an account of what the judged user does."""

    def __init__(self, folder: Path, judged: Sequence[str] = (), **more: Any) -> None:
        """`judged`: further users who are."""
        self.audit_log = folder / "audit.log"
        policy = folder / "audit-policy.yaml"
        policy.write_text(yaml.safe_dump(audit.policy(*judged)), encoding="utf-8")
        # A deleted group would stay until a controller that does not run here lets it go, and be seen by the next one.
        unprotected = "--disable-admission-plugins=PodGroupProtection"
        flags = [*audit.flags(self.audit_log, policy), "--delete-collection-workers=16", unprotected]
        users = (audit.USER, audit.CUSTOMER, *judged)
        super().__init__(users=users, api_flags=flags, etcd_flags=("--quota-backend-bytes=8589934592",), **more)

    def server_cpu_seconds(self) -> float:
        return sum(cpu_seconds(self.services[name].pid) for name in SERVERS)


def compile_ourselves() -> None:
    """As an installation does. From a clone the null scheduler and ours would first compile their modules, a second's
    work in which the clock runs."""
    compileall.compile_dir(Path(allhands.__file__).parent, quiet=2)


class BenchCluster:
    """Use as an async context manager, on a control plane that is ready."""

    def __init__(self, plane: JudgedPlane) -> None:
        self.plane = plane
        self.objects = KubeObjects(kubeconfig.load(plane.kubeconfig))
        self._namespaces = 0

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(compile_ourselves)
        await self.objects.__aenter__()
        return self

    async def __aexit__(self, *reason: object) -> None:
        await self.objects.__aexit__(*reason)

    async def add_nodes(self, count: int, cpu: int = NODE_CPU, memory: str = NODE_MEMORY) -> None:
        """Ready at once. Admission taints new nodes and nobody here would take that back."""

        async def add(manifest: dict[str, Any]) -> None:
            name = manifest["metadata"]["name"]
            await self.objects.create(NODES, manifest)
            await self.objects.patch(NODES, name, "merge", {"spec": {"taints": None}})
            await self.objects.patch(NODES, name, "merge", {"status": manifest["status"]}, subresource="status")

        await all_of(add, node_manifests(count, cpu, memory))

    async def create(self, manifests: Iterable[dict[str, Any]]) -> None:
        """A scheduler's own objects, one after the other; those that are there already stay as they are."""
        for manifest in manifests:
            resource = await self._resource_of(manifest)
            if not await self._is_there(resource, manifest):
                await self.objects.create(resource, manifest, manifest["metadata"].get("namespace", ""))
            if resource == CRDS:
                await self._established(manifest["metadata"]["name"])
            elif "status" in manifest:
                await self._set_status(resource, manifest)

    async def fill(self, shape: Shape, gangs: Gangs, scheduler_name: str) -> str:
        """Creates the groups, then the pods, in a namespace of their own; returns it."""
        self._namespaces += 1
        namespace = f"bench-{self._namespaces}"
        await self.objects.create(NAMESPACES, {"metadata": {"name": namespace}})
        if gangs is not Gangs.NONE:
            groups = GROUP_RESOURCES[gangs]
            await create_all(self.objects, groups, group_manifests(shape, gangs), namespace)
        await create_all(self.objects, PODS, pod_manifests(shape, gangs, scheduler_name), namespace)
        return namespace

    async def calm(self) -> None:
        """Waits until the API server has digested what was written."""
        for _ in range(MOST_CALM_LOOKS):
            before = self.plane.server_cpu_seconds()
            await asyncio.sleep(CALM_SECONDS)
            if self.plane.server_cpu_seconds() - before < CALM_SHARE * CALM_SECONDS:
                return

    async def placed(self, namespace: str) -> Placed:
        """By listing. A node is overfull if the pods on it ask for more than it has."""
        page = await self.objects.list(PODS, Query(namespace=namespace))
        on_node: dict[str, int] = {}
        bound: dict[str, int] = {}
        waiting: dict[str, int] = {}
        for raw in page.items:
            pod = _pods.decode(raw)
            group = pod.metadata.labels.get(GROUP_LABEL, "")
            node = pod.spec.node_name
            into = bound if node else waiting
            into[group] = into.get(group, 0) + 1
            if node:
                on_node[node] = on_node.get(node, 0) + 1
        return Placed(
            bound=sum(bound.values()),
            half_gangs=len(bound.keys() & waiting.keys()),
            overfull_nodes=sum(count > NODE_CPU for count in on_node.values()),
        )

    async def empty(self, namespace: str, gangs: Gangs) -> None:
        """Deletes what `fill` has made."""
        resources = [PODS] if gangs is Gangs.NONE else [PODS, GROUP_RESOURCES[gangs]]
        for resource in resources:
            await delete_everything(self.objects, resource, namespace)

    async def _resource_of(self, manifest: dict[str, Any]) -> Resource:
        """By asking the server what it calls the kind."""
        group, _, version = manifest["apiVersion"].rpartition("/")
        root = f"/apis/{group}/{version}" if group else f"/api/{version}"
        served = (await self.objects.request("GET", root)).manifest()["resources"]
        for each in served:
            if each["kind"] == manifest["kind"] and "/" not in each["name"]:
                return Resource(group, version, each["name"])
        raise StatusError(404, "NotFound", f"{manifest['apiVersion']} {manifest['kind']} is not served")

    async def _is_there(self, resource: Resource, manifest: dict[str, Any]) -> bool:
        metadata = manifest["metadata"]
        try:
            await self.objects.get(resource, metadata["name"], metadata.get("namespace", ""))
        except StatusError as refusal:
            if refusal.code != 404:
                raise
            return False
        return True

    async def _established(self, name: str) -> None:
        async with asyncio.timeout(ESTABLISHED_SECONDS):
            while True:
                found = (await self.objects.get(CRDS, name)).manifest()
                conditions = found.get("status", {}).get("conditions", ())
                if any(it["type"] == "Established" and it["status"] == "True" for it in conditions):
                    return
                await asyncio.sleep(POLL_SECONDS)

    async def _set_status(self, resource: Resource, manifest: dict[str, Any]) -> None:
        metadata = manifest["metadata"]
        await self.objects.patch(
            resource, metadata["name"], "merge", {"status": manifest["status"]}, metadata.get("namespace", ""),
            subresource="status",
        )  # fmt: skip


async def delete_everything(objects: KubeObjects, resource: Resource, namespace: str) -> None:
    """The request for all of them may take longer than a client waits, and others may still be at work on them."""
    loop = asyncio.get_running_loop()
    end = loop.time() + DELETE_SECONDS
    while loop.time() < end:
        with contextlib.suppress(StatusError):
            await objects.delete_all(resource, Query(namespace=namespace), AT_ONCE)
        if not (await objects.list(resource, Query(namespace=namespace, limit=1))).items:
            return
        await asyncio.sleep(AGAIN_SECONDS)
    raise TimeoutError(f"{resource.plural} in {namespace} cannot be deleted: the next run would meet them")


async def create_all(
    objects: KubeObjects, resource: Resource, manifests: Iterable[dict[str, Any] | bytes], namespace: str
) -> None:
    """On a busy machine an answer may come too late; what is there is there."""

    async def create(manifest: dict[str, Any] | bytes) -> None:
        for attempt in range(CREATE_ATTEMPTS):
            try:
                await objects.create(resource, manifest, namespace)
            except StatusError as refusal:
                if attempt and refusal.code == CONFLICT:
                    return
                if refusal.code < SERVER_ERROR or attempt == CREATE_ATTEMPTS - 1:
                    raise
            else:
                return

    await all_of(create, manifests)


async def all_of(do: Callable[[Any], Coroutine[Any, Any, Any]], items: Iterable[Any]) -> None:
    """Some at a time, in their order."""
    pending = iter(items)

    async def some() -> None:
        for item in pending:
            await do(item)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(WRITERS):
            tasks.create_task(some())
