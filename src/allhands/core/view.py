"""What a score plugin sees: some nodes, each as it would be with one more pod of the shape on it.

The same node may appear several times with different amounts left: that is how the second and third pod of a gang are
scored without placing the first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from allhands.core.columns import Column, Mask, NodeColumns, Request, Rows
    from allhands.core.room import Room
    from allhands.model.shape import PodShape


class Asks:
    """What one pod of a shape asks for, for scores that speak of one node at a time."""

    def __init__(self, shape: PodShape, request: Request, columns: NodeColumns) -> None:
        self.shape = shape
        self.columns = columns
        self._asked = frozenset(column for column, _ in request)

    def column(self, resource: str) -> int | None:
        return self.columns.column_by_resource.get(resource)

    def asks_for(self, resource: str) -> bool:
        column = self.column(resource)
        return column is not None and column in self._asked


class NodeView:
    """`steps` 1 is each row once; k is each row k times in a row, with 1 to k pods more on it."""

    def __init__(self, shape: PodShape, request: Request, room: Room, rows: Rows | slice, steps: int = 1) -> None:
        self.shape = shape
        self.columns: NodeColumns = room.columns
        self.rows = rows
        self._units = dict(request)
        self._steps = steps
        self._shares: dict[int, NDArray[np.float64]] = {}
        self._free: Column = room.free if isinstance(rows, slice) else room.free.take(rows, axis=1)
        whole = room.share_of_unit
        self._share_of_unit = whole if isinstance(rows, slice) else whole.take(rows, axis=1)

    @property
    def size(self) -> int:
        rows = len(self.columns) if isinstance(self.rows, slice) else len(self.rows)
        return rows * self._steps

    def fits(self) -> Mask:
        """Whether one pod more has room, by resources."""
        allowed: Mask | None = None
        for column, units in self._units.items():
            here = self._free[column] >= units
            allowed = here if allowed is None else allowed & here
        assert allowed is not None, "every request has its pod slot"
        return allowed

    def free_after(self, column: int) -> Column:
        """Units of a resource that would be left."""
        free: Column = self._free[column]
        units = self._units.get(column, 0)
        if self._steps == 1:
            return free - units if units else free
        after: Column = free[:, None] - units * np.arange(1, self._steps + 1, dtype=np.int64)[None, :]
        return after.ravel()

    def free_share_after(self, column: int) -> NDArray[np.float64]:
        """The same as a share of the node's allocatable: 0 to SCORE_SCALE, 0 where the node has none of it."""
        found = self._shares.get(column)
        if found is None:
            share_of_unit = self._share_of_unit[column]
            if self._steps > 1:
                share_of_unit = np.repeat(share_of_unit, self._steps)
            found = self.free_after(column) * share_of_unit
            # A node that others have overfilled is full, not fuller than full.
            self._shares[column] = np.maximum(found, 0.0, out=found)
        return found

    def column(self, resource: str) -> int | None:
        return self.columns.column_by_resource.get(resource)

    def asks_for(self, resource: str) -> bool:
        column = self.column(resource)
        return column is not None and column in self._units


class StepsView(NodeView):
    """The same for a single row, with as few steps as may be: this is asked for every node that a gang goes to."""

    def __init__(self, shape: PodShape, request: Request, room: Room, row: int, steps: int) -> None:
        self.shape = shape
        self.columns = room.columns
        self.rows = np.array([row])
        self._units = dict(request)
        self._steps = steps
        self._shares = {}
        self._left: list[int] = room.free[:, row].tolist()
        self._share_of_one = room.shares.of_row(row)
        self._numbers: Column = np.arange(1, steps + 1, dtype=np.int64)

    @property
    def size(self) -> int:
        return self._steps

    def fits(self) -> Mask:
        return np.array([all(self._left[column] >= units for column, units in self._units.items())])

    def free_after(self, column: int) -> Column:
        units = self._units.get(column, 0)
        return self._left[column] - units * self._numbers

    def free_share_after(self, column: int) -> NDArray[np.float64]:
        found = self._shares.get(column)
        if found is None:
            share: NDArray[np.float64] = np.multiply(self.free_after(column), self._share_of_one[column])
            self._shares[column] = found = np.maximum(share, 0.0, out=share)
        return found


class TurnsView(StepsView):
    """A single row with one pod of each of several shapes more on it, one after the other. They ask for the same
    resources; `units` is (resources, shapes), and the shape is that of the first."""

    def __init__(self, shape: PodShape, request: Request, units: Column, room: Room, row: int) -> None:
        super().__init__(shape, request, room, row, units.shape[1])
        taken = units.cumsum(axis=1)
        self._taken = {column: taken[place] for place, (column, _) in enumerate(request)}

    def fits(self) -> Mask:
        allowed: Mask | None = None
        for column, taken in self._taken.items():
            here = taken <= self._left[column]
            allowed = here if allowed is None else allowed & here
        assert allowed is not None, "every request has its pod slot"
        return allowed

    def free_after(self, column: int) -> Column:
        taken = self._taken.get(column)
        return np.full(self._steps, self._left[column], dtype=np.int64) if taken is None else self._left[column] - taken


class ShapesView(NodeView):
    """The same for several rows, each of them once with each pod alone."""

    def __init__(self, shape: PodShape, request: Request, units: Column, room: Room, rows: Rows) -> None:
        super().__init__(shape, request, room, rows, units.shape[1])
        self._units_of = {column: units[place] for place, (column, _) in enumerate(request)}

    def fits(self) -> Mask:
        allowed: Mask | None = None
        for column, units in self._units_of.items():
            here = units <= self._free[column, :, None]
            allowed = here if allowed is None else allowed & here
        assert allowed is not None, "every request has its pod slot"
        return allowed.ravel()

    def free_after(self, column: int) -> Column:
        free: Column = self._free[column]
        units = self._units_of.get(column)
        return np.repeat(free, self._steps) if units is None else (free[:, None] - units).ravel()
