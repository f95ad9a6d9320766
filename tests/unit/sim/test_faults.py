"""A port with faults does to requests what it says, the same with the same seed, and a dead one never answers."""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import TYPE_CHECKING

import msgspec
import pytest

from allhands.api.errors import StatusError
from allhands.sim.faults import NONE, CrashAt, Faults, FaultyObjects
from allhands.sim.identifiers import SeededIds
from allhands.sim.supervision import Part
from tests.manifests import CONFIG_MAPS, config_map
from tests.virtual import Cluster, cluster, on_virtual_time, running

if TYPE_CHECKING:
    from allhands.ports import Objects


def _nothing() -> None:
    pass


def faulty(world: Cluster, seed: int = 0, **faults: float) -> FaultyObjects:
    return FaultyObjects(world.objects, Faults(**faults), random.Random(seed), _nothing)


async def names(world: Cluster) -> list[str]:
    page = await world.objects.list(CONFIG_MAPS)
    return sorted(msgspec.json.decode(raw)["metadata"]["name"] for raw in page.items)


async def write(port: Objects, count: int) -> list[str]:
    """What came of writing so many config maps."""
    found = []
    for number in range(count):
        try:
            await port.create(CONFIG_MAPS, config_map(f"map-{number}"), "default")
            found.append("done")
        except StatusError as refusal:
            found.append(refusal.reason)
    return found


@on_virtual_time
async def test_without_faults_it_is_the_port_itself() -> None:
    world = cluster()
    port = FaultyObjects(world.objects, NONE, random.Random(0), _nothing)
    assert await write(port, 3) == ["done"] * 3
    assert asyncio.get_running_loop().time() == 0
    assert port.writes == 3


@on_virtual_time
async def test_what_is_refused_has_not_happened_and_what_is_lost_has() -> None:
    world = cluster()
    assert set(await write(faulty(world, refused=1.0), 20)) == {"Conflict", "TooManyRequests", "InternalError"}
    before = await names(world)
    assert set(await write(faulty(world, lost=1.0), 3)) == {"ServiceUnavailable"}
    assert set(await names(world)) - set(before) == {"map-0", "map-1", "map-2"}


@on_virtual_time
async def test_the_same_seed_does_the_same_and_another_does_not() -> None:
    found = []
    for seed in (1, 1, 2):
        world = cluster()
        begin = asyncio.get_running_loop().time()
        outcome = await write(faulty(world, seed, refused=0.3, lost=0.3, slow=0.5), 40)
        found.append((outcome, round(asyncio.get_running_loop().time() - begin, 6)))
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize("takes_effect", [False, True])
def test_a_crash_at_a_write_comes_before_or_after_it_and_nothing_happens_any_more(takes_effect: bool) -> None:
    @on_virtual_time
    async def main() -> None:
        world = cluster()
        told: list[float] = []
        port = FaultyObjects(world.objects, NONE, random.Random(0), lambda: told.append(0.0))
        port.crash_at = CrashAt(3, takes_effect)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(5):
                await write(port, 9)
        assert told == [0.0]
        made = [it for it in await names(world) if it.startswith("map")]
        assert made == (["map-0", "map-1", "map-2"] if takes_effect else ["map-0", "map-1"])
        for request in (port.list(CONFIG_MAPS), port.get(CONFIG_MAPS, "map-0", "default")):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(5):
                    await request

    main()


@on_virtual_time
async def test_watches_lag_end_and_expire_and_stop_doing_so_when_faults_end() -> None:
    world = cluster()
    port = faulty(world, watch_ends=1.0)
    watch = await port.watch(CONFIG_MAPS)
    await write(world.objects, 3)
    assert len([event async for event in watch]) == 1
    port = faulty(world, watch_expires=1.0)
    watch = await port.watch(CONFIG_MAPS)
    events = [event async for event in watch]
    assert [event.type for event in events] == ["ERROR"]
    assert events[0].manifest()["code"] == 410
    port = faulty(world, watch_lags=1.0, watch_lag_seconds=100.0)
    watch = await port.watch(CONFIG_MAPS)
    begin = asyncio.get_running_loop().time()
    await watch.__anext__()
    lag = asyncio.get_running_loop().time() - begin
    assert 0 < lag <= 100
    port.faults = NONE
    begin = asyncio.get_running_loop().time()
    await watch.__anext__()
    assert asyncio.get_running_loop().time() == begin


@on_virtual_time
async def test_a_part_that_crashes_comes_back_and_its_old_self_can_do_nothing() -> None:
    world = cluster()

    async def begin(objects: Objects) -> None:
        number = 0
        while True:
            with contextlib.suppress(StatusError):
                await objects.create(CONFIG_MAPS, config_map(f"at-{asyncio.get_running_loop().time():.0f}"), "default")
            number += 1
            await asyncio.sleep(10)

    part = Part("writer", world.objects, begin, NONE, random.Random(0))
    async with running(part.run()):
        await asyncio.sleep(5)
        part.crash()
        await asyncio.sleep(1)
        assert await names(world) == ["at-0"]
        await asyncio.sleep(10)
        assert part.incarnations == 2
        assert len(await names(world)) == 2
        part.crash_at(CrashAt(2, takes_effect=False))
        await asyncio.sleep(20)
        assert part.incarnations == 3


@on_virtual_time
async def test_a_part_that_ends_with_a_mistake_ends_the_simulation() -> None:
    world = cluster()

    async def begin(objects: Objects) -> None:
        raise ArithmeticError("a mistake")

    part = Part("broken", world.objects, begin, NONE, random.Random(0))
    with pytest.raises(ArithmeticError):
        await part.run()


def test_identifiers_repeat_with_their_seed_and_look_like_those_of_the_api() -> None:
    first, again, other = SeededIds(1), SeededIds(1), SeededIds(2)
    uids = [first.uid() for _ in range(100)]
    assert uids == [again.uid() for _ in range(100)]
    assert len({*uids, *(other.uid() for _ in range(100))}) == 200
    assert all(len(uid) == 36 and uid[14] == "4" for uid in uids)
    assert all(len(first.suffix()) == 5 for _ in range(10))
