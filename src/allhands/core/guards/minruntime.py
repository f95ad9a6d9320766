"""Protects groups that have not yet run for as long as they were promised.

The time counts from when the group, as it is now, began to run: a group that was evicted and came back has it again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from allhands.core.snapshot import GroupEntry, Snapshot


class MinimumRunTime:
    name = "minruntime"
    protection = "their minimum run time"

    def may_evict(self, victim: GroupEntry, preemptor: GroupEntry, snapshot: Snapshot, now: int) -> bool:
        del preemptor
        return not victim.group.min_run_seconds or now >= protected_until(victim, snapshot)


def began_at(victim: GroupEntry, snapshot: Snapshot) -> int:
    """When the group as it is now began: not before its oldest member, nor before it was whole."""
    oldest = int(snapshot.pods.since[list(victim.bound)].min()) if victim.bound else 0
    return max(oldest, victim.status.started_at_seconds or 0)


def protected_until(victim: GroupEntry, snapshot: Snapshot) -> int:
    """From this moment on its minimum run time is over."""
    promised = victim.group.min_run_seconds
    return began_at(victim, snapshot) + promised if promised else 0
