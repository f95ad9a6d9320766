"""What comes free when: counted over all nodes and times at once, and the same as counted one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from allhands.core.calendar.calendar import Calendar
from allhands.core.calendar.estimates import FOREVER
from tests.unit.core.calendar.rooms import NOW, Rooms

if TYPE_CHECKING:
    from allhands.core.calendar.releases import Releases

RUNS = st.lists(
    st.tuples(
        st.lists(st.integers(0, 3), min_size=1, max_size=3),
        st.integers(1, 4),
        st.one_of(st.none(), st.integers(1, 30)),
    ),
    max_size=8,
)


def releases_of(rooms: Rooms) -> Releases:
    return Calendar(rooms.work()).running.with_started(())


def test_groups_are_sorted_by_end_and_those_without_one_come_last_the_oldest_first() -> None:
    rooms = Rooms(9, 9).run("late", 0, 1, seconds=50).run("soon", 0, seconds=20)
    rooms.run("young", 1, since=NOW - 1).run("old", 1, since=NOW - 2)
    releases = releases_of(rooms)
    assert releases.times.tolist() == [NOW + 20, NOW + 50, FOREVER, FOREVER + 1]
    assert [releases.owner_at(index) for index in range(4)] == ["ns/soon", "ns/late", "ns/old", "ns/young"]
    assert releases.known == 2
    assert releases.given_back[:, 0].tolist() == [1, 3, 4, 5]


def test_the_last_to_leave_some_nodes_is_named() -> None:
    releases = releases_of(Rooms(9, 9).run("late", 0, seconds=50).run("soon", 0, 1, seconds=20))
    assert releases.last_before(NOW + 60, np.array([0, 1])) == "ns/late"
    assert releases.last_before(NOW + 60, np.array([1])) == "ns/soon"
    assert releases.last_before(NOW + 30, np.array([0])) == "ns/soon"
    assert releases.last_before(NOW + 10, np.array([0])) == ""


@given(RUNS, st.integers(1, 5), st.integers(1, 6), st.sets(st.integers(0, 3)))
def test_how_many_fit_at_each_time_is_what_counting_node_by_node_gives(
    runs: list[tuple[list[int], int, int | None]], asked: int, most: int, usable: set[int]
) -> None:
    rooms = Rooms(12, 12, 12, 12)
    for number, (nodes, cores, seconds) in enumerate(runs):
        rooms.run(f"g{number}", *nodes, cores=cores, seconds=seconds)
    work = rooms.work()
    releases = Calendar(work).running.with_started(())
    columns = work.snapshot.columns
    cpu = columns.column_by_resource["cpu"]
    mask = np.array([number in usable for number in range(4)])
    request = ((cpu, asked), (columns.column_by_resource["pods"], 1))
    found = releases.fits_by_time(work.room, request, mask, most).tolist()
    for index, count in enumerate(found):
        free = work.room.free.copy()
        releases.add(free, 0, index, 1)
        fits = np.minimum(free[cpu] // asked, free[columns.column_by_resource["pods"]]).clip(0, most)
        assert count == int(fits[mask].sum())
    assert len(found) == len(releases.times) + 1
