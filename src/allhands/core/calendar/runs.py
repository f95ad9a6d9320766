"""What is known of running groups from cycle to cycle: since when they run, when each is expected to end, and what its
pods will give back; in the order of their ends.

It only saves work: what it says of a group is read off the group and the table of pods, and holds as long as the group
is the same. Ends that have passed are expected anew when somebody looks.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING, Final, TypeAlias

from allhands.core.calendar.estimates import FOREVER, LONGEST_SECONDS
from allhands.core.columns import ABSURD_UNITS
from allhands.model.resources import PODS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from allhands.core.calendar.estimates import Estimates
    from allhands.core.columns import Column, Request
    from allhands.core.facts import Facts
    from allhands.core.roll import Roll
    from allhands.core.snapshot import GroupEntry
    from allhands.core.work import Work
    from allhands.model.shape import PodShape


Held: TypeAlias = "tuple[tuple[int, Request], ...]"
"""On which node a pod is, and what it gives back; one for each pod."""
End: TypeAlias = "tuple[int, str, Held]"
"""When a group ends, which one, and what it gives back. No two are of the same group."""

MOST_STALE: Final = 4096


class Run:
    """A group that runs. Holds as long as the entry is the same."""

    __slots__ = ("end", "entry", "pods", "start")

    def __init__(self, entry: GroupEntry, start: int, pods: Held) -> None:
        self.entry = entry
        self.start = start
        self.pods = pods
        self.end = 0
        """When it is expected to end: once that is over, later. 0 if nobody knows."""

    def expect(self, seconds: int, now: int) -> None:
        end = self.start + seconds
        while end <= now:
            seconds *= 2
            end = self.start + seconds
        self.end = end


class Runs:
    """Belongs to a memo, for one layout of nodes."""

    def __init__(self) -> None:
        self._runs: dict[str, Run] = {}
        self._units: dict[str, Request] = {}
        self._table: tuple[Sequence[PodShape], Column] | None = None
        self._facts: Facts | None = None
        self._now = 0
        self._stale: dict[str, None] | None = None
        """Groups that changed since anybody looked; None if that may be all."""
        self.ends: list[End] = []
        """Of all whose end is known, the first to end first."""
        self.unknown: dict[str, Run] = {}
        """Those of which nobody knows when they end."""
        self.leaving = 0
        """How many of them have pods that are leaving."""

    def note(self, roll: Roll) -> None:
        """What changed in this cycle, for the next who looks."""
        if self._stale is not None:
            self._stale.update(dict.fromkeys(roll.gone))
            self._stale.update(dict.fromkeys(roll.changed))
            if len(self._stale) > MOST_STALE:
                self._stale = None

    def follow(self, work: Work, estimates: Estimates) -> None:
        """Brings it up to date with the groups and the time."""
        now = min(work.now, LONGEST_SECONDS)
        holding = work.memo.roll.holding_groups
        if self._facts is not work.snapshot.facts or now < self._now or self._stale is None:
            self._runs, self.unknown, self.leaving = {}, {}, 0
            self.ends = []
            for entry in holding.values():
                self._add(self._run(work, entry), estimates, now)
            self.ends.sort()
        else:
            for key in self._stale:
                self._drop(key)
                if (held := holding.get(key)) is not None:
                    self._add(self._run(work, held), estimates, now, in_order=True)
        self._facts, self._now, self._stale = work.snapshot.facts, now, {}
        ends = self.ends
        while ends and ends[0][0] <= now:
            run = self._runs[ends.pop(0)[1]]
            self._expect(run, estimates, now, in_order=True)

    def has_unknown(self, begun: Collection[str]) -> bool:
        """Whether nobody knows of some group when it ends; of those that have `begun`, nobody does."""
        if self.unknown:
            return True
        return any(
            (run := self._runs.get(key)) is not None and run.entry.status.started_at_seconds is None for key in begun
        )

    def _add(self, run: Run, estimates: Estimates, now: int, *, in_order: bool = False) -> None:
        self._runs[run.entry.key] = run
        self.leaving += bool(run.entry.leaving)
        self._expect(run, estimates, now, in_order=in_order)

    def _expect(self, run: Run, estimates: Estimates, now: int, *, in_order: bool) -> None:
        seconds = estimates.duration(run.entry.group)
        if seconds is None:
            self.unknown[run.entry.key] = run
            return
        run.expect(seconds, now)
        if in_order:
            insort(self.ends, (run.end, run.entry.key, run.pods))
        else:
            self.ends.append((run.end, run.entry.key, run.pods))

    def _drop(self, key: str) -> None:
        run = self._runs.pop(key, None)
        if run is None:
            return
        self.leaving -= bool(run.entry.leaving)
        if self.unknown.pop(key, None) is None:
            del self.ends[bisect_left(self.ends, (run.end, key))]

    def _run(self, work: Work, entry: GroupEntry) -> Run:
        table = work.snapshot.pods
        start = entry.status.started_at_seconds
        if start is None:
            start = min((int(table.since[row]) for row in entry.bound), default=FOREVER)
        columns = work.snapshot.columns.column_by_resource
        pods = [(int(table.node[row]), table.shapes[int(table.shape[row])]) for row in entry.bound]
        held = tuple((node, self.units(shape, columns)) for node, shape in pods if node >= 0)
        return Run(entry, min(max(start, -LONGEST_SECONDS), LONGEST_SECONDS), held)

    def table(
        self,
        shapes: Sequence[PodShape],
        columns: Mapping[str, int],
        make: Callable[[Sequence[PodShape], Mapping[str, int]], Column],
    ) -> Column:
        """What pods of all these shapes give back, as it was made for the same shapes before. Never written to."""
        # They are replaced when there are more, so that their identity tells whether they are the same.
        if self._table is None or self._table[0] is not shapes:
            self._table = (shapes, make(shapes, columns))
        return self._table[1]

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
