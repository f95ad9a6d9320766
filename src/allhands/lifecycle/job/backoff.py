"""How long a Job waits before it replaces a failed pod: ten seconds, doubling with each failure since the last success.

What is known about failures is worked out from the pods that are there, and from what was seen before of pods that are
gone. To see a pod twice changes nothing, and to have forgotten what was seen only shortens the wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from allhands.lifecycle.job.displacement import is_displaced

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from allhands.lifecycle.job.documents import JobDocument
    from allhands.lifecycle.job.pod import JobPod

FIRST_SECONDS: Final = 10.0
MOST_SECONDS: Final = 600.0
MOST_REMEMBERED: Final = 8
"""More failures than this make no longer wait."""


class Failures(msgspec.Struct, frozen=True):
    """The latest failures after the last success: the pods' uids, and when they failed."""

    ended_at_seconds: Mapping[str, float] = {}
    succeeded_at_seconds: float = 0.0

    def retry_at_seconds(self) -> float:
        """When the next pod may be made."""
        if not self.ended_at_seconds:
            return 0.0
        return max(self.ended_at_seconds.values()) + delay_seconds(len(self.ended_at_seconds))


NO_FAILURES: Final = Failures()


def delay_seconds(failures: int) -> float:
    if failures <= 0:
        return 0.0
    return min(FIRST_SECONDS * 2.0 ** min(failures - 1, MOST_REMEMBERED), MOST_SECONDS)


def has_failed(job: JobDocument, pod: JobPod) -> bool:
    """One that was told to go counts as failed, since it may never get to say so; unless the Job waits for that."""
    if pod.phase == "Failed":
        return True
    return pod.is_going and pod.phase != "Succeeded" and not job.replaces_only_failed


def failures_since_success(job: JobDocument, pods: Iterable[JobPod], before: Failures = NO_FAILURES) -> Failures:
    """What `before` and these pods of the Job tell together.

    A pod that was told to go and has lost its finalizer may be one that the Job itself did not need any more: of these
    only failures that were seen earlier count. Pods that were taken away from a batch job delay nothing.
    """
    failed = [
        it for it in pods if has_failed(job, it) and (it.is_tracked or not it.is_going) and not is_displaced(job, it)
    ]
    if not failed and not before.ended_at_seconds:
        return before
    succeeded_at = max(
        (it.ended_at_seconds for it in pods if it.phase == "Succeeded"), default=before.succeeded_at_seconds
    )
    succeeded_at = max(succeeded_at, before.succeeded_at_seconds)
    ended = dict(before.ended_at_seconds)
    ended.update((it.uid, it.ended_at_seconds) for it in failed)
    latest = sorted((at, uid) for uid, at in ended.items() if at > succeeded_at)[-MOST_REMEMBERED:]
    return Failures({uid: at for at, uid in latest}, succeeded_at)


def index_retry_at_seconds(job: JobDocument, last_failed: JobPod | None) -> float:
    """The same for one index that is retried on its own."""
    if last_failed is None or is_displaced(job, last_failed):
        return 0.0
    return last_failed.ended_at_seconds + delay_seconds(last_failed.all_index_failures + 1)
