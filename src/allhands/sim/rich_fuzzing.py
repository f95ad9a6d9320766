"""Random histories with much that meets in a cluster: native PodGroups, queues with caps, priorities and preemption,
volumes, Jobs after Jobs. Beyond the laws of plain histories: no queue is over its cap, and whoever waits knows why.

What a job gets beside itself comes from the same seeded chance. Nothing is asked for that could never be had.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import msgspec

from allhands.api.kinds import Resource
from allhands.api.volcano.queue import QUEUE
from allhands.dialects.annotations import AFTER, GANG_BY_DEFAULT, MIN_AVAILABLE
from allhands.dialects.annotations import QUEUE as QUEUE_ANNOTATION
from allhands.model.pod import Pod
from allhands.model.pod_document import PodDocument
from allhands.sim.checkers import CapWatch, ReasonWatch
from allhands.sim.fuzzing import JOBS, PODS, Fuzz

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.ports import Event

CLAIMS: Final = Resource("", "v1", "persistentvolumeclaims")
POD_GROUPS: Final = Resource("scheduling.k8s.io", "v1alpha2", "podgroups")
PRIORITY_CLASSES: Final = Resource("scheduling.k8s.io", "v1", "priorityclasses")
STORAGE_CLASSES: Final = Resource("storage.k8s.io", "v1", "storageclasses")
CAPPED, BORROWING, GANGS = "capped", "borrowing", "gangs"
CAP_CPU: Final = 12
LOCAL_CPU: Final = 8
"""What one node has: a volume that is on one node is for pods that fit there together."""
_pods = msgspec.json.Decoder(PodDocument)


class RichFuzz(Fuzz):
    """The same jobs, each with something more."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._reasons = ReasonWatch()
        self._caps = CapWatch({CAPPED: {"cpu": CAP_CPU * 1000}})
        self._groups: dict[str, str] = {}
        """Job -> the native PodGroup of its pods."""
        self._queues: dict[str, str] = {}
        """Job -> its queue, where it names one."""
        self._making: list[asyncio.Task[None]] = []

    async def _submit(self, number: int) -> None:
        if not number:
            await self._prepare()
        await super()._submit(number)

    async def _prepare(self) -> None:
        for name, value in (("low", 10), ("high", 1000)):
            await self._objects.create(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})
        kind = {
            "metadata": {"name": "local"},
            "provisioner": "allhands.dev/host-path",
            "volumeBindingMode": "WaitForFirstConsumer",
        }
        await self._objects.create(STORAGE_CLASSES, kind)
        for name, told, spec in (
            (CAPPED, {}, {"weight": 1, "capability": {"cpu": str(CAP_CPU)}}),
            (BORROWING, {}, {"weight": 2, "reclaimable": True, "deserved": {"cpu": str(self._chance.randint(2, 16))}}),
            (GANGS, {GANG_BY_DEFAULT: "true"}, {"weight": 1}),
        ):
            await self._make(QUEUE.resource, {"metadata": {"name": name, "annotations": told}, "spec": spec}, "")

    async def _make(self, resource: Resource, body: Manifest, namespace: str = "default") -> None:
        await self._objects.create(resource, body, namespace)

    async def _adorn(self, body: Manifest, name: str, size: int, least: int) -> None:
        chance, spec = self._chance, body["spec"]["template"]["spec"]
        annotations: dict[str, str] = body["metadata"]["annotations"]
        cpu = int(spec["containers"][0]["resources"]["requests"]["cpu"])
        if chance.random() < 0.5:
            spec["priorityClassName"] = chance.choice(("low", "high"))
        if len(self._names) > 1 and chance.random() < 0.3:
            annotations[AFTER] = chance.choice(self._names[:-1])
        if chance.random() < 0.2 and cpu * size <= LOCAL_CPU:
            await self._claim(name)
            spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
        queue = chance.choice((CAPPED, BORROWING, GANGS)) if chance.random() < 0.6 else ""
        if queue == CAPPED and cpu * least > CAP_CPU:
            queue = BORROWING  # it could never be had
        if queue == GANGS:
            least = self._least[name] = size
        told = {QUEUE_ANNOTATION: queue} if queue else {}
        if queue:
            self._queues[name] = queue
        if chance.random() < 0.4 and AFTER not in annotations:
            self._groups[name] = f"group-of-{name}"
            spec["schedulingGroup"] = {"podGroupName": self._groups[name]}
            policy: Manifest = {"gang": {"minCount": least}} if least > 1 or queue == GANGS else {"basic": {}}
            group = {
                "metadata": {"name": self._groups[name], "annotations": told},
                "spec": {"schedulingPolicy": policy},
            }
            # Somebody makes it, before or after the Job.
            self._making.append(asyncio.create_task(self._make_later(POD_GROUPS, group, chance.random() * 10)))
            return
        annotations.update(told)
        if queue != GANGS:
            await super()._adorn(body, name, size, least)
        elif chance.random() < 0.5:
            annotations[MIN_AVAILABLE] = "all"

    async def _make_later(self, resource: Resource, body: Manifest, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self._make(resource, body)

    async def _claim(self, name: str) -> None:
        spec = {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "local",
            "resources": {"requests": {"storage": "1Gi"}},
        }
        await self._make(CLAIMS, {"metadata": {"name": name}, "spec": spec})

    def _home(self, name: str) -> tuple[Resource, str]:
        group = self._groups.get(name)
        return (JOBS, name) if group is None else (POD_GROUPS, group)

    def _see_pod(self, event: Event) -> None:
        super()._see_pod(event)
        pod = Pod.from_document(_pods.decode(event.raw))
        job = pod.labels.get("job-name", "")
        queue, least, is_gone = self._queues.get(job, ""), self._least.get(job, 1), event.type == "DELETED"
        self._caps.pod(queue, job, least, pod, self._cluster.seconds, is_gone=is_gone)

    async def _look_at_gangs(self) -> None:
        await super()._look_at_gangs()
        for task in self._making:
            if task.done():
                task.result()
        unexplained = []
        for raw in (await self._objects.list(PODS)).items:
            pod = msgspec.json.decode(raw)
            if pod["spec"].get("nodeName") or pod["metadata"].get("deletionTimestamp"):
                continue
            conditions = pod["status"].get("conditions") or ()
            if not any(it["type"] == "PodScheduled" and it.get("message") for it in conditions):
                unexplained.append(pod["metadata"]["name"])
        self._reasons.look(unexplained, self._cluster.seconds)
