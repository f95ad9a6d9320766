"""WFP3 of Tang and others (2009): largest (wait / time)^3 x width first, so that wide groups are not passed for ever.

The order changes while groups wait, and is looked at whenever anything happens. `wait_of_unscheduled` takes -1 minus
the moment of creation for the wait: the slip that is in RLScheduler's published table, for comparing with that alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.core.orders.sizes import RESOURCES, Sizes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allhands.core.snapshot import GroupEntry, Snapshot

FRACTION_BITS: Final = 100


class Wfp3:
    name = "wfp3"
    looks_at_facts = True

    def __init__(self, resources: Sequence[str] = RESOURCES, *, wait_of_unscheduled: bool = False) -> None:
        self._sizes = Sizes(resources)
        self._slips = wait_of_unscheduled

    def rank(self, entry: GroupEntry, snapshot: Snapshot, now: int) -> int:
        seconds, width = self._sizes.of(entry, snapshot)
        wait = wait_of(entry, now, slips=self._slips)
        return -((wait**3 * width << FRACTION_BITS) // seconds**3)

    def is_settled(self, entry: GroupEntry) -> bool:  # noqa: ARG002
        # The time has no say in it then.
        return self._slips


def wait_of(entry: GroupEntry, now: int, *, slips: bool) -> int:
    """In seconds; a group from the future has not waited."""
    created = entry.group.created_at_seconds
    return -1 - created if slips else max(now - created, 0)
