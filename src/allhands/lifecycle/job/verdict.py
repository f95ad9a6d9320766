"""Whether a Job is over, and how: by what its status says already, by failures, by its deadline, or by success.

A verdict once written is never taken back; the order of the questions is that of the Kubernetes Job controller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import msgspec

from allhands.lifecycle.job.backoff import has_failed
from allhands.lifecycle.job.failure_policy import judge_failure
from allhands.lifecycle.job.moments import moment_seconds
from allhands.lifecycle.job.pod_making import restart_policy
from allhands.lifecycle.job.success_policy import met_rule

if TYPE_CHECKING:
    from allhands.lifecycle.job.documents import JobDocument
    from allhands.lifecycle.job.tally import Tally


class Verdict(msgspec.Struct, frozen=True):
    type: Literal["SuccessCriteriaMet", "FailureTarget"]
    """The condition that announces it; `Complete` or `Failed` follows when all pods are gone and counted."""
    reason: str
    message: str
    is_written: bool = False
    """The status says so already."""

    @property
    def is_success(self) -> bool:
        return self.type == "SuccessCriteriaMet"

    @property
    def final_type(self) -> str:
        return "Complete" if self.is_success else "Failed"


COMPLETE: Final = Verdict("SuccessCriteriaMet", "CompletionsReached", "Reached expected number of succeeded pods")
BACKOFF_LIMIT: Final = Verdict("FailureTarget", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
DEADLINE: Final = Verdict("FailureTarget", "DeadlineExceeded", "Job was active longer than specified deadline")
TOO_MANY_INDEXES: Final = Verdict(
    "FailureTarget", "MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes"
)
FAILED_INDEXES: Final = Verdict("FailureTarget", "FailedIndexes", "Job has failed indexes")


def verdict_of(job: JobDocument, tally: Tally, now_seconds: float) -> Verdict | None:
    """None: it goes on, unless it turns out to be complete."""
    return (
        _written(job)
        or _by_failure_policy(job, tally)
        or _by_limits(job, tally, now_seconds)
        or (_by_indexes(job, tally) if job.is_indexed else None)
    )


def deadline_seconds(job: JobDocument) -> float | None:
    """The moment at which it has been active for too long."""
    limit, start = job.spec.active_deadline_seconds, moment_seconds(job.status.start_time)
    return None if limit is None or start is None or job.is_suspended else start + limit


def is_complete(job: JobDocument, tally: Tally, active: int) -> bool:
    if active:
        return False
    if job.spec.completions is None:
        return tally.succeeded > 0
    return tally.succeeded >= job.spec.completions


def _written(job: JobDocument) -> Verdict | None:
    success = job.status.condition("SuccessCriteriaMet")
    if success is not None and success.is_true:
        return Verdict("SuccessCriteriaMet", success.reason, success.message, is_written=True)
    failure = job.status.condition("FailureTarget")
    if failure is not None and failure.is_true:
        return Verdict("FailureTarget", failure.reason, failure.message, is_written=True)
    return None


def _by_failure_policy(job: JobDocument, tally: Tally) -> Verdict | None:
    if job.spec.pod_failure_policy is None:
        return None
    for pod in tally.pods:
        if has_failed(job, pod):
            judgement = judge_failure(job, pod)
            if judgement.fails_job:
                return Verdict("FailureTarget", "PodFailurePolicy", judgement.message)
    return None


def _by_limits(job: JobDocument, tally: Tally, now_seconds: float) -> Verdict | None:
    if tally.failed > job.backoff_limit or _restarted_too_often(job, tally):
        return BACKOFF_LIMIT
    deadline = deadline_seconds(job)
    return DEADLINE if deadline is not None and now_seconds >= deadline else None


def _restarted_too_often(job: JobDocument, tally: Tally) -> bool:
    """Pods that are restarted in place, by their node, use up the limit by their restarts."""
    restarts = sum(it.restarts for it in tally.pods if it.phase in ("Running", "Pending"))
    if restarts == 0 or restarts < job.backoff_limit:
        return False
    return restart_policy(job) == "OnFailure"


def _by_indexes(job: JobDocument, tally: Tally) -> Verdict | None:
    if tally.lost is not None:
        most = job.spec.max_failed_indexes
        if most is not None and tally.lost.total > most:
            return TOO_MANY_INDEXES
        if tally.lost.total > 0 and tally.lost.total + tally.done.total >= tally.completions:
            return FAILED_INDEXES
    rule = met_rule(job, tally.done)
    return None if rule is None else Verdict("SuccessCriteriaMet", "SuccessPolicy", f"Matched rules at index {rule}")
