"""Orders that know time: nobody is passed for ever, and those in a hurry go first."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allhands.core.facts import Facts
from allhands.core.orders import ORDERS, Ageing, Deadline
from allhands.core.snapshot import GroupEntry
from allhands.core.world import World
from allhands.model.podgroup import PodGroup
from allhands.model.queue import Queue

TIMES = st.integers(0, 10**6)
PRIORITIES = st.integers(-1000, 2**31)


def entry(
    created: int = 0,
    priority: int = 0,
    deadline: int | None = None,
    seconds: int | None = None,
    wait: int | None = None,
) -> GroupEntry:
    return GroupEntry(
        PodGroup(
            "ns",
            "g",
            "q",
            created_at_seconds=created,
            priority=priority,
            deadline_seconds=deadline,
            expected_duration_seconds=seconds,
            max_wait_seconds=wait,
        )
    )


def snapshot(facts: Facts | None = None):  # type: ignore[no-untyped-def]
    world = World()
    world.set_facts(facts or Facts())
    return world.snapshot()


@given(TIMES, PRIORITIES, TIMES, PRIORITIES, st.integers(1, 10**5), st.integers(1, 100), TIMES)
def test_who_has_waited_long_enough_is_not_passed(
    created: int, priority: int, other: int, higher: int, wait: int, step: int, now: int
) -> None:
    order, there = Ageing(wait, step), snapshot()
    mine = order.rank(entry(created, priority), there, now)
    theirs = order.rank(entry(other, higher), there, now)
    assert (theirs < mine) == ((other - created) * step < (higher - priority) * wait)
    assert mine == order.rank(entry(created, priority), there, now + 10**6), "time alone changes nothing"


@pytest.mark.parametrize("arguments", [(0, 1), (1, 0), (-5, 1)])
def test_ageing_without_time_or_step_is_refused(arguments: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="ageing: at least one second and one step"):
        Ageing(*arguments)


def test_a_deadline_counts_from_a_set_time_before_the_latest_start() -> None:
    order, there = Deadline(within_seconds=60), snapshot()
    bound, free = entry(deadline=1000, seconds=300), entry()
    assert order.latest_start(bound, there) == 700
    assert order.rank(bound, there, 639) == order.rank(free, there, 639)
    assert order.rank(bound, there, 640) < order.rank(free, there, 640)
    assert order.next_change([free, bound], there, 600) == 640
    assert order.next_change([free, bound], there, 640) is None


def test_the_longest_wait_that_a_group_allows_is_a_latest_start_too() -> None:
    order, there = Deadline(within_seconds=60), snapshot()
    patient, free = entry(created=100, wait=500), entry(created=100)
    assert order.latest_start(patient, there) == 600
    assert order.rank(patient, there, 539) == order.rank(free, there, 539)
    assert order.rank(patient, there, 540) < order.rank(free, there, 540)
    assert order.next_change([free, patient], there, 100) == 540
    assert order.latest_start(entry(created=100, wait=500, deadline=400), there) == 400


def test_the_estimate_of_the_queue_counts_where_the_group_says_nothing() -> None:
    there = snapshot(Facts(accounts=(Queue("q", default_duration_seconds=100),)))
    order = Deadline()
    assert order.latest_start(entry(deadline=1000), there) == 900
    assert order.latest_start(entry(deadline=1000), snapshot()) == 1000


def test_the_least_time_left_goes_first_and_who_is_late_stays_first() -> None:
    order, there = Deadline(within_seconds=1000), snapshot()
    ranks = [order.rank(entry(deadline=at), there, 500) for at in (100, 400, 600)]
    assert ranks == sorted(ranks)
    assert len(set(ranks)) == 3


def test_a_negative_window_is_refused() -> None:
    with pytest.raises(ValueError, match="deadline: the time before the latest start"):
        Deadline(-1)


def test_orders_are_registered_by_their_names() -> None:
    assert {name: getattr(plugin, "name", None) for name, plugin in ORDERS.items()} == {name: name for name in ORDERS}


@pytest.mark.parametrize("name", ORDERS)
@given(created=TIMES, seconds=st.integers(1, 10**6), later=TIMES)
def test_an_order_that_says_it_is_settled_is_the_same_at_any_time(
    name: str, created: int, seconds: int, later: int
) -> None:
    there, group = snapshot(), entry(created, seconds=seconds)
    make: Any = ORDERS[name]
    orders = [make()]
    if name in ("wfp3", "unicep"):
        orders.append(make(wait_of_unscheduled=True))
        assert [order.is_settled(group) for order in orders] == [False, True]
    for order in orders:
        if order.is_settled(group):
            assert order.rank(group, there, 0) == order.rank(group, there, later)
