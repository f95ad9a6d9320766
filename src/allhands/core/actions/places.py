"""Where a group could go at all if others went: how far in the ranks of victims one must go, and in which domains.

All of it is counting over columns, and never too pessimistic: what is ruled out here no eviction makes possible. What
is not must still be tried.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from allhands.core.actions.slots import UNLIMITED
from allhands.core.topology.search import candidates as domains_that_hold
from allhands.model.podgroup import TopologyMode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from allhands.core.actions.allocate import Option
    from allhands.core.actions.pool import Candidates
    from allhands.core.actions.victims import VictimTable
    from allhands.core.columns import Column, Mask, Rows
    from allhands.core.gang import Part
    from allhands.core.shapes import ShapeState
    from allhands.core.snapshot import GroupEntry
    from allhands.core.work import Work


class Places:
    """For one group, one way to pay, and all who may be evicted for it."""

    def __init__(
        self, work: Work, entry: GroupEntry, part: Part, option: Option, table: VictimTable, candidates: Candidates
    ) -> None:
        self._work = work
        self._entry = entry
        self._rule = part.rule
        self._table = table
        self._candidates = candidates
        self.asked = _asked(work, entry, part)
        """Shape -> how many of it, the largest first."""
        self.allowed = _allowed(work, entry, option)
        self._fits: dict[int, list[Column]] = {}

    def first_rank(self, ranks: Sequence[int]) -> int:
        """The position of the first rank up to which enough could go. More room never makes a count smaller."""
        low, high = 0, len(ranks) - 1
        while low < high:
            middle = (low + high) // 2
            if self.holds(ranks[middle]):
                high = middle
            else:
                low = middle + 1
        return low

    def holds(self, rank: int) -> bool:
        """Whether it could fit if all up to this rank were gone."""
        fits = self._fits_up_to(rank)
        if any(int(fit.sum()) < count for fit, (_, count) in zip(fits, self.asked, strict=True)):
            return False
        return not self._is_bound_to_domain or next(self._domains(rank), None) is not None

    def up_to(self, rank: int) -> list[Rows | None]:
        """The rows of each domain in which it could fit then, tightest first; None is everywhere."""
        if not self.holds(rank):
            return []
        if not self._is_bound_to_domain:
            return [None]
        domains = list(self._domains(rank))
        most = self._work.policy.max_domains_tried
        if len(domains) > most:
            domains = self._most_promising(domains, most)
        return [np.sort(self._work.topology.rows(domain)) for domain in domains]

    def rows_of(self, place: Rows | None) -> Mask:
        """The nodes of a place that the group may use."""
        if place is None:
            return self.allowed
        inside = np.zeros(len(self.allowed), dtype=np.bool_)
        inside[place] = True
        return inside & self.allowed

    @property
    def _is_bound_to_domain(self) -> bool:
        return self._rule is not None and self._rule.mode is TopologyMode.HARD

    def _fits_up_to(self, rank: int) -> list[Column]:
        """How many of each shape would fit on each node if all up to a rank were gone."""
        if (known := self._fits.get(rank)) is not None:
            return known
        table, candidates = self._table, self._candidates
        gone = np.zeros(len(table), dtype=np.bool_)
        gone[candidates.groups[candidates.least_rank <= rank]] = True
        at = np.flatnonzero(gone[table.group] & ~table.gone)
        free = self._work.room.free.copy()
        for column in sorted({column for state, _ in self.asked for column, _ in state.request}):
            np.add.at(free[column], table.node[at], table.units[column, table.shape[at]])
        fits = self._fits[rank] = [
            np.where(state.static & self.allowed, _fit(state, free), 0) for state, _ in self.asked
        ]
        return fits

    def _domains(self, rank: int) -> Iterator[int]:
        rule, topology = self._rule, self._work.topology
        assert rule is not None
        if not len(topology):
            return
        node = self._work.snapshot.pods.node
        bound = [int(node[row]) for row in self._entry.bound]
        needs = [count for _, count in self.asked]
        sums = topology.sums(np.array(self._fits_up_to(rank)))
        for domain in domains_that_hold(topology, rule, sums, needs, bound=bound):
            if domain is not None:
                yield domain

    def _most_promising(self, domains: list[int], most: int) -> list[int]:
        """The tightest, and those where most of the largest shape fits already; in the order they came."""
        state, _ = self.asked[0]
        now = self._work.topology.sums(np.where(self.allowed, state.fit(self._work.room), 0))
        promising = set(sorted(domains, key=lambda domain: -int(now[domain]))[: most // 2])
        for domain in domains:
            if len(promising) < most:
                promising.add(domain)
        return [domain for domain in domains if domain in promising]


def _fit(state: ShapeState, free: Column) -> Column:
    columns = [column for column, _ in state.request]
    units = np.array([units for _, units in state.request], dtype=np.int64)[:, np.newaxis]
    fit: Column = np.minimum.reduce(free[columns] // units, axis=0).clip(0, UNLIMITED)
    return fit


def _allowed(work: Work, entry: GroupEntry, option: Option) -> Mask:
    columns = work.snapshot.columns
    allowed = np.ones(len(columns), dtype=np.bool_)
    if option.rows is not None:
        allowed[:] = False
        allowed[option.rows] = True
    for name in entry.status.avoid_nodes:
        if name in columns.row_by_name:
            allowed[columns.row_by_name[name]] = False
    return allowed


def _asked(work: Work, entry: GroupEntry, part: Part) -> list[tuple[ShapeState, int]]:
    counts: dict[str, tuple[ShapeState, int]] = {}
    for take in part.all_takes():
        state = work.state(entry.pending[take.members].shape)
        _, before = counts.get(state.shape.digest, (state, 0))
        counts[state.shape.digest] = (state, before + take.number)
    return sorted(counts.values(), key=lambda it: (-work.size_of(it[0].shape) * it[1], it[0].shape.digest))
