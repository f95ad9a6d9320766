"""First come, first served: by the time at which the group was created."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from allhands.core.snapshot import GroupEntry, Snapshot


class Creation:
    name = "creation"

    def rank(self, entry: GroupEntry, snapshot: Snapshot, now: int) -> int:  # noqa: ARG002
        return entry.group.created_at_seconds

    def is_settled(self, entry: GroupEntry) -> bool:  # noqa: ARG002
        return True
