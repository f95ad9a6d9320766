"""How far apart the members of a gang are: the numbers that explanations and benchmarks compare placements by."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from allhands.core.topology.columns import NOWHERE
from allhands.core.topology.rules import in_tree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allhands.core.columns import Rows
    from allhands.core.topology.columns import TopologyColumns


def closest_common(columns: TopologyColumns, rows: Sequence[int] | Rows, tree: str | None = None) -> int | None:
    """The closest domain that holds all of these nodes: of this tree, or of any."""
    if len(rows) == 0:
        return None
    around = (columns.around_all(rows) & in_tree(columns, tree)).nonzero()[0]
    return int(around[columns.tier[around].argmin()]) if len(around) else None


def tiers_crossed(columns: TopologyColumns, rows: Sequence[int] | Rows, tree: str | None = None) -> int | None:
    """The tier of the closest common domain; None if no domain holds them all."""
    common = closest_common(columns, rows, tree)
    return None if common is None else int(columns.tier[common])


def domains_crossed(columns: TopologyColumns, rows: Sequence[int] | Rows, tree: str | None = None) -> int:
    """How many domains, below the closest common one, the nodes are spread over: 0 if all share the closest domain.

    Two racks of a block are 2, two racks of two blocks 4. A node outside the tree is a domain of its own. Without a
    tree, the one that joins them best.
    """
    nodes = np.unique(np.asarray(rows, dtype=np.int64))
    return min((_crossed(columns, nodes, position) for position in columns.trees_named(tree)), default=0)


def _crossed(columns: TopologyColumns, nodes: Rows, position: int) -> int:
    if len(nodes) == 0:
        return 0
    homes = np.unique(columns.home[position, nodes])
    inside = homes[homes != NOWHERE]
    outside = int(np.count_nonzero(columns.home[position, nodes] == NOWHERE))
    touched = np.zeros(len(columns), dtype=np.bool_)
    while len(inside):
        touched[inside] = True
        inside = np.unique(columns.parent[inside])
        inside = inside[inside != NOWHERE]
    common = closest_common(columns, nodes, columns.trees[position])
    if common is None:
        return int(np.count_nonzero(touched)) + outside
    return int(np.count_nonzero(touched[common + 1 : columns.after[common]]))
