"""F2 of Carastan-Santos and de Camargo (2017): sqrt(time) x width + 25600 log10(moment of creation), smallest first.

Like `f1`, with more weight on long groups. Moments count from the beginning of the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.core.orders.f1 import log_of_moment
from allhands.core.orders.logarithm import square_root
from allhands.core.orders.sizes import RESOURCES, THOUSANDTHS, Sizes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allhands.core.snapshot import GroupEntry, Snapshot

WEIGHT_OF_CREATION: Final = 25_600


class F2:
    name = "f2"
    looks_at_facts = True

    def __init__(self, resources: Sequence[str] = RESOURCES) -> None:
        self._sizes = Sizes(resources)

    def rank(self, entry: GroupEntry, snapshot: Snapshot, now: int) -> int:  # noqa: ARG002
        seconds, width = self._sizes.of(entry, snapshot)
        return square_root(seconds) * width + WEIGHT_OF_CREATION * THOUSANDTHS * log_of_moment(entry)

    def is_settled(self, entry: GroupEntry) -> bool:  # noqa: ARG002
        return True
