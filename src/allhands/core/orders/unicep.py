"""UNICEP of Tang and others (2009): largest wait / (log2(width) x time) first; who needs but one comes before all.

The order changes while groups wait, and is looked at whenever anything happens. `wait_of_unscheduled` is as in `wfp3`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.core.orders.logarithm import FRACTION_BITS, log2
from allhands.core.orders.sizes import RESOURCES, THOUSANDTHS, Sizes
from allhands.core.orders.wfp3 import wait_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allhands.core.snapshot import GroupEntry, Snapshot

MORE_BITS: Final = 60
_LOG_OF_ONE: Final = 1_847 << 20
"""In place of log2(1), which nothing can be divided by: 1.6e-15, with `MORE_BITS` and 20 more for the division."""


class Unicep:
    name = "unicep"
    looks_at_facts = True

    def __init__(self, resources: Sequence[str] = RESOURCES, *, wait_of_unscheduled: bool = False) -> None:
        self._sizes = Sizes(resources)
        self._slips = wait_of_unscheduled

    def rank(self, entry: GroupEntry, snapshot: Snapshot, now: int) -> int:
        seconds, width = self._sizes.of(entry, snapshot)
        logarithm = log2(max(width // THOUSANDTHS, 1)) << (MORE_BITS + 20 - FRACTION_BITS)
        wait = wait_of(entry, now, slips=self._slips)
        return -((wait << 2 * MORE_BITS) // (max(logarithm, _LOG_OF_ONE) * seconds))

    def is_settled(self, entry: GroupEntry) -> bool:  # noqa: ARG002
        # The time has no say in it then.
        return self._slips
