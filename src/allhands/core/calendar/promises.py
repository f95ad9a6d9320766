"""Room that is promised for a later time: who will have how much of which nodes, from when to when.

A promise is a value. What others may still use beside it is worked out in `future` (later) and `tiers` (now).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from allhands.core.calendar.estimates import FOREVER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allhands.core.actions.placing import Placed
    from allhands.core.columns import Column, Rows
    from allhands.core.snapshot import GroupEntry
    from allhands.core.work import Work

NO_WINDOW: Final = -1
UNTIL_IT_STARTS: Final = 2 * FOREVER


class Promise(NamedTuple):
    """`amounts` is (R, rows). `window` is the number of the advance reservation that it stands for, if it does."""

    owner: str
    start: int
    end: int
    rows: Rows
    amounts: Column
    window: int = NO_WINDOW

    @property
    def is_of_window(self) -> bool:
        return self.window != NO_WINDOW

    @property
    def is_drain(self) -> bool:
        """Whether it holds until the group starts, whenever that is."""
        return self.end == UNTIL_IT_STARTS


class Promises:
    """All promises, and the same as columns: one entry for each node of each promise."""

    def __init__(self, resources: int) -> None:
        self._all: list[Promise] = []
        self.row: Rows = np.zeros(0, dtype=np.int64)
        self.start: Column = self.row
        self.end: Column = self.row
        self.window: Column = self.row
        self.amount: Column = np.zeros((resources, 0), dtype=np.int64)

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Promise]:
        return iter(self._all)

    def copy(self) -> Promises:
        """Another list; the two part ways from here."""
        twin = Promises(len(self.amount))
        twin._all = list(self._all)
        twin.row, twin.start, twin.end = self.row, self.start, self.end
        twin.window, twin.amount = self.window, self.amount
        return twin

    def append(self, promise: Promise) -> None:
        self._all.append(promise)
        size = len(promise.rows)
        if len(self._all) == 1:
            self.row, self.amount = promise.rows, promise.amounts
            self.start, self.end = np.full(size, promise.start), np.full(size, promise.end)
            self.window = np.full(size, promise.window)
            return
        self.row = np.append(self.row, promise.rows)
        self.start = np.append(self.start, np.full(size, promise.start))
        self.end = np.append(self.end, np.full(size, promise.end))
        self.window = np.append(self.window, np.full(size, promise.window))
        self.amount = np.concatenate((self.amount, promise.amounts), axis=1)

    def during(self, start: int, end: int, entitled: tuple[int, ...]) -> Rows:
        """The entries that count for a run, but for those of windows to which it is entitled."""
        overlaps = (self.start < end) & (self.end > start)
        for window in entitled:
            overlaps &= self.window != window
        return overlaps.nonzero()[0]


def amounts_of(work: Work, entry: GroupEntry, placed: Placed) -> tuple[Rows, Column]:
    """What a placement takes of which nodes."""
    if len(placed.picks) == 1 and len(set(placed.picks[0][1])) == 1:
        ((take, same),) = placed.picks
        amounts = np.zeros((len(work.snapshot.columns.resources), 1), dtype=np.int64)
        for column, units in work.state(entry.pending[take.members].shape).request:
            amounts[column, 0] = units * len(same)
        return np.array(same[:1], dtype=np.int64), amounts
    picked = [np.array(picks, dtype=np.int64) for _, picks in placed.picks]
    rows = np.unique(np.concatenate(picked)) if picked else np.zeros(0, dtype=np.int64)
    amounts = np.zeros((len(work.snapshot.columns.resources), len(rows)), dtype=np.int64)
    for (take, _), picks in zip(placed.picks, picked, strict=True):
        numbers = np.bincount(np.searchsorted(rows, picks), minlength=len(rows))
        for column, units in work.state(entry.pending[take.members].shape).request:
            amounts[column] += units * numbers
    return rows, amounts
