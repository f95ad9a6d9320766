"""Where a part that must or would like to stay together may grow: around the members that it has, or where there is
most room."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from allhands.core.topology.columns import NOWHERE
from allhands.core.topology.rules import close_enough

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from allhands.core.columns import Column, Rows
    from allhands.core.topology.columns import TopologyColumns
    from allhands.model.podgroup import TopologyRule


def allowed_around(columns: TopologyColumns, rule: TopologyRule, rows: Sequence[int]) -> Rows:
    """The usable nodes of the widest domain that the rule allows around all of these nodes; none if there is none."""
    allowed = np.flatnonzero(close_enough(columns, rule) & columns.usable & columns.around_all(rows))
    if not allowed.size:
        return np.zeros(0, dtype=np.int64)
    widest = int(allowed[np.argmax(columns.tier[allowed])])
    return np.sort(columns.rows(widest))


def roomiest(columns: TopologyColumns, rule: TopologyRule, fit: Column) -> Rows:
    """The usable nodes of the domain that the rule allows and that holds most; none if there is none."""
    allowed = np.flatnonzero(close_enough(columns, rule) & columns.usable)
    if not allowed.size:
        return np.zeros(0, dtype=np.int64)
    best = int(allowed[np.argmax(columns.sums(fit)[allowed])])
    return np.sort(columns.rows(best))


def rings(columns: TopologyColumns, tree: str | None, rows: Sequence[int]) -> Iterator[Rows]:
    """The usable nodes around any of these: those in the closest domains, then those in the domains around, and so on.

    Each holds all before it. None, if none of the nodes is in the tree; without a name, in the first one.
    """
    positions = columns.trees_named(tree)
    if not positions:
        return
    domains = np.unique(columns.home[positions[0], np.asarray(rows, dtype=np.int64)])
    domains = domains[domains != NOWHERE]
    while domains.size:
        found = [columns.rows(number) for number in domains.tolist()]
        yield np.unique(np.concatenate(found))
        parents = columns.parent[domains]
        if (parents == NOWHERE).all():
            return
        domains = np.unique(np.where(parents == NOWHERE, domains, parents))
