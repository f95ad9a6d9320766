"""The status of queues follows what their groups and pods do, slowly, and says what is wrong with them."""

from __future__ import annotations

from typing import Any

from allhands.api.kinds import Resource
from allhands.api.volcano.command import COMMAND
from allhands.api.volcano.queue import QUEUE
from allhands.controllers.queue import QueueController
from allhands.dialects.annotations import SCHEDULING
from allhands.runtime.installing import first_queues
from tests.controller_world import World, end_state
from tests.foreign_kinds import VOLCANO, definition, group

PODS = Resource("", "v1", "pods")
JOBS = Resource("batch", "v1", "jobs")
POD_GROUPS = Resource("scheduling.k8s.io", "v1alpha2", "podgroups")
DEFINITIONS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions")


async def _world(*queues: dict[str, Any]) -> World:
    world = World()
    await world.create(DEFINITIONS, QUEUE.manifest(), "")
    world.store.housekeeper.run_pending()
    for manifest in (*first_queues(), *queues):
        await world.create(QUEUE.resource, manifest, "")
    return world


def _queue(name: str, annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "annotations": annotations or {}}, "spec": spec}


def _pod(name: str, *, cpu: str = "1", scheduler: str = "allhands", **more: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    metadata = {"name": name, **more.pop("metadata", {})}
    return {"metadata": metadata, "spec": {"containers": [container], "schedulerName": scheduler, **more}}


def _job(name: str, **annotations: str) -> dict[str, Any]:
    template = {"spec": _pod("x")["spec"] | {"restartPolicy": "Never"}}
    named = {f"allhands.dev/{key.replace('_', '-')}": text for key, text in annotations.items()}
    return {"metadata": {"name": name, "annotations": named}, "spec": {"parallelism": 2, "template": template}}


async def _settle(world: World, seconds: float = 5.0, *, kubelet: bool = False) -> None:
    await world.settle(lambda objects: [QueueController(objects)], horizon_seconds=seconds, kubelet=kubelet)


async def _status(world: World, name: str) -> dict[str, Any]:
    status: dict[str, Any] = (await world.get(QUEUE.resource, name, "")).get("status") or {}
    return status


def _accepted(status: dict[str, Any]) -> tuple[str, str, str]:
    (condition,) = status["conditions"]
    return condition["status"], condition["reason"], condition["message"]


async def test_a_new_queue_is_open_empty_and_accepted() -> None:
    world = await _world()
    await _settle(world)
    status = await _status(world, "default")
    assert (status["state"], status["allocated"]) == ("Open", {})
    assert {status[it] for it in ("pending", "inqueue", "running", "unknown", "completed")} == {0}
    assert _accepted(status)[:2] == ("True", "Valid")


async def test_pods_that_stand_alone_are_groups_of_the_queue_they_name() -> None:
    world = await _world(_queue("team"))
    await world.create(PODS, _pod("a", metadata={"annotations": {"allhands.dev/queue": "team"}}))
    await world.create(PODS, _pod("b"))
    await world.create(PODS, _pod("c", scheduler="somebody"))
    await _settle(world)
    assert [(await _status(world, it))["pending"] for it in ("team", "default", "root")] == [1, 1, 0]
    await _settle(world, kubelet=True)
    team, root = await _status(world, "team"), await _status(world, "root")
    assert (team["pending"], team["running"], team["allocated"]) == (0, 1, {"cpu": "1", "pods": "1"})
    assert (root["running"], root["allocated"]) == (0, {"cpu": "2", "pods": "2"})


async def test_a_gang_is_one_group_through_its_phases() -> None:
    world = await _world(_queue("team"))
    job = await world.create(JOBS, _job("j", queue="team", min_available="all"))
    await _settle(world)
    assert (await _status(world, "team"))["pending"] == 1
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": "j",
        "uid": job["metadata"]["uid"],
        "controller": True,
    }
    for name in "ab":
        await world.create(PODS, _pod(name, metadata={"ownerReferences": [owner]}))
    await world.objects.bind("default", "a", {"target": {"kind": "Node", "name": "n1"}})
    await _settle(world)
    status = await _status(world, "team")
    assert (status["inqueue"], status["allocated"]) == (1, {"cpu": "1", "pods": "1"})
    await _settle(world, kubelet=True)
    assert (await _status(world, "team"))["running"] == 1
    await world.patch(PODS, "a", {"status": {"phase": "Succeeded"}}, subresource="status")
    await _settle(world)
    status = await _status(world, "team")
    assert (status["running"], status["allocated"]) == (1, {"cpu": "1", "pods": "1"})
    await world.patch(PODS, "b", {"status": {"phase": "Succeeded"}}, subresource="status")
    await _settle(world)
    status = await _status(world, "team")
    assert (status["completed"], status["running"], status["allocated"]) == (1, 0, {})


async def test_a_native_pod_group_counts_with_its_pods() -> None:
    world = await _world(_queue("team"))
    manifest = {
        "metadata": {"name": "g", "annotations": {"allhands.dev/queue": "team"}},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
    }
    await world.create(POD_GROUPS, manifest)
    for name in "ab":
        await world.create(PODS, _pod(name, schedulingGroup={"podGroupName": "g"}))
    await _settle(world)
    assert (await _status(world, "team"))["pending"] == 1
    await _settle(world, kubelet=True)
    status = await _status(world, "team")
    assert (status["running"], status["allocated"]["cpu"]) == (1, "2")


async def test_volcano_groups_count_before_and_after_their_pods() -> None:
    world = await _world(_queue("team"))
    await world.create(DEFINITIONS, definition(VOLCANO, has_status=False), "")
    world.store.housekeeper.run_pending()
    for phase in ("Pending", "Inqueue", "Completed"):
        manifest = group(VOLCANO, phase.lower(), minMember=2, queue="team")
        await world.create(VOLCANO, {**manifest, "status": {"phase": phase}})
    await _settle(world)
    status = await _status(world, "team")
    assert (status["pending"], status["inqueue"], status["completed"]) == (1, 1, 1)


async def test_a_volcano_group_without_pods_in_the_default_queue_counts_once_our_scheduler_has_judged_it() -> None:
    world = await _world()
    await world.create(DEFINITIONS, definition(VOLCANO, has_status=False), "")
    world.store.housekeeper.run_pending()
    for name, notes in (("judged", {SCHEDULING: '{"failed_starts":1}'}), ("somebody-elses", {})):
        manifest = group(VOLCANO, name, minMember=2, queue="default")
        manifest["metadata"]["annotations"] = notes
        await world.create(VOLCANO, {**manifest, "status": {"phase": "Pending"}})
    await _settle(world)
    assert (await _status(world, "default"))["pending"] == 1


async def test_a_command_for_a_queue_that_is_not_there_is_removed_in_time() -> None:
    """Also one for a queue that had the name before."""
    world = await _world(_queue("team"))
    await world.create(DEFINITIONS, COMMAND.manifest(), "")
    world.store.housekeeper.run_pending()
    for name in ("team", "nobody"):
        target = {"apiVersion": QUEUE.api_version, "kind": "Queue", "name": name, "uid": "another"}
        await world.create(COMMAND.resource, {"metadata": {"name": name}, "action": "CloseQueue", "target": target})
    await _settle(world, 2.0)
    assert len((await world.objects.list(COMMAND.resource)).items) == 2, "the queues may only not have been seen yet"
    await _settle(world, 20.0)
    assert (await world.objects.list(COMMAND.resource)).items == []
    assert (await _status(world, "team"))["state"] == "Open"


async def test_a_burst_of_changes_costs_one_write_a_second() -> None:
    world = await _world()
    await _settle(world)
    before = world.writes

    def let_time_pass(seen: World) -> None:
        if seen.steps % 2 == 0:
            seen.clock.advance(0.05)

    world.watchers.append(let_time_pass)
    for number in range(60):
        await world.create(PODS, _pod(f"p{number}"))
    start = world.seconds()
    await _settle(world, 10.0, kubelet=True)
    elapsed = world.seconds() - start
    assert world.writes - before <= 2 * (elapsed + 2)
    assert (await _status(world, "default"))["running"] == 60


async def test_a_queue_at_rest_is_not_written() -> None:
    world = await _world(_queue("team"))
    await world.create(PODS, _pod("b"))
    await _settle(world, kubelet=True)
    before = world.writes
    await _settle(world, 100.0, kubelet=True)
    assert world.writes == before


async def test_a_closing_queue_is_closed_when_its_last_group_is_gone_and_opens_again() -> None:
    world = await _world()
    await world.create(PODS, _pod("b"))
    await _settle(world)
    await world.patch(QUEUE.resource, "default", {"status": {"state": "Closed"}}, "", "status")
    await _settle(world)
    assert (await _status(world, "default"))["state"] == "Closing"
    await world.objects.delete(PODS, "b", "default")
    await _settle(world, kubelet=True)
    assert (await _status(world, "default"))["state"] == "Closed"
    await world.patch(QUEUE.resource, "default", {"status": {"state": "Open"}}, "", "status")
    await _settle(world)
    assert (await _status(world, "default"))["state"] == "Open"


async def test_what_is_wrong_with_a_queue_is_said_on_it_and_disturbs_nobody() -> None:
    world = await _world(
        _queue("lost", parent="nowhere"),
        _queue("below-lost", parent="lost"),
        _queue("a", parent="b"),
        _queue("b", parent="a"),
        _queue("self", parent="self"),
        _queue("greedy", capability={"cpu": 1}, guarantee={"resource": {"cpu": 2}}),
        _queue("negative", deserved={"memory": "-1Gi"}),
        _queue("absurd", capability={"cpu": "1e300"}),
        _queue("typo", {"allhands.dev/gang-by-default": "yes"}),
        _queue("slow", {"allhands.dev/expected-duration": "soon"}),
        _queue("fine", parent="root"),
    )
    await _settle(world)
    said = {name["metadata"]["name"]: _accepted(name["status"]) for name in world.all(QUEUE.resource)}
    assert said["lost"] == ("False", "NoPlaceInTree", 'spec.parent: Not found: "nowhere"')
    assert 'it is below "lost", whose parent "nowhere" does not exist' in said["below-lost"][2]
    assert "the parents form a cycle: a -> b -> a" in said["a"][2]
    assert "the parents form a cycle: b -> a -> b" in said["b"][2]
    assert "a queue cannot be its own parent" in said["self"][2]
    assert said["greedy"][2] == (
        'spec.guarantee.resource[cpu]: Invalid value: "2": must not be more than spec.capability, which is 1'
    )
    assert said["negative"][2] == 'spec.deserved[memory]: Invalid value: "-1Gi": must not be negative'
    assert "64 bits" in said["absurd"][2]
    assert '"yes" is neither "true" nor "false"' in said["typo"][2]
    assert said["slow"][:2] == ("True", "PartlyUsed")
    assert [name for name, (status, _, _) in said.items() if status == "True"] == ["default", "fine", "root", "slow"]


async def test_a_queue_that_is_mended_is_accepted_and_so_are_those_below_it() -> None:
    world = await _world(_queue("child", parent="late"))
    await _settle(world)
    assert _accepted(await _status(world, "child"))[0] == "False"
    await world.create(QUEUE.resource, _queue("late"), "")
    await _settle(world)
    assert _accepted(await _status(world, "child"))[0] == "True"
    await world.objects.delete(QUEUE.resource, "late")
    await _settle(world)
    assert _accepted(await _status(world, "child"))[0] == "False"


async def test_conditions_of_others_stay() -> None:
    world = await _world()
    theirs = {"type": "Audited", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    patch = {"status": {"allocated": {}, "conditions": [theirs]}}
    await world.patch(QUEUE.resource, "default", patch, "", "status")
    await _settle(world)
    assert [it["type"] for it in (await _status(world, "default"))["conditions"]] == ["Audited", "Accepted"]


async def test_crashes_at_any_write_end_the_same() -> None:
    ends = []
    for crashes in [(), [(0, True)], [(0, False)], [(1, True), (0, False)], [(2, False)]]:
        world = await _world(_queue("team"))
        await world.create(PODS, _pod("a", metadata={"annotations": {"allhands.dev/queue": "team"}}))
        await world.settle(lambda objects: [QueueController(objects)], crashes, horizon_seconds=5.0)
        ends.append(end_state(world, [QUEUE.resource]))
    assert all(end == ends[0] for end in ends)


async def _states(world: World, *names: str) -> list[str]:
    return [(await _status(world, name))["state"] for name in names]


async def test_queues_are_closed_and_opened_with_those_above_them() -> None:
    names = ("top", "middle", "leaf", "kept")
    ends = []
    for crashes in [(), *([(write, effect)] for write in range(0, 24, 3) for effect in (True, False))]:
        world = await _world(
            _queue("top"), _queue("middle", parent="top"), _queue("leaf", parent="middle"), _queue("kept", parent="top")
        )
        await world.create(PODS, _pod("a", metadata={"annotations": {"allhands.dev/queue": "leaf"}}))
        await _settle(world)
        await world.patch(QUEUE.resource, "kept", {"status": {"state": "Closed"}}, "", "status")
        await world.patch(QUEUE.resource, "top", {"status": {"state": "Closed"}}, "", "status")
        await world.settle(lambda objects: [QueueController(objects)], crashes, horizon_seconds=20.0)
        assert await _states(world, *names) == ["Closed", "Closed", "Closing", "Closed"]
        await world.create(QUEUE.resource, _queue("late", parent="middle"), "")
        await _settle(world)
        assert await _states(world, "late") == ["Closed"]
        await world.patch(QUEUE.resource, "top", {"status": {"state": "Open"}}, "", "status")
        await world.settle(lambda objects: [QueueController(objects)], crashes, horizon_seconds=20.0)
        assert await _states(world, *names, "late") == ["Open", "Open", "Open", "Closed", "Open"]
        ends.append(end_state(world, [QUEUE.resource]))
    assert all(end == ends[0] for end in ends)
