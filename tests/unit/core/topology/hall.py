"""A small data hall for tests: blocks of racks of nodes, with names that say where things are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from allhands.core.topology.columns import TopologyColumns
from allhands.model.domain import Domain
from allhands.model.podgroup import TopologyMode, TopologyRule

if TYPE_CHECKING:
    from allhands.core.columns import Column

HARD = TopologyMode.HARD
SOFT = TopologyMode.SOFT


def hall(blocks: int = 2, racks: int = 3, nodes: int = 4) -> list[Domain]:
    """Node "b0r1n2" is in rack "b0r1" (tier 1) of block "b0" (tier 2) of "hall" (tier 3)."""
    domains = [Domain("hall", 3, tier_name="hall")]
    for block in range(blocks):
        domains.append(Domain(f"b{block}", 2, "hall", tier_name="block"))
        for rack in range(racks):
            name = f"b{block}r{rack}"
            inside = tuple(f"{name}n{node}" for node in range(nodes))
            domains.append(Domain(name, 1, f"b{block}", inside, tier_name="rack"))
    return domains


def node_names(domains: list[Domain]) -> tuple[str, ...]:
    return tuple(sorted({node for domain in domains for node in domain.nodes}))


def columns_of(domains: list[Domain], names: tuple[str, ...] | None = None) -> TopologyColumns:
    return TopologyColumns.build(domains, node_names(domains) if names is None else names)


def fits(columns: TopologyColumns, names: tuple[str, ...], by_prefix: dict[str, int], default: int = 0) -> Column:
    """What fits on each node: of the longest prefix of its name that is given."""
    counts = []
    for name in names:
        known = [prefix for prefix in by_prefix if name.startswith(prefix)]
        counts.append(by_prefix[max(known, key=len)] if known else default)
    return np.array(counts, dtype=np.int64)


def hard(highest_tier: int | None = None, *, name: str | None = None, tree: str | None = None) -> TopologyRule:
    return TopologyRule(HARD, highest_tier, name, tree)


def soft(highest_tier: int | None = None, *, name: str | None = None, tree: str | None = None) -> TopologyRule:
    return TopologyRule(SOFT, highest_tier, name, tree)
