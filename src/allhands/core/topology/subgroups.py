"""Domains for a gang whose sub-groups have rules of their own: each in a rack, say, and all of them in one block.

The outer domain is chosen first, the closest that could hold all parts by count; then the parts inside it, the largest
first, each in the fullest domain that holds it. A plan is a proposal: the caller places it and asks for the next if
that fails, with the pairs of part and domain that failed in `avoid`.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np

from allhands.core.topology.ledger import Ledger
from allhands.core.topology.parts import PLENTY, Kind, Kinds, PartDemand, copies_inside, copies_under_rule
from allhands.core.topology.rules import rule_fault
from allhands.core.topology.search import in_order, left_over, unsatisfied, why_not
from allhands.model.podgroup import TopologyMode
from allhands.model.reason import Explanation, Reason, explain

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from allhands.core.columns import Column, Mask
    from allhands.core.topology.columns import TopologyColumns
    from allhands.core.topology.ledger import Count

OUTER_TRIES: Final = 64
INNER_TRIES: Final = 8
"""How many domains are tried in vain before a part is given up."""

CROWDED: Final = 2**60
"""Added to what is left over in a domain that only a hopeful count allows: it comes after all others of its tier."""
FINENESS: Final = 2**20

Assignment: TypeAlias = "Mapping[str, int | None]"
"""The domain of each part, or None for anywhere. A part without a rule has that of the part around it."""


def plan_subgroups(
    columns: TopologyColumns, whole: PartDemand, fits: Column, *, avoid: Collection[tuple[str, int | None]] = ()
) -> Iterator[Assignment]:
    """Assignments of all parts to domains, best first. `fits`: a row a shape, a column a node."""
    attempt = _Attempt(columns, Kinds(whole, len(fits)), Ledger.open(columns, fits), frozenset(avoid))
    failures = 0
    for domain in attempt.options(whole, _EVERYWHERE):
        trial = attempt.fork()
        if trial.fill(whole, _EVERYWHERE.narrowed(columns, domain)):
            yield trial.assignment
        elif (failures := failures + 1) >= OUTER_TRIES:
            return


def why_no_plan(columns: TopologyColumns, whole: PartDemand, fits: Column) -> Explanation:
    """What stands in the way: a rule that cannot be met, a part too large for every domain, or too few whole parts."""
    hard = [(part, rule) for part in whole.walk() if (rule := part.rule) and rule.mode is TopologyMode.HARD]
    for _, rule in hard:
        if (fault := rule_fault(columns, rule)) is not None:
            return fault
    kinds = Kinds(whole, len(fits))
    sums = Ledger.open(columns, fits).hopeful.sums
    for part, rule in hard:
        kind, bound = kinds.by_name[part.name], kinds.bound_by_name[part.name]
        if next(in_order(columns, rule, left_over(sums, kind.total), bound), None) is None:
            return why_not(columns, rule, sums, kind.total, bound=bound, subgroup=part.name)
    for part, rule in hard:
        kind, bound = kinds.by_name[part.name], kinds.bound_by_name[part.name]
        held = _held_in_whole_parts(columns, kind, sums)
        if next(in_order(columns, rule, held - kind.size, bound), None) is None:
            return unsatisfied(columns, rule, held, kind.size, bound, subgroup=part.name)
    return _too_few_places(columns, whole, fits)


def _held_in_whole_parts(columns: TopologyColumns, kind: Kind, sums: Column) -> Column:
    """How many of the part's members each domain holds, if sub-groups count only as wholes."""
    held = np.zeros(len(columns), dtype=np.int64)
    for shape, count in enumerate(kind.own if kind.all_required else kind.total):
        held += np.minimum(sums[shape], count)
    if kind.all_required:
        for child, count in kind.children:
            held += np.minimum(copies_under_rule(columns, child, sums), count) * child.size
    return held


def _too_few_places(columns: TopologyColumns, whole: PartDemand, fits: Column) -> Explanation:
    """Every part has a domain, but they do not find places beside each other."""
    attempt = _Attempt(columns, Kinds(whole, len(fits)), Ledger.open(columns, fits), frozenset())
    attempt.fill(whole, _EVERYWHERE.narrowed(columns, next(attempt.options(whole, _EVERYWHERE), None)))
    need = max(sum(1 for _ in whole.walk()) - 1, 1)
    have = min(len(attempt.assignment), need) - 1
    without = next((it.name for it in whole.walk() if it.name not in attempt.assignment), "")
    numbers: dict[str, int | str] = {"have": have, "need": need, "what": "places in a domain", "without": without}
    return explain(Reason.SUB_GROUP_INCOMPLETE, subgroup=whole.name, **numbers)


class _Region(NamedTuple):
    """Where a part must be: in the domain, and in all of the fences, of which every tree has one at most."""

    domain: int | None
    fences: tuple[int, ...]

    def narrowed(self, columns: TopologyColumns, domain: int | None) -> _Region:
        if domain is None:
            return self
        others = (fence for fence in self.fences if columns.tree[fence] != columns.tree[domain])
        return _Region(domain, (*others, domain))

    def rows(self, columns: TopologyColumns) -> Mask:
        """The nodes inside."""
        inside = np.ones(columns.home.shape[1], dtype=np.bool_)
        for fence in self.fences:
            here = np.zeros(len(inside), dtype=np.bool_)
            here[columns.rows(fence)] = True
            inside &= here
        return inside


_EVERYWHERE: Final = _Region(None, ())


class _Attempt:
    """Parts that have found a domain, and what still fits beside them."""

    def __init__(
        self, columns: TopologyColumns, kinds: Kinds, ledger: Ledger, avoid: frozenset[tuple[str, int | None]]
    ) -> None:
        self.columns = columns
        self.kinds = kinds
        self.ledger = ledger
        self.avoid = avoid
        self.assignment: dict[str, int | None] = {}

    def fork(self) -> _Attempt:
        twin = _Attempt(self.columns, self.kinds, self.ledger.copy(), self.avoid)
        twin.assignment = dict(self.assignment)
        return twin

    def adopt(self, twin: _Attempt) -> None:
        self.ledger, self.assignment = twin.ledger, twin.assignment

    def options(self, part: PartDemand, region: _Region) -> Iterator[int | None]:
        """Domains for a part, best first; of equally close ones those that a careful count allows. None: the region."""
        kind = self.kinds.by_name[part.name]
        if part.rule is None:
            if (part.name, region.domain) not in self.avoid:
                yield None
            return
        left = self._left_over(self.ledger.hopeful, kind, region)
        if self.ledger.careful is not self.ledger.hopeful:
            crowded = self._crowded(self._sums_in(self.ledger.careful, kind, region), kind)
            left[(left >= 0) & crowded] += CROWDED
        for domain in in_order(self.columns, part.rule, left, self.kinds.bound_by_name[part.name]):
            if (part.name, region.domain if domain is None else domain) not in self.avoid:
                yield domain

    def _left_over(self, count: Count, kind: Kind, region: _Region) -> Column:
        columns, sums = self.columns, self._sums_in(count, kind, region)
        left = left_over(sums[0], kind.total[0]) if len(sums) == 1 else left_over(sums, kind.total)
        if kind.children:
            left[copies_inside(columns, kind, sums) < 1] = -1
        for fence in region.fences:
            beside = columns.tree == columns.tree[fence]
            beside[fence : columns.after[fence]] = False
            left[beside] = -1
        return left

    def _sums_in(self, count: Count, kind: Kind, region: _Region) -> Column:
        """What fits in each domain on nodes of the region. Domains inside a fence have no others anyway."""
        columns = self.columns
        trees = set(columns.trees_named(kind.rule.tree if kind.rule else None))
        if not region.fences or trees == {int(columns.tree[fence]) for fence in region.fences}:
            return count.sums
        return columns.sums(np.where(region.rows(columns), count.fits, 0))

    @staticmethod
    def _crowded(sums: Column, kind: Kind) -> Mask:
        """Where the shapes together would take more than all of a domain, each the fraction that it takes alone."""
        taken = np.zeros(sums.shape[1], dtype=np.int64)
        for shape, count in enumerate(kind.total):
            if count:
                room = np.maximum(sums[shape], 1)
                taken += np.where(sums[shape] < count, FINENESS + 1, min(count, PLENTY) * FINENESS // room)
        return taken > FINENESS

    def fill(self, part: PartDemand, region: _Region) -> bool:
        """Sets down all that is in a part, inside the region that was chosen for it."""
        self.assignment[part.name] = region.domain
        if not self._place_children(part, region):
            return False
        own = self.kinds.by_name[part.name].own
        return all(self._take(shape, count, region) for shape, count in enumerate(own) if count)

    def _take(self, shape: int, count: int, region: _Region) -> bool:
        within = region.rows(self.columns) if len(region.fences) > 1 else None
        return self.ledger.take(shape, count, region.domain, within)

    def _place_children(self, part: PartDemand, region: _Region) -> bool:
        required = part.required_children
        all_required = required == len(part.children)
        placed = 0
        for equal in self._in_turn(part, all_required):
            start = 0
            while start < len(equal) and placed < required:
                settled = self._settle(equal[start : start + required - placed], region)
                if not settled and all_required:
                    return False
                # Where one of several equal parts finds no place, the next finds none, but for those to avoid.
                start += settled or (1 if self.avoid else len(equal))
                placed += settled
        return placed >= required

    def _in_turn(self, part: PartDemand, all_required: bool) -> list[list[PartDemand]]:
        """Equal children together: first those with bound members, then the largest (or smallest, if some may wait)."""
        equal: dict[int, list[PartDemand]] = {}
        for child in part.children:
            equal.setdefault(self.kinds.by_name[child.name].number, []).append(child)

        def turn(same: list[PartDemand]) -> tuple[bool, int]:
            size = self.kinds.by_name[same[0].name].size
            return not self.kinds.bound_by_name[same[0].name], -size if all_required else size

        return sorted(equal.values(), key=turn)

    def _settle(self, equal: Sequence[PartDemand], region: _Region) -> int:
        """Finds a domain for the first of these equal parts, and sets down as many of them in it as it holds."""
        part = equal[0]
        for domain in itertools.islice(self.options(part, region), INNER_TRIES):
            inner = region.narrowed(self.columns, domain)
            if many := self._settle_many(equal, domain, inner):
                return many
            if domain is not None and not part.children:
                return int(self.fill(part, inner))  # it was counted just now, so there is nothing to take back
            trial = self.fork()
            if trial.fill(part, inner):
                self.adopt(trial)
                return 1
        return 0

    def _settle_many(self, equal: Sequence[PartDemand], domain: int | None, region: _Region) -> int:
        """The same at once, for parts of a single shape: the fullest domain stays the fullest until it is full."""
        kind = self.kinds.by_name[equal[0].name]
        shapes = [shape for shape, count in enumerate(kind.own) if count]
        if kind.children or len(shapes) != 1 or domain is None or equal[0].bound:
            return 0
        shape, count = shapes[0], kind.own[shapes[0]]
        room = int(self.ledger.careful.sums[shape, domain])
        many = 1 if self.avoid else max(1, min(len(equal), room // count))
        if not self._take(shape, many * count, region):
            return 0
        self.assignment.update((part.name, domain) for part in equal[:many])
        return many
