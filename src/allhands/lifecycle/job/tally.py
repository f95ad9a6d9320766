"""One pass over a Job's pods: which are active, which ended since the last count, and which indexes are done.

It only sorts and counts what is observed; what follows from it is decided elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allhands.lifecycle.job.backoff import has_failed
from allhands.lifecycle.job.failure_policy import judge_failure
from allhands.lifecycle.job.indexes import NO_INDEXES, Indexes
from allhands.lifecycle.job.pod import NO_INDEX

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allhands.lifecycle.job.documents import JobDocument
    from allhands.lifecycle.job.pod import JobPod


class Tally:
    """Filled when it is made, read-only afterwards."""

    def __init__(self, job: JobDocument, pods: Sequence[JobPod]) -> None:
        self.job = job
        self.pods = sorted(pods, key=lambda it: it.index) if job.is_indexed else pods
        self.completions = job.spec.completions or 0
        self._is_indexed = job.is_indexed
        uncounted = job.status.uncounted_terminated_pods
        self.uncounted_succeeded = (uncounted and uncounted.succeeded) or ()
        self.uncounted_failed = (uncounted and uncounted.failed) or ()
        self.active: list[JobPod] = []
        self.terminating: list[JobPod] = []
        self.fresh_failed: list[JobPod] = []
        """Failed, and not in the status in any way yet."""
        self.fresh_succeeded: list[JobPod] = []
        self.tracked: set[str] = set()
        """Uids of pods with our finalizer."""
        self.ready = 0
        self._sort()
        self.failed = job.status.failed + len(self.uncounted_failed) + self._fresh_failures_that_count()
        self.succeeded = job.status.succeeded + len(self.uncounted_succeeded) + len(self.fresh_succeeded)
        self.done_before = NO_INDEXES
        """Indexes that the status says are done."""
        self.done = NO_INDEXES
        self.lost: Indexes | None = None
        """Indexes that failed for good, if that is counted by index."""
        self.to_be_replaced: dict[int, JobPod] = {}
        """By index, the last failed pod, which is kept until its successor goes on with its count."""
        if job.is_indexed:
            self._sort_indexes()

    def is_valid(self, pod: JobPod) -> bool:
        """Whether its end can be counted."""
        return not self._is_indexed or NO_INDEX < pod.index < self.completions

    def _sort(self) -> None:
        succeeded_before, failed_before = frozenset(self.uncounted_succeeded), frozenset(self.uncounted_failed)
        for pod in self.pods:
            if pod.is_tracked:
                self.tracked.add(pod.uid)
            if pod.is_active:
                self.active.append(pod)
                self.ready += pod.is_ready
                continue
            if pod.is_terminating:
                self.terminating.append(pod)
            if not pod.is_tracked or pod.uid in failed_before or not self.is_valid(pod):
                continue
            if pod.phase == "Succeeded":
                if pod.uid not in succeeded_before:
                    self.fresh_succeeded.append(pod)
            elif has_failed(self.job, pod):
                self.fresh_failed.append(pod)

    def _fresh_failures_that_count(self) -> int:
        return sum(judge_failure(self.job, it).counts for it in self.fresh_failed)

    def _sort_indexes(self) -> None:
        job = self.job
        self.done_before = Indexes.parse(job.status.completed_indexes, self.completions)
        lost_before = Indexes.parse(job.status.failed_indexes, self.completions)
        fresh = {
            it.index
            for it in self.pods
            if it.phase == "Succeeded" and it.is_tracked and self.is_valid(it) and it.index not in lost_before
        }
        self.done = self.done_before | Indexes.of(fresh)
        self.succeeded = self.done.total
        if not job.backs_off_per_index:
            return
        over = [it for it in self.pods if it.is_tracked and self.is_valid(it) and has_failed(job, it)]
        # Once the Job is decided, pods that go do so because it told them.
        decided = job.status.is_decided
        lost = {
            it.index
            for it in over
            if it.index not in self.done and not (decided and it.is_going) and self._loses_its_index(it)
        }
        self.lost = lost_before | Indexes.of(lost)
        self._find_pods_to_be_replaced(over)

    def _loses_its_index(self, pod: JobPod) -> bool:
        judgement = judge_failure(self.job, pod)
        if judgement.fails_index:
            return True
        return judgement.counts and pod.index_failures >= (self.job.spec.backoff_limit_per_index or 0)

    def _find_pods_to_be_replaced(self, over: list[JobPod]) -> None:
        running = {it.index for it in self.active}
        for pod in over:
            if pod.index in running or pod.index in self.done or (self.lost is not None and pod.index in self.lost):
                continue
            known = self.to_be_replaced.get(pod.index)
            if known is None or (
                known.all_index_failures <= pod.all_index_failures and known.ended_at_seconds <= pod.ended_at_seconds
            ):
                self.to_be_replaced[pod.index] = pod
