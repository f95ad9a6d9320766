"""A cluster, real or embedded, seen through its kubeconfig, with gangs of every kind and our scheduler beside it.

Whoever uses it makes its own namespaces, so that tests do not meet; nobody runs the pods but who says so.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import msgspec

from allhands.api.kinds import Resource
from allhands.compose.nodes import NodeSize, add_node, node_manifest
from allhands.compose.process import ProcessOptions
from allhands.compose.real import run_scheduler
from allhands.kube import kubeconfig
from allhands.ports import Query
from tests.foreign_kinds import COSCHEDULING, VOLCANO, group
from tests.manifests import NAMESPACES, PODS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable
    from pathlib import Path

    from allhands.ports import Objects

Manifest = dict[str, Any]
NATIVE = Resource("scheduling.k8s.io", "v1alpha2", "podgroups")
WITHIN_SECONDS = 120
WRITERS = 8
KINDS = {"native": NATIVE, "coscheduling": COSCHEDULING, "volcano": VOLCANO}


@contextlib.asynccontextmanager
async def scheduler_beside(config: Path, **options: Any) -> AsyncIterator[None]:
    """Our scheduler as `allhands scheduler` runs it, in this process."""
    chosen = ProcessOptions(**{"leads_by_lease": False, **options})
    task = asyncio.create_task(run_scheduler(kubeconfig.load(config), chosen))
    try:
        yield
        if task.done():
            task.result()
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


class Gangs:
    """Gangs of one kind in one namespace, on nodes of their own."""

    def __init__(self, objects: Objects, namespace: str, kind: str, scheduler: str = "allhands") -> None:
        self.objects = objects
        self.namespace = namespace
        self.kind = kind
        self.resource = KINDS[kind]
        self._scheduler = scheduler

    async def prepare(self, nodes: int, cpu: str = "4") -> None:
        """Nodes that nobody else uses: they have a label, and the pods ask for it."""
        await self.objects.create(NAMESPACES, {"metadata": {"name": self.namespace}})
        for number in range(nodes):
            name = f"{self.namespace}-{number}"
            labels = {"room": self.namespace}
            await add_node(self.objects, node_manifest(name, NodeSize(cpu), "2026-01-01T00:00:00Z", labels))

    async def group(self, name: str, least: int, **spec: Any) -> None:
        if self.kind == "native":
            spec = {"schedulingPolicy": {"gang": {"minCount": least}}, **spec}
        else:
            spec = {"minMember": least, **spec}
        await self.objects.create(self.resource, group(self.resource, name, **spec), self.namespace)

    async def pods(self, name: str, count: int, cpu: str = "1", task: str = "", **more: Any) -> None:
        """So many pods of the group, named after it; `owners` are theirs, the rest goes into the spec."""
        await self._create(self.pod(name, f"{name}{task}-{number}", cpu, task, more) for number in range(count))

    async def singles(self, label: str, count: int, cpu: str = "1") -> None:
        """Pods that belong together only for who counts them."""
        pods = [self.pod(label, f"{label}-{number}", cpu, "", {}) for number in range(count)]
        for pod in pods:
            pod["spec"].pop("schedulingGroup", None)
        await self._create(pods)

    async def _create(self, pods: Iterable[Manifest]) -> None:
        """A few at a time: thousands would else take longer than what is tested."""
        coming = iter(pods)

        async def some() -> None:
            for pod in coming:
                await self.objects.create(PODS, pod, self.namespace)

        await asyncio.gather(*(some() for _ in range(WRITERS)))

    def pod(self, group_name: str, name: str, cpu: str, task: str, more: Manifest) -> Manifest:
        metadata: Manifest = {"name": name, "labels": {"gang": group_name}, "ownerReferences": more.get("owners", [])}
        container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}
        spec: Manifest = {
            "schedulerName": self._scheduler,
            "nodeSelector": {"room": self.namespace},
            "containers": [container],
            **{field: value for field, value in more.items() if field != "owners"},
        }
        if self.kind == "native":
            spec["schedulingGroup"] = {"podGroupName": group_name}
        elif self.kind == "coscheduling":
            metadata["labels"]["scheduling.x-k8s.io/pod-group"] = group_name
        else:
            metadata["annotations"] = {"scheduling.k8s.io/group-name": group_name}
            if task:
                metadata["annotations"]["volcano.sh/task-spec"] = task
        return {"metadata": metadata, "spec": spec}

    async def gang(self, name: str, size: int, cpu: str = "1", **spec: Any) -> None:
        await self.group(name, size, **spec)
        await self.pods(name, size, cpu)

    # -- what came of it

    async def nodes_of(self, name: str) -> list[str]:
        """Of its pods, "" for one that has none."""
        page = await self.objects.list(PODS, Query(namespace=self.namespace, labels=f"gang={name}"))
        return [str(msgspec.json.decode(raw)["spec"].get("nodeName", "")) for raw in page.items]

    async def bound(self, name: str, count: int) -> None:
        """Returns when so many of its pods have a node."""

        def is_bound(pods: dict[str, Manifest]) -> bool:
            return sum(bool(it["spec"].get("nodeName")) for it in pods.values()) == count

        await self.seen(PODS, f"gang={name}", is_bound)

    async def told(self, name: str) -> str:
        """What its pods are told, as soon as all of them are told the same."""

        def said(pods: dict[str, Manifest]) -> set[str]:
            return {_condition(it, "PodScheduled").get("message", "") for it in pods.values()}

        pods = await self.seen(PODS, f"gang={name}", lambda it: len(said(it)) == 1 and "" not in said(it))
        conditions = [_condition(it, "PodScheduled") for it in pods.values()]
        assert {(it["status"], it["reason"]) for it in conditions} == {("False", "Unschedulable")}
        return said(pods).pop()

    async def status(self, name: str, good: Callable[[Manifest], bool]) -> Manifest:
        """Of the group, as soon as it is as wanted."""

        def is_good(groups: dict[str, Manifest]) -> bool:
            return name in groups and good(groups[name].get("status") or {})

        found = await self.seen(self.resource, "", is_good)
        return dict(found[name]["status"])

    async def run(self, name: str, phase: str) -> None:
        """As a kubelet would report of all its pods."""
        page = await self.objects.list(PODS, Query(namespace=self.namespace, labels=f"gang={name}"))
        for raw in page.items:
            pod = msgspec.json.decode(raw)["metadata"]["name"]
            await self.objects.patch(
                PODS, pod, "merge", {"status": {"phase": phase}}, self.namespace, subresource="status"
            )

    async def seen(
        self, resource: Resource, labels: str, good: Callable[[dict[str, Manifest]], bool]
    ) -> dict[str, Manifest]:
        """The objects by name, as soon as they are as wanted."""
        found: dict[str, Manifest] = {}
        async with asyncio.timeout(WITHIN_SECONDS):
            watch = await self.objects.watch(resource, Query(namespace=self.namespace, labels=labels))
            try:
                async for event in watch:
                    document = event.manifest()
                    if event.type == "DELETED":
                        found.pop(document["metadata"]["name"], None)
                    elif event.type in ("ADDED", "MODIFIED"):
                        found[document["metadata"]["name"]] = document
                    if found and good(found):
                        return found
            finally:
                await watch.close()
        raise AssertionError("the watch ended")


def _condition(found: Manifest, type: str) -> Manifest:
    conditions = (found.get("status") or {}).get("conditions") or ()
    return next((it for it in conditions if it["type"] == type), {})
