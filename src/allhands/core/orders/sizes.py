"""What orders by size ask about a group: how long it says it runs, and how wide it is. Whole numbers, kept per group.

Widths are in thousandths of the first of the given resources that the group asks for at all; a group that asks for
none of them is as wide as it has members.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from allhands.core.calendar.estimates import LONGEST_SECONDS, Estimates
from allhands.model.queue import Queue
from allhands.model.resources import CPU

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allhands.core.facts import Facts
    from allhands.core.snapshot import GroupEntry, Snapshot

RESOURCES: Final = ("nvidia.com/gpu", CPU)
THOUSANDTHS: Final = 1000
_MOST_KEPT: Final = 1 << 16


class Size(NamedTuple):
    seconds: int
    """At least 1; where nobody knows, longer than anything that is known."""
    width_millis: int
    """At least 1."""


class Sizes:
    """What it keeps saves work only: a group's size follows from the group, its members and the facts."""

    def __init__(self, resources: Sequence[str] = RESOURCES) -> None:
        self._resources = tuple(resources)
        self._facts: Facts | None = None
        self._estimates = Estimates({}, {})
        self._known: dict[str, Size] = {}

    def of(self, entry: GroupEntry, snapshot: Snapshot) -> Size:
        if snapshot.facts is not self._facts:
            queues = {it.name: it for it in snapshot.facts.accounts if isinstance(it, Queue)}
            self._facts, self._estimates = snapshot.facts, Estimates(queues, snapshot.facts.past_runs)
            self._known.clear()
        # Of what holds room, a signature says only how many there are.
        known = None if entry.holding else self._known.get(entry.signature)
        if known is None:
            seconds = self._estimates.duration(entry.group)
            width = width_millis(entry, self._resources)
            known = Size(LONGEST_SECONDS if seconds is None else seconds, max(width, 1))
            if not entry.holding and entry.signature:
                if len(self._known) >= _MOST_KEPT:
                    self._known.clear()
                self._known[entry.signature] = known
        return known


def width_millis(entry: GroupEntry, resources: Sequence[str]) -> int:
    """Of all members, whether they wait or hold room."""
    asked = [(members.shape.requests, len(members.pods)) for members in entry.pending]
    holding = dict(entry.holding)
    for name in resources:
        units = sum(requests.get(name) * count for requests, count in asked) + holding.get(name, 0)
        if units > 0:
            return units if name == CPU else units * THOUSANDTHS
    return THOUSANDTHS * (sum(count for _, count in asked) + len(entry.bound))
