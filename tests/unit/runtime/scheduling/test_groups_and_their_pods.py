"""What a group takes over from its pods: sub-groups by labels (Volcano's subGroupPolicy), and the priority."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.foreign_kinds import COSCHEDULING, VOLCANO, define_all, group
from tests.manifests import PODS
from tests.scheduler_world import SchedulerWorld
from tests.virtual import on_virtual_time

RACK = {"mode": "hard", "highestTierName": "rack"}


class PartsWorld(SchedulerWorld):
    async def prepare(self, racks: int, nodes: int = 2, cpu: int = 2) -> None:
        await self.install()
        await define_all(self.objects)
        for rack in range(racks):
            await self.rack(rack, nodes, cpu)

    async def rack(self, rack: int, nodes: int = 2, cpu: int = 2) -> None:
        for number in range(nodes):
            await self.node(f"r{rack}-{number}", cpu, **{"topology.allhands.dev/rack": f"r{rack}"})

    async def group(self, name: str, least: int, *policies: dict[str, Any], **spec: Any) -> None:
        body = group(VOLCANO, name, minMember=least, subGroupPolicy=list(policies), **spec)
        await self.objects.create(VOLCANO, body, "default")

    async def part(self, name: str, part: str, count: int, first: int = 0) -> None:
        for number in range(first, first + count):
            await self.labelled(f"{name}-{part}-{number}", name, {"part": part} if part != "none" else {})

    async def labelled(self, pod: str, name: str, labels: dict[str, str]) -> None:
        container = {"name": "main", "image": "work", "resources": {"requests": {"cpu": "1"}}}
        metadata = {"name": pod, "labels": labels, "annotations": {"scheduling.k8s.io/group-name": name}}
        body = {"metadata": metadata, "spec": {"schedulerName": "allhands", "containers": [container]}}
        await self.objects.create(PODS, body, "default")

    async def racks_of(self, name: str, part: str) -> list[str]:
        """Of the pods of a sub-group, in which rack each is."""
        bound = await self.bound()
        return sorted(node.partition("-")[0] for pod, node in bound.items() if pod.startswith(f"{name}-{part}-"))


def policy(**more: Any) -> dict[str, Any]:
    return {"name": "workers", "matchLabelKeys": ["part"], **more}


@on_virtual_time
async def test_each_sub_group_starts_in_a_rack_of_its_own() -> None:
    world = PartsWorld()
    await world.prepare(racks=2)
    async with world.scheduling():
        await world.group("train", 8, policy(subGroupSize=4, minSubGroups=2, networkTopology=RACK))
        await world.part("train", "a", 4)
        await world.part("train", "b", 3)
        await asyncio.sleep(20)
        assert await world.bound() == {}
        assert 'Sub-group "workers/b" has 3 of the 4 pods' in await world.told("train-a-0")
        await world.part("train", "b", 1, first=3)
        await asyncio.sleep(5)
        placed = sorted([await world.racks_of("train", part) for part in "ab"])
        assert placed == [["r0"] * 4, ["r1"] * 4]


@on_virtual_time
async def test_only_whole_sub_groups_start_and_the_others_follow_when_there_is_room() -> None:
    world = PartsWorld()
    await world.prepare(racks=1, nodes=3)
    async with world.scheduling():
        await world.group("train", 4, policy(subGroupSize=4, minSubGroups=1))
        await world.part("train", "a", 4)
        await world.part("train", "b", 4)
        await asyncio.sleep(10)
        # There is room for six: a sub-group of four, and two that nobody may have for half of the other.
        assert len(await world.bound()) == 4
        assert len(await world.racks_of("train", "a")) in (0, 4)
        await world.node("more", 2)
        await asyncio.sleep(10)
        assert len(await world.bound()) == 8


@on_virtual_time
async def test_the_minimum_of_the_group_is_met_by_whole_sub_groups() -> None:
    world = PartsWorld()
    await world.prepare(racks=1, nodes=1, cpu=5)
    async with world.scheduling():
        await world.group("train", 5, policy(subGroupSize=4))
        await world.part("train", "a", 4)
        await world.part("train", "b", 4)
        await asyncio.sleep(10)
        assert await world.bound() == {}
        await world.node("more", 3)
        await asyncio.sleep(10)
        assert len(await world.bound()) == 8


@on_virtual_time
async def test_pods_that_no_policy_takes_are_members_of_the_group_itself() -> None:
    world = PartsWorld()
    await world.prepare(racks=2)
    async with world.scheduling():
        await world.group("train", 5, policy(subGroupSize=4, minSubGroups=1, networkTopology=RACK))
        await world.part("train", "none", 1)
        await world.part("train", "a", 4)
        await asyncio.sleep(10)
        assert len(set(await world.racks_of("train", "a"))) == 1
        assert len(await world.racks_of("train", "none")) == 1


@on_virtual_time
async def test_a_sub_group_that_fits_in_no_rack_waits_with_its_whole_group() -> None:
    world = PartsWorld()
    await world.prepare(racks=2)
    async with world.scheduling():
        await world.group("train", 6, policy(subGroupSize=6, minSubGroups=1, networkTopology=RACK))
        await world.part("train", "a", 6)
        await asyncio.sleep(10)
        assert await world.bound() == {}
        assert "rack" in await world.told("train-a-0")
        # Once its owner asks for less it starts; nothing of it has to be made anew.
        less = policy(subGroupSize=6, minSubGroups=1, networkTopology={"mode": "soft"})
        patch = {"spec": {"subGroupPolicy": [less]}}
        await world.objects.patch(VOLCANO, "train", "merge", patch, "default")
        await asyncio.sleep(10)
        assert len(await world.bound()) == 6


@on_virtual_time
async def test_a_new_scheduler_finds_the_same_sub_groups() -> None:
    world = PartsWorld()
    await world.prepare(racks=1)
    async with world.scheduling():
        await world.group("train", 8, policy(subGroupSize=4, minSubGroups=2, networkTopology=RACK))
        await world.part("train", "a", 4)
        await world.part("train", "b", 4)
        await asyncio.sleep(10)
        assert await world.bound() == {}
    await world.rack(1)
    async with world.scheduling():
        await asyncio.sleep(10)
        assert sorted([await world.racks_of("train", part) for part in "ab"]) == [["r0"] * 4, ["r1"] * 4]
        # A member that is lost comes back beside the others of its sub-group.
        await world.delete_pod("train-a-0")
        await world.part("train", "a", 1)
        await asyncio.sleep(10)
        assert len(set(await world.racks_of("train", "a"))) == 1


@on_virtual_time
async def test_a_native_group_is_as_important_as_its_most_important_pod() -> None:
    world = SchedulerWorld()
    await world.install()
    await world.node("a", 2)
    await world.priority("high", 100)
    async with world.scheduling():
        await world.pod("filler", "2")
        await asyncio.sleep(5)
        for name in ("plain", "urgent"):
            await world.pod_group(name, 2)
        for number in range(2):
            await world.pod(f"plain-{number}", schedulingGroup={"podGroupName": "plain"})
        await asyncio.sleep(1)
        more: dict[str, Any] = {"schedulingGroup": {"podGroupName": "urgent"}}
        await world.pod("urgent-0", **more)
        await world.pod("urgent-1", priorityClassName="high", **more)
        await asyncio.sleep(5)
        await world.delete_pod("filler")
        await asyncio.sleep(10)
        assert sorted(await world.bound()) == ["urgent-0", "urgent-1"]


@on_virtual_time
async def test_a_coscheduling_group_preempts_by_the_priority_of_its_pods() -> None:
    world = SchedulerWorld()
    await world.install()
    await define_all(world.objects)
    await world.node("a", 2)
    await world.priority("high", 100)
    async with world.scheduling():
        await world.gang("low", 2)
        await asyncio.sleep(5)
        assert len(await world.bound()) == 2
        await world.objects.create(COSCHEDULING, group(COSCHEDULING, "urgent", minMember=2), "default")
        container = {"name": "main", "image": "work", "resources": {"requests": {"cpu": "1"}}}
        for number in range(2):
            metadata = {"name": f"urgent-{number}", "labels": {"scheduling.x-k8s.io/pod-group": "urgent"}}
            spec = {"schedulerName": "allhands", "containers": [container], "priorityClassName": "high"}
            await world.objects.create(PODS, {"metadata": metadata, "spec": spec}, "default")
        await asyncio.sleep(10)
        assert sorted(await world.leaving()) == ["low-0", "low-1"]


@on_virtual_time
async def test_a_gang_whose_pods_come_one_by_one_is_looked_at_seldom_and_started_with_the_last_of_them() -> None:
    world = SchedulerWorld()
    await world.install()
    await world.node("a", 100)
    async with world.scheduling() as scheduler:
        await world.pod_group("gang", 60)
        await asyncio.sleep(5)
        cycles = scheduler.cycles
        for number in range(59):
            await world.pod(f"gang-{number}", schedulingGroup={"podGroupName": "gang"})
            await asyncio.sleep(0.2)
        assert scheduler.cycles - cycles < 30
        assert await world.bound() == {}
        # They are still coming: nobody need be told that some are missing.
        assert [await world.told(f"gang-{number}") for number in range(59)] == [""] * 59
        await world.pod("gang-59", schedulingGroup={"podGroupName": "gang"})
        await asyncio.sleep(0.5)
        assert len(await world.bound()) == 60


@on_virtual_time
async def test_a_gang_that_does_not_grow_any_more_is_told_what_is_missing() -> None:
    world = SchedulerWorld()
    await world.install()
    await world.node("a", 100)
    async with world.scheduling():
        await world.pod_group("gang", 4)
        for number in range(3):
            await world.pod(f"gang-{number}", schedulingGroup={"podGroupName": "gang"})
            await asyncio.sleep(3)
        assert await world.told("gang-0") == ""
        await asyncio.sleep(15)
        assert await world.told("gang-0") == "3 of the 4 pods that must start together exist."
