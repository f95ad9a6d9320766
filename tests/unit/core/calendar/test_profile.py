"""What is free from moment to moment, written out: it says what is found by looking at every second."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from allhands.core.calendar.calendar import Calendar
from allhands.core.calendar.future import Future
from allhands.core.calendar.profile import profile_of
from allhands.core.calendar.promises import UNTIL_IT_STARTS, Promise, Promises
from allhands.core.facts import Reservation
from tests.unit.core.calendar.rooms import NOW, Rooms

CORES = 9
LENGTHS = st.integers(1, 40)
NODES = st.sampled_from((1, 3))
RUNS = st.lists(st.tuples(st.integers(0, 2), st.one_of(st.none(), LENGTHS)), max_size=4)
KEPT = st.lists(st.tuples(st.integers(0, 40), LENGTHS, st.integers(0, 2), st.integers(1, 3)), max_size=4)


@given(NODES, RUNS, KEPT, st.integers(1, 5), st.integers(1, 7), st.integers(0, 60), LENGTHS)
def test_it_says_what_is_found_second_by_second(
    nodes: int,
    runs: list[tuple[int, int | None]],
    kept: list[tuple[int, int, int, int]],
    cores: int,
    need: int,
    start: int,
    seconds: int,
) -> None:
    runs = [(node % nodes, length) for node, length in runs]
    rooms = Rooms(*[CORES] * nodes).wait("next", need, cores=cores)
    for number, (node, length) in enumerate(runs):
        rooms.run(f"g{number}", node, cores=2, seconds=length)
    work = rooms.work()
    columns = work.snapshot.columns
    cpu = columns.column_by_resource["cpu"]
    releases = Calendar(work).running.with_started(())
    profile = profile_of(work.room.free, releases)
    assert profile is not None
    state = work.state(work.snapshot.groups["ns/next"].pending[0].shape)

    free = np.full((200, nodes), CORES)
    for node, length in runs:
        free[: 200 if length is None else length, node] -= 2
    enough = (free // cores).sum(axis=1) >= need
    at = profile.enough_at(state, need)
    if at < UNTIL_IT_STARTS and at - NOW < len(free):
        first = max(at - NOW, 0)
        assert enough[first:].all()
        assert not enough[:first].any()
    else:
        assert not enough.any()

    for begin, length, node, amount in kept:
        rows = np.array([node % nodes])
        amounts = np.zeros((len(columns.resources), 1), dtype=np.int64)
        amounts[cpu] = amount
        profile.keep([Promise("ns/other", NOW + begin, NOW + begin + length, rows, amounts)])
        free[begin : begin + length, node % nodes] -= amount
    assert profile.at(NOW + start)[cpu].tolist() == free[start].tolist()

    fitting = np.maximum(free[start : start + seconds].min(axis=0) // cores, 0)
    assert profile.holds(state, need, NOW + start, NOW + start + seconds) == (fitting.sum() >= need)
    filled = profile.fill(state, need, NOW + start, NOW + start + seconds)
    assert (filled is None) == (fitting.sum() < need)
    if filled is not None:
        rows, numbers = filled
        assert np.repeat(rows, numbers).tolist() == np.repeat(np.arange(nodes), fitting).tolist()[:need]


def test_with_windows_or_too_much_to_write_there_is_none() -> None:
    rooms = Rooms(4, 4, windows=(Reservation("repair", NOW + 20, NOW + 30, nodes=("n1",)),))
    work = rooms.work()
    calendar = Calendar(work)
    releases = calendar.running.with_started(())
    promises = Promises(len(work.snapshot.columns.resources))
    assert Future(work, releases, calendar.windows, promises).profile() is None
    assert profile_of(np.zeros((4, 1 << 15), dtype=np.int64), releases) is None


def test_more_promises_and_other_promises_are_seen() -> None:
    rooms = Rooms(4).run("g", 0, cores=1, seconds=10)
    work = rooms.work()
    calendar = Calendar(work)
    columns = work.snapshot.columns
    cpu = columns.column_by_resource["cpu"]
    future = Future(work, calendar.running.with_started(()), calendar.windows, calendar.promises)
    amounts = np.zeros((len(columns.resources), 1), dtype=np.int64)
    amounts[cpu] = 2
    assert future.free_at(NOW + 12)[cpu].tolist() == [4]
    calendar.promises.append(Promise("ns/other", NOW + 10, NOW + 20, np.zeros(1, dtype=np.int64), amounts))
    assert future.free_at(NOW + 12)[cpu].tolist() == [2]
    future.promises = Promises(len(columns.resources))
    assert future.free_at(NOW + 12)[cpu].tolist() == [4]
