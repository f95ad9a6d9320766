"""Our node agents on the real API server: it accepts every status they report, and real controllers act on it."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import yaml

from allhands.agents.behaviour import Behaviour, Fixed
from allhands.agents.local_node import LocalNode
from allhands.agents.logs import LogOptions
from allhands.agents.process import ProcessAgent
from allhands.agents.simulated import SimulatedKubelets
from allhands.agents.workplace import Workplace
from allhands.compose.machine import SystemClock
from allhands.kube import kubeconfig
from allhands.kube.objects import KubeObjects
from allhands.ports import DeleteOptions, Query
from tests.controlplane import ControlPlane
from tests.manifests import CONFIG_MAPS, JOBS, NODES, PODS, config_map

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from allhands.agents.agent import NodeAgent
    from allhands.api.kinds import Resource

EXAMPLE = Path(__file__).parents[2] / "examples" / "allreduce"
WITHIN_SECONDS = 60
Manifest = dict[str, Any]


@pytest.fixture(scope="module")
def plane(real_tools: Path) -> Iterator[ControlPlane]:
    with ControlPlane(controllers=("job-controller",), scheduler=True) as plane:
        yield plane


@contextlib.asynccontextmanager
async def running(plane: ControlPlane, make: Callable[[KubeObjects], NodeAgent]) -> AsyncIterator[KubeObjects]:
    async with KubeObjects(kubeconfig.load(plane.kubeconfig)) as objects:
        agent = asyncio.create_task(make(objects).run())
        try:
            yield objects
        finally:
            agent.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await agent


async def seen(objects: KubeObjects, resource: Resource, name: str, good: Callable[[Manifest], bool]) -> Manifest:
    """The object as soon as it is as wanted."""
    found: Manifest = {}
    try:
        async with asyncio.timeout(WITHIN_SECONDS):
            namespace = "" if resource == NODES else "default"
            watch = await objects.watch(resource, Query(namespace=namespace, fields=f"metadata.name={name}"))
            try:
                async for event in watch:
                    found = event.manifest()
                    if good(found):
                        return found
            finally:
                await watch.close()
    except TimeoutError:
        raise AssertionError(f"{name} did not become so: {found.get('status')}") from None
    raise AssertionError("the watch ended")


async def gone(objects: KubeObjects, name: str) -> None:
    """Returns once there is no such pod."""
    query = Query(namespace="default", fields=f"metadata.name={name}")
    async with asyncio.timeout(WITHIN_SECONDS):
        page = await objects.list(PODS, query)
        watch = await objects.watch(PODS, msgspec.structs.replace(query, resource_version=page.version))
        try:
            if page.items:
                async for event in watch:
                    if event.type == "DELETED":
                        return
        finally:
            await watch.close()


def in_phase(phase: str) -> Callable[[Manifest], bool]:
    return lambda found: bool(found.get("status", {}).get("phase") == phase)


def pod(name: str, **said: str) -> Manifest:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    annotations = {f"sim.allhands.dev/{key.replace('_', '-')}": value for key, value in said.items()}
    spec = {"nodeName": "simulated", "restartPolicy": "OnFailure", "containers": [container]}
    return {"metadata": {"name": name, "annotations": annotations}, "spec": spec}


async def test_the_real_server_accepts_what_simulated_kubelets_report(plane: ControlPlane) -> None:
    behaviour = Behaviour(pull=Fixed(0.1), run=Fixed(0.3))
    async with running(
        plane, lambda objects: SimulatedKubelets(objects, SystemClock(), behaviour=behaviour, workers=8)
    ) as objects:
        room = {"cpu": "8", "memory": "8Gi", "pods": "20"}
        await objects.create(NODES, {"metadata": {"name": "simulated"}})
        status = {"status": {"capacity": room, "allocatable": room}}
        await objects.patch(NODES, "simulated", "merge", status, subresource="status")
        node = await seen(
            objects,
            NODES,
            "simulated",
            lambda it: any(
                each["type"] == "Ready" and each["status"] == "True" for each in it["status"].get("conditions", ())
            ),
        )
        assert node["status"]["allocatable"]["cpu"] == "8"
        sidecar = {"name": "side", "image": "busybox", "restartPolicy": "Always"}
        init = {"name": "init", "image": "busybox"}
        many = pod("many")
        many["spec"] |= {"initContainers": [sidecar, init]}
        for manifest in (
            pod("plain"),
            many,
            pod("crashes", run_seconds="0.1", exit_code="1"),
            pod("no-image", pull_fails="true"),
            pod("stays", run_seconds="1000"),
        ):
            await objects.create(PODS, manifest, "default")
        await seen(objects, PODS, "plain", in_phase("Succeeded"))
        done = await seen(objects, PODS, "many", in_phase("Succeeded"))
        assert [next(iter(it["state"])) for it in done["status"]["initContainerStatuses"]] == ["terminated"] * 2
        restarted = await seen(
            objects, PODS, "crashes", lambda it: it["status"].get("containerStatuses", [{}])[0].get("restartCount") == 1
        )
        assert restarted["status"]["phase"] == "Running"
        await seen(objects, PODS, "stays", in_phase("Running"))
        for name in ("stays", "crashes", "no-image"):
            await objects.delete(PODS, name, "default", DeleteOptions(grace_seconds=1))
            await gone(objects, name)
        for name in ("plain", "many"):
            await objects.delete(PODS, name, "default")
        await objects.delete(NODES, "simulated")


async def test_the_all_reduce_job_runs_on_the_real_control_plane(plane: ControlPlane, tmp_path: Path) -> None:
    """The real Job controller makes the workers, the real scheduler places them, our process agent runs them."""
    agents = []

    def make(objects: KubeObjects) -> ProcessAgent:
        node = LocalNode(name="here", capacity={"cpu": "8", "memory": "8Gi"})
        agents.append(ProcessAgent(objects, SystemClock(), node, Workplace(folder=tmp_path)))
        return agents[0]

    async with running(plane, make) as objects:
        program = {"data": {"worker.py": (EXAMPLE / "worker.py").read_text()}}
        await objects.create(CONFIG_MAPS, config_map("allreduce") | program, "default")
        await objects.create(JOBS, yaml.safe_load((EXAMPLE / "job.yaml").read_text()), "default")
        job = await seen(objects, JOBS, "allreduce", lambda it: it.get("status", {}).get("succeeded") == 4)
        assert job["status"]["completedIndexes"] == "0-3"
        workers = await objects.list(PODS, Query(namespace="default", labels="job-name=allreduce"))
        assert len(workers.items) == 4
        for raw in workers.items:
            name = yaml.safe_load(raw)["metadata"]["name"]
            reading = await agents[0].logs("default", name, LogOptions())
            assert b"numbers correct" in b"".join([piece async for piece in reading])
