"""Pods that ask for no spreading get kube-scheduler's, by the services and controllers that are there; gangs do not."""

from __future__ import annotations

import asyncio
import collections
from typing import TYPE_CHECKING, Any

import pytest

from allhands.core.scores.spread import ZONE
from allhands.runtime.scheduling import resources
from tests.scheduler_world import SchedulerWorld
from tests.virtual import on_virtual_time, refused

if TYPE_CHECKING:
    from allhands.api.document import Manifest

LABELS = {"app": "web"}
TEMPLATE: dict[str, Any] = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "main", "image": "w"}]}}


class SpreadWorld(SchedulerWorld):
    async def zones(self) -> None:
        for number in range(4):
            await self.node(f"node-{number}", 16, **{ZONE: "ab"[number % 2]})

    async def service(self, name: str, **selector: str) -> None:
        body = {"metadata": {"name": name}, "spec": {"selector": selector, "ports": [{"port": 80}]}}
        await self.objects.create(resources.SERVICES, body, "default")

    async def owner(self, kind: str) -> Manifest:
        resource = {
            "ReplicaSet": resources.REPLICA_SETS,
            "StatefulSet": resources.STATEFUL_SETS,
            "ReplicationController": resources.REPLICATION_CONTROLLERS,
        }[kind]
        selector: Manifest = LABELS if kind == "ReplicationController" else {"matchLabels": LABELS}
        spec = {"selector": selector, "template": TEMPLATE, "replicas": 0}
        if kind == "StatefulSet":
            spec["serviceName"] = ""
        return (
            await self.objects.create(resource, {"metadata": {"name": "owner"}, "spec": spec}, "default")
        ).manifest()

    async def labelled(self, name: str, owner: Manifest | None = None, **spec: Any) -> None:
        made = await self.pod(name, owner=owner, **spec)
        patch = {"metadata": {"labels": LABELS}}
        await self.objects.patch(resources.PODS, made["metadata"]["name"], "merge", patch, "default")

    async def per_node(self) -> list[int]:
        return sorted(collections.Counter((await self.bound()).values()).values())


@on_virtual_time
async def test_without_services_and_controllers_pods_go_where_it_is_fullest() -> None:
    world = SpreadWorld()
    await world.zones()
    async with world.scheduling():
        for number in range(4):
            await world.labelled(f"pod-{number}")
            await asyncio.sleep(1)
        assert await world.per_node() == [4]


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet", "ReplicationController"])
def test_pods_of_a_controller_are_spread(kind: str) -> None:
    @on_virtual_time
    async def main() -> None:
        world = SpreadWorld()
        await world.zones()
        owner = await world.owner(kind)
        async with world.scheduling():
            for number in range(4):
                await world.labelled(f"pod-{number}", owner)
                await asyncio.sleep(1)
            assert await world.per_node() == [1, 1, 1, 1]

    main()


@on_virtual_time
async def test_pods_of_a_service_are_spread_from_when_it_is_there_until_it_is_gone() -> None:
    world = SpreadWorld()
    await world.zones()
    async with world.scheduling():
        await world.labelled("first")
        await asyncio.sleep(1)
        await world.service("others", app="other")
        await world.labelled("second")
        await asyncio.sleep(1)
        assert await world.per_node() == [2]
        await world.service("web", **LABELS)
        await asyncio.sleep(1)
        for number in range(3):
            await world.labelled(f"spread-{number}")
            await asyncio.sleep(1)
        assert await world.per_node() == [1, 1, 1, 2]
        await world.objects.delete(resources.SERVICES, "web", "default")
        await asyncio.sleep(1)
        await world.labelled("last")
        await asyncio.sleep(1)
        assert await world.per_node() == [1, 1, 1, 3]


@on_virtual_time
async def test_a_pod_that_waits_is_spread_anew_when_its_service_comes() -> None:
    world = SpreadWorld()
    await world.zones()
    await world.service("web", **LABELS)
    async with world.scheduling() as scheduler:
        await world.labelled("huge", cpu="99")
        await world.labelled("other")
        await asyncio.sleep(2)
        waiting = scheduler.watched.world._pods
        spread = {it.pod.name: it.pod.spread for it in waiting.values()}
        assert len(spread["huge"]) == 2
        assert spread["other"] == (), "it is on a node, and spread no more"
        await world.objects.delete(resources.SERVICES, "web", "default")
        await asyncio.sleep(1)
        spread = {it.pod.name: it.pod.spread for it in waiting.values()}
        assert spread["huge"] == ()
        await world.delete_pod("huge")
        await asyncio.sleep(1)
        assert not scheduler.watched._spreading._waiting, "nothing is kept of those who wait no more"


@on_virtual_time
async def test_members_of_a_gang_are_left_together() -> None:
    world = SpreadWorld()
    await world.zones()
    await world.service("web", **LABELS)
    await world.pod_group("group", 4)
    async with world.scheduling():
        for number in range(4):
            await world.labelled(f"pod-{number}", schedulingGroup={"podGroupName": "group"})
        await asyncio.sleep(2)
        assert await world.per_node() == [4]


@on_virtual_time
async def test_who_may_not_see_services_places_pods_all_the_same() -> None:
    world = SpreadWorld()
    await world.zones()
    await world.service("web", **LABELS)
    owner = await world.owner("ReplicaSet")
    watched = {"services", "replicasets", "statefulsets", "replicationcontrollers"}
    world.noted.refuse = lambda it: refused(403) if it.kind in watched else None
    async with world.scheduling():
        for number in range(4):
            await world.labelled(f"pod-{number}", owner)
        await asyncio.sleep(2)
        assert len(await world.bound()) == 4
