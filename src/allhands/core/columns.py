"""Nodes as columns: one row a node, sorted by name; one int64 column a resource. All fast work in the core is on these.

A NodeColumns never changes once it is made. What a cycle places speculatively is kept in a `Room`, not here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from allhands.model.resources import CPU, MEMORY, PODS, ResourceVector

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allhands.model.node import Node

Column: TypeAlias = NDArray[np.int64]
"""One number a node, or, with two axes, one row a resource and one column a node."""
Mask: TypeAlias = NDArray[np.bool_]
Rows: TypeAlias = NDArray[np.int64]
"""Row numbers, ascending."""

ABSURD_UNITS: Final = 2**53
"""No node has, and no pod may ask for, so much: sums over a node stay exact in 64 bits, and in float64 too."""
ALWAYS_PRESENT: Final = (CPU, MEMORY, PODS)


class NodeColumns(msgspec.Struct, frozen=True, eq=False):
    """`generation` rises when anything of a node changes, `static_generation` when it is not only its pods."""

    names: tuple[str, ...]
    nodes: tuple[Node, ...]
    row_by_name: Mapping[str, int]
    resources: tuple[str, ...]
    column_by_resource: Mapping[str, int]
    allocatable: Column
    used: Column
    generation: Column
    static_generation: Column
    layout: int
    """Equal layouts have the same rows and the same resources."""

    def __len__(self) -> int:
        return len(self.names)

    def request(self, requests: ResourceVector) -> Request | None:
        """What one pod takes, as (column, units), its pod slot included; None where no node knows the resource."""
        found = [(self.column_by_resource[PODS], 1)]
        for name, units in requests.entries:
            if units <= 0:
                continue
            column = self.column_by_resource.get(name)
            if column is None or units >= ABSURD_UNITS:
                return None
            found.append((column, units))
        return tuple(sorted(found))

    def total(self) -> ResourceVector:
        sums = self.allocatable.sum(axis=1)
        return ResourceVector.of({name: int(sums[index]) for index, name in enumerate(self.resources)})


Request: TypeAlias = tuple[tuple[int, int], ...]
"""(resource column, units), ascending, none of them zero."""


def resource_names(nodes: tuple[Node, ...]) -> tuple[str, ...]:
    """The columns that these nodes need, in canonical order."""
    return tuple(sorted({*ALWAYS_PRESENT, *(name for node in nodes for name in node.allocatable)}))


def allocatable_columns(nodes: tuple[Node, ...], resources: tuple[str, ...]) -> Column:
    """(R, N); what a node does not list, it does not have."""
    columns = np.zeros((len(resources), len(nodes)), dtype=np.int64)
    index = {name: column for column, name in enumerate(resources)}
    for row, node in enumerate(nodes):
        for name, units in node.allocatable.entries:
            columns[index[name], row] = units
    return columns
