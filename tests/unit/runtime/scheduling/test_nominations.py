"""Pods for whom others are evicted say where they will go: before anybody is evicted, and no longer than that holds."""

from __future__ import annotations

import asyncio

from tests.manifests import PODS
from tests.scheduler_world import SchedulerWorld
from tests.virtual import on_virtual_time, refused, running


async def _nominated(world: SchedulerWorld) -> dict[str, str]:
    found = {it["metadata"]["name"]: it["status"].get("nominatedNodeName", "") for it in await world.pods()}
    return {name: node for name, node in found.items() if node}


async def _full(world: SchedulerWorld) -> None:
    await world.priority("low", 10)
    await world.priority("high", 1000)
    await world.node("a", 2)
    await world.gang("low", 2, priority="low")


@on_virtual_time
async def test_it_is_written_before_anybody_is_evicted() -> None:
    world = SchedulerWorld()
    await _full(world)
    async with world.scheduling(), running(world.run_pods()):
        await asyncio.sleep(5)
        world.noted.requests.clear()
        await world.gang("important", 2, priority="high")
        await asyncio.sleep(0.5)
        assert await _nominated(world) == {"important-0": "a", "important-1": "a"}
        acts = [(it.verb, it.name) for it in world.noted.writes if it.verb in ("patch", "evict")]
        first = next(number for number, (verb, _) in enumerate(acts) if verb == "evict")
        assert {("patch", "important-0"), ("patch", "important-1")} <= set(acts[:first])
        await asyncio.sleep(10)
        assert {"important-0", "important-1"} <= set(await world.bound())


@on_virtual_time
async def test_who_may_not_write_it_makes_room_all_the_same() -> None:
    world = SchedulerWorld()
    await _full(world)
    world.noted.refuse = lambda it: (
        refused(403) if it.verb == "patch" and it.kind == "pods" and it.name.startswith("important") else None
    )
    async with world.scheduling(), running(world.run_pods()):
        await asyncio.sleep(5)
        await world.gang("important", 2, priority="high")
        await asyncio.sleep(20)
        assert await _nominated(world) == {}
        assert {"important-0", "important-1"} <= set(await world.bound())


@on_virtual_time
async def test_it_is_taken_back_when_no_room_is_made_after_all() -> None:
    world = SchedulerWorld()
    await _full(world)
    async with world.scheduling():
        await asyncio.sleep(5)
        await world.gang("important", 2, priority="high")
        await asyncio.sleep(1)
        assert await _nominated(world) == {"important-0": "a", "important-1": "a"}
        await world.taint("a")
        await asyncio.sleep(30)
        assert await _nominated(world) == {}
        assert len(world.noted.of("patch", PODS.plural)) < 20
