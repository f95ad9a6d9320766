"""Lets go of starts that cannot succeed: members that are bound and never begin to run within their time, and members
for whom the rest of their group has no room. And empties queues that are being drained.

The whole group is released, so that its room serves somebody else. A pod that nobody would make again is never deleted:
such a group keeps what it has, and says so. So does a group of which some members have run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from allhands.core.plan import Evict, Release
from allhands.core.snapshot import PodFlag
from allhands.model.podgroup import Slot
from allhands.model.reason import Reason, explain

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from allhands.core.actions.census import Census
    from allhands.core.snapshot import GroupEntry
    from allhands.core.work import Work
    from allhands.model.reason import Explanation

_STARTED: Final = int(PodFlag.STARTED)
_BARE: Final = int(PodFlag.BARE)
"""As plain numbers: this is asked of every pod that was bound and has not begun, in every cycle."""
WAITS_FOR_PODS: Final = frozenset((Reason.GANG_INCOMPLETE, Reason.SUB_GROUP_INCOMPLETE, Reason.SCHEDULING_GATED))


class Released(NamedTuple):
    entry: GroupEntry
    why: Explanation
    release: Release
    evictions: tuple[Evict, ...]


def release_failed_starts(work: Work, census: Census) -> Iterator[Released]:
    lacking = (entry for entry, why in census.not_now if why.reason in WAITS_FOR_PODS)
    for entry in (*census.begun, *census.whole, *lacking):
        if (released := _failed_start(work, entry)) is not None:
            yield released


def take_back(work: Work, entry: GroupEntry, why: Explanation) -> tuple[Evict, ...]:
    """The evictions that undo what a group has begun with and cannot complete; none if it must keep it."""
    pods = work.snapshot.pods
    flags = [int(pods.flags[row]) for row in entry.bound]
    has_run = any(flag & PodFlag.STARTED for flag in flags) or sum(count for _, count in entry.present) > len(flags)
    # Its own members that are leaving are room to come.
    if has_run or entry.leaving or any(flag & PodFlag.BARE for flag in flags):
        return ()
    return _evictions(work, entry, entry.bound, why)


def drain(work: Work, census: Census) -> Iterator[Evict]:
    """The evictions that empty queues whose state says so."""
    pods = work.snapshot.pods
    for entry, why in census.drained:
        if not any(pods.flags[row] & PodFlag.BARE for row in entry.bound):
            for evict in _evictions(work, entry, entry.bound, why):
                yield msgspec.structs.replace(evict, for_group="", grace_seconds=entry.group.grace_seconds)


def _failed_start(work: Work, entry: GroupEntry) -> Released | None:
    if not entry.unstarted:
        return None
    pods, policy = work.snapshot.pods, work.policy
    timeout = entry.group.start_timeout_seconds
    if timeout is None:
        timeout = policy.start_timeout_seconds
    flags, since = pods.flags.item, pods.since.item
    unstarted = [row for row in entry.bound if not flags(row) & _STARTED]
    if not unstarted:
        return None
    due = min(map(since, unstarted)) + timeout
    if due > work.now:
        work.wake_at(due)
        return None
    if any(flags(row) & _BARE for row in entry.bound):
        return None
    # The pause is counted from now, so a second later the plan is another one.
    work.wake_at(work.now + 1)
    attempt = max(1, entry.status.failed_starts + 1)
    pause = min(policy.retry_max_seconds, policy.retry_base_seconds << min(attempt - 1, 20))
    names = work.snapshot.columns.names
    avoid = sorted({names[int(pods.node[row])] for row in unstarted})
    why = explain(Reason.START_FAILED, unstarted=len(unstarted), seconds=timeout, nodes=", ".join(avoid[:3]))
    # Work that goes on without them is not ended for their sake.
    rows = unstarted if _is_whole_without(entry, set(unstarted)) else entry.bound
    release = Release(entry.key, work.now + pause, tuple(avoid))
    return Released(entry, why, release, _evictions(work, entry, rows, why))


def _is_whole_without(entry: GroupEntry, rows: Collection[int]) -> bool:
    """Whether the group has its minimum without these members. Tasks of bound members are not known one by one."""
    members = entry.group.members
    if any(part.task_minimums for part in members.walk()):
        return False
    counts: dict[Slot, int] = {}
    for slot, count in entry.present:
        part = Slot(slot.subgroup, "")
        counts[part] = counts.get(part, 0) + count
    for row, name in zip(entry.bound, entry.bound_parts, strict=True):
        counts[Slot(name, "")] -= row in rows
    return len(entry.bound) > len(rows) and members.is_whole(counts)


def _evictions(work: Work, entry: GroupEntry, rows: Iterable[int], why: Explanation) -> tuple[Evict, ...]:
    pods, names = work.snapshot.pods, work.snapshot.columns.names
    return tuple(
        Evict(pods.keys[row], pods.uids[row], names[int(pods.node[row])], entry.key, entry.key, why)
        for row in sorted(rows, key=lambda row: (pods.keys[row], pods.uids[row]))
    )
