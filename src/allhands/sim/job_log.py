"""Writes down what happens to the jobs of a simulated cluster, as anybody who watches its API could.

From it come completion and waiting times, and how long an ideal scheduler would have taken for the very same pods.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from allhands.ports import Event


class PodRun(msgspec.Struct):
    """When a pod began to run and when it ended."""

    started: float
    ended: float | None = None


class JobRun(msgspec.Struct):
    """One job, and its pods by uid."""

    name: str
    submitted: float
    started: float | None = None
    """When its first pod ran."""
    ended: float | None = None
    succeeded: bool = False
    pods: dict[str, PodRun] = msgspec.field(default_factory=dict)


class _Meta(msgspec.Struct, frozen=True, gc=False):
    name: str
    uid: str = ""
    labels: dict[str, str] = {}


class _PodStatus(msgspec.Struct, frozen=True, gc=False):
    phase: str = ""


class _Pod(msgspec.Struct, frozen=True, gc=False):
    metadata: _Meta
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
        known = job.pods.get(pod.metadata.uid)
        if known is None:
            if pod.status.phase == "Running" and event.type != "DELETED":
                job.pods[pod.metadata.uid] = PodRun(seconds)
                if job.started is None:
                    job.started = seconds
        elif known.ended is None and (pod.status.phase in ("Succeeded", "Failed") or event.type == "DELETED"):
            known.ended = seconds

    def see_job(self, event: Event, seconds: float) -> None:
        found = _jobs.decode(event.raw)
        job = self.jobs.get(found.metadata.name)
        if job is None or job.ended is not None:
            return
        endings = [it.type for it in found.status.conditions if it.status == "True"]
        if "Complete" in endings or "Failed" in endings or event.type == "DELETED":
            job.ended, job.succeeded = seconds, "Complete" in endings
            self.ended += 1


def ideal_makespan_seconds(jobs: Sequence[JobRun], capacity_pods: int) -> float:
    """How long the same pods take if every job, in the order of submission, starts the instant it fits whole.

    Counts only: a cluster of equal pods and nodes without waste. Nobody passes anybody.
    """
    free, now, ends = capacity_pods, 0.0, list[float]()
    begin = min((job.submitted for job in jobs), default=0.0)
    last = begin
    for job in sorted(jobs, key=lambda it: (it.submitted, it.name)):
        runs = sorted(pod_run_seconds([job]), reverse=True)
        now = max(now, job.submitted)
        need = min(len(runs), capacity_pods)
        while free < need or (ends and ends[0] <= now):
            end = heapq.heappop(ends)
            now = max(now, end)
            free += 1
        for run in runs[:need]:
            heapq.heappush(ends, now + run)
            last = max(last, now + run)
        free -= need
    return last - begin


def pod_run_seconds(jobs: Iterable[JobRun]) -> list[float]:
    """How long each pod ran that has ended."""
    return [pod.ended - pod.started for job in jobs for pod in job.pods.values() if pod.ended is not None]
