"""HyperNodes say how many nodes they hold and whether they make sense; Numatopologies say that nobody uses them."""

from __future__ import annotations

from typing import Any

from allhands.api.kinds import Resource
from allhands.api.volcano.hyper_node import HYPER_NODE
from allhands.api.volcano.numatopology import NUMATOPOLOGY
from allhands.controllers.hyper_node import HyperNodeController
from allhands.controllers.numatopology import NumatopologyController
from tests.controller_world import World
from tests.volcano_cases import define

NODES = Resource("", "v1", "nodes")
DEFINITIONS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions")


async def _world(nodes: int = 4) -> World:
    world = World()
    await world.create(DEFINITIONS, HYPER_NODE.manifest(), "")
    world.store.housekeeper.run_pending()
    for number in range(nodes):
        labels = {"half": str(number % 2)}
        await world.create(NODES, {"metadata": {"name": f"n{number}", "labels": labels}}, "")
    return world


def _exact(kind: str, name: str) -> dict[str, Any]:
    return {"type": kind, "selector": {"exactMatch": {"name": name}}}


def _regex(kind: str, pattern: str) -> dict[str, Any]:
    return {"type": kind, "selector": {"regexMatch": {"pattern": pattern}}}


async def _hyper_node(world: World, name: str, tier: int, *members: dict[str, Any]) -> None:
    manifest = {"metadata": {"name": name}, "spec": {"tier": tier, "members": list(members)}}
    await world.create(HYPER_NODE.resource, manifest, "")


async def _settle(world: World, seconds: float = 3.0) -> None:
    await world.settle(lambda objects: [HyperNodeController(objects)], horizon_seconds=seconds, kubelet=False)


async def _said(world: World, name: str) -> tuple[int, str, str]:
    status = (await world.get(HYPER_NODE.resource, name, ""))["status"]
    (condition,) = status["conditions"]
    return status.get("nodeCount", 0), condition["status"], condition["message"]


async def test_a_hyper_node_counts_the_nodes_of_those_below_each_once() -> None:
    world = await _world()
    await _hyper_node(world, "leaf-a", 1, _regex("Node", "^n[01]$"))
    labelled = {"type": "Node", "selector": {"labelMatch": {"matchLabels": {"half": "0"}}}}
    await world.patch(NODES, "n0", {"metadata": {"labels": {"half": "1"}}}, "")
    await _hyper_node(world, "leaf-b", 1, labelled)
    await _hyper_node(world, "spine", 2, _regex("HyperNode", "^leaf-"), _exact("Node", "n0"))
    await _settle(world)
    assert [(await _said(world, it))[:2] for it in ("leaf-a", "leaf-b", "spine")] == [
        (2, "True"),
        (1, "True"),
        (3, "True"),
    ]


async def test_of_two_that_share_a_node_the_later_one_is_told_so_until_they_do_not() -> None:
    world = await _world()
    await _hyper_node(world, "leaf-b", 1, _regex("Node", "^n[01]$"))
    world.clock.advance(2)
    await _hyper_node(world, "leaf-a", 1, _regex("Node", "^n[12]$"))
    await _settle(world)
    assert (await _said(world, "leaf-b"))[:2] == (2, "True")
    _, status, message = await _said(world, "leaf-a")
    assert status == "False"
    assert message.startswith('its node "n1" is in "leaf-b" already')
    await world.objects.delete(NODES, "n1", "")
    await _settle(world)
    assert (await _said(world, "leaf-a"))[:2] == (1, "True")


async def test_one_that_two_others_claim_is_told_so_and_the_others_are_fine() -> None:
    world = await _world()
    await _hyper_node(world, "leaf", 1, _exact("Node", "n0"))
    await _hyper_node(world, "spine-a", 2, _exact("HyperNode", "leaf"))
    await _hyper_node(world, "spine-b", 2, _exact("HyperNode", "leaf"), _exact("Node", "n1"))
    await _settle(world)
    count, status, message = await _said(world, "leaf")
    assert (count, status) == (1, "False")
    assert message == 'Domain "leaf" has 2 parents: "spine-a", "spine-b".'
    assert (await _said(world, "spine-b"))[:2] == (1, "True")
    await world.objects.delete(HYPER_NODE.resource, "spine-a", "")
    await _settle(world)
    assert (await _said(world, "leaf"))[1] == "True"
    assert (await _said(world, "spine-b"))[0] == 2


async def test_a_ring_is_told_to_all_who_are_in_it() -> None:
    world = await _world()
    await _hyper_node(world, "a", 1, _exact("HyperNode", "b"))
    await _hyper_node(world, "b", 1, _exact("HyperNode", "a"))
    await _hyper_node(world, "c", 1, _exact("Node", "n2"))
    await _settle(world)
    assert [(await _said(world, it))[1] for it in ("a", "b", "c")] == ["False", "False", "True"]


async def test_counts_follow_nodes_that_come_go_and_change_their_labels_and_are_written_once_for_many() -> None:
    world = await _world(nodes=0)
    await _hyper_node(world, "half", 1, {"type": "Node", "selector": {"labelMatch": {"matchLabels": {"half": "0"}}}})
    await _settle(world)
    before = world.writes
    for number in range(50):
        await world.create(NODES, {"metadata": {"name": f"n{number}", "labels": {"half": str(number % 2)}}}, "")
    await _settle(world)
    assert (await _said(world, "half"))[0] == 25
    assert world.writes - before == 1
    await world.patch(NODES, "n1", {"metadata": {"labels": {"half": "0"}}}, "")
    await world.objects.delete(NODES, "n0", "")
    await _settle(world)
    assert (await _said(world, "half"))[0] == 25
    await world.objects.delete(NODES, "n2", "")
    await _settle(world)
    assert (await _said(world, "half"))[0] == 24


async def test_what_is_told_already_is_not_written_again() -> None:
    world = await _world()
    await _hyper_node(world, "leaf", 1, _exact("Node", "n0"))
    await _settle(world)
    before = world.writes
    await world.patch(NODES, "n0", {"metadata": {"annotations": {"a": "b"}}}, "")
    await _settle(world)
    assert world.writes == before


async def test_a_numatopology_is_kept_and_says_that_it_is_not_used() -> None:
    world = World()
    await world.create(DEFINITIONS, NUMATOPOLOGY.manifest(), "")
    world.store.housekeeper.run_pending()
    spec = {"policies": {"TopologyManagerPolicy": "single-numa-node"}, "cpuDetail": {"0": {"numa": 0}}}
    await world.create(NUMATOPOLOGY.resource, {"metadata": {"name": "n0"}, "spec": spec}, "")
    for _ in range(2):
        await world.settle(lambda objects: [NumatopologyController(objects)], kubelet=False)
        await world.patch(NUMATOPOLOGY.resource, "n0", {"spec": {"resReserved": {"cpu": "1"}}}, "")
    found = await world.get(NUMATOPOLOGY.resource, "n0", "")
    (condition,) = found["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("Used", "False")
    assert found["spec"]["policies"] == spec["policies"]
    assert world.writes == 1


async def test_a_numatopology_of_a_kind_without_a_status_is_left_alone() -> None:
    world = World()
    manifest = NUMATOPOLOGY.manifest()
    for version in manifest["spec"]["versions"]:
        version.pop("subresources")
    await world.create(DEFINITIONS, manifest, "")
    world.store.housekeeper.run_pending()
    for name in ("n0", "n1"):
        await world.create(NUMATOPOLOGY.resource, {"metadata": {"name": name}, "spec": {}}, "")
    await world.settle(lambda objects: [NumatopologyController(objects)], horizon_seconds=60, kubelet=False)
    assert world.writes <= 2


async def test_a_hyper_node_that_no_schema_has_looked_at_is_told_what_is_wrong() -> None:
    world = World()
    await define(world, HYPER_NODE)
    await _hyper_node(world, "odd", 1)
    await world.create(HYPER_NODE.resource, {"metadata": {"name": "worse"}, "spec": {"tier": "high"}}, "")
    await _settle(world)
    assert (await _said(world, "odd"))[1:] == (
        "False",
        "spec.members: Required value: a HyperNode has at least one member",
    )
    assert (await _said(world, "worse"))[1] == "False"
