"""Protects groups that say of themselves that they must not be preempted."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from allhands.core.snapshot import GroupEntry, Snapshot


class Preemptible:
    name = "preemptible"
    protection = "not being preemptible"

    def may_evict(self, victim: GroupEntry, preemptor: GroupEntry, snapshot: Snapshot, now: int) -> bool:
        del preemptor, snapshot, now
        return victim.group.preemptible
