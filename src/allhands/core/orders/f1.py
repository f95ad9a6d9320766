"""F1 of Carastan-Santos and de Camargo (2017): log10(time) x width + 870 log10(moment of creation), smallest first.

It was found by regression over simulated schedules: short and narrow groups pass, but not those who came long before.
Moments count from the beginning of the log, so it is meant for replaying one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.core.orders.logarithm import ONE, log10
from allhands.core.orders.sizes import RESOURCES, THOUSANDTHS, Sizes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allhands.core.snapshot import GroupEntry, Snapshot

WEIGHT_OF_CREATION: Final = 870


class F1:
    name = "f1"
    looks_at_facts = True

    def __init__(self, resources: Sequence[str] = RESOURCES) -> None:
        self._sizes = Sizes(resources)

    def rank(self, entry: GroupEntry, snapshot: Snapshot, now: int) -> int:  # noqa: ARG002
        seconds, width = self._sizes.of(entry, snapshot)
        return log10(seconds) * width + WEIGHT_OF_CREATION * THOUSANDTHS * log_of_moment(entry)

    def is_settled(self, entry: GroupEntry) -> bool:  # noqa: ARG002
        return True


def log_of_moment(entry: GroupEntry) -> int:
    """Of the moment of creation; the very beginning counts as a tenth of a second."""
    created = entry.group.created_at_seconds
    return log10(created) if created > 0 else -ONE
