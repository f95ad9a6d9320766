"""Volcano groups are placed by HyperNodes where there are any: live, and whatever is wrong with one of them."""

from __future__ import annotations

import asyncio
from typing import Any

from allhands.api.volcano.hyper_node import HYPER_NODE
from tests.foreign_kinds import VOLCANO, define_all, group
from tests.manifests import PODS
from tests.scheduler_world import SchedulerWorld
from tests.virtual import on_virtual_time


class HyperWorld(SchedulerWorld):
    """Four nodes with room for two pods each, without any label that says where they are."""

    async def prepare(self) -> None:
        await self.install()
        await define_all(self.objects)
        for name in ("a0", "a1", "b0", "b1"):
            await self.node(name, 2)

    async def hyper(self, name: str, pattern: str, *inner: str, tier: int = 1) -> None:
        members = [{"type": "Node", "selector": {"regexMatch": {"pattern": pattern}}}]
        members += [{"type": "HyperNode", "selector": {"exactMatch": {"name": it}}} for it in inner]
        spec = {"tier": tier, "tierName": "switch", "members": members}
        await self.objects.create(HYPER_NODE.resource, {"metadata": {"name": name}, "spec": spec})

    async def gang(self, name: str, size: int, cpu: str = "1", **topology: Any) -> None:  # type: ignore[override]
        body = group(VOLCANO, name, minMember=size, networkTopology=topology)
        await self.objects.create(VOLCANO, body, "default")
        for number in range(size):
            container = {"name": "main", "image": "work", "resources": {"requests": {"cpu": cpu}}}
            metadata = {"name": f"{name}-{number}", "annotations": {"scheduling.k8s.io/group-name": name}}
            spec = {"schedulerName": "allhands", "containers": [container]}
            await self.objects.create(PODS, {"metadata": metadata, "spec": spec}, "default")

    async def switches(self) -> set[str]:
        return {node[0] for node in (await self.bound()).values()}


@on_virtual_time
async def test_a_gang_keeps_within_one_hyper_node_of_the_tier_that_it_allows() -> None:
    world = HyperWorld()
    await world.prepare()
    await world.hyper("a", "^a")
    await world.hyper("b", "^b")
    async with world.scheduling():
        await world.gang("four", 4, mode="hard", highestTierAllowed=1)
        await asyncio.sleep(5)
        assert len(await world.bound()) == 4
        assert len(await world.switches()) == 1


@on_virtual_time
async def test_one_that_fits_none_waits_and_starts_when_a_wider_one_is_made() -> None:
    world = HyperWorld()
    await world.prepare()
    await world.hyper("a", "^a")
    async with world.scheduling():
        await world.gang("six", 6, highestTierName="switch")
        await asyncio.sleep(5)
        assert await world.bound() == {}
        await world.hyper("whole", "^b", "a", tier=2)
        await asyncio.sleep(5)
        assert len(await world.bound()) == 6


@on_virtual_time
async def test_a_tier_that_no_hyper_node_has_is_told() -> None:
    world = HyperWorld()
    await world.prepare()
    await world.hyper("a", "^a")
    async with world.scheduling():
        await world.gang("two", 2, highestTierName="rack")
        await asyncio.sleep(5)
        assert '"rack" is not one of the tiers of HyperNodes: switch' in await world.told("two-0")


@on_virtual_time
async def test_a_broken_hyper_node_disables_only_itself() -> None:
    world = HyperWorld()
    await world.prepare()
    await world.hyper("a", "^a")
    async with world.scheduling():
        await world.hyper("broken", "(")
        await world.gang("four", 4, mode="hard", highestTierAllowed=1)
        await asyncio.sleep(5)
        assert await world.switches() == {"a"}


@on_virtual_time
async def test_without_hyper_nodes_labels_say_where_nodes_are() -> None:
    world = HyperWorld()
    await world.prepare()
    await world.hyper("a", "^a")
    async with world.scheduling():
        await world.gang("four", 4, mode="hard", highestTierAllowed=2)
        await asyncio.sleep(5)
        assert len(await world.bound()) == 4
        await world.objects.delete(HYPER_NODE.resource, "a")
        await world.gang("two", 2, highestTierName="rack")
        await asyncio.sleep(5)
        assert "HyperNodes" not in await world.told("two-0")
