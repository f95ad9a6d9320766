"""Lets groups start only while all that is used, promised and asked for stays within a percentage of the cluster.

Below 100 it keeps a part of the cluster free for whatever comes; above, it bounds what is admitted before its pods
exist. It compares what a group's minimum asks for, resource by resource; what the cluster has nothing of is not its
business.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from allhands.core.gang import minimum
from allhands.core.gates.maxrunning import runs
from allhands.model.reason import Explanation, Reason
from allhands.model.resources import PODS, text_of_units

if TYPE_CHECKING:
    from allhands.core.snapshot import GroupEntry, Snapshot

SENTENCE = "{used} of at most {limit} {resource} ({percent} % of the cluster) are taken; the group asks for {request}."


class Overcommit:
    name = "overcommit"

    def __init__(self, percent: Annotated[int, Meta(ge=1, le=1000)] = 120) -> None:
        self._percent = percent

    def tally(self, snapshot: Snapshot, now: int) -> CommittedTally:  # noqa: ARG002
        columns = snapshot.columns
        used, total = columns.used.sum(axis=1), columns.allocatable.sum(axis=1)
        limits = {name: int(total[row]) * self._percent // 100 for row, name in enumerate(columns.resources)}
        taken = {name: int(used[row]) for row, name in enumerate(columns.resources)}
        tally = CommittedTally(self._percent, limits, taken)
        for entry in snapshot.groups.values():
            if entry.status.admitted_at_seconds is not None and entry.pending:
                tally.take(entry)
        return tally


class CommittedTally:
    def __init__(self, percent: int, limits: dict[str, int], taken: dict[str, int]) -> None:
        self._percent = percent
        self._limits = limits
        self._taken = taken

    def refusal(self, entry: GroupEntry) -> Explanation | None:
        if runs(entry):
            return None
        for name, units in asked_by(entry):
            limit, taken = self._limits.get(name, 0), self._taken.get(name, 0)
            if limit > 0 and taken + units > limit:
                numbers = (
                    ("limit", text_of_units(name, limit)),
                    ("percent", self._percent),
                    ("request", text_of_units(name, units)),
                    ("resource", name),
                    ("used", text_of_units(name, taken)),
                )
                return Explanation(Reason.INSUFFICIENT_RESOURCES, SENTENCE, numbers)
        return None

    def started(self, entry: GroupEntry) -> None:
        if entry.status.admitted_at_seconds is None:
            self.take(entry)

    def take(self, entry: GroupEntry) -> None:
        for name, units in asked_by(entry):
            self._taken[name] = self._taken.get(name, 0) + units


def asked_by(entry: GroupEntry) -> tuple[tuple[str, int], ...]:
    """What the members that must start together ask for, by resource; nothing if there are too few of them."""
    part = minimum(entry)
    units: dict[str, int] = {}
    for take in () if part is None else part.all_takes():
        for name, amount in entry.pending[take.members].shape.requests.entries:
            units[name] = units.get(name, 0) + amount * take.number
        units[PODS] = units.get(PODS, 0) + take.number
    return tuple(sorted(units.items()))
