"""Rooms of those who start now beside promises: exact after any sequence of placements, and restored to the bit."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from allhands.core.calendar.promises import Promise
from allhands.core.calendar.tiers import FROM_THE_START, Tiers
from allhands.core.calendar.windows import Windows
from allhands.core.facts import Reservation
from tests.unit.core.calendar.rooms import NOW, Rooms

SHORT, LONG = NOW + 10, NOW + 11


def test_without_promises_all_may_go_anywhere() -> None:
    work = Rooms(4).work()
    tiers = Tiers(work, Windows(work))
    assert tiers.is_open
    assert tiers.work_until(LONG, ()) is work


@given(st.lists(st.tuples(st.sampled_from((SHORT, LONG, NOW + 99)), st.integers(1, 3), st.booleans()), max_size=12))
def test_rooms_stay_exact_whoever_is_placed_where_and_taken_back(steps: list[tuple[int, int, bool]]) -> None:
    """Two promises, at NOW + 10 and NOW + 50. A step: pods of a run that ends then; some steps are taken back."""
    work = Rooms(8, 8, 8).wait("g").work()
    shape = work.snapshot.groups["ns/g"].pending[0].shape
    cpu = work.snapshot.columns.column_by_resource["cpu"]
    tiers = Tiers(work, Windows(work))
    later: dict[int, np.ndarray[tuple[int, ...], np.dtype[np.int64]]] = {}
    for start, cores in ((NOW + 10, 5), (NOW + 50, 3)):
        free = work.room.free.copy()
        amounts = np.zeros((len(free), 2), dtype=np.int64)
        amounts[cpu] = cores
        tiers.promise(Promise("ns/big", start, start + 5, np.array([0, 1]), amounts), free)
        later[start] = work.room.free.copy()
        later[start][cpu, :2] -= cores
    now = work.room.free.copy()
    for end, pods, is_kept in steps:
        elsewhere = tiers.work_until(end, ())
        limits = [now, *(free for start, free in later.items() if start < end)]
        assert (elsewhere.room.free == np.minimum.reduce(limits)).all()
        mark = work.statement.mark()
        picks = elsewhere.place(elsewhere.state(shape), pods, partly=True)
        if not is_kept:
            work.statement.rollback(mark)
            continue
        for free in limits:
            for row in picks:
                for column, units in elsewhere.state(shape).request:
                    free[column, row] -= units
    assert (work.room.free == now).all()


def test_who_waits_with_patience_must_be_done_earlier() -> None:
    work = Rooms(4).work()
    tiers = Tiers(work, Windows(work))
    free = work.room.free.copy()
    tiers.promise(Promise("ns/big", NOW + 30, NOW + 40, np.array([0]), free[:, :1].copy()), free, patience=3)
    assert tiers.work_until(NOW + 10, ()) is work
    assert tiers.work_until(NOW + 11, ()).room.free.max() == 0
    assert tiers.last_fall_before(NOW + 10) == FROM_THE_START
    assert tiers.last_fall_before(NOW + 11) == NOW + 10
    assert tiers.owner_before(NOW + 11, ()) == "ns/big"
    assert work.wakes_at == NOW + 1, "a second later, ten seconds are too long"


def test_a_closed_node_is_open_to_those_who_are_entitled_or_gone_before() -> None:
    window = Reservation("repair", NOW + 10, NOW + 20, nodes=("n0",), groups=("ns/g",))
    work = Rooms(4, 4, windows=(window,)).work()
    tiers = Tiers(work, Windows(work))
    cpu = work.snapshot.columns.column_by_resource["cpu"]
    assert tiers.work_until(SHORT, ()) is work
    assert tiers.work_until(LONG, ()).room.free[cpu].tolist() == [0, 4]
    assert tiers.work_until(LONG, (0,)).room.free[cpu].tolist() == [4, 4]
    assert tiers.owner_before(LONG, ()) == "repair"
