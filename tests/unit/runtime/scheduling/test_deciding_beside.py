"""Cycles in a thread of their own, on real time: binding begins before the cycle has ended, and no law is broken."""

from __future__ import annotations

import asyncio
import collections
import random
import threading
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from allhands.compose.machine import RandomIds, SystemClock
from allhands.compose.nodes import NodeSize, add_node, node_manifest
from allhands.core.policy import DEFAULT
from allhands.runtime.scheduling.scheduler import Scheduler, SchedulerOptions
from allhands.store import InProcessObjects, Store
from tests.manifests import PODS
from tests.scheduler_world import POD_GROUPS
from tests.virtual import running

if TYPE_CHECKING:
    from collections.abc import Callable

    from allhands.core.policy import Policy
    from allhands.core.snapshot import GroupEntry, Snapshot

WAIT_SECONDS = 60.0
BESIDE = SchedulerOptions(flight=8, decides_beside=True)


class Watchful:
    """A limit that refuses nothing: `asked` is called in the cycle for every group that may start."""

    name = "watchful"

    def __init__(self, asked: Callable[[int], None]) -> None:
        self._asked = asked
        self.count = 0

    def tally(self, snapshot: Snapshot, now: int) -> Watchful:  # noqa: ARG002
        return self

    def refusal(self, entry: GroupEntry) -> None:  # noqa: ARG002
        self.count += 1
        self._asked(self.count)

    def started(self, entry: GroupEntry) -> None:
        pass


class World:
    def __init__(self) -> None:
        self.store = Store(SystemClock(), RandomIds())
        self.objects = InProcessObjects(self.store)

    def scheduler(self, policy: Policy = DEFAULT) -> Scheduler:
        return Scheduler(self.objects, SystemClock(), policy=policy, options=BESIDE)

    async def nodes(self, count: int, cpu: int) -> None:
        for number in range(count):
            await add_node(self.objects, node_manifest(f"node-{number}", NodeSize(str(cpu)), self.store.now()))

    async def gang(self, name: str, size: int) -> None:
        body: dict[str, Any] = {"metadata": {"name": name}, "spec": {"schedulingPolicy": {"gang": {"minCount": size}}}}
        await self.objects.create(POD_GROUPS, body, "default")
        container = {"name": "main", "image": "work", "resources": {"requests": {"cpu": "1"}}}
        spec = {"schedulerName": "allhands", "containers": [container], "schedulingGroup": {"podGroupName": name}}
        for number in range(size):
            await self.objects.create(PODS, {"metadata": {"name": f"{name}-{number}"}, "spec": spec}, "default")

    async def bound(self) -> dict[str, str]:
        pods = [msgspec.json.decode(raw) for raw in (await self.objects.list(PODS)).items]
        return {it["metadata"]["name"]: it["spec"]["nodeName"] for it in pods if it["spec"].get("nodeName")}

    async def until_bound(self, count: int) -> dict[str, str]:
        async with asyncio.timeout(WAIT_SECONDS):
            while len(found := await self.bound()) < count:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        return found


def with_limit(limit: Watchful) -> Policy:
    return msgspec.structs.replace(DEFAULT, limits=(limit,))


async def test_binding_begins_while_later_groups_are_still_being_decided_about() -> None:
    world, first_is_bound = World(), threading.Event()
    waited: list[bool] = []

    def asked(number: int) -> None:
        if number == 2:
            waited.append(first_is_bound.wait(WAIT_SECONDS))

    await world.nodes(2, 8)
    await world.gang("first", 2)
    await world.gang("second", 2)
    async with running(world.scheduler(with_limit(Watchful(asked))).run()):
        await world.until_bound(2)
        first_is_bound.set()
        await world.until_bound(4)
    assert waited == [True]


async def test_gangs_are_whole_and_nodes_not_overfull_while_much_comes_and_goes() -> None:
    world, chance = World(), random.Random(7)
    await world.nodes(20, 8)
    sizes = {f"gang-{number}": chance.randint(1, 12) for number in range(60)}
    async with running(world.scheduler().run()):
        for name, size in sizes.items():
            await world.gang(name, size)
            await asyncio.sleep(0)
        async with asyncio.timeout(WAIT_SECONDS):
            while len(await world.bound()) < 100:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        # Room comes free while it is decided and bound.
        for name in sorted(await world.bound())[:30]:
            await world.objects.delete(PODS, name, "default")
        await asyncio.sleep(0.2)
        before = -1
        async with asyncio.timeout(WAIT_SECONDS):
            while (now := len(await world.bound())) != before:
                before = now
                await asyncio.sleep(1.0)
        bound = await world.bound()
    assert max(collections.Counter(bound.values()).values()) <= 8
    members = collections.Counter(name.rpartition("-")[0] for name in bound)
    begun = [name for name in members if members[name] < sizes[name]]
    pods = [msgspec.json.decode(raw)["metadata"]["name"] for raw in (await world.objects.list(PODS)).items]
    left = collections.Counter(name.rpartition("-")[0] for name in pods)
    assert all(left[name] < sizes[name] for name in begun), "only those are not whole that lost members"


async def test_a_cycle_that_fails_in_the_thread_is_survived(caplog: pytest.LogCaptureFixture) -> None:
    world = World()

    def asked(number: int) -> None:
        if number == 2:
            raise ZeroDivisionError("a mistake")

    await world.nodes(1, 8)
    await world.gang("first", 2)
    await world.gang("second", 2)
    async with running(world.scheduler(with_limit(Watchful(asked))).run()):
        await world.until_bound(4)
    assert "a cycle failed" in caplog.text


async def test_one_that_ends_while_it_thinks_sends_nothing_more() -> None:
    world, thinks, may_end = World(), threading.Event(), threading.Event()

    def asked(number: int) -> None:
        thinks.set()
        assert may_end.wait(WAIT_SECONDS), number

    await world.nodes(1, 8)
    await world.gang("first", 2)
    scheduler = world.scheduler(with_limit(Watchful(asked)))
    task = asyncio.create_task(scheduler.run())
    async with asyncio.timeout(WAIT_SECONDS):
        while not thinks.is_set():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.sleep(0)
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await world.bound() == {}
