"""Smallest area first: by the time that a group says it runs, times how wide it is in the first resource it asks for.

Of groups that keep their progress when they are taken back, that is the shortest remaining service first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allhands.core.orders.sizes import RESOURCES, Sizes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allhands.core.snapshot import GroupEntry, Snapshot


class SmallestArea:
    name = "smallestarea"
    looks_at_facts = True

    def __init__(self, resources: Sequence[str] = RESOURCES) -> None:
        self._sizes = Sizes(resources)

    def rank(self, entry: GroupEntry, snapshot: Snapshot, now: int) -> int:  # noqa: ARG002
        seconds, width = self._sizes.of(entry, snapshot)
        return seconds * width

    def is_settled(self, entry: GroupEntry) -> bool:  # noqa: ARG002
        return True
