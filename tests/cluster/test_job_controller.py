"""The Job controller beside kube-controller-manager's: same scenarios, same Jobs and pods in the end.

Three sides: the real controller on the real API server, ours on the real API server, ours on the embedded store. All
scenarios of all sides run at the same time, since most of them wait most of the time.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from allhands.api.errors import StatusError
from allhands.api.kinds import Resource
from allhands.compose.machine import RandomIds, SystemClock
from allhands.controllers.job import JobController
from allhands.kube.kubeconfig import load
from allhands.kube.objects import KubeObjects
from allhands.lifecycle.job import JOBS, PODS
from allhands.ports import Query
from allhands.runtime.controller import ControllerLoop
from allhands.runtime.performer import Performer
from allhands.runtime.recorder import Recorder
from allhands.store import InProcessObjects, Store
from tests.cluster.job_scenarios import SCENARIOS, WITH_GARBAGE_COLLECTION, Stage
from tests.controlplane import ControlPlane

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable
    from pathlib import Path

    from allhands.api.document import Manifest
    from allhands.ports import Objects

NAMESPACES = Resource("", "v1", "namespaces")
EVENTS = Resource("", "v1", "events")
CONTROLLERS = ("job-controller", "ttl-after-finished-controller", "garbage-collector-controller")
QUIET_SECONDS = 1.5
"""So long nothing more may happen after the scenarios; the real controller gathers changes for a second."""


@contextlib.asynccontextmanager
async def our_controller(objects: Objects, flight: int) -> AsyncIterator[Recorder]:
    clock = SystemClock()
    recorder = Recorder(objects, clock, "job-controller", per_second=1000)
    loop = ControllerLoop(JobController(objects), Performer(objects, recorder, flight=flight), clock, workers=flight)
    tasks = [asyncio.create_task(loop.run()), asyncio.create_task(recorder.run())]
    try:
        yield recorder
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def embedded_side() -> dict[str, Any]:
    store = Store(SystemClock(), RandomIds())
    objects = InProcessObjects(store)
    keeper = asyncio.create_task(store.housekeeper.run())
    try:
        async with our_controller(objects, flight=1) as recorder:
            return await play(objects, "embedded", (*SCENARIOS, *WITH_GARBAGE_COLLECTION), recorder)
    finally:
        keeper.cancel()
        await asyncio.gather(keeper, return_exceptions=True)


async def ours_on_the_real_server(plane: ControlPlane) -> dict[str, Any]:
    async with KubeObjects(load(plane.kubeconfig)) as objects, our_controller(objects, flight=8) as recorder:
        return await play(objects, "ours", SCENARIOS, recorder)


async def theirs(plane: ControlPlane) -> dict[str, Any]:
    async with KubeObjects(load(plane.kubeconfig)) as objects:
        return await play(objects, "theirs", (*SCENARIOS, *WITH_GARBAGE_COLLECTION))


async def play(
    objects: Objects, side: str, scenarios: Iterable[Any], recorder: Recorder | None = None
) -> dict[str, Any]:
    """What is left of each scenario, when all has been told."""
    chosen = tuple(scenarios)
    errors = await asyncio.gather(*(play_one(objects, side, it) for it in chosen))
    await asyncio.sleep(QUIET_SECONDS)
    while recorder is not None and not recorder.is_idle:  # noqa: ASYNC110 (nobody else waits for that)
        await asyncio.sleep(0.05)  # three sides share one loop, and this one may be far ahead of its events
    return {
        it.__name__: {"error": error} if error else await left_over(objects, namespace_of(side, it))
        for it, error in zip(chosen, errors, strict=True)
    }


async def play_one(objects: Objects, side: str, scenario: Any) -> str:
    """Plays it; what went wrong."""
    namespace = namespace_of(side, scenario)
    await objects.create(NAMESPACES, {"metadata": {"name": namespace}})
    try:
        await scenario(Stage(objects, namespace))
    except (AssertionError, StatusError) as error:
        return f"{side}: {error}"
    return ""


def namespace_of(side: str, scenario: Any) -> str:
    return f"{side}-{scenario.__name__.replace('_', '-')}"


async def left_over(objects: Objects, namespace: str) -> Manifest:
    return {
        "jobs": [normal_job(it) for it in await everything(objects, JOBS, namespace)],
        "pods": sorted((normal_pod(it) for it in await everything(objects, PODS, namespace)), key=str),
        "events": sorted({(it["type"], it["reason"]) for it in await everything(objects, EVENTS, namespace)}),
    }


async def everything(objects: Objects, resource: Resource, namespace: str) -> list[Manifest]:
    page = await objects.list(resource, Query(namespace=namespace))
    return [msgspec.json.decode(it) for it in page.items]


def normal_job(job: Manifest) -> Manifest:
    """Status and spec without what differs from run to run."""
    status = job.get("status") or {}
    for field in ("startTime", "completionTime"):
        if field in status:
            status[field] = "some time"
    for condition in status.get("conditions", ()):
        condition["message"] = re.sub(r"pod \S+", "pod X", condition["message"])
        for field in ("lastProbeTime", "lastTransitionTime"):
            condition[field] = "some time" if condition.get(field) else "none"
    return status


def normal_pod(pod: Manifest) -> Manifest:
    metadata, spec = pod["metadata"], pod["spec"]
    labels = {key: "uid" if key.endswith("controller-uid") else value for key, value in metadata["labels"].items()}
    name: str = metadata["name"]
    return {
        "phase": pod["status"].get("phase"),
        "going": "deletionTimestamp" in metadata,
        "labels": labels,
        "annotations": metadata.get("annotations"),
        "finalizers": metadata.get("finalizers"),
        "owners": [{**it, "uid": "uid"} for it in metadata.get("ownerReferences", ())],
        "name": name[: len(name) - 5],
        "generateName": metadata.get("generateName"),
        "hostname": spec.get("hostname"),
        "env": [it.get("env") for it in spec["containers"]],
        "restartPolicy": spec["restartPolicy"],
    }


@pytest.fixture(scope="module")
def sides(real_tools: Path, control_plane: ControlPlane) -> dict[str, dict[str, Any]]:
    async def all_sides(plane: ControlPlane) -> list[dict[str, Any]]:
        return list(await asyncio.gather(theirs(plane), ours_on_the_real_server(control_plane), embedded_side()))

    with ControlPlane(controllers=CONTROLLERS) as plane:
        outcomes = asyncio.run(all_sides(plane))
    return dict(zip(("theirs", "ours", "embedded"), outcomes, strict=True))


@pytest.mark.parametrize("scenario", [it.__name__ for it in (*SCENARIOS, *WITH_GARBAGE_COLLECTION)])
def test_the_embedded_cluster_leaves_what_the_real_one_leaves(sides: dict[str, dict[str, Any]], scenario: str) -> None:
    assert "error" not in sides["embedded"][scenario]
    assert sides["embedded"][scenario] == sides["theirs"][scenario]


@pytest.mark.parametrize("scenario", [it.__name__ for it in SCENARIOS])
def test_our_controller_does_the_same_on_the_real_server(sides: dict[str, dict[str, Any]], scenario: str) -> None:
    assert "error" not in sides["ours"][scenario]
    assert sides["ours"][scenario] == sides["theirs"][scenario]
