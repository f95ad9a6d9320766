"""Room is made for a group once that is written down, is kept for it over crashes, and nobody is evicted in a loop."""

from __future__ import annotations

import asyncio
import functools
import random
from typing import TYPE_CHECKING

import pytest

from allhands.runtime.scheduling.scheduler import Scheduler, SchedulerOptions
from allhands.sim.faults import NONE, CrashAt, FaultyObjects
from tests.manifests import BUDGETS, JOBS, PODS
from tests.scheduler_world import SchedulerWorld
from tests.virtual import on_virtual_time, refused, running

if TYPE_CHECKING:
    from allhands.api.errors import StatusError
    from tests.virtual import Request


async def _full(world: SchedulerWorld) -> None:
    """Two nodes full of four pods of low priority, in two gangs."""
    await world.priority("low", 10)
    await world.priority("high", 1000)
    await world.node("a", 2)
    await world.node("b", 2)
    for name in ("low-1", "low-2"):
        await world.gang(name, 2, priority="low")


@on_virtual_time
async def test_for_whom_room_is_made_is_written_down_before_anybody_is_evicted() -> None:
    world = SchedulerWorld()
    await _full(world)
    async with world.scheduling(), running(world.run_pods()):
        await asyncio.sleep(5)
        assert len(await world.bound()) == 4
        world.noted.requests.clear()
        await world.gang("important", 2, priority="high")
        await asyncio.sleep(0.5)
        record = await world.record(JOBS, "important")
        assert record["preempting_since_seconds"] > 0
        assert record["nominated_nodes"] in (["a"], ["b"])
        assert len(await world.leaving()) == 2
        writes = [it for it in world.noted.writes if it.kind in ("jobs", "pods") and it.verb in ("patch", "evict")]
        assert [(it.verb, it.name) for it in writes[:1]] == [("patch", "important")]
        await asyncio.sleep(10)
        assert {"important-0", "important-1"} <= set(await world.bound())
        await asyncio.sleep(1)
        assert "preempting_since_seconds" not in await world.record(JOBS, "important")


@on_virtual_time
async def test_room_that_was_made_is_not_given_to_others_of_less_priority() -> None:
    world = SchedulerWorld()
    await _full(world)
    async with world.scheduling():
        await asyncio.sleep(5)
        await world.gang("important", 2, priority="high")
        await asyncio.sleep(1)
        for pod in await world.leaving():
            if pod.endswith("0"):
                await world.delete_pod(pod)
        await world.pod("small")
        await asyncio.sleep(5)
        assert "small" not in await world.bound()
        for pod in await world.leaving():
            await world.delete_pod(pod)
        await asyncio.sleep(5)
        assert {"important-0", "important-1"} <= set(await world.bound())


@on_virtual_time
async def test_a_record_that_cannot_be_written_means_that_nobody_is_evicted_and_is_not_tried_in_a_loop() -> None:
    world = SchedulerWorld()
    await _full(world)
    async with world.scheduling(), running(world.run_pods()):
        await asyncio.sleep(5)
        began = asyncio.get_running_loop().time()
        world.noted.refuse = lambda it: _refused_until(it, began + 600)
        await world.gang("important", 2, priority="high")
        await asyncio.sleep(590)
        assert world.noted.of("evict") == []
        tries = [it for it in world.noted.of("patch", "jobs") if it.name == "important"]
        assert 5 <= len(tries) <= 80
        await asyncio.sleep(120)
        assert {"important-0", "important-1"} <= set(await world.bound())


def _refused_until(request: Request, end: float) -> StatusError | None:
    is_record = request.verb == "patch" and request.kind == "jobs"
    return refused(500) if is_record and request.at_seconds < end else None


@on_virtual_time
async def test_evictions_that_a_budget_forbids_are_asked_for_ever_more_seldom() -> None:
    world = SchedulerWorld()
    await _full(world)
    async with world.scheduling(), running(world.run_pods()):
        await asyncio.sleep(5)
        world.noted.refuse = lambda it: refused(429) if it.verb == "evict" else None
        await world.gang("important", 2, priority="high")
        await asyncio.sleep(600)
        assert 4 <= len(world.noted.of("evict")) <= 80
        world.noted.refuse = lambda _: None
        await asyncio.sleep(60)
        assert {"important-0", "important-1"} <= set(await world.bound())


@on_virtual_time
async def test_whoever_is_protected_by_a_budget_is_not_chosen_if_others_will_do() -> None:
    world = SchedulerWorld()
    await world.priority("low", 10)
    await world.priority("high", 1000)
    await world.node("a", 1)
    await world.node("b", 1)
    await world.pod("protected", priorityClassName="low")
    await world.pod("other", priorityClassName="low")
    await world.objects.patch(PODS, "protected", "merge", {"metadata": {"labels": {"keep": "yes"}}}, "default")
    budget = {"metadata": {"name": "keep"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"keep": "yes"}}}}
    await world.objects.create(BUDGETS, budget, "default")
    async with world.scheduling(), running(world.run_pods()):
        await asyncio.sleep(5)
        await world.pod("important", priorityClassName="high")
        await asyncio.sleep(30)
        assert sorted(await world.bound()) == ["important", "protected"]


async def _history(crash: CrashAt | None) -> tuple[dict[str, str], int, bool]:
    """The end after a crash at a write of the scheduler that makes room; how many writes it made; and if it crashed."""
    world = SchedulerWorld()
    await _full(world)
    async with world.scheduling(), running(world.run_pods()):
        await asyncio.sleep(5)
    await world.gang("important", 2, priority="high")
    dead = asyncio.Event()
    port = FaultyObjects(world.objects, NONE, random.Random(0), dead.set)
    port.crash_at = crash
    options = SchedulerOptions(names=("allhands",), flight=1)
    async with running(world.run_pods()):
        async with running(Scheduler(port, world.clock, options=options).run()):
            done, _ = await asyncio.wait([asyncio.ensure_future(dead.wait())], timeout=20)
        # Somebody of less priority would take what is free.
        await world.pod("small")
        async with world.scheduling():
            await asyncio.sleep(30)
            bound = await world.bound()
            record = await world.record(JOBS, "important")
    assert "preempting_since_seconds" not in record
    return bound, port.writes, bool(done)


@functools.cache
def _end(crash: CrashAt | None) -> tuple[dict[str, str], int, bool]:
    found: list[tuple[dict[str, str], int, bool]] = []

    @on_virtual_time
    async def main() -> None:
        found.append(await _history(crash))

    main()
    return found[0]


MOST_WRITES = 20


def test_without_a_crash_room_is_made_for_the_important_one_and_nobody_else() -> None:
    bound, writes, _ = _end(None)
    assert {"important-0", "important-1"} <= set(bound)
    assert "small" not in bound
    assert 6 <= writes <= MOST_WRITES, "the crashes below are to cover all of them"


@pytest.mark.parametrize("write", range(1, MOST_WRITES + 1))
def test_after_a_crash_at_any_write_the_next_leader_comes_to_the_same_end(write: int) -> None:
    """Before it takes effect, which is after the one before it has."""
    bound, writes, _ = _end(None)
    after, _, crashed = _end(CrashAt(write, takes_effect=False))
    assert crashed == (write <= writes)
    assert sorted(after) == sorted(bound)


@pytest.mark.parametrize("flight", [1, 8])
def test_a_victim_that_is_gone_already_is_fine(flight: int) -> None:
    @on_virtual_time
    async def main() -> None:
        world = SchedulerWorld(flight)
        await _full(world)
        async with world.scheduling():
            await asyncio.sleep(5)
            world.noted.refuse = lambda it: refused(404) if it.verb == "evict" else None
            await world.gang("important", 2, priority="high")
            await asyncio.sleep(1)
            gone = {it.name for it in world.noted.of("evict")}
            assert len(gone) == len(world.noted.of("evict")) == 2
            for name in gone:
                await world.delete_pod(name)
            await asyncio.sleep(5)
            assert {"important-0", "important-1"} <= set(await world.bound())

    main()
