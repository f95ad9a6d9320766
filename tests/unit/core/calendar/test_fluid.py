"""Guesses for those far behind in line: demand poured into what comes free."""

from __future__ import annotations

import numpy as np
import pytest

from allhands.core.calendar.calendar import Calendar
from allhands.core.calendar.estimates import FOREVER
from allhands.core.calendar.fluid import Guesses, demand_of, pour
from tests.unit.core.calendar.rooms import NOW, Rooms, part_of, waiting


def guess(rooms: Rooms, cores: list[int], seconds: list[int | None]) -> Guesses:
    work = rooms.work()
    releases = Calendar(work).running.with_started(())
    demands = np.zeros((len(cores), len(work.snapshot.columns.resources)), dtype=np.int64)
    demands[:, work.snapshot.columns.column_by_resource["cpu"]] = cores
    return pour(releases, np.maximum(work.room.free, 0).sum(axis=1), demands, seconds)


def two() -> Rooms:
    """Ten cores: two are free, three more after 10 seconds, five more after 30."""
    return Rooms(10).run("a", 0, cores=3, seconds=10).run("b", 0, cores=5, seconds=30)


def test_each_starts_when_enough_has_come_free_for_it_and_all_before_it() -> None:
    assert guess(two(), [2, 3, 1, 4], [5, 5, 5, 5]).starts.tolist() == [NOW + 10, NOW + 10, NOW + 30, NOW + 30]


def test_beyond_the_last_end_what_there_is_is_handed_on_once_in_the_mean_duration() -> None:
    starts = guess(two(), [10, 5, 5], [20, 40, None]).starts.tolist()
    assert starts == [NOW + 30, NOW + 30 + 10, NOW + 30 + 30]


def test_behind_one_whose_duration_nobody_knows_nobody_knows_a_start() -> None:
    starts = guess(two(), [10, 5, 5], [None, 40, 40]).starts.tolist()
    assert starts == [NOW + 30, FOREVER, FOREVER]


def test_where_nothing_is_known_to_end_the_oldest_that_runs_is_named() -> None:
    guesses = guess(Rooms(10).run("b", 0, cores=5, since=NOW - 5).run("a", 0, cores=5), [1], [5])
    assert guesses.starts.tolist() == [FOREVER]
    assert guesses.because_of == "ns/b"


def test_a_resource_of_which_nothing_will_ever_be_there_is_never_handed_on() -> None:
    work = two().work()
    releases = Calendar(work).running.with_started(())
    demands = np.ones((1, len(work.snapshot.columns.resources)), dtype=np.int64)
    free = np.zeros(demands.shape[1], dtype=np.int64)
    assert pour(releases, free, demands, [5]).starts.tolist() == [FOREVER]


@pytest.mark.parametrize("cores", [1, 2**53 - 1])
def test_absurd_demands_do_not_overflow(cores: int) -> None:
    guesses = guess(two(), [cores] * 1000, [1 << 40] * 1000)
    assert (np.diff(guesses.starts) >= 0).all()
    assert (guesses.starts > NOW).all()


def test_the_demand_of_a_group_is_that_of_all_members_with_their_pod_slots() -> None:
    work = Rooms(10).wait("g", 3, cores=2).work()
    demand = demand_of(work, waiting(work, "g"), part_of(work, "g"))
    assert dict(zip(work.snapshot.columns.resources, demand.tolist(), strict=True)) == {
        "cpu": 6,
        "memory": 0,
        "pods": 3,
    }
