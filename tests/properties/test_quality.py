"""Plans compared with the best possible ones (OR-tools CP-SAT), on clusters that are small enough to know the best.

That the core is never better shows that the model of the best is right; that it is not much worse is a bound against
mistakes, not a goal. `python -m bench quality` prints the figures.
"""

from __future__ import annotations

import statistics

import pytest

from allhands.model.podgroup import TopologyMode
from bench.instances import Gang, Instance, Kind, plan_of
from bench.optimum import Fewest, fewest_crossed, fewest_victims, first_come, most_gangs, most_pods
from bench.quality import (
    LEAST_MEAN_OF_GANGS,
    LEAST_MEAN_OF_PODS,
    MOST_MEAN_CROSSED,
    MOST_MEAN_VICTIMS,
    Evicted,
    Placed,
    evicted,
    placed,
)
from tests.depth import examples

SEEDS = range(examples(40, soak_factor=10))


@pytest.fixture(scope="module")
def waiting() -> list[Placed]:
    return [placed(seed) for seed in SEEDS]


@pytest.fixture(scope="module")
def crowds() -> list[Evicted]:
    return [evicted(seed) for seed in SEEDS]


def test_no_plan_is_better_than_the_best(waiting: list[Placed]) -> None:
    for seed, found in zip(SEEDS, waiting, strict=True):
        assert found.gangs.core <= found.gangs.best, seed
        assert found.pods.core <= found.pods.best, seed
        assert found.crossed.core >= found.crossed.best, seed
        assert found.starts <= found.first_come, seed


def test_gangs_and_pods_that_could_be_placed_mostly_are(waiting: list[Placed]) -> None:
    assert statistics.mean(found.gangs.ratio for found in waiting) >= LEAST_MEAN_OF_GANGS
    assert statistics.mean(found.pods.ratio for found in waiting) >= LEAST_MEAN_OF_PODS


def test_few_domains_are_crossed_without_need(waiting: list[Placed]) -> None:
    assert statistics.mean(found.crossed.distance for found in waiting) <= MOST_MEAN_CROSSED


def test_nobody_is_evicted_where_fewer_would_do_by_the_best(crowds: list[Evicted]) -> None:
    for seed, found in zip(SEEDS, crowds, strict=True):
        assert found.can_start or not found.does_start, seed
        if found.pods is not None:
            assert found.pods.core >= found.pods.best, seed


def test_few_pods_are_evicted_without_need_and_who_can_start_does(crowds: list[Evicted]) -> None:
    gaps = [found.pods.distance for found in crowds if found.pods is not None]
    assert gaps
    assert any(found.pods is not None and found.pods.core > 0 for found in crowds)
    assert statistics.mean(gaps) <= MOST_MEAN_VICTIMS
    assert statistics.mean(found.does_start for found in crowds if found.can_start) >= 0.95


# -- the model of the best, on clusters where the answer is plain

ONE_CPU = (1, 0)


def instance(nodes: int, *gangs: Gang, racks: tuple[int, ...] = ()) -> Instance:
    """Nodes of two CPUs each."""
    return Instance(0, ((2, 0),) * nodes, racks or tuple(range(nodes)), (), gangs)


def gang(name: str, count: int, *, on: tuple[int, ...] = (), minimum: int | None = None, soft: bool = False) -> Gang:
    mode = TopologyMode.SOFT if soft else None
    return Gang(name, (Kind(ONE_CPU, count),), count if minimum is None else minimum, mode, on=on)


def test_the_best_prefers_many_small_gangs_and_first_come_does_not() -> None:
    cluster = instance(1, gang("large", 2), gang("a", 1), gang("b", 1))
    assert most_gangs(cluster) == 2
    assert first_come(cluster) == (True, False, False)


def test_the_best_places_as_many_pods_as_fit() -> None:
    assert most_pods(instance(2, gang("elastic", 9, minimum=1))) == 4
    assert most_pods(instance(2, gang("rigid", 5))) == 0


def test_the_best_crosses_no_domain_without_need() -> None:
    cluster = instance(3, gang("a", 3, soft=True), gang("b", 2, soft=True), racks=(0, 0, 1))
    assert fewest_crossed(cluster, {"a": (3,), "b": (2,)}) == 0
    assert fewest_crossed(instance(2, gang("a", 3, soft=True)), {"a": (3,)}) == 2


def test_the_best_ends_one_small_gang_or_takes_surplus() -> None:
    small, large = gang("small", 1, on=(0,)), gang("large", 3, on=(0, 1, 1))
    assert fewest_victims(instance(2, small, large, gang("first", 1))) == Fewest(1, 1)
    elastic = gang("elastic", 3, minimum=1, on=(0, 1, 1))
    assert fewest_victims(instance(2, small, elastic, gang("first", 2))) == Fewest(2, 2)
    assert fewest_victims(instance(1, small, gang("first", 3))) is None


def test_an_instance_is_decided_the_same_way_twice() -> None:
    cluster = instance(3, gang("a", 3, soft=True), gang("b", 2), racks=(0, 0, 1))
    assert plan_of(cluster) == plan_of(cluster)
