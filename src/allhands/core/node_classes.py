"""Nodes that are alike, as classes: where most are, the best node for a pod is found without looking at each.

Of a class only the first node that nothing has happened to need be looked at; those that pods were put on since are
looked at one by one, as long as they have room left for anybody who asks. It only saves work, and is thrown away when
too many nodes have changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection

    from allhands.core.columns import Column, Request, Rows

MANY_ALIKE: Final = 8
"""They are of use if there are so many nodes for each class."""
MIXER: Final = 6364136223846793005
"""Odd, so that no bit of what is mixed is lost; sums wrap around."""
NONE: Final = -1


class NodeClasses:
    """Nodes that had the same free and the same in all when the log was `seen` long."""

    def __init__(self, of_row: Rows, rows: Rows, speaking: frozenset[int], seen: int) -> None:
        self.of_row = of_row
        """The class of each node."""
        self.rows = rows
        """One node of each class."""
        self._speaking = speaking
        """Those of them that stand for others too: as long as none is touched, it holds for all that are not."""
        self.touched: set[int] = set()
        """The nodes that something has happened to since."""
        self.open: dict[int, None] = {}
        """Those of them that may have room for one of those who ask."""
        self._seen = seen
        self._is_broken = False
        self._most_touched = len(of_row) // MANY_ALIKE
        self._asked: Request = ()
        """What everybody who asks wants of some columns at least."""
        self._known: set[Request] = set()
        self._members: list[int] = []
        """All nodes, class by class, ascending."""
        self._ends: list[int] = []
        self._next: list[int] = []

    def follow(self, free: Column, log: list[int]) -> bool:
        """Takes note of what has happened; whether it is still of use."""
        end = len(log)
        if self._seen < end:
            news: Collection[int] = (log[-1],) if self._seen + 1 == end else set(log[self._seen :])
            self._seen = end
            self.touched.update(news)
            if not self._speaking.isdisjoint(news) or len(self.touched) > self._most_touched:
                self._is_broken = True
            if self._asked:
                self._sort_out(free, news)
        return not self._is_broken

    def ask(self, request: Request, free: Column) -> None:
        """From here on, `open` is right for who wants this, too."""
        if request in self._known:
            return
        self._known.add(request)
        before, units = self._asked or request, dict(request)
        asked = tuple((column, min(least, units[column])) for column, least in before if column in units)
        if asked != self._asked:
            self._asked = asked
            self._sort_out(free, self.touched)

    def _sort_out(self, free: Column, rows: Collection[int]) -> None:
        asked = self._asked
        for row in rows:
            left: list[int] = free[:, row].tolist()
            for column, units in asked:
                if left[column] < units:
                    self.open.pop(row, None)
                    break
            else:
                self.open[row] = None

    def first_untouched(self, number: int, without: Collection[int] = ()) -> int:
        """The first node of a class that is as it was, but for these; NONE if there is none."""
        if not self._ends:
            order = np.argsort(self.of_row, kind="stable")
            ends = np.cumsum(np.bincount(self.of_row, minlength=len(self.rows)))
            self._members, self._ends = order.tolist(), ends.tolist()
            self._next = [0, *self._ends[:-1]]
        members, touched, place, end = self._members, self.touched, self._next[number], self._ends[number]
        while place < end and members[place] in touched:
            place += 1
        self._next[number] = place
        while place < end and (members[place] in without or members[place] in touched):
            place += 1
        return members[place] if place < end else NONE


def find_classes(free: Column, allocatable: Column, seen: int) -> NodeClasses | None:
    """None where too few nodes are alike."""
    nodes = free.shape[1]
    mixed = np.zeros(nodes, dtype=np.int64)
    for column in (*free, *allocatable):
        mixed *= MIXER
        mixed += column
    _, first, of_row, sizes = np.unique(mixed[::-1], return_index=True, return_inverse=True, return_counts=True)
    if len(first) * MANY_ALIKE > nodes:
        return None
    # The last of each class stands for it: of nodes that are alike, the first is used first.
    rows, of_row = nodes - 1 - first, np.ascontiguousarray(of_row[::-1])
    for table in (free, allocatable):
        if not np.array_equal(table, table[:, rows][:, of_row]):
            return None
    return NodeClasses(of_row, rows, frozenset(rows[sizes > 1].tolist()), seen)
