"""Volcano Jobs on the real API server: our kinds are installed, our controller leads them, and the server takes every
write of it. The scheduler's word and the kubelets' reports are given by hand."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from allhands.api.errors import StatusError
from allhands.compose.machine import SystemClock
from allhands.controllers.volcano_job import VolcanoJobController
from allhands.kube.kubeconfig import load
from allhands.kube.objects import KubeObjects
from allhands.lifecycle.command import COMMANDS
from allhands.lifecycle.volcano_job import JOBS, POD_GROUPS, PODS
from allhands.lifecycle.volcano_job.plugins.beside import CONFIG_MAPS, NETWORK_POLICIES, SECRETS, SERVICES
from allhands.ports import Query
from allhands.runtime.controller import ControllerLoop
from allhands.runtime.installing import install_kinds
from allhands.runtime.keys import new_keys
from allhands.runtime.performer import Performer
from allhands.runtime.recorder import Recorder
from tests.controlplane import ControlPlane
from tests.volcano_jobs import command, job, policy, task

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
    from pathlib import Path

    from allhands.api.document import Manifest
    from allhands.api.kinds import Resource
    from allhands.ports import Objects

pytestmark = pytest.mark.timeout(300)
WITHIN_SECONDS = 120


@pytest.fixture(scope="module")
def plane(real_tools: Path) -> Iterator[ControlPlane]:
    """One of its own: others compare what theirs serves."""
    del real_tools
    with ControlPlane() as plane:
        yield plane


@contextlib.asynccontextmanager
async def led(plane: ControlPlane) -> AsyncIterator[Objects]:
    """Our controller on the real server."""
    clock = SystemClock()
    async with KubeObjects(load(plane.kubeconfig)) as objects:
        await install_kinds(objects)
        recorder = Recorder(objects, clock, "test", per_second=1000)
        controller = VolcanoJobController(objects, scheduler_names=("allhands",), new_keys=new_keys)
        loop = ControllerLoop(controller, Performer(objects, recorder, flight=8), clock, workers=4)
        tasks = [asyncio.create_task(loop.run()), asyncio.create_task(recorder.run())]
        try:
            yield objects
        finally:
            for it in tasks:
                it.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def until(what: str, look: Callable[[], Awaitable[Any]]) -> Any:
    async with asyncio.timeout(WITHIN_SECONDS):
        while True:
            with contextlib.suppress(StatusError):
                if found := await look():
                    return found
            await asyncio.sleep(0.1)
    raise AssertionError(what)


class Played:
    """One Job in a namespace of its own name."""

    def __init__(self, objects: Objects, name: str) -> None:
        self._objects = objects
        self.name = name

    async def all(self, resource: Resource) -> list[Manifest]:
        page = await self._objects.list(resource, Query(namespace="default"))
        found = [msgspec.json.decode(raw) for raw in page.items]
        return [it for it in found if it["metadata"]["name"].startswith(self.name)]

    async def pods(self, phase: str = "Pending") -> list[Manifest]:
        return [
            it
            for it in await self.all(PODS)
            if it["status"]["phase"] == phase and "deletionTimestamp" not in it["metadata"]
        ]

    async def let_in(self) -> None:
        groups = await until("a group", lambda: self.all(POD_GROUPS))
        patch = {"status": {"phase": "Inqueue"}}
        await self._objects.patch(POD_GROUPS, groups[0]["metadata"]["name"], "merge", patch, "default")

    async def report(self, pods: list[Manifest], phase: str, code: int = 0) -> None:
        for pod in pods:
            terminated = {"exitCode": code, "finishedAt": "2026-01-01T00:00:00Z"}
            state = {"running": {}} if phase == "Running" else {"terminated": terminated}
            container = {"name": "main", "image": "work", "imageID": "", "ready": phase == "Running", "restartCount": 0}
            status = {"phase": phase, "containerStatuses": [{**container, "state": state}]}
            name = pod["metadata"]["name"]
            await self._objects.patch(PODS, name, "merge", {"status": status}, "default", subresource="status")

    async def pods_are(self, count: int, phase: str = "Pending") -> list[Manifest]:
        async def look() -> list[Manifest] | None:
            found = await self.pods(phase)
            return found if len(found) == count else None

        found: list[Manifest] = await until(f"{count} pods", look)
        return found

    async def status(self) -> Manifest:
        return (await self._objects.get(JOBS, self.name, "default")).manifest().get("status") or {}

    async def reaches(self, phase: str) -> Manifest:
        async def look() -> Manifest | None:
            status = await self.status()
            return status if status.get("state", {}).get("phase") == phase else None

        status: Manifest = await until(phase, look)
        return status


async def test_a_job_with_plugins_volumes_policies_and_commands_lives_to_its_end(plane: ControlPlane) -> None:
    async with led(plane) as objects:
        volumes = [
            {
                "mountPath": "/data",
                "volumeClaim": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            }
        ]
        manifest = job(
            "whole",
            task("worker", 3, policies=[policy("RestartPod", "PodFailed")]),
            task("last", 1, dependsOn={"name": ["worker"]}),
            plugins={"svc": [], "ssh": [], "env": []},
            volumes=volumes,
            policies=[policy("RestartJob", "PodEvicted")],
        )
        await objects.create(JOBS, manifest, "default")
        played = Played(objects, "whole")
        await played.let_in()
        pods = await played.pods_are(3)
        for resource in (CONFIG_MAPS, NETWORK_POLICIES, SECRETS, SERVICES):
            (companion,) = await played.all(resource)
            assert companion["metadata"]["ownerReferences"][0]["name"] == "whole"
        await played.report(pods, "Running")
        await played.report(await played.pods_are(1), "Running")
        await played.reaches("Running")
        await played.report(
            [it for it in await played.pods("Running") if "worker-1" in it["metadata"]["name"]], "Failed", 3
        )
        await played.report(await played.pods_are(1), "Running")
        status = await played.reaches("Running")
        assert status["retryCount"] == 1
        await objects.create(COMMANDS, command("stop", "AbortJob", "whole"), "default")
        await played.reaches("Aborted")
        assert not await played.all(POD_GROUPS)
        await objects.create(COMMANDS, command("go", "ResumeJob", "whole"), "default")
        await played.let_in()
        await played.report(await played.pods_are(3), "Succeeded")
        await played.report(await played.pods_are(1), "Succeeded")
        status = await played.reaches("Completed")
        assert status["succeeded"] == 4
        assert status["version"] == 1
        await until("no group", lambda: _none_left(played))
        await until("nothing left of plugins", lambda: _is_tidy(played))
        noted = [it.partition("-")[0] for it in (await played.status())["controlledResources"]]
        assert noted == ["volume"], "claims stay"
        assert not (await objects.list(COMMANDS, Query(namespace="default"))).items


async def _none_left(played: Played) -> bool:
    return not await played.all(POD_GROUPS)


async def _is_tidy(played: Played) -> bool:
    left = [it for resource in (CONFIG_MAPS, NETWORK_POLICIES, SERVICES) for it in await played.all(resource)]
    return not left and "plugin-svc" not in (await played.status())["controlledResources"]


async def test_what_the_real_server_refuses_is_told_on_the_job_and_holds_up_no_other(
    plane: ControlPlane,
) -> None:
    async with led(plane) as objects:
        bad = task("worker", 2)
        bad["template"]["spec"]["priorityClassName"] = "missing"
        await objects.create(JOBS, job("refused", bad), "default")
        await objects.create(JOBS, job("good", task("worker", 2)), "default")
        refused, good = Played(objects, "refused"), Played(objects, "good")
        await refused.let_in()
        await good.let_in()
        await good.report(await good.pods_are(2), "Succeeded")
        await good.reaches("Completed")

        async def told() -> bool:
            return "no PriorityClass with name missing" in (await refused.status())["state"].get("message", "")

        await until("a message", told)
        assert (await refused.status())["state"]["phase"] == "Pending"
