"""The earliest time at which a group fits, found by trying it at a few of the times when room comes free.

Between two moments at which a promise or a window begins or ceases to matter for the run, room only grows with time,
so bisection finds the first time that will do; the first such stretches are gone through one after the other. A try is
a placement by the code that places groups, or, where only numbers decide, a count. Tries are counted work.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from allhands.core.actions.placing import place_group
from allhands.core.calendar.counting import COUNT_COST, PLACE_COST, Count
from allhands.core.calendar.estimates import FOREVER
from allhands.core.calendar.promises import UNTIL_IT_STARTS, Promise, amounts_of
from allhands.core.topology.rules import close_enough
from allhands.core.topology.search import left_over, outermost

if TYPE_CHECKING:
    from allhands.core.calendar.counting import Budget
    from allhands.core.calendar.future import Future
    from allhands.core.calendar.profile import Profile
    from allhands.core.calendar.windows import Windows
    from allhands.core.columns import Column, Rows
    from allhands.core.gang import Part
    from allhands.core.snapshot import GroupEntry
    from allhands.core.work import Work

HOLES_TRIED: Final = 4
"""Before so many promises and windows it is tried whether the group would be done in time; later ones only end it."""
UNKNOWN_PROMISES: Final = FOREVER + (1 << 40)
"""When promised runs without a known end are taken to end: after all that runs now."""


class Ask(NamedTuple):
    """What a blocked group asks for: which members, on which nodes (None: any), for how long, from when on."""

    entry: GroupEntry
    part: Part
    within: Rows | None
    seconds: int | None
    entitled: tuple[int, ...] = ()
    not_before: int = 0
    hint: int = 0
    """A time near which the answer may be; only saves work."""

    def end(self, start: int) -> int:
        return UNTIL_IT_STARTS if self.seconds is None else start + self.seconds


class Found(NamedTuple):
    """`time` from FOREVER on means that nobody knows it: `after` is the group that prevents it. Otherwise `after` is
    whose end it takes. `domains` of those that would do could hold the group then, if it asks for one. Neither is
    worked out where nothing is explained."""

    time: int
    rows: Rows
    amounts: Column
    after: str
    domains: int | None

    @property
    def is_known(self) -> bool:
        return self.time < FOREVER

    def promise(self, ask: Ask, number: int) -> Promise:
        end = UNKNOWN_PROMISES + number if ask.seconds is None else self.time + ask.seconds
        return Promise(ask.entry.group.key, self.time, end, self.rows, self.amounts)


class Search:
    def __init__(self, work: Work, future: Future, windows: Windows, budget: Budget) -> None:
        self._work = work
        self.future = future
        self._windows = windows
        self._budget = budget
        self._placed: tuple[int, Rows, Column] | None = None
        """The last placement that succeeded, and its time."""
        self._known_times: list[int] | None = None
        self._starts: list[int] = []
        """When promises begin, each once; as far as they are in the times."""
        self._promises_seen = 0
        self._explains = work.policy.explains
        self._counts: dict[tuple[str, int], Count] = {}

    def earliest(self, ask: Ask) -> Found | None:
        """None if it does not fit even when all that runs and is promised has ended, or the work is used up."""
        counts = self._counts_of(ask)
        times = self._times()
        enough = max((count.enough_at for count in counts), default=0)
        low = bisect_left(times, max(ask.not_before, enough))
        hint = bisect_left(times, ask.hint)
        plain = counts[0] if self._is_plain(ask, counts) else None
        attempt = _Attempt(self, ask, plain, times)
        for first, after in pairwise([low, *self._cuts(ask, times, low), len(times)]):
            index = attempt.first_fit(first, after, hint)
            if index is not None and self.place(ask, times[index], plain):
                return self._found(ask, times[index])
        return None

    def _times(self) -> list[int]:
        """When room comes free."""
        promises = self.future.promises
        times = self._known_times
        if times is None or self._promises_seen > len(promises):
            ends = [*self.future.releases.times.tolist(), *self._windows.ends()]
            times = self._known_times = sorted(set(ends))
            self._starts, self._promises_seen = [], 0
        for promise in promises.since(self._promises_seen):
            _insert(times, promise.end)
            _insert(self._starts, promise.start)
        self._promises_seen = len(promises)
        return times

    def _cuts(self, ask: Ask, times: list[int], low: int) -> list[int]:
        """Where in `times` less room may be left than before: the first few such places behind `low`."""
        if ask.seconds is None or low >= len(times):
            return []
        starts = self._starts
        if self._windows.windows:
            entering = {it.start for it in self.future.promises if it.window not in ask.entitled}
            entering |= {it.start for it in self._windows.windows if it.number not in ask.entitled}
            starts = sorted(entering)
        cuts: list[int] = []
        for index in range(bisect_right(starts, times[low] + ask.seconds - 1), len(starts)):
            cut = bisect_left(times, starts[index] - ask.seconds + 1)
            if cut == len(times) or len(cuts) == HOLES_TRIED:
                break
            if not cuts or cut > cuts[-1]:
                cuts.append(cut)
        return cuts

    def _counts_of(self, ask: Ask) -> list[Count]:
        """One for each shape: what would suffice if nothing were promised and only resources counted."""
        needs: dict[str, int] = {}
        shapes = {}
        for take in ask.part.all_takes():
            shape = ask.entry.pending[take.members].shape
            shapes[shape.digest] = shape
            needs[shape.digest] = needs.get(shape.digest, 0) + take.number
        found = []
        for digest, need in needs.items():
            count = self._counts.get((digest, need))
            if count is None:
                count = self._counts[digest, need] = Count(self.future, self._work.state(shapes[digest]), need)
            found.append(count)
        return found

    def _is_plain(self, ask: Ask, counts: list[Count]) -> bool:
        """Whether a count is all it takes: one shape, anywhere, whatever other pods are there."""
        if len(counts) != 1 or not counts[0].is_summed or counts[0].state.is_dynamic or ask.within is not None:
            return False
        return not (ask.part.rule is not None or ask.part.children or ask.entry.status.avoid_nodes)

    def place(self, ask: Ask, time: int, plain: Count | None = None) -> bool:
        """Whether it can be placed at that time. What is placed is remembered, and taken back. `plain` is its count, if
        that is all it takes."""
        if self._placed is not None and self._placed[0] == time:
            return True
        if not self._budget.spend(PLACE_COST):
            return False
        future = self.future
        if plain is not None and plain.state.takes_first and (profile := future.profile()) is not None:
            return self._fill(ask, time, plain, profile)
        future.look(time, ask.end(time), ask.entitled)
        work = future.work
        mark = work.statement.mark()
        self._let_go(ask, time)
        placed = place_group(work, ask.entry, ask.part, ask.within)
        if placed is not None:
            self._placed = (time, *amounts_of(work, ask.entry, placed))
        work.statement.rollback(mark)
        return placed is not None

    def _fill(self, ask: Ask, time: int, plain: Count, profile: Profile) -> bool:
        """The same where the first nodes with room are the best."""
        filled = profile.fill(plain.state, plain.need, time, ask.end(time))
        if filled is None:
            return False
        rows, numbers = filled
        amounts = np.zeros((len(self._work.snapshot.columns.resources), len(rows)), dtype=np.int64)
        for column, units in plain.state.request:
            amounts[column] = units * numbers
        self._placed = (time, rows, amounts)
        return True

    def count(self, ask: Ask, count: Count, time: int) -> bool:
        return self._budget.spend(COUNT_COST) and count.fits(time, ask.end(time), ask.entitled)

    def forget(self) -> None:
        self._placed = None

    @property
    def has_work_left(self) -> bool:
        return self._budget.left > 0

    def _let_go(self, ask: Ask, time: int) -> None:
        """Pods that are gone by then no longer matter to pods that look at others."""
        work = self.future.work
        if not any(work.state(ask.entry.pending[take.members].shape).is_dynamic for take in ask.part.all_takes()):
            return
        releases, shapes = self.future.releases, self._work.snapshot.pods.shapes
        gone = releases.pods(0, int(np.searchsorted(releases.times, time, side="right")))
        for row, number in zip(releases.node[gone].tolist(), releases.shape[gone].tolist(), strict=True):
            if number < len(shapes) and work.neighbours.is_noticed(shapes[number]):
                work.neighbours.placed(shapes[number], row, -1)
                work.statement.done(lambda row=row, shape=shapes[number]: work.neighbours.placed(shape, row, 1))  # type: ignore[misc]

    def _found(self, ask: Ask, time: int) -> Found:
        assert self._placed is not None
        _, rows, amounts = self._placed
        if not self._explains:
            return Found(time, rows, amounts, "", None)
        releases = self.future.releases
        if time >= FOREVER:
            at = int(np.searchsorted(releases.times, time))
            is_release = at < len(releases.times) and releases.times[at] == time
            after = releases.owner_at(at) if is_release else self._promised_until(time)
            return Found(time, rows, amounts, after, None)
        after = self._promised_until(time) or releases.last_before(time, rows)
        return Found(time, rows, amounts, after, self._domains(ask, time))

    def _promised_until(self, time: int) -> str:
        owners = [it.owner for it in self.future.promises if it.end == time]
        owners += [it.name for it in self._windows.windows if it.end == time]
        return min(owners, default="")

    def _domains(self, ask: Ask, time: int) -> int | None:
        """How many domains could hold it then."""
        rule = ask.part.rule
        work = self.future.work
        if rule is None or not len(work.topology):
            return None
        self.future.look(time, ask.end(time), ask.entitled)
        counts = self._counts_of(ask)
        fits = np.array([work.state(count.state.shape).fit(work.room) for count in counts])
        topology = work.topology
        enough = left_over(topology.sums(fits), [count.need for count in counts]) >= 0
        return int(np.count_nonzero(enough & outermost(topology, close_enough(topology, rule) & topology.usable)))


class _Attempt:
    """The tries for one ask."""

    def __init__(self, search: Search, ask: Ask, count: Count | None, times: list[int]) -> None:
        self._search = search
        self._ask = ask
        self._count = count
        self._times = times
        search.forget()

    def first_fit(self, first: int, after: int, hint: int) -> int | None:
        """In times[first:after], where room only grows. Looks near the hint first."""
        low, high = first, min(max(hint, first), after - 1)
        step = 1
        while low <= high:
            if self._fits(high):
                return self._bisect(low, high)
            if not self._search.has_work_left:
                return None
            low = high + 1
            high = min(high + step, after - 1)
            step *= 4
        return None

    def _bisect(self, low: int, high: int) -> int:
        """It fits at `high`; the first index from `low` on at which it does."""
        while low < high and self._search.has_work_left:
            middle = (low + high) // 2
            if self._fits(middle):
                high = middle
            else:
                low = middle + 1
        return high

    def _fits(self, index: int) -> bool:
        time = self._times[index]
        if self._count is not None:
            return self._search.count(self._ask, self._count, time)
        return self._search.place(self._ask, time)


def _insert(into: list[int], value: int) -> None:
    """Keeps it sorted, each value once."""
    index = bisect_left(into, value)
    if index == len(into) or into[index] != value:
        into.insert(index, value)
