"""Advance reservations and planned outages: which nodes are closed, or how much is kept, for whom, and when.

A run that overlaps a window must not use its nodes unless its group is entitled; a run without a known end overlaps
every window to come. A window without anybody who is entitled is an outage. Windows that make no sense, or are over,
count for nothing; nodes that are not there are not missed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from allhands.core.calendar.promises import Promise
from allhands.model.resources import EMPTY

if TYPE_CHECKING:
    from allhands.core.columns import Column, NodeColumns, Rows
    from allhands.core.facts import Reservation
    from allhands.core.snapshot import GroupEntry
    from allhands.core.work import Work
    from allhands.model.resources import ResourceVector

_NOBODY: Final[tuple[int, ...]] = ()
NO_ROWS: Final[Rows] = np.zeros(0, dtype=np.int64)
LATEST: Final = 1 << 53
MOST_KEPT: Final = 1 << 62
"""Later than any time, and more than any cluster has, so that no sum leaves 64 bits."""


class Window(NamedTuple):
    number: int
    name: str
    start: int
    end: int
    rows: Rows
    """The nodes that it closes; none if it keeps an amount."""
    resources: ResourceVector


class Windows:
    """Those of one snapshot that are not over, by start."""

    def __init__(self, work: Work) -> None:
        self.windows: tuple[Window, ...] = ()
        self._groups: dict[str, tuple[int, ...]] = {}
        self._queues: dict[str, tuple[int, ...]] = {}
        self._closing: list[Window] = []
        if not work.snapshot.facts.reservations:
            return
        columns = work.snapshot.columns
        current = [it for it in work.snapshot.facts.reservations if it.start_seconds < it.end_seconds]
        current = sorted(
            (it for it in current if it.end_seconds > work.now), key=lambda it: (it.start_seconds, it.name)
        )
        self.windows = tuple(_window(number, it, columns) for number, it in enumerate(current))
        for number, it in enumerate(current):
            for group in it.groups:
                self._groups[group] = (*self._groups.get(group, _NOBODY), number)
            for queue in it.queues:
                self._queues[queue] = (*self._queues.get(queue, _NOBODY), number)
        self._closing = [it for it in self.windows if it.rows.size]
        for window in self.windows:
            work.wake_at(window.start if window.start > work.now else window.end)

    def entitled(self, entry: GroupEntry) -> tuple[int, ...]:
        """The numbers of the windows that a group may use."""
        if not self.windows:
            return _NOBODY
        group = entry.group
        by_name, by_queue = self._groups.get(group.key, _NOBODY), self._queues.get(group.queue, _NOBODY)
        return tuple(sorted({*by_name, *by_queue})) if by_name and by_queue else by_name or by_queue

    @property
    def names_groups(self) -> bool:
        return bool(self._groups)

    def names_group(self, entry: GroupEntry) -> bool:
        """Whether it is entitled by its own name, so that it is unlike others that ask for the same."""
        return entry.group.key in self._groups

    def closed(self, start: int, end: int, entitled: tuple[int, ...]) -> Rows:
        """The nodes that a run must not use; some may come more than once."""
        rows = [it.rows for it in self._closing if it.start < end and start < it.end and it.number not in entitled]
        return np.concatenate(rows) if rows else NO_ROWS

    def amounts(self) -> tuple[Window, ...]:
        return tuple(it for it in self.windows if not it.rows.size and len(it.resources))

    def ends(self) -> list[int]:
        return [it.end for it in self.windows]


def keep_amount(work: Work, window: Window, free: Column, held: ResourceVector) -> Promise | None:
    """The concrete room for a window that keeps an amount, chosen from what is free when it begins.

    Nodes with most of its main resource come first, so that it is in few places. `held` is what the entitled have
    already. None if nothing is left to keep.
    """
    columns = work.snapshot.columns
    wanted = {
        columns.column_by_resource[name]: min(units - held.get(name), MOST_KEPT)
        for name, units in window.resources.entries
        if name in columns.column_by_resource and units > held.get(name)
    }
    if not wanted:
        return None
    share = {
        column: units * 1_000_000 // max(1, int(columns.allocatable[column].sum())) for column, units in wanted.items()
    }
    main = max(sorted(wanted), key=lambda column: share[column])
    order = np.argsort(-np.maximum(free[main], 0), kind="stable")
    amounts = np.zeros_like(free)
    for column, units in wanted.items():
        available = np.maximum(free[column, order], 0)
        before = np.cumsum(available) - available
        amounts[column, order] = np.clip(units - before, 0, available)
    rows = np.flatnonzero(amounts.any(axis=0))
    return Promise(window.name, window.start, window.end, rows, amounts[:, rows], window.number) if rows.size else None


def _window(number: int, it: Reservation, columns: NodeColumns) -> Window:
    rows = sorted({columns.row_by_name[name] for name in it.nodes if name in columns.row_by_name})
    start, end = (min(max(time, -LATEST), LATEST) for time in (it.start_seconds, it.end_seconds))
    resources = EMPTY if it.nodes else it.resources
    return Window(number, it.name, start, end, np.array(rows, dtype=np.int64), resources)
