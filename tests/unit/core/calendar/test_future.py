"""The room at a later time: at any moment, in any order, it is what all that happens until then has left."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from allhands.core.calendar.calendar import Calendar
from allhands.core.calendar.future import Future
from allhands.core.calendar.promises import Promise, Promises
from allhands.core.facts import Reservation
from tests.unit.core.calendar.rooms import NOW, Rooms

LENGTHS = st.integers(1, 40)


class Kept(NamedTuple):
    start: int
    seconds: int
    rows: list[int]
    cores: int


KEPT = st.builds(
    Kept,
    st.integers(0, 40),
    LENGTHS,
    st.lists(st.integers(0, 2), min_size=1, max_size=3, unique=True),
    st.integers(1, 3),
)
RUNS = st.lists(st.tuples(st.integers(0, 2), st.one_of(st.none(), LENGTHS)), max_size=6)
LOOKS = st.lists(st.tuples(st.integers(0, 60), LENGTHS), min_size=1, max_size=6)


def promise(work_columns: int, cpu: int, kept: Kept) -> Promise:
    rows = np.array(sorted(kept.rows))
    amounts = np.zeros((work_columns, len(rows)), dtype=np.int64)
    amounts[cpu] = kept.cores
    return Promise("ns/other", NOW + kept.start, NOW + kept.start + kept.seconds, rows, amounts)


@given(RUNS, st.lists(KEPT, max_size=4), LOOKS, st.booleans())
def test_a_run_sees_the_least_that_a_node_has_at_any_moment(
    runs: list[tuple[int, int | None]], kept: list[Kept], looks: list[tuple[int, int]], outage: bool
) -> None:
    windows = (Reservation("repair", NOW + 20, NOW + 30, nodes=("n1",)),) if outage else ()
    rooms = Rooms(9, 9, 9, windows=windows)
    for number, (node, seconds) in enumerate(runs):
        rooms.run(f"g{number}", node, cores=2, seconds=seconds)
    work = rooms.work()
    before = work.room.free.copy()
    calendar = Calendar(work)
    columns = work.snapshot.columns
    cpu = columns.column_by_resource["cpu"]
    promises = Promises(len(columns.resources))
    future = Future(work, calendar.running.with_started(()), calendar.windows, promises)
    for start, seconds in looks:
        if kept:
            promises.append(promise(len(columns.resources), cpu, kept.pop()))
        future.look(NOW + start, NOW + start + seconds)
        for row in range(3):
            moments = range(NOW + start, NOW + start + seconds)
            expected = min(_free(runs, promises, row, cpu, moment) for moment in moments)
            if outage and row == 1 and start < 30 and start + seconds > 20:
                expected = min(expected, 0)
            assert future.work.room.free[cpu, row] == expected
        at = future.free_at(NOW + start)
        assert at[cpu].tolist() == [_free(runs, promises, row, cpu, NOW + start) for row in range(3)]
    assert (work.room.free == before).all(), "now is not touched"


def _free(runs: list[tuple[int, int | None]], promises: Promises, row: int, cpu: int, moment: int) -> int:
    free = 9
    for node, seconds in runs:
        if node == row and (seconds is None or NOW + seconds > moment):
            free -= 2
    for it in promises:
        if it.start <= moment < it.end and row in it.rows.tolist():
            free -= int(it.amounts[cpu, it.rows.tolist().index(row)])
    return free


def test_what_is_placed_later_is_taken_back_with_the_rest() -> None:
    rooms = Rooms(4, 4).run("g", 0, cores=4, seconds=10).wait("next", 2, cores=4)
    work = rooms.work()
    calendar = Calendar(work)
    future = Future(work, calendar.running.with_started(()), calendar.windows, calendar.promises)
    future.look(NOW + 10, NOW + 20)
    free = future.work.room.free.copy()
    mark = work.statement.mark()
    state = future.work.state(work.snapshot.groups["ns/next"].pending[0].shape)
    assert sorted(future.work.place(state, 2)) == [0, 1]
    work.statement.rollback(mark)
    assert (future.work.room.free == free).all()
