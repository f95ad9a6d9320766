"""Domains as columns: a domain is a slice of one array of rows, so what fits in every domain is one running sum.

Domains are numbered depth first: those inside a domain follow it without a gap. Built once for a topology and a set of
nodes, never changed after, and never refused: what is broken is set aside with a reason, the rest works.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import msgspec
import numpy as np

from allhands.core.topology.soundness import broken, sound_domains

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from allhands.core.columns import Column, Mask, Rows
    from allhands.model.domain import Domain
    from allhands.model.podgroup import TopologyRule
    from allhands.model.reason import Explanation

NOWHERE: Final = -1
"""In place of the number of a domain, where there is none."""
LARGEST_SUM_BITS: Final = 62

Kind = TypeVar("Kind", np.int64, np.bool_)


class TopologyColumns(msgspec.Struct, frozen=True, eq=False):
    """One entry a domain, by number; `home` has one row a tree and one column a node."""

    domains: tuple[Domain, ...]
    number_by_name: Mapping[str, int]
    trees: tuple[str, ...]
    tree: Column
    """The position in `trees`."""
    tier: Column
    parent: Column
    """The domain around it, or NOWHERE."""
    wider: Column
    """The domain around it, or itself."""
    after: Column
    """The number that follows those of the domains inside it."""
    usable: Mask
    """Neither unhealthy nor inside an unhealthy one."""
    first: Column
    end: Column
    """The usable nodes of a domain, at any depth, are `rows_in_order[first:end]`."""
    rows_in_order: Rows
    home: Column
    """The closest domain of each node, healthy or not, or NOWHERE."""
    by_tier_name: Mapping[str, Rows]
    """The domains that carry the name of a tier."""
    set_aside: Mapping[str, Explanation]
    """Broken domains and those that hang on them, by name."""
    nodes_set_aside: Mapping[str, Explanation]
    """Nodes that two domains of a tree claim: they are in neither."""
    unhealthy: Mapping[str, Explanation]
    unhealthy_rows: Mask
    """Nodes in an unhealthy domain of some tree."""
    unknown_nodes: int
    """How many nodes are named by domains and not known."""
    fit_limit: int
    """A power of two. Below it, no sum leaves 64 bits."""
    close_by_rule: dict[TopologyRule, Mask] = msgspec.field(default_factory=dict)
    """What is remembered of rules (see `rules.py`): it saves work and changes no answer."""

    @staticmethod
    def build(domains: Iterable[Domain], names: tuple[str, ...]) -> TopologyColumns:
        """`names` are those of the nodes, by row."""
        sound = sound_domains(domains)
        return _build(sound.ordered, names, sound.set_aside)

    def __len__(self) -> int:
        return len(self.domains)

    def sums(self, fit: Column) -> Column:
        """How many of the pods that fit on each node, by row, fit in each domain. With two axes, a row a shape.

        Only usable nodes count. What is forbidden to the pods must be 0; a count below that is taken for 0, one that
        is absurd for the largest whose sum is exact.
        """
        if fit.ndim > 1:
            return np.array([self.sums(row) for row in fit], dtype=np.int64).reshape(len(fit), len(self))
        running = np.empty(len(self.rows_in_order) + 1, dtype=np.int64)
        running[0] = 0
        self.bounded(fit).take(self.rows_in_order, out=running[1:], mode="clip")
        np.add.accumulate(running, out=running)
        return running[self.end] - running[self.first]

    def bounded(self, fit: Column) -> Column:
        """The counts, within what can be summed."""
        if 0 <= int(np.bitwise_or.reduce(fit)) < self.fit_limit:
            return fit
        return fit.clip(0, self.fit_limit - 1)

    def rows(self, domain: int) -> Rows:
        """The usable nodes of a domain, neighbours beside each other."""
        return self.rows_in_order[self.first[domain] : self.end[domain]]

    def around_all(self, rows: Sequence[int] | Rows) -> Mask:
        """The domains that hold all of these nodes, usable or not. All domains, if there are no nodes."""
        if len(rows) == 0:
            return np.ones(len(self), dtype=np.bool_)
        homes = self.home[:, np.asarray(rows, dtype=np.int64)]
        lowest, highest = homes.min(axis=1)[self.tree], homes.max(axis=1)[self.tree]
        numbers = np.arange(len(self))
        found: Mask = (lowest != NOWHERE) & (numbers <= lowest) & (highest < self.after)
        return found

    def trees_named(self, tree: str | None) -> tuple[int, ...]:
        """The positions of the trees that are meant: all, if none is named."""
        if tree is None:
            return tuple(range(len(self.trees)))
        return tuple(position for position, name in enumerate(self.trees) if name == tree)

    def domain_at(self, row: int, tier: int, tree: str | None = None) -> int | None:
        """The domain of this tier that holds the node: in this tree, or in the first that has one."""
        for position in self.trees_named(tree):
            domain = int(self.home[position, row])
            while domain != NOWHERE and self.tier[domain] < tier:
                domain = int(self.parent[domain])
            if domain != NOWHERE and self.tier[domain] == tier:
                return domain
        return None


def _build(
    domains: tuple[Domain, ...], names: tuple[str, ...], set_aside: Mapping[str, Explanation]
) -> TopologyColumns:
    number_by_name = {domain.name: number for number, domain in enumerate(domains)}
    parent = _column(NOWHERE if it.parent is None else number_by_name[it.parent] for it in domains)
    trees = tuple(dict.fromkeys(domain.tree for domain in domains))
    tree_position = {tree: position for position, tree in enumerate(trees)}
    tree = _column(tree_position[domain.tree] for domain in domains)
    after = _after(parent)
    usable, unhealthy = _health(domains, parent)
    claims = _claims(domains, names, tree, after)
    counted = usable[claims.domains]
    homes, rows = claims.domains[counted], claims.rows[counted]
    home = np.full((len(trees), len(names)), NOWHERE, dtype=np.int64)
    home[tree[claims.domains], claims.rows] = claims.domains
    unhealthy_rows = np.zeros(len(names), dtype=np.bool_)
    unhealthy_rows[claims.rows[~counted]] = True
    by_tier_name: dict[str, list[int]] = {}
    for number, domain in enumerate(domains):
        if domain.tier_name:
            by_tier_name.setdefault(domain.tier_name, []).append(number)
    return TopologyColumns(
        domains=domains,
        number_by_name=number_by_name,
        trees=trees,
        tree=_fixed(tree),
        tier=_fixed(_column(domain.tier for domain in domains)),
        parent=_fixed(parent),
        wider=_fixed(np.where(parent == NOWHERE, np.arange(len(domains)), parent)),
        after=_fixed(after),
        usable=_fixed(usable),
        first=_fixed(np.searchsorted(homes, np.arange(len(domains)))),
        end=_fixed(np.searchsorted(homes, after)),
        rows_in_order=_fixed(rows),
        home=_fixed(home),
        by_tier_name={name: _fixed(_column(numbers)) for name, numbers in sorted(by_tier_name.items())},
        set_aside=set_aside,
        nodes_set_aside=claims.set_aside,
        unhealthy=unhealthy,
        unhealthy_rows=_fixed(unhealthy_rows),
        unknown_nodes=claims.unknown_nodes,
        fit_limit=1 << (LARGEST_SUM_BITS - len(rows).bit_length()),
    )


class _Claims(NamedTuple):
    """Which domain each node is in: pairs in the order of the domains, then of the rows."""

    domains: Column
    rows: Rows
    set_aside: Mapping[str, Explanation]
    unknown_nodes: int


def _claims(domains: tuple[Domain, ...], names: tuple[str, ...], tree: Column, after: Column) -> _Claims:
    """A node that two domains of a tree claim is in the inner one if one lies in the other, else in none of them."""
    row_by_name = {name: row for row, name in enumerate(names)}
    rows = _column(row_by_name.get(name, NOWHERE) for domain in domains for name in domain.nodes)
    owners = np.repeat(np.arange(len(domains)), [len(domain.nodes) for domain in domains])
    unknown: set[str] = set()
    if len(rows) and rows.min() == NOWHERE:
        unknown.update(name for domain in domains for name in domain.nodes if name not in row_by_name)
        owners, rows = owners[rows != NOWHERE], rows[rows != NOWHERE]
    # Claims on one node of one tree come together, wider domains before those inside them.
    order = np.lexsort((owners, rows, tree[owners]))
    owners, rows = owners[order], rows[order]
    again = np.zeros(len(rows) + 1, dtype=np.bool_)
    again[1:-1] = (rows[1:] == rows[:-1]) & (tree[owners[1:]] == tree[owners[:-1]])
    node = np.cumsum(~again[:-1])
    apart = again[1:-1] & (owners[1:] >= after[owners[:-1]])
    doubtful = np.isin(node, node[1:][apart])
    set_aside: dict[str, Explanation] = {}
    for number in np.unique(node[doubtful]).tolist():
        claimed = np.flatnonzero(node == number)
        among = ", ".join(f'"{domains[owner].name}"' for owner in np.unique(owners[claimed]).tolist())
        name = names[rows[claimed[0]]]
        set_aside[name] = broken(f'node "{name}" is in several domains of one tree, none inside the other: {among}')
    kept = ~doubtful & ~again[1:]
    owners, rows = owners[kept], rows[kept]
    order = np.lexsort((rows, owners))
    return _Claims(owners[order], rows[order], dict(sorted(set_aside.items())), len(unknown))


def _after(parent: Column) -> Column:
    after = np.arange(1, len(parent) + 1)
    for number in range(len(parent) - 1, -1, -1):
        if (around := parent[number]) != NOWHERE:
            after[around] = max(after[around], after[number])
    return after


def _health(domains: tuple[Domain, ...], parent: Column) -> tuple[Mask, dict[str, Explanation]]:
    usable = np.ones(len(domains), dtype=np.bool_)
    reasons: dict[str, Explanation] = {}
    for number, domain in enumerate(domains):
        if not domain.healthy:
            reasons[domain.name] = broken(f'domain "{domain.name}" is unhealthy')
        elif parent[number] != NOWHERE and not usable[parent[number]]:
            reasons[domain.name] = broken(f'domain "{domain.name}" lies in "{domain.parent}", which is not used')
        else:
            continue
        usable[number] = False
    return usable, reasons


def _column(values: Iterable[int]) -> Column:
    return np.fromiter(values, dtype=np.int64)


def _fixed(array: NDArray[Kind]) -> NDArray[Kind]:
    array.setflags(write=False)
    return array
