"""The scheduler alone on a store in virtual time: objects are put there by hand, and nobody runs them."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import msgspec

from allhands.api.kinds import Resource
from allhands.compose.nodes import NodeSize, add_node, node_manifest
from allhands.ports import DeleteOptions, Query
from allhands.runtime.installing import KINDS, install_kinds
from allhands.runtime.scheduling.scheduler import Scheduler, SchedulerOptions
from tests.manifests import JOBS, NODES, PODS, PRIORITY_CLASSES
from tests.virtual import cluster, running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from allhands.api.definitions import Definition
    from allhands.api.document import Manifest

POD_GROUPS = Resource("scheduling.k8s.io", "v1alpha2", "podgroups")
QUEUES = Resource("scheduling.volcano.sh", "v1beta1", "queues")
_NOW = DeleteOptions(grace_seconds=0)
SCHEDULING = "allhands.dev/scheduling"


class SchedulerWorld:
    """A cluster and its scheduler, with a port that notes what the scheduler asks for."""

    def __init__(self, flight: int = 1) -> None:
        self.store, self.objects, self.noted, self.clock = cluster()
        self._options = SchedulerOptions(names=("allhands",), flight=flight)
        self.scheduler = self._made()
        self._housekeeping: asyncio.Task[None] | None = None

    def _made(self) -> Scheduler:
        return Scheduler(self.noted.port, self.clock, options=self._options)

    @contextlib.asynccontextmanager
    async def scheduling(self) -> AsyncIterator[Scheduler]:
        """A new scheduler, which knows nothing but what the store says."""
        self.scheduler = self._made()
        async with running(self.scheduler.run()):
            yield self.scheduler

    async def install(self, kinds: Sequence[Definition] = KINDS) -> None:
        """Volcano's queues, with the default one, and its other kinds."""
        self._housekeeping = asyncio.create_task(self.store.housekeeper.run())
        await install_kinds(self.objects, kinds=kinds)

    # -- what there is

    async def node(self, name: str, cpu: int = 4, **labels: str) -> None:
        size = NodeSize(str(cpu), "64Gi")
        await add_node(self.objects, node_manifest(name, size, self.store.now(), labels))

    async def pod(self, name: str, cpu: str = "1", *, owner: Manifest | None = None, **spec: Any) -> Manifest:
        annotations = spec.pop("annotations", {})
        container = {"name": "main", "image": "work", "resources": {"requests": {"cpu": cpu}}}
        metadata: Manifest = {"name": name, "annotations": annotations}
        if owner is not None:
            metadata["ownerReferences"] = [
                {
                    "apiVersion": owner["apiVersion"],
                    "kind": owner["kind"],
                    "name": owner["metadata"]["name"],
                    "uid": owner["metadata"]["uid"],
                    "controller": True,
                }
            ]
        body = {"metadata": metadata, "spec": {"schedulerName": "allhands", "containers": [container], **spec}}
        return (await self.objects.create(PODS, body, "default")).manifest()

    async def job(self, name: str, size: int = 1, **annotations: str) -> Manifest:
        """Only the Job; `job_pods` are its pods. Annotations without their prefix, with underscores."""
        priority = annotations.pop("priority", "")
        spec: Manifest = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "work"}]}
        spec["schedulerName"] = "allhands"
        if priority:
            spec["priorityClassName"] = priority
        ours = {f"allhands.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
        body = {
            "metadata": {"name": name, "annotations": ours},
            "spec": {"parallelism": size, "completions": size, "template": {"spec": spec}},
        }
        return (await self.objects.create(JOBS, body, "default")).manifest()

    async def job_pods(self, job: Manifest, count: int, cpu: str = "1", *, first: int = 0, **spec: Any) -> list[str]:
        names = [f"{job['metadata']['name']}-{number}" for number in range(first, first + count)]
        for name in names:
            await self.pod(name, cpu, owner=job, **spec)
        return names

    async def gang(self, name: str, size: int, cpu: str = "1", **more: str) -> Manifest:
        """A Job of which all pods start together, and its pods."""
        job = await self.job(name, size, min_available="all", **more)
        spec: Manifest = {"priorityClassName": more["priority"]} if "priority" in more else {}
        await self.job_pods(job, size, cpu, **spec)
        return job

    async def pod_group(self, name: str, least: int | None, **annotations: str) -> Manifest:
        policy: Manifest = {"gang": {"minCount": least}} if least is not None else {"basic": {}}
        ours = {f"allhands.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
        body = {"metadata": {"name": name, "annotations": ours}, "spec": {"schedulingPolicy": policy}}
        return (await self.objects.create(POD_GROUPS, body, "default")).manifest()

    async def priority(self, name: str, value: int, **more: Any) -> None:
        await self.objects.create(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value, **more})

    async def queue(self, name: str, *, gang: bool = False, **spec: Any) -> None:
        annotations = {"allhands.dev/gang-by-default": "true"} if gang else {}
        await self.objects.create(QUEUES, {"metadata": {"name": name, "annotations": annotations}, "spec": spec})

    async def end_job(self, name: str, how: str) -> None:
        now = self.store.now()
        before = {"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}[how]
        conditions = [
            {"type": kind, "status": "True", "lastTransitionTime": now, "lastProbeTime": now, "reason": "Test"}
            for kind in (before, how)
        ]
        status: Manifest = {"conditions": conditions, "startTime": now}
        if how == "Complete":
            status["completionTime"] = now
        await self.objects.patch(JOBS, name, "merge", {"status": status}, "default", subresource="status")

    async def phase(self, pod: str, phase: str) -> None:
        await self.objects.patch(PODS, pod, "merge", {"status": {"phase": phase}}, "default", subresource="status")

    async def delete_pod(self, name: str) -> None:
        await self.objects.delete(PODS, name, "default", _NOW)

    async def run_pods(self) -> None:
        """A kubelet for all nodes: bound pods run, and those that are to leave are gone a little later."""
        while True:
            await asyncio.sleep(1)
            for pod in await self.pods():
                name = pod["metadata"]["name"]
                if pod["metadata"].get("deletionTimestamp"):
                    await self.delete_pod(name)
                elif pod["spec"].get("nodeName") and pod["status"].get("phase") == "Pending":
                    await self.phase(name, "Running")

    # -- what came of it

    async def pods(self) -> list[Manifest]:
        return [msgspec.json.decode(raw) for raw in (await self.objects.list(PODS, Query(namespace="default"))).items]

    async def bound(self) -> dict[str, str]:
        """Pod -> node, of those that have one."""
        found = {it["metadata"]["name"]: it["spec"].get("nodeName", "") for it in await self.pods()}
        return {name: node for name, node in found.items() if node}

    async def leaving(self) -> list[str]:
        return [it["metadata"]["name"] for it in await self.pods() if it["metadata"].get("deletionTimestamp")]

    async def told(self, pod: str) -> str:
        """What a pod's condition says."""
        status = (await self.objects.get(PODS, pod, "default")).manifest().get("status") or {}
        found = [it.get("message", "") for it in status.get("conditions", ()) if it["type"] == "PodScheduled"]
        return found[0] if found else ""

    async def record(self, resource: Resource, name: str) -> Manifest:
        metadata = (await self.objects.get(resource, name, "default")).manifest()["metadata"]
        text = (metadata.get("annotations") or {}).get(SCHEDULING, "{}")
        return msgspec.json.decode(text)  # type: ignore[no-any-return]

    async def taint(self, node: str, key: str = "broken") -> None:
        taints = [{"key": key, "effect": "NoSchedule"}]
        await self.objects.patch(NODES, node, "merge", {"spec": {"taints": taints}})
