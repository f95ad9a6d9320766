"""The nodes as columns, and what the pods on them use, changed in place until a snapshot reads it; then it is copied.

Only `World` has one. Sums beyond what a column holds are kept apart: they neither wrap around nor are forgotten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from allhands.core.columns import NodeColumns, allocatable_columns, resource_names
from allhands.core.pod_shapes import MOST_SHAPES_SHARED
from allhands.core.pod_state import units_counted

if TYPE_CHECKING:
    from allhands.core.pod_state import PodState
    from allhands.model.node import Node

MOST_USED: Final = (1 << 62) - 1


class NodeUsage:
    """`version` is that of the world: rows that change are marked with it."""

    def __init__(self) -> None:
        self._columns: NodeColumns | None = None
        self._layout = 0
        self.is_stale = True
        """Whether rows or columns are others by now: nothing is counted until they are laid out anew."""
        self._used_shared = self._allocatable_shared = False
        self._exact: dict[tuple[int, int], int] = {}
        """Sums that no column can hold, by column and row."""
        self._counted: dict[str, tuple[tuple[int, int], ...]] = {}
        """Shape -> what it adds to the columns of a node; one value for all pods alike."""

    @property
    def columns(self) -> NodeColumns:
        assert self._columns is not None, "not laid out yet"
        return self._columns

    def shown(self, *, lasting: bool) -> NodeColumns:
        """For a snapshot."""
        self._used_shared = self._used_shared or lasting
        # It is known by its identity, so it is never written to.
        self._allocatable_shared = True
        return self.columns

    def lay_out(self, nodes: tuple[Node, ...], version: int) -> None:
        """In this order, with nobody on them."""
        names = tuple(node.name for node in nodes)
        resources = resource_names(nodes)
        self._layout += 1
        generation = np.full(len(names), version, dtype=np.int64)
        self._columns = NodeColumns(
            names=names,
            nodes=nodes,
            row_by_name={name: row for row, name in enumerate(names)},
            resources=resources,
            column_by_resource={name: column for column, name in enumerate(resources)},
            allocatable=allocatable_columns(nodes, resources),
            used=np.zeros((len(resources), len(names)), dtype=np.int64),
            generation=generation,
            static_generation=generation.copy(),
            layout=self._layout,
        )
        self._exact.clear()
        self._counted.clear()
        self.is_stale = self._used_shared = self._allocatable_shared = False

    def change(self, node: Node, version: int) -> None:
        """Of a node that has its row, and the same resources as before."""
        columns = self._own_used()
        row = columns.row_by_name[node.name]
        nodes = list(columns.nodes)
        nodes[row] = node
        columns = msgspec.structs.replace(
            columns,
            nodes=tuple(nodes),
            allocatable=columns.allocatable.copy() if self._allocatable_shared else columns.allocatable,
            static_generation=columns.static_generation.copy(),
        )
        self._allocatable_shared = False
        for name in columns.resources:
            columns.allocatable[columns.column_by_resource[name], row] = node.allocatable.get(name)
        columns.generation[row] = columns.static_generation[row] = version
        self._columns = columns

    def add(self, state: PodState, version: int) -> None:
        """Its row is -1 if its node is unknown."""
        columns = self._own_used()
        row = columns.row_by_name.get(state.node, -1)
        state.node_row = row
        if row < 0:
            return
        counted = self._counted.get(state.shape.digest)
        if counted is None:
            if len(self._counted) >= MOST_SHAPES_SHARED:
                self._counted.clear()
            counted = self._counted[state.shape.digest] = units_counted(state.shape, columns)
        state.counted = counted
        self._add_units(columns, row, counted, 1)
        columns.generation[row] = version

    def take(self, state: PodState, version: int) -> None:
        if state.node_row < 0:
            return
        columns = self._own_used()
        self._add_units(columns, state.node_row, state.counted, -1)
        columns.generation[state.node_row] = version
        state.node_row = -1

    def touch(self, row: int, version: int) -> None:
        """Something about a pod on it is different, and not what it uses."""
        self._own_used().generation[row] = version

    def _add_units(self, columns: NodeColumns, row: int, counted: tuple[tuple[int, int], ...], sign: int) -> None:
        used, exact = columns.used, self._exact
        for column, units in counted:
            total = int(used[column, row]) if not exact else exact.get((column, row), int(used[column, row]))
            total += sign * units
            if total > MOST_USED:
                exact[column, row] = total
            elif exact:
                exact.pop((column, row), None)
            used[column, row] = min(total, MOST_USED)

    def _own_used(self) -> NodeColumns:
        """The columns, with `used` and `generation` that no snapshot reads."""
        columns = self.columns
        if self._used_shared:
            self._used_shared = False
            columns = self._columns = msgspec.structs.replace(
                columns, used=columns.used.copy(), generation=columns.generation.copy()
            )
        return columns
