"""Jobs on the real store in virtual time: our controller, a kubelet that lets every pod end as its name and index say,
and crashes of the controller after any write."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from allhands.api.errors import StatusError
from allhands.controllers.job import JobController
from allhands.lifecycle.job import JOBS, PODS
from allhands.lifecycle.job.pod import FINALIZER, INDEX, INDEX_FAILURES
from allhands.ports import DeleteOptions, Query
from allhands.runtime.controller import ControllerLoop
from allhands.runtime.performer import Performer
from allhands.sim.virtual_time import VirtualClock, VirtualTimeLoop, run_virtually
from allhands.store import InProcessObjects, Store
from tests.controller_world import Crash, CrashingObjects, CrashPlan, Telling
from tests.doubles import CountingIds

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping

    from allhands.api.document import Manifest
    from allhands.api.kinds import Resource
    from allhands.lifecycle.instructions import Outcome

NAMESPACE = "default"
KUBELET_SECONDS = 5.0
OVER = ("Succeeded", "Failed")


class _Limited:
    """The port, which refuses pods beyond a number."""

    def __init__(self, objects: InProcessObjects, cluster: JobCluster) -> None:
        self._objects = objects
        self._cluster = cluster

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._objects, verb)

    async def create(self, resource: Resource, *arguments: Any, **options: Any) -> Any:
        most = self._cluster.most_pods
        if resource == PODS and most is not None and len(await self._cluster.everything(PODS)) >= most:
            raise StatusError(403, "Forbidden", "exceeded quota: pods", {})
        return await self._objects.create(resource, *arguments, **options)


class _Counted(JobController):
    def __init__(self, objects: Any, cluster: JobCluster) -> None:
        super().__init__(objects)
        self._cluster = cluster

    def reconcile(self, key: str, now_seconds: float) -> Outcome:
        self._cluster.looks += 1
        return super().reconcile(key, now_seconds)


class JobCluster:
    def __init__(self, loop: VirtualTimeLoop, crashes: Iterable[tuple[int, bool]] = ()) -> None:
        self.clock = VirtualClock(loop)
        self.store = Store(self.clock, CountingIds())
        self.objects = InProcessObjects(self.store)
        self.telling = Telling()
        self.plan = CrashPlan(crashes)
        self.restarts = 0
        self.looks = 0
        self.most_pods: int | None = None
        """As if a quota allowed no more."""
        self.most_active: dict[str, int] = {}

    async def create(self, name: str, **spec: Any) -> None:
        template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "work"}]}}
        job = {"metadata": {"name": name}, "spec": {"template": template, **spec}}
        await self.objects.create(JOBS, job, NAMESPACE)

    async def everything(self, resource: Resource) -> list[Manifest]:
        page = await self.objects.list(resource, Query(namespace=NAMESPACE))
        return [msgspec.json.decode(it) for it in page.items]

    async def status(self, name: str) -> Manifest:
        return (await self.objects.get(JOBS, name, NAMESPACE)).manifest().get("status") or {}

    def reasons(self) -> list[str]:
        return [it.reason for it in self.telling.records]

    # -- what runs

    async def control(self) -> None:
        """Our controller, begun anew after each crash."""
        while True:
            objects: Any = CrashingObjects(_Limited(self.objects, self), self.plan)  # type: ignore[arg-type]
            performer = Performer(objects, self.telling)  # type: ignore[arg-type]
            try:
                await ControllerLoop(_Counted(objects, self), performer, self.clock).run()
            except BaseExceptionGroup as group:
                if group.subgroup(Crash) is None:
                    raise
                self.restarts += 1

    async def kubelet(self, fate: Callable[[str, int, int], int]) -> None:
        """Every pod runs and ends; `fate` of its Job's name, its index and how often that failed is its exit code."""
        while True:
            await asyncio.sleep(KUBELET_SECONDS)
            for pod in await self.everything(PODS):
                await self._step(pod, fate)
            self._watch_actives(await self.everything(PODS))

    async def _step(self, pod: Manifest, fate: Callable[[str, int, int], int]) -> None:
        name, phase = pod["metadata"]["name"], pod["status"].get("phase", "Pending")
        if "deletionTimestamp" in pod["metadata"]:
            if phase not in OVER:
                await self.report(name, "Failed", 137)
            await self.objects.delete(PODS, name, NAMESPACE, DeleteOptions(grace_seconds=0))
        elif phase == "Pending":
            await self.objects.bind(NAMESPACE, name, {"target": {"kind": "Node", "name": "n1"}})
            await self.report(name, "Running", 0)
        elif phase == "Running":
            annotations: Mapping[str, str] = pod["metadata"].get("annotations", {})
            job = pod["metadata"]["labels"]["job-name"]
            code = fate(job, int(annotations.get(INDEX, -1)), int(annotations.get(INDEX_FAILURES, 0)))
            await self.report(name, "Failed" if code else "Succeeded", code)

    async def report(self, name: str, phase: str, code: int) -> None:
        now = self.store.now()
        ready = {"type": "Ready", "status": "True" if phase == "Running" else "False", "lastTransitionTime": now}
        status: Manifest = {"phase": phase, "conditions": [ready]}
        if phase in OVER:
            terminated = {"exitCode": code, "finishedAt": now, "startedAt": now}
            container = {"name": "main", "image": "work", "imageID": "", "restartCount": 0, "ready": False}
            status["containerStatuses"] = [{**container, "state": {"terminated": terminated}}]
        await self.objects.patch(PODS, name, "merge", {"status": status}, NAMESPACE, subresource="status")

    def _watch_actives(self, pods: list[Manifest]) -> None:
        counts: dict[str, int] = {}
        for pod in pods:
            if pod["status"].get("phase") not in OVER and "deletionTimestamp" not in pod["metadata"]:
                job = pod["metadata"]["labels"]["job-name"]
                counts[job] = counts.get(job, 0) + 1
        for job, count in counts.items():
            self.most_active[job] = max(count, self.most_active.get(job, 0))


def play(
    story: Callable[[JobCluster], Coroutine[Any, Any, None]],
    fate: Callable[[str, int, int], int] | None = None,
    crashes: Iterable[tuple[int, bool]] = (),
) -> JobCluster:
    """Lets a story happen in a cluster; with a fate its pods run by themselves."""
    loop = VirtualTimeLoop()
    cluster = JobCluster(loop, crashes)

    async def main() -> None:
        tasks = [asyncio.create_task(cluster.store.housekeeper.run()), asyncio.create_task(cluster.control())]
        if fate is not None:
            tasks.append(asyncio.create_task(cluster.kubelet(fate)))
        try:
            await story(cluster)
            for task in tasks:
                assert not task.done(), task
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    run_virtually(loop, main())
    return cluster


def is_tracked(pod: Manifest) -> bool:
    return FINALIZER in pod["metadata"].get("finalizers", ())
