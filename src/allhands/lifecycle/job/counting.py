"""Counting each pod that ended exactly once, across crashes, with the help of a finalizer on every pod.

A pod's end is first written into the Job's status, by uid or by index; only when that is done the finalizer goes, and
only when the finalizer is seen gone the uid moves into the counter. So a pod cannot vanish uncounted, and one that is
in the status by uid is not in the counter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.lifecycle.job.backoff import has_failed
from allhands.lifecycle.job.failure_policy import judge_failure

if TYPE_CHECKING:
    from collections.abc import Collection

    from allhands.lifecycle.job.pod import JobPod
    from allhands.lifecycle.job.status import StatusDraft
    from allhands.lifecycle.job.tally import Tally
    from allhands.lifecycle.job.verdict import Verdict

MOST_UNCOUNTED: Final = 500
"""So many uids may stand in a status: it must stay small."""


class Count:
    """Writes the counts into the draft; `release` are the pods whose finalizer may go as soon as that is written."""

    def __init__(self, tally: Tally, draft: StatusDraft, verdict: Verdict | None, let_go: Collection[str]) -> None:
        self._tally = tally
        self._draft = draft
        self._verdict = verdict
        self._succeeded = frozenset(tally.uncounted_succeeded)
        self._failed = frozenset(tally.uncounted_failed)
        self.release: list[JobPod] = []
        self.is_whole = True
        """No pod is left that is to be counted or to lose its finalizer."""
        self._settle()
        for pod in tally.pods:
            if pod.is_tracked and pod.uid not in let_go and self._is_over(pod):
                self._count(pod)
        if tally.job.is_indexed:
            draft.completed_indexes = str(tally.done)
            draft.succeeded = tally.done.total
            draft.failed_indexes = None if tally.lost is None else str(tally.lost)
        if verdict is not None and not verdict.is_written:
            # What it follows from must not go before it is written.
            self.release.clear()
        del self.release[MOST_UNCOUNTED:]
        self.is_whole = self.is_whole and not draft.uncounted_succeeded and not draft.uncounted_failed

    def _settle(self) -> None:
        """Pods whose finalizer is gone move from the lists into the counters."""
        draft, tracked = self._draft, self._tally.tracked
        succeeded = [uid for uid in draft.uncounted_succeeded if uid in tracked]
        failed = [uid for uid in draft.uncounted_failed if uid in tracked]
        draft.succeeded += len(draft.uncounted_succeeded) - len(succeeded)
        draft.failed += len(draft.uncounted_failed) - len(failed)
        draft.uncounted_succeeded, draft.uncounted_failed = succeeded, failed

    def _is_over(self, pod: JobPod) -> bool:
        job = self._tally.job
        if job.metadata.is_going or self._verdict is not None or pod.phase == "Succeeded":
            return True
        if not has_failed(job, pod):
            return False
        waiting = self._tally.to_be_replaced.get(pod.index)
        return waiting is None or waiting.uid != pod.uid

    def _count(self, pod: JobPod) -> None:
        self.is_whole = False
        if not self._is_in_status(pod):
            draft = self._draft
            if len(draft.uncounted_succeeded) + len(draft.uncounted_failed) >= MOST_UNCOUNTED:
                return
            if pod.phase != "Succeeded":
                draft.uncounted_failed.append(pod.uid)
            elif not self._tally.job.is_indexed:
                draft.uncounted_succeeded.append(pod.uid)
        self.release.append(pod)

    def _is_in_status(self, pod: JobPod) -> bool:
        """Whether its end is written down already, or need not be."""
        tally = self._tally
        if pod.uid in self._failed or pod.uid in self._succeeded or not tally.is_valid(pod):
            return True
        if pod.phase == "Succeeded":
            if not tally.job.is_indexed:
                return False
            return pod.index in tally.done_before or pod.index not in tally.done
        return not self._fails(pod) or not judge_failure(tally.job, pod).counts

    def _fails(self, pod: JobPod) -> bool:
        """With the Job, all that had not ended fail. After a success those that go do so because it told them."""
        verdict = self._verdict
        if verdict is None:
            return has_failed(self._tally.job, pod)
        if not verdict.is_success:
            return True
        return has_failed(self._tally.job, pod) and not (verdict.is_written and pod.is_going)
