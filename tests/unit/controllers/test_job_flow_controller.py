"""Flows in a world with a store: refusals, templates that come late or change, Jobs that vanish, and many steps."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from allhands.api.errors import StatusError
from allhands.api.volcano.job import JOB
from allhands.api.volcano.job_flow import JOB_FLOW
from allhands.api.volcano.job_template import JOB_TEMPLATE
from allhands.controllers.job_flow import JobFlowController
from allhands.controllers.job_template import JobTemplateController
from allhands.lifecycle.job_flow.documents import FLOWS, JOBS, TEMPLATES
from tests.controller_world import World
from tests.volcano_cases import define, set_phase, volcano_spec

if TYPE_CHECKING:
    from collections.abc import Callable


class Refusing:
    """The port of a server that refuses some Jobs."""

    def __init__(self, objects: Any, refuses: Callable[[str], StatusError | None]) -> None:
        self._objects = objects
        self._refuses = refuses

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._objects, verb)

    async def create(self, resource: Any, body: Any, *arguments: Any) -> Any:
        if resource == JOBS and (refusal := self._refuses(body.decode())) is not None:
            raise refusal
        return await self._objects.create(resource, body, *arguments)


async def _world(*templates: str) -> World:
    world = World()
    await define(world, JOB, JOB_FLOW, JOB_TEMPLATE)
    for name in templates:
        await world.create(TEMPLATES, {"metadata": {"name": name}, "spec": volcano_spec()})
    return world


async def _flow(world: World, *steps: Any, **metadata: Any) -> None:
    flows = [{"name": it} if isinstance(it, str) else it for it in steps]
    await world.create(FLOWS, {"metadata": {"name": "f", **metadata}, "spec": {"flows": flows}})


def _after(name: str, *targets: str) -> dict[str, Any]:
    return {"name": name, "dependsOn": {"targets": list(targets)}}


async def _settle(world: World, seconds: float = 5.0) -> None:
    await world.settle(
        lambda objects: [JobFlowController(objects), JobTemplateController(objects)],
        horizon_seconds=seconds,
        kubelet=False,
    )


def _refuse(world: World, refuses: Callable[[str], StatusError | None]) -> None:
    world.objects = Refusing(world.objects, refuses)  # type: ignore[assignment]


def _jobs(world: World) -> list[str]:
    return [it["metadata"]["name"] for it in world.all(JOBS)]


async def _state(world: World) -> dict[str, Any]:
    state: dict[str, Any] = (await world.get(FLOWS, "f"))["status"]["state"]
    return state


async def test_a_flow_runs_from_its_first_to_its_last_step() -> None:
    world = await _world("a", "b")
    await _flow(world, "a", _after("b", "a"))
    await _settle(world)
    assert _jobs(world) == ["f-a"]
    assert (await world.get(TEMPLATES, "a"))["status"] == {"jobDependsOnList": ["f-a"]}
    await set_phase(world, "f-a", "Completed")
    await _settle(world)
    assert _jobs(world) == ["f-a", "f-b"]
    assert (await _state(world)) == {"phase": "Running"}
    await set_phase(world, "f-b", "Completed")
    await _settle(world)
    assert (await _state(world)) == {"phase": "Succeed"}


async def test_a_job_that_is_refused_is_told_and_the_other_steps_go_on() -> None:
    world = await _world("a", "b", "c")
    await _flow(world, "a", "b", "c")

    refused = ['"f-a"']

    def refuses(body: str) -> StatusError | None:
        is_refused = any(it in body for it in refused)
        return StatusError(422, "Invalid", "spec.tasks[0].replicas: Invalid value: 0", {}) if is_refused else None

    _refuse(world, refuses)
    await _settle(world, 30)
    assert _jobs(world) == ["f-b", "f-c"]
    state = await _state(world)
    assert state["reason"] == "StepRefused"
    assert state["message"] == "step a: spec.tasks[0].replicas: Invalid value: 0"
    for name in ("f-b", "f-c"):
        await set_phase(world, name, "Completed")
    await _settle(world, 30)
    assert (await _state(world))["phase"] == "Failed"
    refused.clear()
    await world.patch(TEMPLATES, "a", {"spec": {"queue": "better"}})
    await _settle(world)
    assert "f-a" in _jobs(world)
    await set_phase(world, "f-a", "Completed")
    await _settle(world)
    assert (await _state(world)) == {"phase": "Succeed"}


async def test_a_refused_step_is_tried_less_and_less_often() -> None:
    world = await _world("a")
    await _flow(world, "a")
    asked: list[float] = []

    def refuses(_body: str) -> StatusError:
        asked.append(world.seconds())
        return StatusError(403, "Forbidden", "exceeded quota", {})

    _refuse(world, refuses)
    await _settle(world, 3600)
    assert 10 <= len(asked) <= 20
    assert (await _state(world))["phase"] == "Pending"


async def test_a_step_in_whose_way_a_job_stands_goes_on_when_that_is_gone() -> None:
    world = await _world("a")
    await world.create(JOBS, {"metadata": {"name": "f-a"}, "spec": volcano_spec()})
    await _flow(world, "a")
    await _settle(world)
    assert (await _state(world))["reason"] == "NameTaken"
    await world.objects.delete(JOBS, "f-a", "default")
    await world.patch(FLOWS, "f", {"metadata": {"labels": {"look": "again"}}})
    await _settle(world)
    (job,) = world.all(JOBS)
    assert job["metadata"]["ownerReferences"][0]["kind"] == "JobFlow"


async def test_a_job_that_is_deleted_in_the_moment_of_its_end_is_not_run_again() -> None:
    world = await _world("a", "b")
    await _flow(world, "a", _after("b", "a"))
    ended: list[str] = []

    async def end_and_go(world: World) -> bool:
        """As with a time to live of no seconds."""
        for name in _jobs(world):
            ended.append(name)
            await set_phase(world, name, "Completed")
            await world.objects.delete(JOBS, name, "default")
            return True
        return False

    world.nature.append(end_and_go)
    await _settle(world)
    assert ended == ["f-a", "f-b"]
    assert (await _state(world)) == {"phase": "Succeed"}
    assert (await world.get(FLOWS, "f"))["status"]["completedJobs"] == ["f-a", "f-b"]


async def test_a_flow_that_is_deleted_takes_its_jobs_with_it_and_begins_no_more() -> None:
    world = await _world("a", "b")
    await _flow(world, "a", _after("b", "a"), finalizers=["example.test/hold"])
    await _settle(world)
    await world.objects.delete(FLOWS, "f", "default")
    await set_phase(world, "f-a", "Completed")
    await _settle(world)
    assert (await _state(world)) == {"phase": "Terminating"}
    assert _jobs(world) == ["f-a"]
    await world.patch(FLOWS, "f", {"metadata": {"finalizers": None}})
    await _settle(world)
    assert _jobs(world) == []


async def test_a_flow_of_a_thousand_steps_is_no_quadratic_work() -> None:
    async def seconds_for(size: int) -> tuple[float, World]:
        world = await _world(*(f"s{number}" for number in range(size)))
        await _flow(world, *(f"s{number}" for number in range(size)))

        async def complete(world: World) -> bool:
            open_jobs = [it["metadata"]["name"] for it in world.all(JOBS) if "status" not in it]
            for name in open_jobs:
                await set_phase(world, name, "Completed")
            return bool(open_jobs)

        world.nature.append(complete)
        began = time.process_time()
        await _settle(world)
        return time.process_time() - began, world

    small, _ = await seconds_for(100)
    large, world = await seconds_for(1000)
    assert (await _state(world)) == {"phase": "Succeed"}
    assert large < 40 * max(small, 0.05)
