"""What is known of running groups from cycle to cycle: since when they run, and what their pods will give back.

It only saves work: what it says of a group is read off the group and the table of pods, and holds as long as the group
is the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from allhands.core.calendar.estimates import FOREVER, LONGEST_SECONDS
from allhands.core.columns import ABSURD_UNITS
from allhands.model.resources import PODS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from allhands.core.columns import Request
    from allhands.core.facts import Facts
    from allhands.core.snapshot import GroupEntry
    from allhands.core.work import Work
    from allhands.model.shape import PodShape


Release: TypeAlias = "tuple[int, int, Request]"
"""When, on which node, and what one pod gives back."""


class Run:
    """A group that runs. Holds as long as the entry is the same."""

    __slots__ = ("end", "entry", "pods", "releases", "start")

    def __init__(self, entry: GroupEntry, start: int, pods: tuple[tuple[int, Request], ...]) -> None:
        self.entry = entry
        self.start = start
        self.pods = pods
        self.end = 0
        """When it is expected to end, as far as that was known; once that is over, it is doubled."""
        self.releases: list[Release] = []

    def expect(self, seconds: int, now: int) -> None:
        end = self.start + seconds
        while end <= now:
            seconds *= 2
            end = self.start + seconds
        self.end = end
        self.releases = [(end, node, units) for node, units in self.pods]


class Runs:
    """Belongs to a memo, for one layout of nodes."""

    def __init__(self) -> None:
        self._runs: dict[str, Run] = {}
        self._units: dict[str, Request] = {}
        self._facts: Facts | None = None
        self._version = -1

    def of(self, work: Work) -> Iterable[Run]:
        """In no particular order. Ends are those of the last time that anybody looked."""
        roll, snapshot = work.memo.roll, work.snapshot
        if self._facts is not snapshot.facts or self._version not in (roll.version_before, roll.version):
            self._runs = {key: self._run(work, entry) for key, entry in roll.holding_groups.items()}
        elif self._version != roll.version:
            for key in roll.gone:
                self._runs.pop(key, None)
            for key in roll.changed:
                entry = roll.holding_groups.get(key)
                if entry is None:
                    self._runs.pop(key, None)
                else:
                    self._runs[key] = self._run(work, entry)
        self._facts, self._version = snapshot.facts, roll.version
        return self._runs.values()

    def _run(self, work: Work, entry: GroupEntry) -> Run:
        table = work.snapshot.pods
        start = entry.status.started_at_seconds
        if start is None:
            start = min((int(table.since[row]) for row in entry.bound), default=FOREVER)
        columns = work.snapshot.columns.column_by_resource
        pods = [(int(table.node[row]), table.shapes[int(table.shape[row])]) for row in entry.bound]
        held = tuple((node, self.units(shape, columns)) for node, shape in pods if node >= 0)
        return Run(entry, min(max(start, -LONGEST_SECONDS), LONGEST_SECONDS), held)

    def units(self, shape: PodShape, columns: Mapping[str, int]) -> Request:
        """What a pod gives back, as the world counts it."""
        found = self._units.get(shape.digest)
        if found is None:
            asked = [
                (columns[name], min(units, ABSURD_UNITS))
                for name, units in shape.requests.entries
                if units > 0 and name in columns
            ]
            found = self._units[shape.digest] = ((columns[PODS], 1), *asked)
        return found
