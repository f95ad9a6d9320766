"""What a flow's status says of its Jobs, one entry each: also its only memory of Jobs that are gone.

A step whose Job was deleted after it ended must not run again, and a step that has failed must know how often. So an
entry stays when its Job goes, and counts the failures in its history of runs.
"""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Final

from allhands.lifecycle.changes import time_text
from allhands.lifecycle.job_flow.documents import COMPLETED, LOST
from allhands.lifecycle.volcano_job.durations import duration_seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allhands.api.document import Manifest
    from allhands.lifecycle.cron_job import CronsJob
    from allhands.lifecycle.job_flow.documents import FlowDocument, FlowsJob

MOST_RUNS: Final = 20
"""So many runs are remembered of each Job; those that failed before others."""
LISTS: Final = {
    "Pending": "pendingJobs",
    "Running": "runningJobs",
    "Failed": "failedJobs",
    COMPLETED: "completedJobs",
    "Terminated": "terminatedJobs",
    "Completing": None,
    "Terminating": None,
}
"""Which list of the status a Job of each phase is in; those of other phases are unknown to Volcano's clients."""
UNKNOWN: Final = "unKnowJobs"


def written_entries(flow: FlowDocument) -> dict[str, Manifest]:
    """By the name of the Job; what makes no sense is left out."""
    written = flow.written.get("jobStatusList")
    entries = [it for it in written if isinstance(it, dict)] if isinstance(written, list) else []
    return {str(it["name"]): it for it in entries if it.get("name")}


def failures_of(entry: Manifest | None) -> int:
    return sum(it.get("state") in LOST for it in _runs(entry))


def failed_seconds(entry: Manifest | None) -> float:
    """When it was seen to fail last."""
    times = [it.get("startTimestamp") for it in _runs(entry) if it.get("state") in LOST]
    try:
        return datetime.datetime.fromisoformat(str(times[-1])).timestamp() if times else 0.0
    except ValueError:
        return 0.0


def is_recorded(entry: Manifest | None, job: FlowsJob) -> bool:
    """Whether the entry knows how the Job ended, so that it may go."""
    if entry is None or entry.get("state") != job.phase:
        return False
    return job.phase == COMPLETED or failures_of(entry) > job.attempt


def entry_of(job: FlowsJob, before: Manifest | None, now_seconds: float) -> Manifest:
    runs = _runs(before)
    is_new_failure = job.phase in LOST and failures_of(before) <= job.attempt
    if is_new_failure or not runs or runs[-1].get("state") != job.phase:
        now = time_text(now_seconds)
        if runs:
            runs[-1] = {**runs[-1], "endTimestamp": now}
        runs.append({"startTimestamp": now, "state": job.phase})
    created = job.metadata.created_seconds
    entry: Manifest = {"name": job.metadata.name, "state": job.phase, "startTimestamp": time_text(created)}
    took = duration_seconds(job.status.running_duration)
    if took is not None:
        entry["endTimestamp"] = time_text(created + took)
    if restarts := (job.status.retry_count or 0) + job.attempt:
        entry["restartCount"] = restarts
    return entry | {"runningHistories": _trimmed(runs)}


def _trimmed(runs: list[Manifest]) -> list[Manifest]:
    surplus = len(runs) - MOST_RUNS
    if surplus <= 0:
        return runs
    dropped = [at for at, it in enumerate(runs) if it.get("state") not in LOST][:surplus]
    return [it for at, it in enumerate(runs) if at not in dropped]


def _runs(entry: Manifest | None) -> list[Manifest]:
    runs = (entry or {}).get("runningHistories")
    return [it for it in runs if isinstance(it, dict)] if isinstance(runs, list) else []


def condition_of(job: FlowsJob) -> Manifest:
    condition: Manifest = {"phase": job.phase, "createTime": time_text(job.metadata.created_seconds)}
    if job.status.running_duration:
        condition["runningDuration"] = job.status.running_duration
    if job.status.task_status_count:
        condition["taskStatusCount"] = job.status.task_status_count
    return condition


def outside_condition(job: CronsJob) -> Manifest:
    """A Job of batch/v1 in the words that flows have for Jobs."""
    phase = {"Complete": COMPLETED, "Failed": "Failed"}.get(job.end, "Running")
    return {"phase": phase, "createTime": time_text(job.metadata.created_seconds)}


def job_lists(entries: Mapping[str, Manifest]) -> Manifest:
    """The names of Jobs, by what they are doing."""
    lists: Manifest = {name: [] for name in (*LISTS.values(), UNKNOWN) if name}
    for name, entry in entries.items():
        place = LISTS.get(str(entry.get("state") or ""), UNKNOWN)
        if place is not None:
            lists[place].append(name)
    return lists
