"""StatefulSets and DaemonSets with scheduler, volumes and simulated nodes, on virtual time, as a user applies them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import yaml

from allhands.api.kinds import Resource
from allhands.compose.nodes import NodeSize, add_node, node_manifest
from allhands.compose.system import System, SystemOptions
from allhands.lifecycle.daemon_set.kinds import DAEMON_SETS
from allhands.lifecycle.node import NODES
from allhands.lifecycle.replica_set import PODS
from allhands.lifecycle.stateful_set.kinds import STATEFUL_SETS
from allhands.lifecycle.volume_kinds import CLAIMS
from allhands.ports import Query
from tests.set_cases import daemon_set, image_patch
from tests.virtual import cluster, on_virtual_time, running

if TYPE_CHECKING:
    from allhands.api.document import Manifest

EXAMPLE = Path(__file__).parents[2] / "examples" / "stateful-and-daemon-sets.yaml"
RESOURCES = {
    "StorageClass": Resource("storage.k8s.io", "v1", "storageclasses"),
    "Service": Resource("", "v1", "services"),
    "StatefulSet": STATEFUL_SETS,
    "DaemonSet": DAEMON_SETS,
}
AGES_SECONDS = 120.0


class World:
    """A cluster of three nodes."""

    def __init__(self) -> None:
        self.store, self.objects, _, self.clock = cluster()
        self.system = System(self.objects, self.clock, SystemOptions())

    async def begin(self) -> None:
        for number in range(3):
            await self.add_node(f"node-{number}")

    async def add_node(self, name: str) -> None:
        await add_node(self.objects, node_manifest(name, NodeSize("8"), self.store.now()))

    async def all(self, resource: Resource) -> list[Manifest]:
        page = await self.objects.list(resource, Query(namespace="default"))
        return [msgspec.json.decode(it) for it in page.items]

    async def status(self, resource: Resource, name: str) -> dict[str, Any]:
        return dict((await self.objects.get(resource, name, "default")).manifest().get("status") or {})

    async def change(self, resource: Resource, name: str, spec: Manifest) -> None:
        await self.objects.patch(resource, name, "merge", {"spec": spec}, "default")

    def run(self) -> Any:
        return running(self.store.housekeeper.run(), self.system.run())


async def _apply(world: World) -> None:
    for manifest in yaml.safe_load_all(EXAMPLE.read_text(encoding="utf-8")):
        namespace = "" if manifest["kind"] == "StorageClass" else "default"
        await world.objects.create(RESOURCES[manifest["kind"]], manifest, namespace)


async def _nodes_of(world: World, app: str) -> list[str]:
    pods = await world.all(PODS)
    return sorted(it["spec"].get("nodeName", "") for it in pods if it["metadata"]["labels"].get("app") == app)


@on_virtual_time
async def test_the_example_comes_up_and_rolls_out_with_volumes_and_a_cordoned_node() -> None:
    world = World()
    await world.begin()
    await world.objects.patch(NODES, "node-1", "merge", {"spec": {"unschedulable": True}})
    async with world.run():
        await _apply(world)
        await asyncio.sleep(AGES_SECONDS)
        assert (await world.status(STATEFUL_SETS, "store"))["availableReplicas"] == 3
        assert (await world.status(DAEMON_SETS, "agent"))["numberAvailable"] == 3
        assert await _nodes_of(world, "agent") == ["node-0", "node-1", "node-2"]
        assert "node-1" not in await _nodes_of(world, "store")
        assert {it["status"]["phase"] for it in await world.all(CLAIMS)} == {"Bound"}
        before = await _nodes_of(world, "store")
        for resource, name in ((STATEFUL_SETS, "store"), (DAEMON_SETS, "agent")):
            await world.change(resource, name, image_patch("b"))
        await asyncio.sleep(AGES_SECONDS)
        store, agent = await world.status(STATEFUL_SETS, "store"), await world.status(DAEMON_SETS, "agent")
        assert (store["updatedReplicas"], store["readyReplicas"]) == (3, 3)
        assert store["currentRevision"] == store["updateRevision"]
        assert (agent["updatedNumberScheduled"], agent["numberAvailable"]) == (3, 3)
        assert await _nodes_of(world, "store") == before, "who has a disk on a node comes back to it"


@on_virtual_time
async def test_a_daemon_for_which_a_node_is_too_small_waits_and_the_others_run() -> None:
    world = World()
    await world.begin()
    await add_node(world.objects, node_manifest("small", NodeSize("1"), world.store.now()))
    manifest = daemon_set()
    manifest["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "2"}}
    async with world.run():
        await world.objects.create(DAEMON_SETS, manifest, "default")
        await asyncio.sleep(AGES_SECONDS)
        status = await world.status(DAEMON_SETS, "agent")
        assert (status["desiredNumberScheduled"], status["numberAvailable"]) == (4, 3)
        (waiting,) = [it for it in await world.all(PODS) if not it["spec"].get("nodeName")]
        (condition,) = waiting["status"]["conditions"]
        assert (condition["type"], condition["status"]) == ("PodScheduled", "False")
        assert condition["message"]


@on_virtual_time
async def test_daemons_come_with_new_nodes_and_go_with_nodes_that_go() -> None:
    world = World()
    await world.begin()
    async with world.run():
        await world.objects.create(DAEMON_SETS, daemon_set(), "default")
        await asyncio.sleep(AGES_SECONDS)
        await world.add_node("node-3")
        await world.objects.delete(NODES, "node-0")
        await asyncio.sleep(AGES_SECONDS)
        assert await _nodes_of(world, "agent") == ["node-1", "node-2", "node-3"]
        assert (await world.status(DAEMON_SETS, "agent"))["numberAvailable"] == 3
