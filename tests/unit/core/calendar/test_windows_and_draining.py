"""What is kept for a window, and which nodes are emptied for a group."""

from __future__ import annotations

import numpy as np
import pytest

from allhands.core.calendar.calendar import Calendar
from allhands.core.calendar.drain import chosen_room
from allhands.core.calendar.search import Ask
from allhands.core.calendar.windows import Windows, keep_amount
from allhands.core.facts import Reservation
from allhands.model.resources import EMPTY, ResourceVector
from tests.unit.core.calendar.rooms import NOW, Rooms, part_of, waiting


def kept(cores: int, held: int = 0, *free: int) -> dict[int, int]:
    """Of nodes with so much free, how much is kept on which."""
    window = Reservation("w", NOW, NOW + 9, resources=ResourceVector.of({"cpu": cores, "example.com/none": 3}))
    work = Rooms(*free, windows=(window,)).work()
    held_already = ResourceVector.of({"cpu": held}) if held else EMPTY
    promise = keep_amount(work, Windows(work).windows[0], work.room.free.copy(), held_already)
    if promise is None:
        return {}
    amounts = promise.amounts[work.snapshot.columns.column_by_resource["cpu"]]
    return dict(zip(promise.rows.tolist(), amounts.tolist(), strict=True))


def test_an_amount_is_kept_on_the_nodes_that_have_most() -> None:
    assert kept(9, 0, 2, 8, 4) == {1: 8, 2: 1}


def test_what_those_who_are_entitled_have_is_not_kept_again() -> None:
    assert kept(9, 5, 2, 8, 4) == {1: 4}
    assert kept(9, 9, 2, 8, 4) == {}


def test_no_more_is_kept_than_there_is() -> None:
    assert kept(99, 0, 2, 8, 4) == {0: 2, 1: 8, 2: 4}


@pytest.mark.parametrize(
    ("window", "entitled"),
    [
        (Reservation("w", 0, NOW + 9, nodes=("n0",)), ()),
        (Reservation("w", 0, NOW + 9, nodes=("n0",), groups=("ns/g",)), (0,)),
        (Reservation("w", 0, NOW + 9, nodes=("n0",), queues=("q",)), (0,)),
        (Reservation("w", 0, NOW + 9, nodes=("n0",), groups=("ns/other",), queues=("other",)), ()),
        (Reservation("w", 0, NOW + 9, nodes=("n0",), groups=("ns/g",), queues=("q",)), (0,)),
    ],
    ids=["an outage", "by name", "by queue", "others are", "by both"],
)
def test_who_is_entitled_to_a_window(window: Reservation, entitled: tuple[int, ...]) -> None:
    work = Rooms(4, windows=(window,)).wait("g").work()
    assert Windows(work).entitled(waiting(work, "g")) == entitled


def test_the_cycle_wakes_when_a_window_begins_and_when_it_ends() -> None:
    begins = Rooms(4, windows=(Reservation("w", NOW + 5, NOW + 9, nodes=("n0",)),)).work()
    Windows(begins)
    ends = Rooms(4, windows=(Reservation("w", NOW, NOW + 9, nodes=("n0",)),)).work()
    Windows(ends)
    assert (begins.wakes_at, ends.wakes_at) == (NOW + 5, NOW + 9)


def drained(rooms: Rooms, name: str = "big") -> list[int] | None:
    work = rooms.work()
    calendar = Calendar(work)
    ask = Ask(waiting(work, name), part_of(work, name), None, None)
    promise = chosen_room(work, calendar.search_for().future, calendar.windows, ask)
    return None if promise is None else promise.rows.tolist()


def test_nodes_with_the_fewest_unknown_ends_are_emptied() -> None:
    rooms = Rooms(4, 4, 4, 4).run("a", 0, cores=2).run("b", 0, cores=2).run("c", 1, cores=4).wait("big", 2, cores=4)
    rooms.run("known", 2, cores=4, seconds=50).run("d", 3, cores=1).run("e", 3, cores=1).run("f", 3, cores=1)
    assert drained(rooms) == [1, 2]


def test_a_gang_that_is_on_many_nodes_counts_once() -> None:
    rooms = Rooms(4, 4, 4).run("one", 0, cores=4).run("gang", 1, 2, cores=4).wait("big", 2, cores=4)
    assert drained(rooms) == [1, 2]


def test_nothing_is_emptied_for_a_group_that_would_not_fit() -> None:
    assert drained(Rooms(4, 4).run("a", 0, cores=4).wait("big", 3, cores=4)) is None


def test_nodes_of_an_outage_are_not_emptied() -> None:
    outage = Reservation("repair", NOW + 50, NOW + 90, nodes=("n1",))
    rooms = Rooms(4, 4, windows=(outage,)).run("a", 0, cores=4).wait("big", 1, cores=4)
    assert drained(rooms) == [0]


def test_costs_are_the_same_on_every_machine() -> None:
    rooms = Rooms(*[4] * 7).run("gang", *range(7), cores=4).wait("big", 3, cores=4)
    assert drained(rooms) == [0, 1, 2]
    assert np.argsort(np.zeros(3), kind="stable").tolist() == [0, 1, 2]
