"""Higher priority first."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from allhands.core.snapshot import GroupEntry, Snapshot


class Priority:
    name = "priority"

    def rank(self, entry: GroupEntry, snapshot: Snapshot, now: int) -> int:  # noqa: ARG002
        return -entry.group.priority

    def is_settled(self, entry: GroupEntry) -> bool:  # noqa: ARG002
        return True
