"""Where groups may go now without delaying what is promised: for each span of time, the room that is free all along.

Free room only ever falls at the start of a promise, so a run that begins now sees, of every node, the least of what is
free now and at each promised start before its end. Runs that end between the same two such moments see the same room:
a tier. Each tier is a room like any other, with columns of shapes of its own, so that placing is as fast as ever and
exact for any number of pods on a node.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final

import numpy as np

from allhands.core.calendar.elsewhere import OtherRoom, WorkElsewhere
from allhands.core.room import FEW

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allhands.core.calendar.promises import Promise
    from allhands.core.calendar.windows import Windows
    from allhands.core.columns import Column, Mask, Request, Rows
    from allhands.core.room import Room
    from allhands.core.work import Work


_NO_STARTS: Final[Column] = np.zeros(0, dtype=np.int64)
_NO_ROOM: Final[Column] = np.zeros((0, 0, 0), dtype=np.int64)
FROM_THE_START: Final = -(1 << 62)
"""In place of a moment: everybody ends after it."""


class Ahead:
    """What will be free at the start of a promise, with the promise kept."""

    __slots__ = ("counts_from", "free", "is_delicate", "promise")

    def __init__(self, promise: Promise, free: Column, counts_from: int, *, is_delicate: bool) -> None:
        self.free = free
        """(R, N)."""
        self.promise = promise
        self.counts_from = counts_from
        """Who says that it ends later than this must leave it possible."""
        self.is_delicate = is_delicate
        """Whether the promise holds only as long as no pods that matter to it come near it."""

    def take(self, request: Request, picks: Sequence[int], sign: int) -> None:
        """One pod on each row of `picks`; a row may come several times. `sign` -1 gives back."""
        if len(picks) <= FEW:
            for row in picks:
                for column, units in request:
                    self.free[column, row] -= sign * units
            return
        rows, numbers = np.unique(np.array(picks, dtype=np.int64), return_counts=True)
        for column, units in request:
            self.free[column, rows] -= sign * units * numbers


class TierRoom(OtherRoom):
    """The least of what is free now and at the start of some promises; nothing on closed nodes.

    `charged` are all that begin before the end of the runs that are placed here, also those that do not limit them.
    """

    def __init__(self, main: Room, limits: Sequence[Ahead], charged: Sequence[Ahead], closed: Rows) -> None:
        super().__init__(main)
        self._main = main
        self._limits = limits
        self._charged = charged
        self._closed: Mask | None = None
        if closed.size:
            self._closed = np.zeros(self.free.shape[1], dtype=np.bool_)
            self._closed[closed] = True
        self._position = 0
        self._recompute(slice(None))
        self._position = len(main.log)

    def follow(self) -> None:
        """Brings it up to date with what was placed elsewhere."""
        log = self._main.log
        if self._position < len(log):
            rows = np.array(log[self._position :], dtype=np.int64)
            self._position = len(log)
            self._recompute(rows)
            self.log.extend(rows.tolist())

    def take(self, request: Request, picks: Sequence[int], sign: int = 1) -> None:
        in_step = self._position == len(self._main.log)
        self._main.take(request, picks, sign)
        for ahead in self._charged:
            ahead.take(request, picks, sign)
        super().take(request, picks, sign)
        if in_step:
            self._position = len(self._main.log)

    def _recompute(self, rows: Rows | slice) -> None:
        free = self._main.free[:, rows]
        for ahead in self._limits:
            free = np.minimum(free, ahead.free[:, rows])
        self.free[:, rows] = free if self._closed is None else np.where(self._closed[rows], np.minimum(free, 0), free)
        self.forget_most()


class _Stack:
    """What is free at the start of each promise, in one table, so that what concerns many is done to all at once."""

    def __init__(self) -> None:
        self._all: list[Ahead] = []
        self._starts: Column = _NO_STARTS
        self._free: Column = _NO_ROOM
        """(promises, R, N), of which each has its own part; empty as long as there is but one."""

    def add(self, ahead: Ahead) -> None:
        self._all.append(ahead)
        number = len(self._all)
        if number == 1:
            return
        if number > len(self._starts):
            self._grow(2 * number + 6, ahead.free.shape)
        else:
            self._put(number - 1, ahead)

    def charge(self, promise: Promise) -> None:
        """Takes a promise off those that begin while it lasts."""
        if len(self._all) == 1:
            (only,) = self._all
            if promise.start <= only.promise.start < promise.end:
                only.free[:, promise.rows] -= promise.amounts
            return
        starts = self._starts[: len(self._all)]
        during = ((starts >= promise.start) & (starts < promise.end)).nonzero()[0]
        if during.size and self._free.shape[2] == 1:
            self._free[during] -= promise.amounts
        elif during.size:
            resources = np.arange(self._free.shape[1])
            self._free[during[:, None, None], resources[:, None], promise.rows] -= promise.amounts

    def _grow(self, size: int, shape: tuple[int, ...]) -> None:
        self._starts = np.zeros(size, dtype=np.int64)
        self._free = np.zeros((size, *shape), dtype=np.int64)
        for number, ahead in enumerate(self._all):
            self._put(number, ahead)

    def _put(self, number: int, ahead: Ahead) -> None:
        self._starts[number] = ahead.promise.start
        self._free[number] = ahead.free
        ahead.free = self._free[number]


class Tiers:
    """All tiers of a cycle. They are made when they are asked for, and made anew when something more is promised."""

    def __init__(self, work: Work, windows: Windows) -> None:
        self._work = work
        self._windows = windows
        self.ahead: list[Ahead] = []
        self._stack = _Stack()
        self._moments: list[int] = sorted({it.start for it in windows.windows if it.rows.size})
        self._tiers: dict[tuple[int, tuple[int, ...]], Work] = {}

    @property
    def is_open(self) -> bool:
        """Whether nothing is promised to anybody, so that all may go wherever there is room."""
        return not self._moments

    @property
    def last_moment(self) -> int:
        """The last at which room falls, where it is not open."""
        return self._moments[-1]

    def beside_all(self) -> tuple[list[int], list[int]]:
        """What a run that passes all moments finds at most on one node, and on all nodes together, by resource; where
        there are no windows."""
        least = self._work.room.free
        if least.shape[1] == 1:
            most: list[int] = least[:, 0].tolist()
            for ahead in self.ahead:
                most = list(map(min, most, ahead.free[:, 0].tolist()))
            return most, [max(units, 0) for units in most]
        for ahead in self.ahead:
            least = np.minimum(least, ahead.free)
        return least.max(axis=1).tolist(), np.maximum(least, 0).sum(axis=1).tolist()

    def promise(self, promise: Promise, free: Column, *, patience: int = 1, is_delicate: bool = False) -> None:
        """Keeps this from now on. `free` is (R, N), when it begins, without the promise itself.

        Who wants to be done before must be so even if it takes `patience` times as long as it says.
        """
        if free.shape[1] == 1 == promise.amounts.shape[1]:
            free -= promise.amounts
        else:
            free[:, promise.rows] -= promise.amounts
        if self.ahead:
            self._stack.charge(promise)
        now = self._work.now
        counts_from = now + (promise.start - now) // patience if promise.start > now else promise.start
        ahead = Ahead(promise, free, counts_from, is_delicate=is_delicate)
        self.ahead.append(ahead)
        self._stack.add(ahead)
        index = bisect_left(self._moments, counts_from)
        if index == len(self._moments) or self._moments[index] != counts_from:
            self._moments.insert(index, counts_from)
        self._tiers.clear()

    def _span(self, end: int) -> int:
        """How many moments at which room falls a run passes that begins now and ends then."""
        span = bisect_left(self._moments, end)
        if span < len(self._moments):
            # With time, the end reaches the next moment; not earlier than this.
            self._work.wake_at(self._work.now + self._moments[span] - end + 1, lets_start=False)
        return span

    def last_fall_before(self, end: int) -> int:
        """The last moment that such a run passes, or FROM_THE_START."""
        span = bisect_left(self._moments, end)
        return self._moments[span - 1] if span else FROM_THE_START

    def work_until(self, end: int, entitled: tuple[int, ...]) -> Work:
        """Where such a run may go."""
        span = self._span(end)
        if not span:
            return self._work
        key = (span, entitled)
        tier = self._tiers.get(key)
        if tier is None:
            tier = self._tiers[key] = self._make(self._moments[span - 1] + 1, entitled)
        room = tier.room
        assert isinstance(room, TierRoom)
        room.follow()
        return tier

    def _make(self, end: int, entitled: tuple[int, ...]) -> Work:
        charged = [it for it in self.ahead if it.counts_from < end]
        limits = [it for it in charged if it.promise.window not in entitled]
        closed = self._windows.closed(self._work.now, end, entitled)
        return WorkElsewhere(self._work, TierRoom(self._work.room, limits, charged, closed))

    def owner_before(self, end: int, entitled: tuple[int, ...]) -> str:
        """For whom the room is kept that such a run does not get: the first who was promised any."""
        for ahead in self.ahead:
            if ahead.counts_from < end and ahead.promise.window not in entitled:
                return ahead.promise.owner
        now = self._work.now
        closing = [it for it in self._windows.windows if it.rows.size and it.number not in entitled]
        return next((it.name for it in closing if it.start < end and now < it.end), "")

    def is_delicate_before(self, end: int) -> bool:
        return any(it.is_delicate and it.counts_from < end for it in self.ahead)
