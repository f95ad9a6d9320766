"""What would have to go so that a group fits: tried on the Statement with the code that places it, and taken back.

In the ranks of victims it goes only as high as it must. In each place that could hold the group (a domain that its rule
allows, or everywhere) units are chosen by what their places cost, what is not needed is given back from the most
important on, and the cheapest of these scenarios wins; among equals the first, which is the tightest domain. A scenario
that does not end in a placement of the whole group is none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from allhands.core.actions.leaving import release_pods
from allhands.core.actions.offers import Lining, cheapest
from allhands.core.actions.places import Places
from allhands.core.actions.placing import place_group
from allhands.core.actions.pool import build_pool
from allhands.core.actions.selecting import Selection, improved, select_all
from allhands.core.actions.slots import UNLIMITED, Stock

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from allhands.core.actions.allocate import Option
    from allhands.core.actions.placing import Placed
    from allhands.core.actions.pool import Candidates, Pool, Unit
    from allhands.core.actions.rights import Rights
    from allhands.core.actions.victims import VictimTable
    from allhands.core.columns import Column, Mask, Rows
    from allhands.core.gang import Part
    from allhands.core.shapes import ShapeState
    from allhands.core.snapshot import GroupEntry
    from allhands.core.work import Work

MOST_TRIALS: Final = 64
"""Placements that one search may try beyond one for each place; counted work, never time."""
MOST_RANKS_TRIED: Final = 4
MOST_PLACES_COMPARED: Final = 4
"""Of more places than that, those are tried first that look cheapest, and others only if these lead nowhere."""


class Scenario(NamedTuple):
    cost: tuple[int, int]
    units: tuple[Unit, ...]
    placed: Placed


class Search:
    """For one group, one way to pay and one ground. Those who are leaving must be released on the Statement."""

    def __init__(
        self,
        work: Work,
        entry: GroupEntry,
        part: Part,
        option: Option,
        table: VictimTable,
        candidates: Candidates,
        rights: Rights,
    ) -> None:
        self._work = work
        self._entry = entry
        self._part = part
        self._table = table
        self._candidates = candidates
        self._rights = rights
        self._trials = MOST_TRIALS
        self._places = Places(work, entry, part, option, table, candidates)
        self._asked = self._places.asked
        self._lacks_quota = not rights.quota_allows()

    def best(self) -> Scenario | None:
        """The cheapest scenario, or None if none leads to a start."""
        if any(state.exists_nowhere for state, _ in self._asked) or not len(self._candidates.groups):
            return None
        ranks: list[int] = np.unique((self._candidates.rank, self._candidates.least_rank)).tolist()
        first = self._places.first_rank(ranks)
        # Beyond some ranks everything that may be taken is tried at once.
        last = max(first + MOST_RANKS_TRIED, len(ranks) - 1)
        for rank in (*ranks[first : first + MOST_RANKS_TRIED], *ranks[last:]):
            places = self._places.up_to(rank)
            if len(places) > MOST_PLACES_COMPARED:
                places = self._cheapest_first(places, rank)
            for some in (places[:MOST_PLACES_COMPARED], *([place] for place in places[MOST_PLACES_COMPARED:])):
                found = [it for place in some if (it := self._attempt(rank, place)) is not None]
                if found:
                    return min(found, key=lambda scenario: scenario.cost)
        return None

    def _cheapest_first(self, places: list[Rows | None], rank: int) -> list[Rows | None]:
        """By a first guess at the price of each, without looking at rights; in the order they came, if equal."""
        state, count = self._asked[0]
        pool = self._pool(rank, self._places.allowed)
        usable = np.ones(len(pool), dtype=np.bool_)
        prices = []
        for place in places:
            stock = Stock(pool, self._work.room.free, state.request, state.static & self._places.rows_of(place))
            missing = count - stock.total
            units = cheapest(stock, missing, usable, Lining.SPREAD_CHEAP) if missing > 0 else []
            prices.append(pool.cost(units))
        return [places[at] for at in sorted(range(len(places)), key=lambda at: prices[at])]

    def _pool(self, rank: int, rows: Mask) -> Pool:
        static = self._asked[0][0].static.copy()
        for state, _ in self._asked[1:]:
            static |= state.static
        helpful = self._helpful()
        return build_pool(self._table, self._candidates, rank, rows & static, helpful, everywhere=self._lacks_quota)

    def _helpful(self) -> Mask:
        """Which pods free a place for the largest shape all by themselves."""
        state, table = self._asked[0][0], self._table
        columns = [column for column, _ in state.request]
        units = np.array([units for _, units in state.request], dtype=np.int64)[:, np.newaxis]
        free = self._work.room.free[columns][:, table.node]
        after = np.minimum.reduce((free + table.units[columns][:, table.shape]) // units, axis=0)
        helps: Mask = after.clip(0) > np.minimum.reduce(free // units, axis=0).clip(0)
        return helps

    # -- trying

    def _attempt(self, rank: int, place: Rows | None) -> Scenario | None:
        allowed = self._places.rows_of(place)
        pool = self._pool(rank, allowed)
        within = None if allowed.all() else np.flatnonzero(allowed)
        if self._is_plain:
            return self._attempt_plainly(pool, allowed, within)
        return self._attempt_by_trial(pool, allowed, within)

    @property
    def _is_plain(self) -> bool:
        """Whether counts alone decide: equal members that ask nothing of others, and no rule inside the group."""
        return (
            len(self._asked) == 1
            and not self._asked[0][0].is_dynamic
            and not any(child.rule is not None for part in self._part.children for child in _all_parts(part))
        )

    def _attempt_plainly(self, pool: Pool, allowed: Mask, within: Rows | None) -> Scenario | None:
        state, count = self._asked[0]
        free, mask = self._work.room.free, state.static & allowed
        selection = Selection(pool, self._rights, Stock(pool, free, state.request, mask).copy, count)
        chosen = improved(selection)
        if chosen is None:
            return None
        placed = self._simulate(pool, chosen, within)
        return None if placed is None else self._scenario(pool, chosen, placed)

    def _attempt_by_trial(self, pool: Pool, allowed: Mask, within: Rows | None) -> Scenario | None:
        best: Scenario | None = None
        for most in (1, UNLIMITED) if any(state.is_dynamic for state, _ in self._asked) else (UNLIMITED,):
            chosen = self._chosen_shape_by_shape(pool, allowed, within, most)
            placed = None if chosen is None else self._simulate(pool, chosen, within)
            if chosen is not None and placed is not None:
                found = self._reduced(pool, chosen, placed, within)
                best = found if best is None or found.cost < best.cost else best
        if best is not None:
            return best
        everything = select_all(pool, self._rights)
        placed = None if everything is None else self._simulate(pool, everything, within)
        if everything is None or placed is None:
            return None
        return self._reduced(pool, everything, placed, within)

    def _chosen_shape_by_shape(self, pool: Pool, allowed: Mask, within: Rows | None, most: int) -> list[int] | None:
        """The largest shape first; what it leaves is where the next one goes."""
        work, mark = self._work, self._work.statement.mark()
        chosen: list[int] = []
        for state, count in self._asked:
            mask, shut = self._masks(pool, state, allowed)
            stock = Stock(pool, work.room.free, state.request, mask, most if state.is_dynamic else UNLIMITED, shut)
            more = Selection(pool, self._rights, stock.copy, count, already=tuple(chosen)).first()
            if more is not None:
                self._release(pool, more)
                chosen.extend(more)
            if more is None or not work.place(state, count, within):
                work.statement.rollback(mark)
                return None
        work.statement.rollback(mark)
        return chosen

    def _masks(self, pool: Pool, state: ShapeState, allowed: Mask) -> tuple[Mask, Mask | None]:
        """Where pods of the shape could go, and where only once all units on the node are gone."""
        mask = state.static & allowed
        if not state.is_dynamic:
            return mask, None
        neighbours, mark = self._work.neighbours, self._work.statement.mark()
        now = neighbours.mask(state.shape).copy()
        self._release(pool, range(len(pool)))
        then = neighbours.mask(state.shape).copy()
        self._work.statement.rollback(mark)
        return mask & (now | then), mask & ~now & then

    def _simulate(self, pool: Pool, chosen: Iterable[int], within: Rows | None) -> Placed | None:
        mark = self._work.statement.mark()
        self._release(pool, chosen)
        placed = place_group(self._work, self._entry, self._part, within)
        self._work.statement.rollback(mark)
        return placed

    def _release(self, pool: Pool, units: Iterable[int]) -> None:
        release_pods(self._work, [row for unit in units for row in pool.pod_rows(unit)])

    # -- giving back what is not needed

    def _reduced(self, pool: Pool, chosen: list[int], placed: Placed, within: Rows | None) -> Scenario:
        """Without the units that the placement does not need, from the most important on."""
        after = self._room_after(pool, chosen, placed)
        kept = sorted(chosen)
        for unit in sorted(chosen, reverse=True):
            without = [other for other in kept if other != unit]
            if pool.core_of.get(unit) in kept or not self._rights_stand(pool, without):
                continue
            entries = pool.entries(unit)
            left = after[:, pool.row[entries]] - pool.amounts[:, entries]
            if bool((left >= 0).all()) and not self._is_noticed(pool, unit):
                after[:, pool.row[entries]] = left
            else:
                again = self._tried_again(pool, without, within)
                if again is None:
                    continue
                placed, after = again, self._room_after(pool, without, again)
            kept = without
        return self._scenario(pool, kept, placed)

    def _tried_again(self, pool: Pool, units: list[int], within: Rows | None) -> Placed | None:
        if not self._trials:
            return None
        self._trials -= 1
        return self._simulate(pool, units, within)

    def _rights_stand(self, pool: Pool, units: list[int]) -> bool:
        """Whether it is enough for the quota, and right, to take these alone."""
        for unit in units:
            self._rights.take(pool, unit)
        stands = self._rights.quota_allows() and self._rights.stand_without(pool, units)
        for unit in units:
            self._rights.give_back(pool, unit)
        return stands

    def _room_after(self, pool: Pool, chosen: Iterable[int], placed: Placed) -> Column:
        after = self._work.room.free.copy()
        for unit in chosen:
            entries = pool.entries(unit)
            after[:, pool.row[entries]] += pool.amounts[:, entries]
        for take, picks in placed.picks:
            state = self._work.state(self._entry.pending[take.members].shape)
            rows, counts = np.unique(np.asarray(picks, dtype=np.int64), return_counts=True)
            for column, units in state.request:
                after[column, rows] -= units * counts
        return after

    def _is_noticed(self, pool: Pool, unit: int) -> bool:
        shapes = self._work.snapshot.pods.shapes
        numbers = set(self._table.shape[pool.positions(unit)].tolist())
        return any(self._work.neighbours.is_noticed(shapes[number]) for number in sorted(numbers))

    def _scenario(self, pool: Pool, chosen: Iterable[int], placed: Placed) -> Scenario:
        kept = sorted(chosen)
        return Scenario(pool.cost(kept), tuple(pool.unit_at(unit) for unit in kept), placed)


def _all_parts(part: Part) -> Iterator[Part]:
    yield part
    for child in part.children:
        yield from _all_parts(child)
