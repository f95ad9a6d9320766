"""Volcano PodGroups without pods become Inqueue when their queue has room: who waits for that makes pods then."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import msgspec

from allhands.api.volcano.hyper_node import HYPER_NODE
from allhands.ports import Query
from allhands.runtime.scheduling.letting_in import FLIGHT
from tests.foreign_kinds import VOLCANO, define_all, group
from tests.manifests import PODS
from tests.scheduler_world import QUEUES, SCHEDULING, SchedulerWorld
from tests.virtual import on_virtual_time, running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class VolcanoWorld(SchedulerWorld):
    """With a controller like Volcano's: it makes the pods of a group once that is Inqueue."""

    @contextlib.asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        await self.install()
        await define_all(self.objects)
        async with self.scheduling(), running(self.make_pods()), running(self.run_pods()):
            yield

    async def group(self, name: str, size: int, **spec: Any) -> None:
        spec.setdefault("minResources", {"cpu": str(size), "requests.cpu": str(size), "count/pods": str(size)})
        await self.objects.create(VOLCANO, group(VOLCANO, name, minMember=size, **spec), "default")

    async def make_pods(self) -> None:
        while True:
            await asyncio.sleep(1)
            for found in await self.groups():
                name, phase = found["metadata"]["name"], (found.get("status") or {}).get("phase")
                if phase == "Inqueue" and not await self.members(name):
                    for number in range(found["spec"]["minMember"]):
                        annotations = {"scheduling.k8s.io/group-name": name}
                        await self.pod(f"{name}-{number}", annotations=annotations)

    async def members(self, name: str) -> list[str]:
        return [it["metadata"]["name"] for it in await self.pods() if it["metadata"]["name"].startswith(f"{name}-")]

    async def groups(self) -> list[dict[str, Any]]:
        found = await self.objects.list(VOLCANO, Query(namespace="default"))
        return [msgspec.json.decode(raw) for raw in found.items]

    async def status(self, name: str) -> dict[str, Any]:
        return (await self.objects.get(VOLCANO, name, "default")).manifest().get("status") or {}

    async def phases(self) -> dict[str, str]:
        return {it["metadata"]["name"]: (it.get("status") or {}).get("phase", "") for it in await self.groups()}

    def written(self) -> int:
        return len(self.noted.of("patch", "podgroups"))

    async def end(self, name: str) -> None:
        for pod in await self.members(name):
            await self.phase(pod, "Succeeded")


@on_virtual_time
async def test_a_group_whose_queue_has_room_is_let_in_and_its_pods_run() -> None:
    world = VolcanoWorld()
    await world.node("a", 8)
    async with world.at_work():
        await world.group("train", 4)
        await world.group("silent", 2, minResources=None)
        await asyncio.sleep(5)
        assert len(await world.bound()) == 6
        await asyncio.sleep(10)
        assert await world.phases() == {"train": "Running", "silent": "Running"}
        await world.end("train")
        await asyncio.sleep(10)
        assert (await world.phases())["train"] == "Completed"


@on_virtual_time
async def test_the_capability_of_the_queue_is_respected_and_who_waits_is_told() -> None:
    world = VolcanoWorld()
    await world.node("a", 100)
    async with world.at_work():
        await world.queue("blue", capability={"cpu": "6"})
        await world.group("first", 4, queue="blue")
        await asyncio.sleep(10)
        await world.group("second", 4, queue="blue")
        await world.group("third", 2, queue="blue")
        await world.group("elsewhere", 50)
        await asyncio.sleep(20)
        assert await world.phases() == {
            "first": "Running",
            "second": "Pending",
            "third": "Running",
            "elsewhere": "Running",
        }
        assert await world.members("second") == []
        (told,) = (await world.status("second"))["conditions"]
        assert (told["type"], told["status"], told["reason"]) == ("Unschedulable", "True", "NotEnoughResources")
        assert (
            told["message"] == 'Queue "blue" has given or promised 6 of its capability of 6 cpu; the group asks for 4.'
        )
        before = world.written()
        await asyncio.sleep(600)
        assert world.written() == before  # it is told once
        await world.end("first")
        await asyncio.sleep(30)
        assert (await world.phases())["second"] == "Running"
        assert {it["type"]: it["status"] for it in (await world.status("second"))["conditions"]} == {
            "Unschedulable": "False",
            "Scheduled": "True",
        }


@on_virtual_time
async def test_a_full_cluster_is_not_flooded_with_pods_of_those_who_could_not_start() -> None:
    world = VolcanoWorld()
    await world.node("a", 10)
    async with world.at_work():
        for number in range(20):
            await world.group(f"g{number:02}", 4)
        await asyncio.sleep(60)
        phases = await world.phases()
        assert sum(phase == "Running" for phase in phases.values()) == 2
        # A fifth more than there is may wait with pods, so that the next can start at once.
        assert sum(phase == "Inqueue" for phase in phases.values()) == 1
        assert len(await world.pods()) == 12
        for number in range(20):
            running_now = [name for name, phase in (await world.phases()).items() if phase == "Running"]
            for name in running_now:
                await world.end(name)
            await asyncio.sleep(30)
            del number
        assert set((await world.phases()).values()) == {"Completed"}


@on_virtual_time
async def test_a_queue_that_is_closed_lets_nobody_in_until_it_is_open() -> None:
    world = VolcanoWorld()
    await world.node("a", 10)
    async with world.at_work():
        await world.queue("blue")
        closed = {"status": {"state": "Closed", "allocated": {}}}
        await world.objects.patch(QUEUES, "blue", "merge", closed, subresource="status")
        await world.group("train", 4, queue="blue")
        await asyncio.sleep(20)
        assert await world.phases() == {"train": "Pending"}
        assert "closed" in (await world.status("train"))["conditions"][0]["message"]
        await world.objects.patch(QUEUES, "blue", "merge", {"status": {"state": "Open"}}, subresource="status")
        await asyncio.sleep(20)
        assert await world.phases() == {"train": "Running"}


@on_virtual_time
async def test_beside_a_scheduler_that_lets_groups_in_itself_nothing_is_written() -> None:
    world = VolcanoWorld()
    await world.node("a", 10)
    await world.install()
    await define_all(world.objects)
    theirs: dict[str, Any] = {"annotations": {"scheduling.k8s.io/group-name": "theirs"}, "schedulerName": "volcano"}
    await world.group("theirs", 1)
    await world.pod("theirs-0", **theirs)
    async with world.scheduling():
        await world.group("next", 4)
        await asyncio.sleep(60)
        assert await world.phases() == {"theirs": "", "next": ""}
        for found in await world.groups():
            assert SCHEDULING not in (found["metadata"].get("annotations") or {})
        # Without that other scheduler's pods it is ours to let groups in.
        await world.objects.delete(PODS, "theirs-0", "default")
        await world.group("later", 4)
        await asyncio.sleep(30)
        assert (await world.phases())["later"] == "Inqueue"


@on_virtual_time
async def test_what_was_promised_is_kept_by_the_next_scheduler() -> None:
    world = VolcanoWorld()
    await world.node("a", 10)
    await world.install()
    await define_all(world.objects)
    await world.queue("blue", capability={"cpu": "6"})
    async with world.scheduling():
        await world.group("first", 4, queue="blue")
        await asyncio.sleep(10)
    await world.group("second", 4, queue="blue", priorityClassName="")
    async with world.scheduling():
        await asyncio.sleep(30)
        assert await world.phases() == {"first": "Inqueue", "second": "Pending"}


@on_virtual_time
async def test_a_group_that_makes_no_sense_is_told_so_and_not_let_in() -> None:
    world = VolcanoWorld()
    await world.node("a", 10)
    async with world.at_work():
        await world.group("odd", 2, minResources={"cpu": "1e9999"})
        await asyncio.sleep(20)
        status = await world.status("odd")
        assert status["phase"] == "Pending"
        assert status["conditions"][0]["message"].startswith("spec.minResources.cpu")


@on_virtual_time
async def test_a_group_that_has_ended_stays_so_when_its_pods_are_removed() -> None:
    world = VolcanoWorld()
    await world.node("a", 10)
    async with world.at_work():
        await world.group("train", 3)
        await asyncio.sleep(15)
        await world.end("train")
        await asyncio.sleep(15)
        for pod in await world.members("train"):
            await world.delete_pod(pod)
            await asyncio.sleep(10)
        assert (await world.status("train"))["phase"] == "Completed"


async def switches(world: VolcanoWorld) -> None:
    """Two HyperNodes with a node of four cores each, and a wider one around them."""
    for name in ("a", "b"):
        await world.node(name, 4)
        await hyper_node(world, f"s-{name}", 1, {"type": "Node", "selector": {"exactMatch": {"name": name}}})
    await hyper_node(world, "block", 2, {"type": "HyperNode", "selector": {"regexMatch": {"pattern": "^s-"}}})


async def hyper_node(world: VolcanoWorld, name: str, tier: int, *members: dict[str, Any]) -> None:
    spec = {"tier": tier, "tierName": "switch" if tier == 1 else "block", "members": list(members)}
    await world.objects.create(HYPER_NODE.resource, {"metadata": {"name": name}, "spec": spec})


NEVER_IN_A_SWITCH = (
    "Its 6 pods ask for 6 cpu together and must be in one domain of tier 1 (switch); the largest of 2, "
    '"hypernode:s-a", has 4 in all: it can never start on these nodes.'
)


@on_virtual_time
async def test_a_minimum_of_one_pod_is_not_told_as_pods() -> None:
    world = VolcanoWorld()
    in_a_switch = {"mode": "hard", "highestTierAllowed": 1}
    async with world.at_work():
        await switches(world)
        await world.group("one", 1, minResources={"cpu": "5500m"}, networkTopology=in_a_switch)
        await asyncio.sleep(10)
        message = (await world.status("one"))["conditions"][0]["message"]
        assert message.startswith("It asks for 5.5 cpu together and must be in one domain of tier 1 (switch);")


@on_virtual_time
async def test_a_group_that_no_hyper_node_could_hold_is_told_so_is_not_let_in_and_keeps_nobody_out() -> None:
    world = VolcanoWorld()
    async with world.at_work():
        await switches(world)
        await world.queue("blue", capability={"cpu": "8"})
        await world.group("huge", 6, queue="blue", networkTopology={"mode": "hard", "highestTierAllowed": 1})
        await asyncio.sleep(10)
        await world.group("next", 8, queue="blue")
        await asyncio.sleep(30)
        assert await world.phases() == {"huge": "Pending", "next": "Running"}
        condition = (await world.status("huge"))["conditions"][0]
        assert (condition["reason"], condition["message"]) == ("GroupNeverFits", NEVER_IN_A_SWITCH)
        # A switch that is large enough changes that.
        await world.end("next")
        await world.node("c", 8)
        await hyper_node(world, "s-c", 1, {"type": "Node", "selector": {"exactMatch": {"name": "c"}}})
        await asyncio.sleep(30)
        assert (await world.phases())["huge"] == "Running"


@on_virtual_time
async def test_a_tier_without_hyper_nodes_is_told_and_nobody_is_let_in_for_it() -> None:
    world = VolcanoWorld()
    async with world.at_work():
        await world.node("a", 4)
        await hyper_node(world, "block", 2, {"type": "Node", "selector": {"exactMatch": {"name": "a"}}})
        await world.group("pair", 2, networkTopology={"mode": "hard", "highestTierAllowed": 1})
        await asyncio.sleep(10)
        condition = (await world.status("pair"))["conditions"][0]
        assert condition["message"] == (
            "Its pods must be in one domain of tier 1, and there is none: the closest domains of tree "
            '"hypernodes" are of tier 2 (block), 3 (make closer ones, or allow a wider tier).'
        )


@on_virtual_time
async def test_who_was_let_in_and_can_never_start_keeps_nobody_out() -> None:
    """By their sum its pods fit into a switch, but not one by one on its nodes."""
    world = VolcanoWorld()
    async with world.at_work():
        for name in ("a", "b"):
            await world.node(name, 1)
        members = [{"type": "Node", "selector": {"exactMatch": {"name": it}}} for it in ("a", "b")]
        await hyper_node(world, "s", 1, *members)
        await world.queue("blue", capability={"cpu": "2"})
        hard = {"mode": "hard", "highestTierAllowed": 1}
        # It says too little of what its pods will ask for.
        await world.group("huge", 3, queue="blue", networkTopology=hard, minResources={"cpu": "2"})
        await asyncio.sleep(20)
        assert (await world.phases())["huge"] == "Inqueue"
        await world.group("next", 2, queue="blue")
        await asyncio.sleep(30)
        assert (await world.phases())["next"] == "Running"


@on_virtual_time
async def test_volcano_0b82db7_6db3122_what_was_promised_to_pods_that_are_bound_by_now_is_counted_once() -> None:
    """What a group was promised was counted beside what its pods in the state Binding had, so that its queue looked
    full."""
    world = VolcanoWorld()
    await world.node("a", 8)
    async with world.at_work():
        await world.queue("blue", capability={"cpu": "8"})
        await world.group("first", 4, queue="blue")
        # Pods are there at the next look after it was let in, and bound a moment later: at no moment is it twice there.
        await world.group("second", 4, queue="blue")
        for _ in range(40):
            await asyncio.sleep(0.25)
            verdicts = await world.phases()
            assert "capability" not in str([await world.status(name) for name in verdicts])
        assert await world.phases() == {"first": "Running", "second": "Running"}


@on_virtual_time
async def test_volcano_5568_pods_that_come_before_their_group_start_when_it_is_there() -> None:
    """A pod whose PodGroup was not known yet ended the scheduler."""
    world = VolcanoWorld()
    await world.node("a", 4)
    async with world.at_work():
        for number in range(2):
            await world.pod(f"early-{number}", annotations={"scheduling.k8s.io/group-name": "early"})
        await world.group("other", 1)
        await asyncio.sleep(10)
        assert (await world.phases())["other"] == "Running"
        assert not [pod for pod in await world.bound() if pod.startswith("early")]
        await world.group("early", 2)
        await asyncio.sleep(20)
        assert (await world.phases())["early"] == "Running"


@on_virtual_time
async def test_many_groups_that_come_together_are_let_in_at_once() -> None:
    world = VolcanoWorld()
    await world.node("a", 1_000)
    async with world.at_work():
        for number in range(200):
            await world.group(f"g{number:03}", 2)
        await asyncio.sleep(2)
        assert set((await world.phases()).values()) == {"Inqueue"}
        # Each was written once for that, but for the first, of which it is learned how statuses are written.
        assert world.written() <= 200 + FLIGHT


@on_virtual_time
async def test_a_group_that_is_gone_before_it_is_let_in_keeps_nobody_out() -> None:
    world = VolcanoWorld()
    await world.node("a", 100)
    async with world.at_work():
        await world.group("gone", 2)
        await world.objects.delete(VOLCANO, "gone", "default")
        await world.group("train", 2)
        await asyncio.sleep(20)
        assert await world.phases() == {"train": "Running"}
