"""Writes down what happens to the jobs of a simulated cluster, as anybody who watches its API could.

From it come completion and waiting times, and how long an ideal scheduler would have taken for the very same pods.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from allhands.ports import Event


class PodRun(msgspec.Struct):
    """When a pod began to run and when it ended."""

    started: float | None
    ended: float | None = None
    bound: float | None = None
    """When it got its place."""
    is_lost: bool = False
    """It was taken away before it was done: evicted, deleted, or gone with its node."""
    is_done: bool = False
    """It succeeded."""
    node: str = ""

    @property
    def ran_seconds(self) -> float | None:
        """None if it never did, or still does."""
        return None if self.started is None or self.ended is None else self.ended - self.started


class JobRun(msgspec.Struct):
    """One job, and its pods by uid."""

    name: str
    submitted: float
    started: float | None = None
    """When its first pod ran."""
    ended: float | None = None
    succeeded: bool = False
    pods: dict[str, PodRun] = msgspec.field(default_factory=dict)


class _Meta(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str
    uid: str = ""
    labels: dict[str, str] = {}
    deletion_timestamp: str | None = None


class _PodSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    node_name: str = ""


class _PodStatus(msgspec.Struct, frozen=True, gc=False):
    phase: str = ""


class _Pod(msgspec.Struct, frozen=True, gc=False):
    metadata: _Meta
    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()


class _Condition(msgspec.Struct, frozen=True, gc=False):
    type: str
    status: str = ""


class _JobStatus(msgspec.Struct, frozen=True, gc=False):
    conditions: tuple[_Condition, ...] = ()


class _Job(msgspec.Struct, frozen=True, gc=False):
    metadata: _Meta
    status: _JobStatus = _JobStatus()


_pods = msgspec.json.Decoder(_Pod)
_jobs = msgspec.json.Decoder(_Job)


class JobLog:
    def __init__(self) -> None:
        self.jobs: dict[str, JobRun] = {}
        self.ended = 0

    def submitted(self, name: str, seconds: float) -> None:
        self.jobs[name] = JobRun(name, seconds)

    def see_pod(self, event: Event, seconds: float) -> None:
        pod = _pods.decode(event.raw)
        job = self.jobs.get(pod.metadata.labels.get("job-name", ""))
        if job is None:
            return
        phase, is_gone = pod.status.phase, event.type == "DELETED"
        known = job.pods.get(pod.metadata.uid)
        if known is None:
            if not pod.spec.node_name or is_gone:
                return
            known = job.pods[pod.metadata.uid] = PodRun(None, bound=seconds, node=pod.spec.node_name)
        if known.ended is not None:
            return
        if known.started is None and phase in ("Running", "Succeeded", "Failed"):
            known.started = seconds
            if job.started is None:
                job.started = seconds
        if phase in ("Succeeded", "Failed") or is_gone:
            known.ended = seconds
            known.is_done = phase == "Succeeded"
            known.is_lost = phase != "Succeeded" and (is_gone or pod.metadata.deletion_timestamp is not None)

    def node_died(self, node: str, seconds: float) -> None:
        """Its pods end then, long before anybody who watches the API is told."""
        for job in self.jobs.values():
            for pod in job.pods.values():
                if pod.node == node and pod.ended is None:
                    pod.ended, pod.is_lost = seconds, True

    def see_job(self, event: Event, seconds: float) -> None:
        found = _jobs.decode(event.raw)
        job = self.jobs.get(found.metadata.name)
        if job is None or job.ended is not None:
            return
        endings = [it.type for it in found.status.conditions if it.status == "True"]
        if "Complete" in endings or "Failed" in endings or event.type == "DELETED":
            job.ended, job.succeeded = seconds, "Complete" in endings
            self.ended += 1


def ideal_makespan_seconds(
    jobs: Sequence[JobRun], capacity: float, need_of: Callable[[JobRun], float] = lambda _: 1
) -> float:
    """How long the same pods take if every job, in the order of submission, starts the instant it fits whole.

    `need_of` says what each pod of a job takes of the capacity. Sums only: nodes have no borders, nobody passes
    anybody, and what was lost and done again is done once.
    """
    free, now, ends = capacity, 0.0, list[tuple[float, float]]()
    begin = min((job.submitted for job in jobs), default=0.0)
    last = begin
    for job in sorted(jobs, key=lambda it: (it.submitted, it.name)):
        runs, need = sorted(run_seconds_of(job), reverse=True), need_of(job)
        now = max(now, job.submitted)
        runs = runs[: int(capacity / need)] if need else runs
        while ends and (free < need * len(runs) or ends[0][0] <= now):
            end, given_back = heapq.heappop(ends)
            now = max(now, end)
            free = free + given_back if ends else capacity
        for run in runs:
            heapq.heappush(ends, (now + run, need))
            last = max(last, now + run)
        free -= need * len(runs)
    return last - begin


def run_seconds_of(job: JobRun) -> list[float]:
    """How long each pod ran that ended by itself."""
    return [ran for pod in job.pods.values() if not pod.is_lost and (ran := pod.ran_seconds) is not None]
