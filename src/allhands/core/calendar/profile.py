"""What is free from moment to moment, written out for all nodes: for clusters so small that this is cheaper than
looking at some nodes and some moments.

It says what `Future` says of the same room, with releases and promises alike; windows are not in it. Never written to
but by promises that are kept.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from allhands.core.calendar.promises import UNTIL_IT_STARTS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from allhands.core.calendar.promises import Promise
    from allhands.core.calendar.releases import Releases
    from allhands.core.columns import Column, Rows
    from allhands.core.shapes import ShapeState

MOST_CELLS: Final = 1 << 16
"""Larger tables are not made."""
BEFORE_ALL: Final = -(1 << 62)
_ONLY_ROW: Final[Rows] = np.zeros(1, dtype=np.int64)
_ONLY_ROW.setflags(write=False)


def profile_of(free: Column, releases: Releases) -> Profile | None:
    """`free` is (R, N), now. None if the table would be large."""
    if free.shape[1] == 1:
        return OneNode(free, releases)
    return Table(free, releases) if (len(releases.times) + 1) * free.size <= MOST_CELLS else None


class Profile(Protocol):
    def keep(self, promises: Iterable[Promise]) -> None:
        """From here on these are kept, too."""

    def at(self, time: int) -> Column:
        """(R, N): what is free at that moment; the caller's own."""

    def holds(self, state: ShapeState, need: int, start: int, end: int) -> bool:
        """Whether there is room for so many pods of a shape from one moment to another."""

    def fill(self, state: ShapeState, need: int, start: int, end: int) -> tuple[Rows, Column] | None:
        """Which nodes they are on if one node after the other is filled, and how many on each; None if they do not
        fit."""

    def enough_at(self, state: ShapeState, need: int) -> int:
        """The first release after which they fit, as if nothing were promised; 0 if that is now, UNTIL_IT_STARTS if
        they never do."""


class OneNode:
    """All in plain numbers: a list for each resource."""

    def __init__(self, free: Column, releases: Releases) -> None:
        now: list[int] = free[:, 0].tolist()
        times: list[int] = releases.times.tolist()
        self._times = times
        self._moments = [BEFORE_ALL, *times]
        self._base: list[list[int]] = []
        pods, last = releases.shape, releases.first[1:] - 1
        for column, units in enumerate(now):
            if column in releases.columns and times:
                given = np.add.accumulate(releases.units[pods, column])[last] + units
                self._base.append([units, *given.tolist()])
            else:
                self._base.append([units] * (len(times) + 1))
        self._columns = [list(amounts) for amounts in self._base]

    def keep(self, promises: Iterable[Promise]) -> None:
        for promise in promises:
            first, after = self._row_of(promise.start), self._row_of(promise.end)
            for amounts, (units,) in zip(self._columns, promise.amounts.tolist(), strict=True):
                if units:
                    amounts[first:after] = [amount - units for amount in amounts[first:after]]

    def at(self, time: int) -> Column:
        row = bisect_right(self._moments, time) - 1
        return np.array([[amounts[row]] for amounts in self._columns], dtype=np.int64)

    def holds(self, state: ShapeState, need: int, start: int, end: int) -> bool:
        if not state.static.item(0):
            return False
        first = bisect_right(self._moments, start) - 1
        after = bisect_left(self._moments, end, first + 1)
        for column, units in state.request:
            amounts = self._columns[column]
            wanted = units * need
            if amounts[first] < wanted or (after - first > 1 and min(amounts[first:after]) < wanted):
                return False
        return True

    def fill(self, state: ShapeState, need: int, start: int, end: int) -> tuple[Rows, Column] | None:
        if not self.holds(state, need, start, end):
            return None
        return _ONLY_ROW, np.array([need], dtype=np.int64)

    def enough_at(self, state: ShapeState, need: int) -> int:
        # Without promises, what is free only grows.
        index = max(bisect_left(self._base[column], units * need) for column, units in state.request)
        if index > len(self._times) or not state.static.item(0):
            return UNTIL_IT_STARTS
        return self._times[index - 1] if index else 0

    def _row_of(self, moment: int) -> int:
        """The row that begins then, made if there is none."""
        moments = self._moments
        row = bisect_left(moments, moment)
        if row == len(moments) or moments[row] != moment:
            for amounts in self._columns:
                amounts.insert(row, amounts[row - 1])
            moments.insert(row, moment)
        return row


class Table:
    """One table over all nodes."""

    def __init__(self, free: Column, releases: Releases) -> None:
        times: list[int] = releases.times.tolist()
        base = np.zeros((len(times) + 1, *free.shape), dtype=np.int64)
        base[0] = free
        after = np.repeat(np.arange(1, len(times) + 1), np.diff(releases.first))
        for column in releases.columns:
            np.add.at(base[:, column], (after, releases.node), releases.units[releases.shape, column])
        self._base: Column = np.add.accumulate(base, axis=0)
        """(moments, R, N): without promises."""
        self._table = self._base
        self._times = times
        self._moments = [BEFORE_ALL, *times]
        """When each row of the table begins to hold."""

    def keep(self, promises: Iterable[Promise]) -> None:
        for promise in promises:
            if self._table is self._base:
                self._table = self._base.copy()
            first, after = self._row_of(promise.start), self._row_of(promise.end)
            self._table[first:after, :, promise.rows] -= promise.amounts

    def at(self, time: int) -> Column:
        then: Column = self._table[bisect_right(self._moments, time) - 1]
        return then.copy()

    def holds(self, state: ShapeState, need: int, start: int, end: int) -> bool:
        return int(self._fits(state, need, start, end).sum()) >= need

    def fill(self, state: ShapeState, need: int, start: int, end: int) -> tuple[Rows, Column] | None:
        fitting = self._fits(state, need, start, end)
        before = np.add.accumulate(fitting) - fitting
        taken = np.minimum(fitting, np.maximum(need - before, 0))
        rows = taken.nonzero()[0]
        numbers = taken[rows]
        return (rows, numbers) if int(numbers.sum()) == need else None

    def enough_at(self, state: ShapeState, need: int) -> int:
        by_time = _fits_in(self._base.transpose(1, 0, 2), state, need).sum(axis=-1)
        index = int(np.searchsorted(by_time, need))
        if index == len(by_time):
            return UNTIL_IT_STARTS
        return self._times[index - 1] if index else 0

    def _fits(self, state: ShapeState, need: int, start: int, end: int) -> Column:
        """How many fit on each node."""
        moments = self._moments
        first = bisect_right(moments, start) - 1
        after = bisect_left(moments, end, first + 1)
        least = self._table[first] if after == first + 1 else np.minimum.reduce(self._table[first:after], axis=0)
        return _fits_in(least, state, need)

    def _row_of(self, moment: int) -> int:
        """The row that begins then, made if there is none."""
        moments = self._moments
        row = bisect_left(moments, moment)
        if row == len(moments) or moments[row] != moment:
            number = len(moments)
            if number == len(self._table):
                more = np.empty((number + number // 2 + 8, *self._table.shape[1:]), dtype=np.int64)
                more[:number] = self._table
                self._table = more
            self._table[row + 1 : number + 1] = self._table[row:number]
            self._table[row] = self._table[row - 1]
            moments.insert(row, moment)
        return row


def _fits_in(free: Column, state: ShapeState, most: int) -> Column:
    """How many pods fit, by resources alone, at most `most`; 0 where they may not go. The first axis is the resource,
    the last the node."""
    counts: Column | None = None
    for column, units in state.request:
        here = free[column] // units if units != 1 else free[column]
        counts = here if counts is None else np.minimum(counts, here)
    assert counts is not None, "every request has its pod slot"
    found: Column = np.where(state.static, np.minimum(np.maximum(counts, 0), most), 0)
    return found
