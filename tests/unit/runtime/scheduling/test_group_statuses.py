"""The status of foreign groups is written after the binds, seldom, and never in a race with another writer."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from allhands.api.volcano.queue import QUEUE
from allhands.runtime.informer import LOOK_AGAIN_SECONDS
from tests.foreign_kinds import COSCHEDULING, VOLCANO, define, define_all, group
from tests.scheduler_world import POD_GROUPS, SchedulerWorld
from tests.virtual import on_virtual_time, refused

if TYPE_CHECKING:
    import pytest

    from allhands.api.kinds import Resource

Manifest = dict[str, Any]


class ForeignWorld(SchedulerWorld):
    async def foreign(self, resource: Resource, name: str, size: int, *, scheduler: str = "allhands") -> None:
        await self.objects.create(resource, group(resource, name, minMember=size), "default")
        for number in range(size):
            await self.member(resource, name, f"{name}-{number}", scheduler)

    async def member(self, resource: Resource, name: str, pod: str, scheduler: str = "allhands") -> None:
        annotations = {"scheduling.k8s.io/group-name": name} if resource == VOLCANO else {}
        await self.pod(pod, annotations=annotations, schedulerName=scheduler)

    async def status(self, resource: Resource, name: str) -> Manifest:
        return (await self.objects.get(resource, name, "default")).manifest().get("status") or {}

    def written(self, name: str) -> int:
        return len([it for it in self.noted.of("patch", "podgroups") if it.name == name])


@on_virtual_time
async def test_a_group_that_starts_and_runs_costs_few_writes() -> None:
    world = ForeignWorld()
    await world.install()
    await define_all(world.objects)
    await world.node("a", 8)
    async with world.scheduling():
        await world.foreign(VOLCANO, "gang", 4)
        await asyncio.sleep(10)
        assert (await world.status(VOLCANO, "gang"))["phase"] == "Running"
        before = world.written("gang")
        assert before <= 4  # each way of writing a status is tried once
        for number in range(4):
            await world.phase(f"gang-{number}", "Running")
            await asyncio.sleep(0.2)
        await asyncio.sleep(10)
        assert (await world.status(VOLCANO, "gang"))["running"] == 4
        assert world.written("gang") == before + 1
        await asyncio.sleep(600)
        assert world.written("gang") == before + 1


@on_virtual_time
async def test_it_does_not_chase_another_writer() -> None:
    world = ForeignWorld()
    await world.install()
    await define_all(world.objects)
    await world.node("a", 8)
    async with world.scheduling():
        await world.foreign(VOLCANO, "gang", 2)
        await asyncio.sleep(10)
        before = world.written("gang")
        for _ in range(50):
            await world.objects.patch(VOLCANO, "gang", "merge", {"status": {"phase": "Pending"}}, "default")
            await asyncio.sleep(1)
            await world.objects.patch(VOLCANO, "gang", "merge", {"status": {"phase": "Unknown"}}, "default")
            await asyncio.sleep(1)
        assert world.written("gang") == before


@on_virtual_time
async def test_a_status_does_not_wake_the_core() -> None:
    world = ForeignWorld()
    await world.install()
    await define_all(world.objects)
    await world.node("a", 8)
    async with world.scheduling() as scheduler:
        await world.foreign(VOLCANO, "gang", 2)
        await asyncio.sleep(60)
        cycles = scheduler.cycles
        for number in range(20):
            await world.objects.patch(VOLCANO, "gang", "merge", {"status": {"running": number}}, "default")
            await asyncio.sleep(1)
        assert scheduler.cycles == cycles


@on_virtual_time
async def test_groups_of_others_are_left_alone() -> None:
    world = ForeignWorld()
    await world.install()
    await define_all(world.objects)
    await world.node("a", 8)
    async with world.scheduling():
        await world.foreign(VOLCANO, "theirs", 2, scheduler="volcano")
        await asyncio.sleep(30)
        assert await world.status(VOLCANO, "theirs") == {}
        assert await world.bound() == {}


@on_virtual_time
async def test_groups_of_the_same_name_and_different_kinds_are_different_groups() -> None:
    world = ForeignWorld()
    await world.install()
    await define_all(world.objects)
    await world.node("a", 8)
    async with world.scheduling():
        await world.objects.create(VOLCANO, group(VOLCANO, "gang", minMember=1), "default")
        await world.objects.create(COSCHEDULING, group(COSCHEDULING, "gang", minMember=2), "default")
        await world.pod_group("gang", 3)
        await world.member(VOLCANO, "gang", "v")
        await world.pod("n", schedulingGroup={"podGroupName": "gang"})
        await asyncio.sleep(10)
        assert sorted(await world.bound()) == ["v"]


@on_virtual_time
async def test_a_kind_that_comes_later_is_watched_then_and_that_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "allhands.runtime.informer")
    world = ForeignWorld()
    await world.install([QUEUE])
    await world.node("a", 8)
    async with world.scheduling():
        await world.member(VOLCANO, "gang", "gang-0")
        await asyncio.sleep(300)
        assert await world.bound() == {}
        assert "does not exist" in await world.told("gang-0")
        await define(world.objects, VOLCANO, has_status=False)
        await world.objects.create(VOLCANO, group(VOLCANO, "gang", minMember=1), "default")
        await asyncio.sleep(LOOK_AGAIN_SECONDS + 5)
        assert await world.bound() == {"gang-0": "a"}
    said = [it.message for it in caplog.records if "podgroups.scheduling.volcano.sh" in it.message]
    assert len(said) == 2
    assert "is not served here" in said[0]
    assert "watched" in said[1]


@on_virtual_time
async def test_who_may_not_write_a_status_is_told_once_and_starts_gangs(caplog: pytest.LogCaptureFixture) -> None:
    world = ForeignWorld()
    await world.install()
    await define_all(world.objects)
    await world.node("a", 8)
    world.noted.refuse = lambda it: refused(403) if it.verb == "patch" and it.kind == "podgroups" else None
    async with world.scheduling():
        for name in ("one", "two"):
            await world.foreign(VOLCANO, name, 2)
        await asyncio.sleep(120)
        assert len(await world.bound()) == 4
    assert len([it for it in caplog.records if "status of pod-groups cannot be written" in it.message]) == 1


@on_virtual_time
async def test_a_status_that_was_refused_for_now_is_written_later() -> None:
    world = ForeignWorld()
    await world.install()
    await define_all(world.objects)
    await world.node("a", 8)
    broken = {"yes": True}
    world.noted.refuse = lambda it: (
        refused(500) if it.verb == "patch" and it.kind == "podgroups" and broken["yes"] else None
    )
    async with world.scheduling():
        await world.foreign(VOLCANO, "gang", 2)
        await asyncio.sleep(300)
        assert await world.status(VOLCANO, "gang") == {}
        assert world.written("gang") < 20
        broken["yes"] = False
        await asyncio.sleep(60)
        assert (await world.status(VOLCANO, "gang"))["phase"] == "Running"


@on_virtual_time
async def test_the_native_condition_comes_once_when_all_are_bound() -> None:
    world = ForeignWorld()
    await world.node("a", 8)
    async with world.scheduling():
        await world.pod_group("gang", 2)
        for number in range(2):
            await world.pod(f"gang-{number}", schedulingGroup={"podGroupName": "gang"})
        await asyncio.sleep(10)
        (condition,) = (await world.status(POD_GROUPS, "gang"))["conditions"]
        assert (condition["type"], condition["status"]) == ("PodGroupScheduled", "True")
        await asyncio.sleep(100)
        assert world.written("gang") == 1
