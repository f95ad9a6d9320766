"""Events for people: told once, counted when they happen again, never in the way and never too many."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from allhands.lifecycle.instructions import Record
from allhands.runtime.recorder import (
    EVENTS,
    MANY_WAITING,
    MESSAGE_LIMIT,
    MOST_HELD_BACK_SECONDS,
    MOST_WAITING,
    PER_SECOND,
    TIMES_SLOWER,
    Recorder,
)
from tests.virtual import Cluster, cluster, on_virtual_time, refused, running

if TYPE_CHECKING:
    from allhands.api.document import Manifest


def telling(message: str = "It is red.", name: str = "a", **involved: Any) -> Record:
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "namespace": "default", "name": name, "uid": f"uid-{name}"}
    return Record({**reference, **involved}, "Normal", "Painted", message)


async def events(world: Cluster) -> list[Manifest]:
    return [msgspec.json.decode(raw) for raw in (await world.objects.list(EVENTS)).items]


@on_virtual_time
async def test_what_is_told_again_is_one_event_whose_count_rises_and_another_message_is_another() -> None:
    world = cluster()
    recorder = Recorder(world.objects, world.clock, "painter")
    async with running(recorder.run()):
        for message in ("It is red.", "It is red.", "It is blue.", "It is red."):
            recorder.record(telling(message))
            await asyncio.sleep(60)
    found = {it["message"]: it for it in await events(world)}
    assert {message: it["count"] for message, it in found.items()} == {"It is red.": 3, "It is blue.": 1}
    assert found["It is red."]["firstTimestamp"] < found["It is red."]["lastTimestamp"]
    assert found["It is red."]["source"] == {"component": "painter"}


@on_virtual_time
async def test_a_new_process_counts_on_from_the_event_of_the_last_one() -> None:
    world = cluster()
    for _ in range(3):
        recorder = Recorder(world.objects, world.clock, "painter")
        async with running(recorder.run()):
            recorder.record(telling())
            recorder.record(telling())
            await asyncio.sleep(1)
    assert [it["count"] for it in await events(world)] == [6]


@on_virtual_time
async def test_an_event_that_the_api_has_let_go_is_told_anew() -> None:
    world = cluster()
    recorder = Recorder(world.objects, world.clock, "painter")
    async with running(recorder.run()):
        recorder.record(telling())
        await asyncio.sleep(1)
        await world.objects.delete(EVENTS, (await events(world))[0]["metadata"]["name"], "default")
        recorder.record(telling())
        await asyncio.sleep(1)
    assert [it["count"] for it in await events(world)] == [1]


@on_virtual_time
async def test_no_more_are_told_in_a_second_than_allowed_and_what_comes_too_fast_is_dropped_and_counted() -> None:
    world = cluster()
    recorder = Recorder(world.noted.port, world.clock, "painter", per_second=10)
    for number in range(MOST_WAITING + 7):
        recorder.record(telling(f"Number {number}."))
    assert recorder.dropped == 7
    async with running(recorder.run()):
        await asyncio.sleep(10)
    assert 95 <= len(world.noted.writes) <= 101


@on_virtual_time
async def test_a_refused_event_is_dropped_and_the_next_ones_told() -> None:
    world = cluster()
    recorder = Recorder(world.noted.port, world.clock, "painter")
    world.noted.refuse = lambda _: refused() if len(world.noted.writes) == 1 else None
    async with running(recorder.run()):
        recorder.record(telling("lost"))
        recorder.record(telling("told"))
        recorder.record(telling("nowhere", namespace="missing"))
        await asyncio.sleep(1)
    assert [it["message"] for it in await events(world)] == ["told"]
    assert recorder.dropped == 2


@on_virtual_time
async def test_long_names_and_messages_are_cut_so_that_the_api_takes_them() -> None:
    world = cluster()
    recorder = Recorder(world.objects, world.clock, "painter")
    async with running(recorder.run()):
        recorder.record(telling("x" * 5000, name="a" * 199 + "-" + "b" * 50))
        recorder.record(telling("cluster-wide", namespace="", name="node-1"))
        await asyncio.sleep(1)
    assert recorder.dropped == 0
    assert sorted(len(it["message"]) for it in await events(world)) == [12, MESSAGE_LIMIT]


@on_virtual_time
async def test_who_is_busy_goes_first_but_not_for_ever() -> None:
    world, busy = cluster(), [True]
    recorder = Recorder(world.objects, world.clock, "painter", is_busy=lambda: busy[0])
    async with running(recorder.run()):
        recorder.record(telling("after the work"))
        await asyncio.sleep(MOST_HELD_BACK_SECONDS / 2)
        assert await events(world) == []
        busy[0] = False
        await asyncio.sleep(1)
        assert len(await events(world)) == 1
        busy[0] = True
        for number in range(20):
            recorder.record(telling(f"beside the work {number}"))
        await asyncio.sleep(MOST_HELD_BACK_SECONDS + 1)
        assert 1 < len(await events(world)) < 21, "still it goes slowly"
        await asyncio.sleep(20 * TIMES_SLOWER / PER_SECOND)
        assert len(await events(world)) == 21


@on_virtual_time
async def test_what_is_worth_little_is_told_only_while_few_are_waiting() -> None:
    world = cluster()
    recorder = Recorder(world.objects, world.clock, "painter")
    for number in range(MANY_WAITING + 50):
        recorder.record(telling(f"pod {number}"), if_few=True)
    recorder.record(telling("a whole gang"))
    async with running(recorder.run()):
        await asyncio.sleep(10)
    told = {it["message"] for it in await events(world)}
    assert len(told) == MANY_WAITING + 1
    assert "a whole gang" in told
    assert recorder.dropped == 50
