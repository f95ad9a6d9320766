"""The shell of Volcano Jobs on the real store: whose Jobs it leads, what it does about commands for nobody, and what it
finds out about the time before it began."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allhands.api.definitions import DEFINITIONS
from allhands.api.volcano.command import COMMAND
from allhands.api.volcano.job import JOB
from allhands.api.volcano.podgroup import POD_GROUP
from allhands.controllers.volcano_job import VolcanoJobController
from allhands.lifecycle.command import COMMANDS
from allhands.lifecycle.volcano_job import JOBS, POD_GROUPS, PODS
from allhands.ports import DeleteOptions
from tests.controller_world import World
from tests.volcano_cases import define
from tests.volcano_jobs import command, job, policy, task

if TYPE_CHECKING:
    import pytest

    from allhands.api.document import Manifest


async def a_world() -> World:
    world = World()
    await world.create(DEFINITIONS, COMMAND.manifest(), "")
    await define(world, JOB, POD_GROUP)
    return world


async def settle(world: World, seconds: float = 20.0, **options: Any) -> None:
    await world.settle(
        lambda objects: [VolcanoJobController(objects, gathers=False, **options)], horizon_seconds=seconds
    )


async def let_in(world: World) -> None:
    for group in world.all(POD_GROUPS):
        await world.patch(POD_GROUPS, group["metadata"]["name"], {"status": {"phase": "Inqueue"}})


def status(world: World) -> Manifest:
    (found,) = world.all(JOBS)
    return found.get("status") or {}


async def test_a_job_that_somebody_else_places_is_somebody_elses() -> None:
    world = await a_world()
    await world.create(JOBS, job("theirs", task("worker", 1), schedulerName="volcano"))
    await settle(world, scheduler_names=("allhands", "other"))
    assert not status(world)
    assert not world.all(POD_GROUPS)
    await settle(world)
    assert status(world)["state"]["phase"] == "Pending"


async def test_jobs_that_nobody_leads_are_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    world = await a_world()
    names = ("allhands", "other")
    for name in ("a", "b", "c"):
        await world.create(JOBS, job(name, task("worker", 1), schedulerName="volcano"))
    await settle(world, scheduler_names=names, seconds=20.0)
    assert not caplog.messages, "somebody else may only be slow"
    await settle(world, scheduler_names=names, seconds=40.0)
    (told,) = caplog.messages
    assert told == (
        "Volcano Jobs with schedulerName 'volcano', such as default/a, are left alone and nobody else leads them: "
        "these controllers lead those of 'allhands', 'other'. Start them, and the scheduler, with --scheduler-name "
        "volcano too; or write one of those names into the Jobs"
    )
    assert not world.all(POD_GROUPS)


async def test_of_jobs_that_somebody_else_leads_nothing_is_told(caplog: pytest.LogCaptureFixture) -> None:
    world = await a_world()
    await world.create(JOBS, job("theirs", task("worker", 1), schedulerName="volcano"))
    state = {"phase": "Running", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    await world.objects.patch(JOBS, "theirs", "merge", {"status": {"state": state}}, "default", subresource="status")
    await settle(world, scheduler_names=("allhands",), seconds=100.0)
    assert not caplog.messages


async def test_what_is_added_to_a_job_later_is_handed_on_to_its_group() -> None:
    world = await a_world()
    await world.create(JOBS, job("train", task("worker", 1)))
    await settle(world)
    patch = {"metadata": {"annotations": {"volcano.sh/preemptable": "true"}, "labels": {"team": "a"}}}
    await world.objects.patch(JOBS, "train", "merge", patch, "default")
    await settle(world)
    (group,) = world.all(POD_GROUPS)
    assert group["metadata"]["annotations"]["volcano.sh/preemptable"] == "true"
    assert group["metadata"]["labels"]["team"] == "a"
    version = group["metadata"]["resourceVersion"]
    await settle(world)
    assert world.all(POD_GROUPS)[0]["metadata"]["resourceVersion"] == version


async def test_pods_of_a_job_that_leaves_it_open_are_placed_by_the_first_of_our_names() -> None:
    world = await a_world()
    await world.create(JOBS, job("ours", task("worker", 1)))
    await settle(world, scheduler_names=("allhands", "other"))
    await let_in(world)
    await settle(world, scheduler_names=("allhands", "other"))
    assert [it["spec"]["schedulerName"] for it in world.all(PODS)] == ["allhands"]


async def test_a_command_for_nobody_is_thrown_away_after_a_while_and_others_are_left_alone() -> None:
    world = await a_world()
    await world.create(COMMANDS, command("lost", "AbortJob", "nobody"))
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "name": "q", "uid": "x"}
    await world.create(COMMANDS, {**command("close", "CloseQueue", "q"), "target": queue})
    await settle(world)
    assert [it["metadata"]["name"] for it in world.all(COMMANDS)] == ["close"]


async def test_a_command_for_a_job_that_had_the_name_before_does_nothing_to_this_one() -> None:
    world = await a_world()
    await world.create(JOBS, job("train", task("worker", 1)))
    await world.create(COMMANDS, command("old", "AbortJob", "train", uid="another"))
    await settle(world)
    assert status(world)["state"]["phase"] == "Pending"
    assert not world.all(COMMANDS)


async def test_a_pod_that_was_taken_away_while_nobody_looked_is_answered() -> None:
    """A drain may take the controller with the pod: what the status has counted tells the next one."""
    world = await a_world()
    await world.create(JOBS, job("train", task("worker", 3), policies=[policy("RestartJob", "PodEvicted")]))
    await settle(world)
    await let_in(world)
    await settle(world)
    assert status(world)["state"]["phase"] == "Running"
    await world.objects.delete(PODS, "train-worker-1", "default", DeleteOptions(grace_seconds=0))
    await settle(world)
    assert status(world)["retryCount"] == 1
    assert status(world)["version"] == 1


async def test_pods_that_only_come_late_are_not_taken_for_evicted() -> None:
    """Just after a start the copy of the pods may be older than that of the Job."""
    world = await a_world()
    await world.create(JOBS, job("train", task("worker", 3), policies=[policy("RestartJob", "PodEvicted")]))
    await settle(world)
    await let_in(world)
    await settle(world)
    controller = VolcanoJobController(world.objects, gathers=False)
    controller._jobs.observe(await _raw(world, JOBS, "train"))
    outcome = controller.reconcile("default/train", world.seconds())
    assert outcome.instructions == ()
    assert outcome.wake_at_seconds is not None


async def test_an_evicted_pod_is_replaced_and_answered_only_if_the_new_one_does_not_come_up_in_time() -> None:
    world = await a_world()
    world.longest_jump_seconds = 5.0
    policies = [policy("AbortJob", "PodEvicted", timeout="1m")]
    await world.create(JOBS, job("train", task("worker", 2), policies=policies))
    await settle(world)
    await let_in(world)
    await settle(world)

    async def taken_away(world: World) -> bool:
        if world.steps == first:
            await world.objects.delete(PODS, "train-worker-1", "default", DeleteOptions(grace_seconds=0))
        return world.steps == first

    first = world.steps + 3
    world.nature.append(taken_away)
    await world.settle(
        lambda objects: [VolcanoJobController(objects, gathers=False)], horizon_seconds=59, kubelet=False
    )
    assert [it["metadata"]["name"] for it in world.all(PODS)] == ["train-worker-0", "train-worker-1"]
    assert status(world)["state"]["phase"] == "Pending"
    await world.settle(
        lambda objects: [VolcanoJobController(objects, gathers=False)], horizon_seconds=30, kubelet=False
    )
    assert status(world)["state"]["phase"] == "Aborting"
    assert status(world)["state"]["reason"] == "AbortJob"


async def _raw(world: World, resource: Any, name: str) -> bytes:
    return (await world.objects.get(resource, name, "default")).raw
