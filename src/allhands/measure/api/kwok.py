"""The KWOK test (KubeCon Paris 2024) on the real API server, in scaled time, one scheduler after the other.

1000 Jobs of 10 pods come at once to a cluster that holds half of them; each works three minutes and up to half as much
again once all of its pods run, and must be done 15 minutes after its submission. Times are told as if not scaled.
"""

from __future__ import annotations

import asyncio
import heapq
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from allhands.measure.api.application import JOBS, Application
from allhands.measure.api.audit import USER, AuditLog
from allhands.measure.api.cluster import NAMESPACES, PODS, create_all, delete_everything
from allhands.measure.api.contenders import ContenderError, Places, objects_of, prepared
from allhands.measure.api.running import STOP_SECONDS
from allhands.measure.api.usage import usage_of_group
from allhands.measure.api.workload import GROUP_RESOURCES, Gangs, Shape, group_manifests, group_name, join_group
from allhands.measure.processes import ServiceEndedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from allhands.measure.api.cluster import BenchCluster
    from allhands.measure.api.contenders import Contender
    from allhands.measure.processes import Service

CONTROLLERS: Final = ("job-controller",)
STAGES: Final = Path(__file__).parent / "kwok-runs.yaml"
NODE_CPU: Final = 100
NODE_MEMORY: Final = "100Gi"
POD_CPU: Final = 2
POD_MEMORY: Final = "2Gi"
RUN_SECONDS: Final = 180.0
LONGER: Final = 0.5
"""By how much of it a run may be longer."""
DEADLINE_SECONDS: Final = 900.0
SYNC_SECONDS: Final = 60.0
SLACK_SECONDS: Final = 60.0
"""Beyond the deadline, for a job controller that has much to do."""
LOOK_SECONDS: Final = 0.2


class KwokPlan(msgspec.Struct, frozen=True, kw_only=True):
    """`scale`: so many seconds of the test are one of ours."""

    jobs: int = 1_000
    pods_per_job: int = 10
    nodes: int = 100
    scale: float = 5.0
    seed: int = 0

    @property
    def jobs_at_once(self) -> int:
        return self.nodes * (NODE_CPU // POD_CPU) // self.pods_per_job

    def run_seconds(self) -> list[float]:
        """Of each job, not scaled; the same for every scheduler."""
        chance = random.Random(self.seed)  # noqa: S311 (a workload, not a secret)
        return [RUN_SECONDS * (1 + LONGER * chance.random()) for _ in range(self.jobs)]

    def ideal_seconds(self) -> float:
        """If every job, in the order of submission, starts the instant that it fits whole."""
        return ideal_makespan_seconds(self.run_seconds(), self.jobs_at_once)


class KwokRow(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one scheduler; seconds of the test, not ours."""

    scheduler: str
    jobs: int
    done: int
    failed: int
    """Past their deadline."""
    unfinished: int
    makespan_seconds: float
    ideal_seconds: float
    ratio: float | None
    """Makespan ÷ ideal; None if not all jobs were done: then it says nothing."""
    useful_utilisation: float
    """Work of the jobs that were done ÷ what the nodes could have done meanwhile."""
    cpu_seconds: float
    peak_mib: float
    calls_per_pod: float
    group_writes_per_pod: float
    calls: dict[str, int]
    """By verb and resource."""


def ideal_makespan_seconds(runs: Sequence[float], at_once: int) -> float:
    """List scheduling of jobs that are all as wide, and of which so many run at a time."""
    ends: list[float] = []
    for run in runs:
        begin = heapq.heappop(ends) if len(ends) >= at_once else 0.0
        heapq.heappush(ends, begin + run)
    return max(ends, default=0.0)


class KwokTest:
    """On a cluster whose nodes are there; `progress` is told how many jobs have ended, and the seconds of the test."""

    def __init__(
        self, cluster: BenchCluster, plan: KwokPlan, progress: Callable[[str, int, int, float], None] | None = None
    ) -> None:
        self._cluster = cluster
        self._plane = cluster.plane
        self._plan = plan
        self._progress = progress
        self._audit = AuditLog(cluster.plane.audit_log)
        self._runs = dict(zip(map(group_name, range(plan.jobs)), plan.run_seconds(), strict=True))

    async def run(self, contender: Contender) -> KwokRow:
        objects, plan = self._cluster.objects, self._plan
        await self._cluster.create(objects_of(contender))
        folder = self._plane.folder
        places = Places(kubeconfig=self._plane.kubeconfig_of(USER), folder=folder, tools=self._plane.tools, flight=1)
        start = prepared(contender, places)
        namespace = f"kwok-{contender.name}"
        await objects.create(NAMESPACES, {"metadata": {"name": namespace}})
        await self._create_groups(contender.gangs, namespace)
        scaled = {name: seconds / plan.scale for name, seconds in self._runs.items()}
        application = Application(objects, namespace, scaled, plan.pods_per_job)
        self._audit.begin()
        service = self._plane.start(f"kwok-{contender.name}", start.command, start.environment)
        playing = asyncio.create_task(application.run())
        try:
            await application.synced()
            await self._listening(service)
            began = asyncio.get_running_loop().time()
            manifests = [job_manifest(plan, name, contender) for name in self._runs]
            await create_all(objects, JOBS, manifests, namespace)
            await self._all_ended(contender, application, service, began)
            used = usage_of_group(service.pid)
        except ServiceEndedError as error:
            raise ContenderError(f"{contender.name}: {error}") from None
        finally:
            service.stop(STOP_SECONDS)
            playing.cancel()
            await asyncio.gather(playing, return_exceptions=True)
        self._audit.read()
        await self._empty(namespace, contender.gangs)
        return self._row(contender, application, began, used.cpu_seconds, used.peak_mib)

    async def _create_groups(self, gangs: Gangs, namespace: str) -> None:
        if gangs is not Gangs.NONE:
            resource = GROUP_RESOURCES[gangs]
            groups = group_manifests(Shape(self._plan.jobs, self._plan.pods_per_job), gangs)
            await create_all(self._cluster.objects, resource, groups, namespace)

    async def _listening(self, service: Service) -> None:
        """It is no test of how fast a process starts: jobs come when the scheduler watches pods."""
        async with asyncio.timeout(SYNC_SECONDS):
            while not self._audit.calls().by_what.get("watch pods"):
                await asyncio.sleep(LOOK_SECONDS)
                service.check_alive()
                self._audit.read()

    async def _all_ended(self, contender: Contender, application: Application, service: Service, began: float) -> None:
        loop, plan = asyncio.get_running_loop(), self._plan
        last = began + DEADLINE_SECONDS / plan.scale + SLACK_SECONDS
        while len(application.ended_at) < plan.jobs and loop.time() < last:
            await asyncio.sleep(LOOK_SECONDS)
            service.check_alive()
            self._plane.raise_if_ended()
            self._audit.read()
            if self._progress is not None:
                seconds = (loop.time() - began) * plan.scale
                self._progress(contender.name, len(application.ended_at), plan.jobs, seconds)

    async def _empty(self, namespace: str, gangs: Gangs) -> None:
        resources = [JOBS, PODS] if gangs is Gangs.NONE else [JOBS, PODS, GROUP_RESOURCES[gangs]]
        for resource in resources:
            await delete_everything(self._cluster.objects, resource, namespace)

    def _row(self, contender: Contender, seen: Application, began: float, cpu: float, peak_mib: float) -> KwokRow:
        plan = self._plan
        makespan = (max(seen.ended_at.values(), default=began) - began) * plan.scale
        ideal = plan.ideal_seconds()
        done = len(seen.succeeded)
        work = sum(self._runs[name] for name in seen.succeeded)
        calls, pods = self._audit.calls(), plan.jobs * plan.pods_per_job
        return KwokRow(
            scheduler=contender.name,
            jobs=plan.jobs,
            done=done,
            failed=len(seen.ended_at) - done,
            unfinished=plan.jobs - len(seen.ended_at),
            makespan_seconds=round(makespan, 1),
            ideal_seconds=round(ideal, 1),
            ratio=round(makespan / ideal, 3) if done == plan.jobs else None,
            useful_utilisation=round(work / (plan.jobs_at_once * makespan), 3) if makespan else 0.0,
            cpu_seconds=round(cpu, 2),
            peak_mib=round(peak_mib, 1),
            calls_per_pod=round((calls.total - calls.group_writes) / pods, 3),
            group_writes_per_pod=round(calls.group_writes / pods, 3),
            calls=calls.by_what,
        )


def job_manifest(plan: KwokPlan, name: str, contender: Contender) -> dict[str, Any]:
    requests = {"cpu": str(POD_CPU), "memory": POD_MEMORY}
    container = {"name": "main", "image": "registry.example/work:1", "resources": {"requests": requests}}
    pod: dict[str, Any] = {
        "metadata": {},
        "spec": {"schedulerName": contender.scheduler_name, "restartPolicy": "Never", "containers": [container]},
    }
    join_group(pod, name, contender.gangs)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "parallelism": plan.pods_per_job,
            "completions": plan.pods_per_job,
            "backoffLimit": 0,
            "activeDeadlineSeconds": max(1, round(DEADLINE_SECONDS / plan.scale)),
            "template": pod,
        },
    }


_COLUMNS: Final = "{:<21}{:>7}{:>8}{:>11}{:>10}{:>9}{:>8}{:>8}{:>6}{:>7}"
HEADING: Final = _COLUMNS.format(
    "SCHEDULER", "DONE", "FAILED", "UNFINISHED", "MAKESPAN", "÷ IDEAL", "USEFUL", "CPU S", "MIB", "CALLS"
)


def table(rows: Sequence[KwokRow]) -> list[str]:
    lines = [
        _COLUMNS.format(
            "SCHEDULER", "DONE", "FAILED", "UNFINISHED", "MAKESPAN", "÷ IDEAL", "USEFUL", "CPU S", "MIB", "CALLS"
        )
    ]
    lines += [
        _COLUMNS.format(
            row.scheduler, row.done, row.failed, row.unfinished, f"{row.makespan_seconds:.0f} s",
            "-" if row.ratio is None else f"{row.ratio:.2f}", f"{100 * row.useful_utilisation:.0f} %",
            f"{row.cpu_seconds:.1f}", f"{row.peak_mib:.0f}", f"{row.calls_per_pod:.2f}",
        )
        for row in rows
    ]  # fmt: skip
    return lines
