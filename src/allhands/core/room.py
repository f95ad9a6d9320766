"""The room of the cluster during one cycle: what each node has free, with everything speculative already taken off.

It is a private copy, so that nothing a cycle tries can reach the snapshot. Every touched row is noted in a log; those
who cache something per node look at the log from where they last read it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from allhands.core.extension import SCORE_SCALE
from allhands.core.node_classes import find_classes

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from numpy.typing import NDArray

    from allhands.core.columns import Column, NodeColumns, Request, Rows
    from allhands.core.node_classes import NodeClasses

FEW: Final = 8
"""Up to so many rows, plain loops are faster than arrays."""
MANY: Final = 256
ASKED_BEFORE: Final = 4
"""Classes of nodes are looked for among so many nodes, after so many questions."""


class Shares:
    """What one unit is of a node's allocatable, in score points; 0 where a node has none. The same in every cycle."""

    def __init__(self, allocatable: Column) -> None:
        self.allocatable = allocatable
        with np.errstate(divide="ignore"):
            inverse = SCORE_SCALE / allocatable
        inverse[~np.isfinite(inverse)] = 0.0
        self.of_unit: NDArray[np.float64] = inverse
        """(R, N)."""
        self.tie: Column = np.arange(allocatable.shape[1] - 1, -1, -1, dtype=np.int64)
        """Of equally good nodes, the first is the best."""
        self.nowhere: Column = np.full(allocatable.shape[1], -1, dtype=np.int64)
        """The keys of a shape that fits nowhere; for all to read."""
        self.nowhere.setflags(write=False)
        self._of_row: dict[int, list[float]] = {}

    def of_row(self, row: int) -> list[float]:
        """The same for one node, by resource."""
        found = self._of_row.get(row)
        if found is None:
            found = self._of_row[row] = self.of_unit[:, row].tolist()
        return found


class Room:
    def __init__(self, columns: NodeColumns, shares: Shares | None = None) -> None:
        """`shares` are those of an earlier room of nodes with the same allocatable."""
        self.columns = columns
        self.free: Column = columns.allocatable - columns.used
        self.shares = Shares(columns.allocatable) if shares is None else shares
        self.log: list[int] = []
        self._recent: dict[int, int] = {}
        """Row -> its last place in the log, the last row last; of the log from `_recent_from` to `_recent_to`."""
        self._recent_from = self._recent_to = -1
        self._most: list[int] | None = None
        """No node has more free than this, by resource; None if that is not known."""
        self._together: list[int] | None = None
        """All nodes together have no more free than this, by resource; None if that is not known."""
        self._classes: NodeClasses | None = None
        self._asked_for_classes = 0
        self._looked_for_classes = 0
        """At how many questions they were last looked for."""

    @property
    def share_of_unit(self) -> NDArray[np.float64]:
        return self.shares.of_unit

    def holds_none(self, request: Request) -> bool:
        """Whether some resource alone shows that no node has room for one such pod. False says nothing."""
        most = self._most or self.most()
        for column, units in request:  # noqa: SIM110 - asked for every group; a generator costs more than all else
            if units > most[column]:
                return True
        return False

    def most(self) -> list[int]:
        """No node has more free than this, by resource."""
        if self._most is None:
            nodes = self.free.shape[1]
            if nodes == 1:
                self._most = self.free[:, 0].tolist()
            else:
                self._most = self.free.max(axis=1).tolist() if nodes else [0] * len(self.free)
        return self._most

    def holds_less(self, amounts: Request) -> bool:
        """Whether all nodes together have less than this of some resource. False says nothing."""
        if not amounts:
            return False
        together = self._together
        if together is None:
            together = self._together = np.maximum(self.free, 0).sum(axis=1).tolist()
        for column, units in amounts:  # noqa: SIM110 - as above
            if units > together[column]:
                return True
        return False

    def touched_since(self, position: int) -> Collection[int]:
        """The rows that the log names from there on, each once. Costs by their number, not by the length of the log."""
        log = self.log
        if self._recent_from < 0:
            self._recent_from = self._recent_to = position
        if position < self._recent_from:
            return set(log[position:])
        recent, place = self._recent, self._recent_to
        last = -1
        for row in log[place:]:
            if row != last:
                recent.pop(row, None)
                last = row
            recent[row] = place
            place += 1
        self._recent_to = place
        touched = []
        for row, place in reversed(recent.items()):
            if place < position:
                break
            touched.append(row)
        return touched

    def _forget_recent(self) -> None:
        """The log is another one."""
        self._recent = {}
        self._recent_from = self._recent_to = -1

    def classes(self) -> NodeClasses | None:
        """The nodes by what they have; None where too few are alike, or nobody has asked often enough yet."""
        known = self._classes
        if known is not None and known.follow(self.free, self.log):
            return known
        self._asked_for_classes += 1
        # Finding them costs about as much as looking at all nodes a few times.
        if self._asked_for_classes <= self._looked_for_classes + ASKED_BEFORE or len(self.columns) < MANY:
            return None
        self._looked_for_classes = self._asked_for_classes
        self._classes = find_classes(self.free, self.columns.allocatable, len(self.log))
        return self._classes

    def forget_most(self) -> None:
        """`free` was written to by somebody else."""
        self._most = self._together = None

    def take(self, request: Request, picks: Sequence[int], sign: int = 1) -> None:
        """One pod on each row of `picks`; a row may come several times. `sign` -1 gives back."""
        free = self.free
        self.log.extend(picks)
        if (together := self._together) is not None:
            number = sign * len(picks)
            for column, units in request:
                together[column] -= number * units
        most = self._most
        if most is not None:
            nodes = free.shape[1]
            if nodes == 1:
                for column, units in request:
                    most[column] -= sign * units * len(picks)
            elif nodes <= FEW or (sign < 0 and len(picks) > 1):
                most = self._most = None
        if len(picks) == 1:
            row = picks[0]
            for column, units in request:
                left = free[column, row] - sign * units
                free[column, row] = left
                if sign < 0 and most is not None and left > most[column]:  # on one node, it is the same already
                    most[column] = int(left)
            return
        counts: dict[int, int] = {}
        for row in picks:
            counts[row] = counts.get(row, 0) + sign
        if len(counts) <= FEW:
            for row, number in counts.items():
                for column, units in request:
                    free[column, row] -= number * units
            return
        rows = np.array(list(counts), dtype=np.int64)
        numbers = np.array(list(counts.values()), dtype=np.int64)
        for column, units in request:
            free[column, rows] -= units * numbers

    def fit_of_row(self, request: Request, row: int, most: int) -> int:
        """How many such pods fit on a row, by resources alone, at most `most`."""
        free: list[int] = self.free[:, row].tolist()
        return max(min(most, *(free[column] // units for column, units in request)), 0)

    def fit(self, request: Request, rows: Rows | slice, most: int) -> Column:
        """How many such pods fit on each row, by resources alone, at most `most`."""
        counts: Column | None = None
        for column, units in request:
            here = self.free[column, rows] // units
            counts = here if counts is None else np.minimum(counts, here)
        assert counts is not None, "every request has its pod slot"
        return np.minimum(np.maximum(counts, 0), most)
