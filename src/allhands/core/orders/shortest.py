"""Shortest first: by the time that a group says it runs, or its queue's usual one; who says nothing comes last.

Of groups that keep their progress when they are taken back, that is the shortest remaining time first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allhands.core.orders.sizes import Sizes

if TYPE_CHECKING:
    from allhands.core.snapshot import GroupEntry, Snapshot


class Shortest:
    name = "shortest"
    looks_at_facts = True

    def __init__(self) -> None:
        self._sizes = Sizes()

    def rank(self, entry: GroupEntry, snapshot: Snapshot, now: int) -> int:  # noqa: ARG002
        return self._sizes.of(entry, snapshot).seconds

    def is_settled(self, entry: GroupEntry) -> bool:  # noqa: ARG002
        return True
