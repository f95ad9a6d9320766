"""How a gang is spread over the nodes of the domain that was chosen for it: over as few closer domains as possible.

Ranks follow the tree: members that are neighbours in rank are neighbours in the network. Nothing here looks at
resources; counts of what fits are all it knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from allhands.core.topology.columns import NOWHERE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allhands.core.columns import Column, Mask, Rows
    from allhands.core.topology.columns import TopologyColumns


class Share(NamedTuple):
    """How many members each of these nodes gets."""

    rows: Rows
    counts: Column


def order_rows(columns: TopologyColumns, rows: Rows, counts: Column, tree: str | None = None) -> Share:
    """The same nodes in the order in which ranks are put on them; those outside the tree come last."""
    positions = columns.trees_named(tree)
    home = columns.home[positions[0], rows] if positions else np.zeros(len(rows), dtype=np.int64)
    order = np.lexsort((rows, home, home == NOWHERE))
    return Share(rows[order], counts[order])


def descend(
    columns: TopologyColumns,
    domain: int | None,
    fit: Column,
    need: int,
    *,
    sums: Column | None = None,
    near: Sequence[int] | Rows = (),
    tree: str | None = None,
) -> Share | None:
    """Nodes of the domain for `need` members, in the order of ranks; None if they do not fit.

    At every level: the largest domains whole, as few as will do, and for the rest the fullest that holds it. Where
    members are already (`near`) comes first. Without a domain: from all nodes, as they lie in the tree.
    """
    share = choose_nodes(columns, domain, fit, need, sums=sums, near=near, tree=tree)
    if share is None:
        return None
    return order_rows(columns, share.rows, share.counts, tree if domain is None else columns.domains[domain].tree)


def choose_nodes(
    columns: TopologyColumns,
    domain: int | None,
    fit: Column,
    need: int,
    *,
    sums: Column | None = None,
    near: Sequence[int] | Rows = (),
    tree: str | None = None,
) -> Share | None:
    """The same, in no order that means anything."""
    fit = columns.bounded(fit)
    if sums is None:
        sums = columns.sums(fit)
    rows: list[Rows] = []
    counts: list[Column] = []
    here: int | None = domain
    while need > 0:
        units = _units_of(columns, here, tree)
        inside = len(units.domains)
        capacity = fit[units.rows] if inside == 0 else np.concatenate((sums[units.domains], fit[units.rows]))
        whole, last, need = _fewest(capacity, need, _nearby(columns, units, near) if len(near) else None)
        if last is None and need:
            return None
        nodes = units.rows[whole[whole >= inside] - inside]
        for unit in whole[whole < inside].tolist():
            below = columns.rows(int(units.domains[unit]))
            nodes = np.concatenate((nodes, below[fit[below] > 0]))
        rows.append(nodes)
        counts.append(fit[nodes])
        if last is None:
            break
        if last >= inside:
            rows.append(units.rows[last - inside : last - inside + 1])
            counts.append(np.array([need], dtype=np.int64))
            break
        here = int(units.domains[last])
    if not rows:
        return Share(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
    return Share(np.concatenate(rows), np.concatenate(counts))


def is_closest(columns: TopologyColumns, domain: int | None) -> bool:
    """Whether no other domain lies in it."""
    return domain is not None and int(columns.after[domain]) == domain + 1


def closest_rows(
    columns: TopologyColumns,
    domain: int | None,
    fit: Column,
    need: int,
    *,
    near: Sequence[int] | Rows = (),
    tree: str | None = None,
) -> Rows | None:
    """All nodes of those closest domains that `descend` would use; None if there is no choice, or no room.

    Which of these nodes get the members is left to the caller: nodes of one such domain are equally near.
    """
    positions = columns.trees_named(tree) if domain is None else (int(columns.tree[domain]),)
    if not positions or is_closest(columns, domain):
        return None
    share = choose_nodes(columns, domain, fit, need, near=near, tree=tree)
    if share is None:
        return None
    rows = np.arange(columns.home.shape[1]) if domain is None else columns.rows(domain)
    home = columns.home[positions[0]]
    used = np.zeros(len(columns) + 1, dtype=np.bool_)
    # The last entry is that of NOWHERE.
    used[home[share.rows]] = True
    found: Rows = rows[used[home[rows]]]
    return found


class _Units(NamedTuple):
    """What a domain consists of directly: closer domains, and nodes that are in none of them."""

    domains: Rows
    rows: Rows


def _units_of(columns: TopologyColumns, domain: int | None, tree: str | None) -> _Units:
    if domain is None:
        positions = columns.trees_named(tree)[:1]
        outside = ~columns.unhealthy_rows
        if not positions:
            return _Units(np.empty(0, dtype=np.int64), outside.nonzero()[0])
        roots = (columns.parent == NOWHERE) & (columns.tree == positions[0]) & columns.usable
        return _Units(roots.nonzero()[0], (outside & (columns.home[positions[0]] == NOWHERE)).nonzero()[0])
    if is_closest(columns, domain):
        return _Units(np.empty(0, dtype=np.int64), columns.rows(domain))
    inside = (columns.parent == domain).nonzero()[0]
    return _Units(inside, columns.rows_in_order[columns.first[domain] : columns.first[domain + 1]])


def _nearby(columns: TopologyColumns, units: _Units, near: Sequence[int] | Rows) -> Mask:
    """Which of the units hold one of these nodes."""
    rows = np.asarray(near, dtype=np.int64)
    found = np.zeros(len(units.domains) + len(units.rows), dtype=np.bool_)
    if len(units.domains):
        homes = np.sort(columns.home[columns.tree[units.domains[0]], rows])
        first = np.searchsorted(homes, units.domains)
        found[: len(units.domains)] = np.searchsorted(homes, columns.after[units.domains]) > first
    found[len(units.domains) :] = np.isin(units.rows, rows)
    return found


def _fewest(capacity: Column, need: int, nearby: Mask | None) -> tuple[Rows, int | None, int]:
    """The units to use whole, the one to use in part, and how many that one gets; no such one if there is no room."""
    whole: list[Rows] = [np.empty(0, dtype=np.int64)]
    for pool in (capacity > 0,) if nearby is None else (nearby & (capacity > 0), ~nearby & (capacity > 0)):
        units = pool.nonzero()[0]
        if len(units) == 0 or need == 0:
            continue
        order = units[np.argsort(-capacity[units], kind="stable")]
        sizes = capacity[order]
        reached = np.add.accumulate(sizes)
        if reached[-1] < need:
            whole.append(order)
            need -= int(reached[-1])
            continue
        count = int(np.searchsorted(reached, need))
        whole.append(order[:count])
        need -= int(reached[count - 1]) if count else 0
        enough = sizes[count:][sizes[count:] >= need]
        return np.concatenate(whole), int(order[count + np.searchsorted(-enough, -enough[-1])]), need
    return np.concatenate(whole), None, need
