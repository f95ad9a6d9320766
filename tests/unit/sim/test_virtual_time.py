"""Days pass in no time, in the same order each time, and whoever waits for the outside is told so."""

from __future__ import annotations

import asyncio
import datetime
import time

import pytest

from allhands.sim.virtual_time import NothingLeftError, VirtualClock, VirtualTimeLoop, run_virtually
from tests.virtual import on_virtual_time


@on_virtual_time
async def test_a_year_of_sleep_takes_no_time() -> None:
    await asyncio.sleep(365 * 86_400)  # a real one would not come back
    assert asyncio.get_running_loop().time() == 365 * 86_400


@on_virtual_time
async def test_timers_ring_at_their_moments_exactly_and_in_their_order() -> None:
    loop = asyncio.get_running_loop()
    rung: list[tuple[str, float]] = []
    for name, at in (("c", 0.3), ("a", 0.1), ("b", 0.1 + 0.1), ("same", 0.3)):
        loop.call_at(at, lambda name=name: rung.append((name, loop.time())))  # type: ignore[misc]
    await asyncio.sleep(1)
    assert rung == [("a", 0.1), ("b", 0.2), ("c", 0.3), ("same", 0.3)]


@on_virtual_time
async def test_timeouts_work_and_cancelled_timers_move_no_clock() -> None:
    loop = asyncio.get_running_loop()
    loop.call_later(500, lambda: None).cancel()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(10):
            await loop.create_future()
    assert loop.time() == 10


def test_everybody_waiting_for_somebody_else_is_a_mistake_and_is_told() -> None:
    async def main() -> None:
        await asyncio.Event().wait()

    with pytest.raises(NothingLeftError):
        run_virtually(VirtualTimeLoop(), main())


@on_virtual_time
async def test_threads_are_refused() -> None:
    with pytest.raises(NotImplementedError, match="virtual time"):
        await asyncio.to_thread(time.monotonic)


def test_what_was_left_behind_is_ended() -> None:
    ended = []

    async def forgotten() -> None:
        try:
            await asyncio.sleep(1e6)
        finally:
            ended.append(True)

    async def main() -> str:
        main.task = asyncio.create_task(forgotten())  # type: ignore[attr-defined]
        await asyncio.sleep(1)
        return "done"

    assert run_virtually(VirtualTimeLoop(), main()) == "done"
    assert ended == [True]


@on_virtual_time
async def test_a_clock_follows_the_loop_and_jumps_without_timers_noticing() -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    begin = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)
    clock = VirtualClock(loop, begin)
    await asyncio.sleep(10)
    clock.jump(-3600)
    assert clock.now() == begin + datetime.timedelta(seconds=10 - 3600)
    await asyncio.sleep(5)
    assert loop.time() == 15


@on_virtual_time
async def test_timers_of_one_moment_ring_in_the_order_in_which_they_were_set() -> None:
    loop = asyncio.get_running_loop()
    rung: list[int] = []
    for number in range(50):
        loop.call_at(7.0, rung.append, number)
    await asyncio.sleep(8)
    assert rung == list(range(50))


@on_virtual_time
async def test_timers_that_are_cancelled_do_not_pile_up_and_the_others_still_ring() -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    rung: list[int] = []
    for number in range(3000):
        timer = loop.call_at(1000.0 + number, rung.append, number)
        if number % 1000:
            timer.cancel()
    assert len(loop._timers) < 1000
    await asyncio.sleep(5000)
    assert rung == [0, 1000, 2000]


def test_nobody_can_ask_a_closed_loop_for_anything() -> None:
    loop = VirtualTimeLoop()
    loop.close()
    with pytest.raises(RuntimeError, match="closed"):
        loop.call_soon(print)
    with pytest.raises(RuntimeError, match="closed"):
        loop.call_later(1, print)
