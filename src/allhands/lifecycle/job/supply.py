"""How many pods a Job should have now: which to make, which are too many, and when to look again.

Too many are removed before any is made. It never makes more than what is still to be done, nor than may run at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from allhands.lifecycle.job.backoff import index_retry_at_seconds
from allhands.lifecycle.job.indexes import Indexes
from allhands.lifecycle.job.pod import NO_INDEX, JobPod

if TYPE_CHECKING:
    from allhands.lifecycle.job.backoff import Failures
    from allhands.lifecycle.job.tally import Tally

MOST_AT_ONCE: Final = 500
"""So many pods are made or removed in one go; a bigger Job takes several, and others get their turn between."""


class Supply(msgspec.Struct, frozen=True):
    remove: list[JobPod] = []
    create: int = 0
    indexes: list[int] = []
    """Of the pods to make, for Indexed Jobs."""
    wake_at_seconds: float | None = None


def supply(tally: Tally, failures: Failures, now_seconds: float) -> Supply:
    job, active = tally.job, len(tally.active)
    if job.is_suspended:
        return Supply(remove=list(tally.active))
    wanted = _wanted(tally)
    surplus = _surplus(tally, max(0, active - wanted))[:MOST_AT_ONCE]
    if surplus:
        return Supply(remove=surplus)
    going = len(tally.terminating) if job.replaces_only_failed else 0
    lacking = min(wanted - going - active, MOST_AT_ONCE)
    if lacking <= 0:
        return Supply()
    if not job.backs_off_per_index:
        retry_at = failures.retry_at_seconds()
        if now_seconds < retry_at:
            return Supply(wake_at_seconds=retry_at)
    if not job.is_indexed:
        return Supply(create=lacking)
    return _indexed_supply(tally, lacking, now_seconds)


def _wanted(tally: Tally) -> int:
    """How many are to be active."""
    spec = tally.job.spec
    parallelism = 1 if spec.parallelism is None else spec.parallelism
    if spec.completions is None:
        # A work queue: the first success says that there is no work left, and those that still run may finish.
        return len(tally.active) if tally.succeeded > 0 else parallelism
    return max(0, min(spec.completions - tally.succeeded, parallelism))


def _surplus(tally: Tally, at_least: int) -> list[JobPod]:
    """Those that are too many. For Indexed Jobs also pods without a valid index, and all but one of each index."""
    remove: list[JobPod] = []
    rest = tally.active
    if tally.job.is_indexed:
        by_index: dict[int, JobPod] = {}
        for pod in rest:
            known = by_index.get(pod.index)
            if not NO_INDEX < pod.index < tally.completions:
                remove.append(pod)
            elif known is None:
                by_index[pod.index] = pod
            else:
                kept = max(known, pod, key=_removal_order)
                remove.append(known if kept is pod else pod)
                by_index[pod.index] = kept
        rest = list(by_index.values())
    if len(remove) < at_least:
        remove += sorted(rest, key=_removal_order)[: at_least - len(remove)]
    return remove


def _removal_order(pod: JobPod) -> tuple[tuple[float, ...], str]:
    return pod.removal_rank, pod.name


def _indexed_supply(tally: Tally, lacking: int, now_seconds: float) -> Supply:
    occupied = {it.index for it in tally.active}
    if tally.job.replaces_only_failed:
        occupied.update(it.index for it in tally.terminating)
    occupied.discard(NO_INDEX)
    settled = tally.done | Indexes.of(occupied)
    if tally.lost is not None:
        settled |= tally.lost
    indexes = settled.first_missing(lacking, tally.completions)
    wake: float | None = None
    if tally.job.backs_off_per_index:
        moments = {index: index_retry_at_seconds(tally.job, tally.to_be_replaced.get(index)) for index in indexes}
        wake = min((at for at in moments.values() if at > now_seconds), default=None)
        indexes = [index for index, at in moments.items() if at <= now_seconds]
    return Supply(create=len(indexes), indexes=indexes, wake_at_seconds=wake)
