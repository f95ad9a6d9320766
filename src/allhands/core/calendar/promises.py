"""Room that is promised for a later time: who will have how much of which nodes, from when to when.

A promise is a value. What others may still use beside it is worked out in `future` (later) and `tiers` (now).
"""

from __future__ import annotations

import functools
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from allhands.core.calendar.estimates import FOREVER

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from allhands.core.actions.placing import Placed
    from allhands.core.columns import Column, Request, Rows
    from allhands.core.snapshot import GroupEntry
    from allhands.core.work import Work

NO_WINDOW: Final = -1
UNTIL_IT_STARTS: Final = 2 * FOREVER
FEW: Final = 64
"""Up to so many pods, plain counting is faster than arrays."""
_NONE: Final[Rows] = np.zeros(0, dtype=np.int64)


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


class _Columns(NamedTuple):
    """Of the first `number` promises."""

    number: int
    row: Rows
    start: Column
    end: Column
    window: Column
    amount: Column


class Promises:
    """All promises, and the same as columns: one entry for each node of each promise."""

    def __init__(self, resources: int) -> None:
        self._all: list[Promise] = []
        self._resources = resources
        self._columns: _Columns | None = None

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Promise]:
        return iter(self._all)

    def since(self, number: int) -> list[Promise]:
        """Without the first so many."""
        return self._all[number:]

    def copy(self) -> Promises:
        """Another list; the two part ways from here."""
        twin = Promises(self._resources)
        twin._all, twin._columns = list(self._all), self._columns
        return twin

    def append(self, promise: Promise) -> None:
        self._all.append(promise)

    @property
    def row(self) -> Rows:
        return self._read().row

    @property
    def start(self) -> Column:
        return self._read().start

    @property
    def end(self) -> Column:
        return self._read().end

    @property
    def window(self) -> Column:
        return self._read().window

    @property
    def amount(self) -> Column:
        return self._read().amount

    def _read(self) -> _Columns:
        """Up to date; in most cycles nobody asks for it."""
        known = self._columns
        if known is not None and known.number == len(self._all):
            return known
        new = self._all if known is None else self._all[known.number :]
        sizes = [len(it.rows) for it in new]
        more = _Columns(
            len(self._all),
            np.concatenate([_NONE, *(it.rows for it in new)]),
            np.repeat(np.array([it.start for it in new], dtype=np.int64), sizes),
            np.repeat(np.array([it.end for it in new], dtype=np.int64), sizes),
            np.repeat(np.array([it.window for it in new], dtype=np.int64), sizes),
            np.concatenate([_no_amounts(self._resources), *(it.amounts for it in new)], axis=1),
        )
        if known is not None:
            joined = (np.concatenate(pair, axis=-1) for pair in zip(known[1:], more[1:], strict=True))
            more = _Columns(len(self._all), *joined)
        self._columns = more
        return more

    def during(self, start: int, end: int, entitled: tuple[int, ...]) -> Rows:
        """The entries that count for a run, but for those of windows to which it is entitled."""
        columns = self._read()
        overlaps = (columns.start < end) & (columns.end > start)
        for window in entitled:
            overlaps &= columns.window != window
        return overlaps.nonzero()[0]


@functools.lru_cache(maxsize=64)
def _no_amounts(resources: int) -> Column:
    return np.zeros((resources, 0), dtype=np.int64)


def amounts_of(work: Work, entry: GroupEntry, placed: Placed) -> tuple[Rows, Column]:
    """What a placement takes of which nodes."""
    if len(placed.picks) == 1 and len(placed.picks[0][1]) <= FEW:
        ((take, few),) = placed.picks
        return amounts_of_counts(work, work.state(entry.pending[take.members].shape).request, Counter(sorted(few)))
    picked = [np.array(picks, dtype=np.int64) for _, picks in placed.picks]
    rows = np.unique(np.concatenate(picked)) if picked else np.zeros(0, dtype=np.int64)
    amounts = np.zeros((len(work.snapshot.columns.resources), len(rows)), dtype=np.int64)
    for (take, _), picks in zip(placed.picks, picked, strict=True):
        numbers = np.bincount(np.searchsorted(rows, picks), minlength=len(rows))
        for column, units in work.state(entry.pending[take.members].shape).request:
            amounts[column] += units * numbers
    return rows, amounts


def amounts_of_counts(work: Work, request: Request, counts: Mapping[int, int]) -> tuple[Rows, Column]:
    """What so many equal pods take of which nodes; by node, ascending."""
    rows, numbers = np.array(list(counts), dtype=np.int64), np.array(list(counts.values()), dtype=np.int64)
    amounts = np.zeros((len(work.snapshot.columns.resources), len(rows)), dtype=np.int64)
    for column, units in request:
        amounts[column] = units * numbers
    return rows, amounts
