"""A gang as parts within parts, each with a rule of its own, and how many whole copies of a part a domain could hold.

The counts are upper bounds: a domain that they exclude cannot hold the part. For equal parts of one shape they are
exact, so that a domain is rarely tried in vain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import numpy as np

from allhands.core.topology.rules import close_enough
from allhands.core.topology.search import LARGEST_COUNT, outermost
from allhands.model.podgroup import TopologyMode, TopologyRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allhands.core.columns import Column
    from allhands.core.topology.columns import TopologyColumns

PLENTY: Final = 2**31 - 1
"""More pods than a node holds, and more copies than there are: sums and products of two of them stay in 64 bits."""


class PartDemand(msgspec.Struct, frozen=True):
    """A group or sub-group to be placed. Names are unique within the outermost part.

    `needs` are the members that it has beside those of its children, as (number of the shape, count); `bound` are the
    nodes of its members that have their place and are not among the needs. Of the children, `min_children` must find
    a place, all if that is None.
    """

    name: str = ""
    needs: tuple[tuple[int, int], ...] = ()
    rule: TopologyRule | None = None
    children: tuple[PartDemand, ...] = ()
    min_children: int | None = None
    bound: tuple[int, ...] = ()

    @property
    def required_children(self) -> int:
        if self.min_children is None:
            return len(self.children)
        return min(max(self.min_children, 0), len(self.children))

    def walk(self) -> Iterator[PartDemand]:
        """Itself and all parts below, parents first."""
        pending = [self]
        while pending:
            part = pending.pop()
            yield part
            pending.extend(reversed(part.children))


class Kind(NamedTuple):
    """What equal parts have in common. Two parts that differ in their names alone are of one kind."""

    number: int
    rule: TopologyRule | None
    own: tuple[int, ...]
    """Members that are not in children, a number a shape."""
    total: tuple[int, ...]
    """Members without which it cannot be whole, a number a shape."""
    children: tuple[tuple[Kind, int], ...]
    """Kinds of children with their number."""
    all_required: bool

    @property
    def size(self) -> int:
        return min(sum(self.total), LARGEST_COUNT)


class Kinds:
    """The kind of every part of a gang."""

    def __init__(self, whole: PartDemand, shapes: int) -> None:
        self._shapes = shapes
        self._by_key: dict[tuple[object, ...], Kind] = {}
        self.by_name: dict[str, Kind] = {}
        self.bound_by_name: dict[str, tuple[int, ...]] = {}
        """Nodes of the members that have their place, those of the parts below included."""
        for part in reversed(list(whole.walk())):
            self.by_name[part.name] = self._kind(part)
            below = (row for child in part.children for row in self.bound_by_name[child.name])
            self.bound_by_name[part.name] = (*part.bound, *below)

    def _kind(self, part: PartDemand) -> Kind:
        below = [self.by_name[child.name] for child in part.children]
        counts: dict[int, int] = {}
        for kind in below:
            counts[kind.number] = counts.get(kind.number, 0) + 1
        key = (part.rule, part.needs, part.required_children, part.bound, tuple(sorted(counts.items())))
        if (known := self._by_key.get(key)) is None:
            by_number = {kind.number: kind for kind in below}
            own = [0] * self._shapes
            for shape, count in part.needs:
                own[shape] = min(own[shape] + max(count, 0), LARGEST_COUNT)
            required = part.required_children
            total = [
                min(own[shape] + sum(sorted(kind.total[shape] for kind in below)[:required]), LARGEST_COUNT)
                for shape in range(self._shapes)
            ]
            known = Kind(
                number=len(self._by_key),
                rule=part.rule,
                own=tuple(own),
                total=tuple(total),
                children=tuple((by_number[number], count) for number, count in sorted(counts.items())),
                all_required=required == len(below),
            )
            self._by_key[key] = known
        return known


def copies_inside(columns: TopologyColumns, kind: Kind, sums: Column) -> Column:
    """How many copies of the part each domain could hold at most, whatever its own rule. `sums` has a row a shape."""
    copies = np.full(len(columns), PLENTY, dtype=np.int64)
    for shape, count in enumerate(kind.total):
        if count:
            np.minimum(copies, sums[shape] // count, out=copies)
    if kind.all_required:
        for child, count in kind.children:
            np.minimum(copies, copies_under_rule(columns, child, sums) // count, out=copies)
    return copies


def copies_under_rule(columns: TopologyColumns, kind: Kind, sums: Column) -> Column:
    """The same, with every copy in a domain that its rule allows: the sum over the widest of those inside."""
    copies = copies_inside(columns, kind, sums)
    if kind.rule is None or kind.rule.mode is TopologyMode.SOFT:
        return copies
    trees = columns.trees_named(kind.rule.tree)
    if len(trees) > 1:
        return copies
    close = close_enough(columns, kind.rule) & columns.usable
    running = np.zeros(len(columns) + 1, dtype=np.int64)
    np.add.accumulate(np.where(outermost(columns, close), copies, 0), out=running[1:])
    summed = running[columns.after] - running[:-1]
    elsewhere = columns.tree != trees[0] if trees else np.zeros(len(columns), dtype=np.bool_)
    # A domain of another tree may share nodes with the rule's domains in any way: there only the count speaks.
    return np.where(close | elsewhere, copies, np.minimum(summed, PLENTY))
