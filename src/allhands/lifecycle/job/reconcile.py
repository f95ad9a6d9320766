"""One look at a Job and its pods: what is to be written now, and when to look again.

Level-triggered: it decides by what is observed and keeps nothing. At most one status is written in one look, guarded by
the Job's version, before everything else, and what depends on it is done only if that succeeded. A crash after any of
the instructions, with neighbours of one kind in any order, changes nothing in the end.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, Literal

from allhands.lifecycle.changes import object_reference
from allhands.lifecycle.instructions import NOTHING_TO_DO, Create, Delete, Instruction, Outcome, Patch, Record
from allhands.lifecycle.job.backoff import failures_since_success
from allhands.lifecycle.job.claims import claim, finalizer_removal, untrack
from allhands.lifecycle.job.counting import Count
from allhands.lifecycle.job.documents import API_VERSION, JOBS, KIND, PODS
from allhands.lifecycle.job.moments import moment_seconds
from allhands.lifecycle.job.pod_making import indexed_pods, plain_pods
from allhands.lifecycle.job.status import StatusDraft
from allhands.lifecycle.job.supply import Supply, supply
from allhands.lifecycle.job.tally import Tally
from allhands.lifecycle.job.verdict import COMPLETE, deadline_seconds, is_complete, verdict_of
from allhands.model.time_text import utc_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from allhands.api.document import Manifest
    from allhands.lifecycle.job.backoff import Failures
    from allhands.lifecycle.job.documents import JobDocument
    from allhands.lifecycle.job.pod import JobPod
    from allhands.lifecycle.job.verdict import Verdict

NAMES_IN_EVENT: Final = 5


def reconcile(
    job: JobDocument,
    pods: Sequence[JobPod],
    now_seconds: float,
    *,
    failures: Failures | None = None,
    is_taken: Callable[[str], bool] | None = None,
    refused: str = "",
) -> Outcome:
    """`pods`: those that it controls, and orphans that it may select. `failures`: what `failures_since_success` of
    earlier looks and this one tells, if somebody remembers. `is_taken`: whether a pod of that name exists. `refused`:
    what the server said to the last attempt, if it said no.
    """
    if job.status.ending is not None:
        return _afterwards(job, pods, now_seconds)
    if not job.is_ours:
        return NOTHING_TO_DO
    if job.spec.completion_mode not in (None, "NonIndexed", "Indexed"):
        message = "Skipped Job sync because completion mode is unknown"
        return Outcome((_record(job, "Warning", "UnknownCompletionMode", message),))
    mine, changes = claim(job, pods)
    if changes:
        return Outcome(tuple(changes), now_seconds)
    if failures is None:
        failures = failures_since_success(job, mine)
    if is_taken is None:
        is_taken = frozenset(it.name for it in pods).__contains__
    return _Look(job, mine, now_seconds, failures, is_taken).outcome(refused)


class _Look:
    """The state of one look, from what is observed to the instructions."""

    def __init__(
        self,
        job: JobDocument,
        pods: Sequence[JobPod],
        now_seconds: float,
        failures: Failures,
        is_taken: Callable[[str], bool],
    ) -> None:
        self._job = job
        self._now_seconds = now_seconds
        self._now = utc_text(math.floor(now_seconds))
        self._is_taken = is_taken
        self._tally = tally = Tally(job, pods)
        self._draft = StatusDraft(job.status)
        self._events: list[Record] = []
        self._supply = Supply()
        self._begins = False
        self._verdict = verdict_of(job, tally, now_seconds)
        if self._verdict is None:
            if not job.metadata.is_going:
                self._supply = supply(tally, failures, now_seconds)
            if is_complete(job, tally, len(tally.active) - len(self._supply.remove)):
                self._verdict = COMPLETE
        # With a verdict the pods keep their finalizer until they are counted; without one they are just not needed.
        self._doomed = tally.active if self._verdict_ends_pods() else self._supply.remove
        let_go = frozenset(it.uid for it in self._supply.remove)
        self._count = Count(tally, self._draft, self._verdict, let_go)

    def _is_told(self, pod: JobPod) -> bool:
        """Whether this look tells it to go, which makes a new version of it: it loses its finalizer at the next."""
        return pod.is_active and self._verdict_ends_pods()

    def _verdict_ends_pods(self) -> bool:
        return self._verdict is not None and not self._supply.remove

    def outcome(self, refused: str) -> Outcome:
        self._write_times()
        creates = self._creates()
        self._write_numbers(creates)
        self._write_verdict()
        patch = self._draft.patch()
        namespace = self._job.metadata.namespace
        instructions: list[Instruction] = []
        if patch:
            meta = self._job.metadata
            instructions.append(Patch(JOBS, namespace, meta.name, {"status": patch}, "status", meta.resource_version))
            instructions += self._events
        instructions += untrack(self._supply.remove)
        instructions += [Delete(PODS, namespace, it.name, it.uid) for it in self._doomed]
        instructions += [finalizer_removal(it) for it in self._count.release if not self._is_told(it)]
        if creates and refused:
            instructions.append(_record(self._job, "Warning", "FailedCreate", f"Error creating: {refused}"))
        instructions += creates
        instructions += self._tidings(creates)
        return Outcome(tuple(instructions), self._wake_at_seconds(patch))

    def _write_times(self) -> None:
        job, draft = self._job, self._draft
        if draft.start_time is None and not job.is_suspended:
            draft.start_time = self._now
            self._begins = True
        if self._verdict is not None or job.metadata.is_going:
            return
        if job.is_suspended:
            if draft.set_condition("Suspended", "True", "JobSuspended", "Job suspended", self._now):
                draft.start_time = None
                self._tell("Normal", "Suspended", "Job suspended")
        elif draft.set_condition("Suspended", "False", "JobResumed", "Job resumed", self._now):
            draft.start_time = self._now
            self._begins = True
            self._tell("Normal", "Resumed", "Job resumed")

    def _creates(self) -> list[Create]:
        job, tally, wanted = self._job, self._tally, self._supply
        if self._verdict is not None or wanted.create == 0:
            return []
        if job.is_indexed:
            return indexed_pods(job, wanted.indexes, tally.to_be_replaced, self._is_taken)
        made_before = tally.succeeded + tally.failed + len(tally.active) + len(tally.terminating)
        return plain_pods(job, wanted.create, made_before, self._is_taken)

    def _write_numbers(self, creates: list[Create]) -> None:
        """Pods that are told to go now are written as going. New pods are written when they are there; but a Job that
        begins is written as begun at once, to save a write.
        """
        draft, tally, doomed = self._draft, self._tally, self._doomed
        draft.active = len(tally.active) - len(doomed) + (len(creates) if self._begins else 0)
        draft.ready = tally.ready - sum(it.is_ready for it in doomed)
        draft.terminating = len(tally.terminating) + len(doomed)

    def _write_verdict(self) -> None:
        verdict, draft = self._verdict, self._draft
        if verdict is None:
            return
        if not verdict.is_written:
            draft.set_condition(verdict.type, "True", verdict.reason, verdict.message, self._now)
        if not self._count.is_whole or draft.terminating or draft.active:
            return
        draft.set_condition(verdict.final_type, "True", verdict.reason, verdict.message, self._now)
        if draft.start_time is None and self._job.spec.completions != 0:
            draft.start_time = self._now
        if verdict.is_success:
            draft.completion_time = max(self._now, draft.start_time or self._now)
        self._tell_the_end(verdict)

    def _tell_the_end(self, verdict: Verdict) -> None:
        if not verdict.is_success:
            self._tell("Warning", verdict.reason, verdict.message)
            return
        completions = self._job.spec.completions
        if completions is not None and self._draft.succeeded > completions:
            message = "Too many succeeded pods running after completion count reached"
            self._tell("Warning", "TooManySucceededPods", message)
        self._tell("Normal", "Completed", "Job completed")

    def _tell(self, type: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        self._events.append(_record(self._job, type, reason, message))

    def _tidings(self, creates: list[Create]) -> list[Record]:
        tidings = []
        if self._doomed:
            names = [it.name for it in self._doomed]
            tidings.append(_record(self._job, "Normal", "SuccessfulDelete", _pods_text("Deleted", names)))
        if creates:
            names = [it.manifest["metadata"]["name"] for it in creates]
            tidings.append(_record(self._job, "Normal", "SuccessfulCreate", _pods_text("Created", names)))
        return tidings

    def _wake_at_seconds(self, patch: Manifest) -> float | None:
        """Of what this look writes into the status, only conditions make a difference to the next one; with them, or
        with finalizers gone, there is more to do at once. So nobody need look because the status has changed."""
        if self._count.release or "conditions" in patch:
            return self._now_seconds
        moments = [self._supply.wake_at_seconds]
        if self._verdict is None and self._draft.start_time is not None:
            limit = self._job.spec.active_deadline_seconds
            moments.append(deadline_seconds(self._job))
            if limit is not None and self._begins:
                moments.append(math.floor(self._now_seconds) + limit)
        return min((it for it in moments if it is not None), default=None)


def _afterwards(job: JobDocument, pods: Sequence[JobPod], now_seconds: float) -> Outcome:
    """A Job that is over holds no pod back, and goes itself when its time to live has passed."""
    instructions: list[Instruction] = []
    if job.is_ours:
        instructions += untrack(
            it for it in pods if it.controller is not None and it.controller.uid == job.metadata.uid
        )
    ending, limit = job.status.ending, job.spec.ttl_seconds_after_finished
    ended_at = moment_seconds(ending.last_transition_time) if ending is not None else None
    if limit is None or ended_at is None or job.metadata.is_going:
        return Outcome(tuple(instructions))
    if now_seconds < ended_at + limit:
        return Outcome(tuple(instructions), ended_at + limit)
    meta = job.metadata
    instructions.append(Delete(JOBS, meta.namespace, meta.name, meta.uid, propagation="Foreground"))
    return Outcome(tuple(instructions))


def _record(job: JobDocument, type: Literal["Normal", "Warning"], reason: str, message: str) -> Record:
    return Record(object_reference(API_VERSION, KIND, job.metadata), type, reason, message)


def _pods_text(what: str, names: list[str]) -> str:
    """One event for all pods of one look, since a gang is one piece of news."""
    if len(names) == 1:
        return f"{what} pod: {names[0]}"
    shown = ", ".join(names[:NAMES_IN_EVENT])
    more = f" and {len(names) - NAMES_IN_EVENT} more" if len(names) > NAMES_IN_EVENT else ""
    return f"{what} {len(names)} pods: {shown}{more}"
