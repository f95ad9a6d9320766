"""Keys are looked at once at a time, again if they changed meanwhile, and never more often than asked."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from allhands.runtime.backoff import Backoff
from allhands.runtime.workqueue import LULL_SECONDS, MOST_HELD_BACK_SECONDS, WorkQueue
from tests.virtual import on_virtual_time


def test_a_pause_doubles_up_to_its_limit_and_begins_anew_after_a_success() -> None:
    backoff = Backoff(1, 5)
    assert [backoff.next_seconds() for _ in range(5)] == [1, 2, 4, 5, 5]
    backoff.reset()
    assert backoff.next_seconds() == 1


@on_virtual_time
async def test_a_key_that_is_added_often_is_looked_at_once() -> None:
    queue = WorkQueue()
    for key in ("a", "b", "a", "a"):
        queue.add(key)
    assert len(queue) == 2
    assert [await queue.take(), await queue.take()] == ["a", "b"]
    queue.done("a")
    queue.done("b")
    assert queue.is_idle


@on_virtual_time
async def test_a_key_that_is_added_while_it_is_worked_on_is_looked_at_again_and_not_twice_at_a_time() -> None:
    queue = WorkQueue()
    queue.add("a")
    assert await queue.take() == "a"
    queue.add("a")
    queue.add("a")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(10):
            await queue.take()
    queue.done("a")
    assert await queue.take() == "a"
    queue.done("a")
    assert queue.is_idle


@on_virtual_time
async def test_of_several_moments_the_earliest_counts_and_the_others_do_not() -> None:
    loop = asyncio.get_running_loop()
    queue = WorkQueue()
    queue.add_after("a", 30)
    queue.add_after("a", 10)
    queue.add_after("a", 20)
    assert await queue.take() == "a"
    assert loop.time() == 10
    queue.done("a")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1000):
            await queue.take()


@on_virtual_time
async def test_keys_come_at_their_moments_whatever_the_order_in_which_they_were_added() -> None:
    loop = asyncio.get_running_loop()
    queue = WorkQueue()
    for key, seconds in (("c", 3.0), ("a", 1.0), ("b", 2.0), ("now", 0.0), ("past", -5.0)):
        queue.add_after(key, seconds)
    seen = []
    for _ in range(5):
        key = await queue.take()
        seen.append((key, loop.time()))
        queue.done(key)
    assert seen == [("now", 0), ("past", 0), ("a", 1), ("b", 2), ("c", 3)]


@on_virtual_time
async def test_who_fails_waits_ever_longer_and_begins_anew_after_a_success() -> None:
    loop = asyncio.get_running_loop()
    queue = WorkQueue()
    queue.add("a")
    moments = []
    for _ in range(13):
        key = await queue.take()
        moments.append(loop.time())
        queue.retry(key)
        queue.done(key)
    pauses = [after - before for before, after in itertools.pairwise(moments)]
    assert pauses[:4] == pytest.approx([0.05, 0.1, 0.2, 0.4])
    assert pauses[-1] == pytest.approx(30)
    await queue.take()
    queue.succeeded("a")
    queue.done("a")
    assert queue.retry("a") == 0.05


@on_virtual_time
async def test_many_workers_share_the_keys_and_none_is_lost() -> None:
    queue = WorkQueue()
    seen: list[str] = []

    async def work() -> None:
        while True:
            key = await queue.take()
            await asyncio.sleep(0.5)
            seen.append(key)
            queue.done(key)

    workers = [asyncio.create_task(work()) for _ in range(4)]
    for number in range(20):
        queue.add(f"key-{number}")
    await asyncio.sleep(3)
    assert sorted(seen) == sorted(f"key-{number}" for number in range(20))
    assert queue.is_idle
    for worker in workers:
        worker.cancel()


@on_virtual_time
async def test_who_is_in_no_hurry_lets_others_go_first_and_what_follows_from_them() -> None:
    loop = asyncio.get_running_loop()
    queue = WorkQueue()
    for key, hurried in (("slow", False), ("a", True), ("slower", False), ("b", True)):
        queue.add_after(key, 0, hurried=hurried)
    seen = []
    for is_hurried in (True, True, False, False, False):
        assert queue.is_hurried is is_hurried
        key = await queue.take()
        seen.append((key, loop.time()))
        if key == "b":
            queue.add_after("c", LULL_SECONDS / 2)
        queue.done(key)
    lull = 1.5 * LULL_SECONDS
    assert seen == [("a", 0), ("b", 0), ("c", LULL_SECONDS / 2), ("slow", lull), ("slower", lull)]
    assert queue.is_idle


@on_virtual_time
async def test_many_who_have_waited_for_long_take_turns_with_those_in_a_hurry() -> None:
    queue = WorkQueue()
    for number in range(3):
        queue.add_after(f"slow-{number}", 0, hurried=False)
    queue.add("long")
    assert await queue.take() == "long"
    await asyncio.sleep(MOST_HELD_BACK_SECONDS)
    for key in "abc":
        queue.add(key)
    assert [await queue.take() for _ in range(6)] == ["slow-0", "a", "slow-1", "b", "slow-2", "c"]


@on_virtual_time
async def test_a_look_that_takes_long_keeps_those_waiting_who_are_in_no_hurry_but_not_for_ever() -> None:
    loop = asyncio.get_running_loop()
    queue = WorkQueue()
    queue.add("long")
    assert await queue.take() == "long"
    queue.add_after("slow", 1, hurried=False)
    assert await queue.take() == "slow"
    assert loop.time() == 1 + MOST_HELD_BACK_SECONDS


@on_virtual_time
async def test_but_not_for_ever() -> None:
    loop = asyncio.get_running_loop()
    queue = WorkQueue()
    queue.add_after("slow", 1, hurried=False)
    for number in itertools.count():
        queue.add(f"key-{number}")
        queue.add(f"more-{number}")
        key = await queue.take()
        await asyncio.sleep(0.5)
        queue.done(key)
        if key == "slow":
            break
    assert 1 + MOST_HELD_BACK_SECONDS <= loop.time() <= 2 + MOST_HELD_BACK_SECONDS


@on_virtual_time
async def test_a_key_for_which_there_is_a_hurry_after_all_is_looked_at_once_and_in_its_turn() -> None:
    queue = WorkQueue()
    queue.add_after("x", 0, hurried=False)
    queue.add("a")
    queue.add("x")
    queue.add_after("x", 0, hurried=False)
    queue.add("b")
    assert len(queue) == 3
    assert [await queue.take() for _ in range(3)] == ["a", "x", "b"]
    queue.add_after("x", 0, hurried=False)
    queue.add("c")
    for key in ("a", "x", "b"):
        queue.done(key)
    assert await queue.take() == "c"
    queue.done("c")
    assert await queue.take() == "x"
    assert not len(queue)


@on_virtual_time
async def test_a_moment_without_hurry_does_not_put_off_one_with() -> None:
    loop = asyncio.get_running_loop()
    queue = WorkQueue()
    queue.add_after("x", 1, hurried=False)
    queue.add_after("x", 3)
    assert await queue.take() == "x"
    assert loop.time() == 1
    queue.done("x")
    assert await queue.take() == "x"
    assert loop.time() == 3
