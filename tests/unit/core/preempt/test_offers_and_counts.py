"""What nodes offer, counted over columns, is what one finds by trying every set of units one by one."""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.core.actions.offers import Lining, cheapest
from allhands.core.actions.pool import SURPLUS, Pool, build_pool, rank_candidates
from allhands.core.actions.slots import Stock
from allhands.core.actions.victims import VictimTable
from allhands.model.queue import Queue
from tests.core_harness import Cluster
from tests.depth import examples

if TYPE_CHECKING:
    from allhands.core.work import Work


def crowd(seed: int) -> tuple[Work, Pool]:
    """A few nodes, each with a few victims, some of them gangs over several nodes."""
    chance = random.Random(seed)
    nodes = chance.randint(1, 4)
    cluster = Cluster().nodes(nodes, gpu=8).facts(Queue("q"))
    free = [8] * nodes
    for number in range(chance.randint(1, 8)):
        units, rows = chance.randint(1, 4), []
        for _ in range(chance.randint(1, 3)):
            fitting = [row for row in range(nodes) if free[row] >= units]
            if fitting:
                rows.append(chance.choice(fitting))
                free[rows[-1]] -= units
        if rows:
            least = chance.choice([len(rows), len(rows), 1])
            cluster.gang(
                f"g{number}",
                len(rows),
                minimum=least,
                on=[f"n{row:03d}" for row in rows],
                gpu=units,
                ran=chance.randint(0, 99),
                group={"priority": chance.randint(0, 2)},
            )
    work = cluster.desk().work
    table = VictimTable(work)
    candidates = rank_candidates(table, range(len(table)), {})
    useful, helps = np.ones(nodes, dtype=np.bool_), np.zeros(len(table.pod), dtype=np.bool_)
    return work, build_pool(table, candidates, 99, useful, helps, everywhere=False)


def stock_of(work: Work, pool: Pool, asked: int) -> Stock:
    columns = work.snapshot.columns
    request = ((columns.column_by_resource["gpu"], asked),)
    return Stock(pool, work.room.free, request, np.ones(len(columns), dtype=np.bool_))


def counted(work: Work, pool: Pool, asked: int, units: tuple[int, ...]) -> int:
    """The slow and obvious way."""
    column = work.snapshot.columns.column_by_resource["gpu"]
    free = [int(value) for value in work.room.free[column]]
    for unit in units:
        for position in pool.positions(unit):
            free[int(pool.table.node[position])] += int(pool.table.units[column, pool.table.shape[position]])
    return sum(max(0, value) // asked for value in free)


SEEDS, ASKED = st.integers(0, 2**32), st.integers(1, 8)


@settings(max_examples=examples(60))
@given(SEEDS, ASKED)
def test_counts_follow_units_as_they_come_and_go(seed: int, asked: int) -> None:
    work, pool = crowd(seed)
    stock = stock_of(work, pool, asked)
    chance = random.Random(seed)
    units = [unit for unit in range(len(pool)) if chance.random() < 0.6]
    assert stock.total == counted(work, pool, asked, ())
    assert stock.total_with(units) == counted(work, pool, asked, tuple(units))
    stock.release_all(units)
    assert stock.total == counted(work, pool, asked, tuple(units))
    for unit, loss in zip(units, stock.losses(units), strict=True):
        rest = tuple(other for other in units if other != unit)
        assert stock.total - loss == counted(work, pool, asked, rest)
    for unit in units:
        stock.release(unit, -1)
    assert stock.total == counted(work, pool, asked, ())


@settings(max_examples=examples(60))
@given(SEEDS, ASKED, st.sampled_from(Lining))
def test_what_is_offered_frees_places_as_long_as_there_are_any(seed: int, asked: int, lining: Lining) -> None:
    work, pool = crowd(seed)
    stock = stock_of(work, pool, asked)
    usable = np.ones(len(pool), dtype=np.bool_)
    most = counted(work, pool, asked, tuple(range(len(pool))))
    while stock.total < most:
        units = cheapest(stock, most - stock.total, usable, lining)
        before = stock.total
        stock.release_all(units)
        usable[units] = False
        assert stock.total > before


@settings(max_examples=examples(60))
@given(SEEDS, ASKED)
def test_one_more_place_costs_the_least_that_any_node_asks_for_it(seed: int, asked: int) -> None:
    """With the full price of every unit, no set of units on one node is cheaper."""
    work, pool = crowd(seed)
    stock = stock_of(work, pool, asked)
    found = cheapest(stock, 1, np.ones(len(pool), dtype=np.bool_), Lining.FULL_CHEAP)
    prices = [
        sum(int(pool.price[unit]) for unit in units)
        for size in range(1, 4)
        for units in itertools.combinations(range(len(pool)), size)
        if _gains_on_one_node(work, pool, asked, units)
    ]
    if found and len(found) <= 3:
        assert sum(int(pool.price[unit]) for unit in found) == min(prices)


def _gains_on_one_node(work: Work, pool: Pool, asked: int, units: tuple[int, ...]) -> bool:
    rows = [set(pool.row[pool.entries(unit)].tolist()) for unit in units]
    column = work.snapshot.columns.column_by_resource["gpu"]
    for row in set.intersection(*rows):
        free = int(work.room.free[column, row])
        freed = sum(
            int(pool.amounts[column, entry])
            for unit in units
            for entry in range(pool.entries(unit).start, pool.entries(unit).stop)
            if pool.row[entry] == row
        )
        if max(0, free + freed) // asked > max(0, free) // asked:
            return True
    return False


def test_units_are_numbered_by_importance_and_priced_by_rank_pods_and_work() -> None:
    it = Cluster().nodes(3, gpu=8).facts(Queue("q"))
    it.gang("middle", 1, on=["n000"], gpu=1, group={"priority": 5})
    it.gang("bare", 1, on=["n000"], gpu=1, owner="", group={"priority": 0})
    it.gang("old", 1, on=["n001"], gpu=1, ran=9000, group={"priority": 1})
    it.gang("young", 1, on=["n001"], gpu=1, ran=10, group={"priority": 1})
    it.gang("two", 2, on=["n002", "n002"], gpu=1, ran=10, group={"priority": 1})
    it.gang("elastic", 2, minimum=1, on=["n002", "n002"], gpu=1, group={"priority": 5})
    work = it.desk().work
    table = VictimTable(work)
    candidates = rank_candidates(table, range(len(table)), {})
    useful, helps = np.ones(3, dtype=np.bool_), np.zeros(len(table.pod), dtype=np.bool_)
    pool = build_pool(table, candidates, 99, useful, helps, everywhere=False)
    names = [table.entries[int(group)].group.name for group in pool.group]
    assert names == ["elastic", "young", "two", "old", "middle", "elastic", "bare"]
    assert pool.rank[0] == SURPLUS
    assert pool.core_of == {0: 5}
    price = dict(zip(names, pool.price.tolist(), strict=True))
    assert pool.price[0] < price["young"] < price["old"] < price["two"] < price["middle"] < price["bare"]


@pytest.mark.parametrize("gone", [0, 1, 2])
def test_members_that_go_in_a_cycle_are_not_spared_twice(gone: int) -> None:
    it = Cluster().nodes(1, gpu=8).facts(Queue("q")).gang("elastic", 4, minimum=2, on=["n000"] * 4, gpu=1)
    table = VictimTable(it.desk().work)
    table.take(list(range(gone)))
    assert len(table.spare(0, table.positions(0))) == 2 - gone
    assert len(table.positions(0)) == 4 - gone
