"""Deployments and StatefulSets that were written for Volcano, on the real API server with Kubernetes' own controllers:
their pods get a group, start together as their annotation says, and survive a rollout."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from allhands.api.kinds import Resource
from allhands.compose.machine import SystemClock
from allhands.compose.nodes import NodeSize, add_node, node_manifest
from allhands.controllers.workload_group import WorkloadGroupController
from allhands.kube.kubeconfig import load
from allhands.kube.objects import KubeObjects
from allhands.lifecycle.volcano_job.names import POD_GROUPS, PODS
from allhands.model.time_text import utc_text
from allhands.ports import Query
from allhands.runtime.controller import ControllerLoop
from allhands.runtime.installing import install_kinds
from allhands.runtime.performer import Performer
from allhands.runtime.recorder import Recorder
from allhands.runtime.scheduling.scheduler import Scheduler, SchedulerOptions
from tests.controlplane import ControlPlane

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
    from pathlib import Path

    from allhands.api.document import Manifest
    from allhands.ports import Objects

pytestmark = pytest.mark.timeout(400)
WITHIN_SECONDS = 150
DEPLOYMENTS = Resource("apps", "v1", "deployments")
STATEFUL_SETS = Resource("apps", "v1", "statefulsets")
MIN_MEMBER = "scheduling.volcano.sh/group-min-member"
GROUP = "scheduling.k8s.io/group-name"


@pytest.fixture(scope="module")
def plane(real_tools: Path) -> Iterator[ControlPlane]:
    del real_tools
    wanted = (
        "deployment-controller",
        "replicaset-controller",
        "statefulset-controller",
        "garbage-collector-controller",
    )
    with ControlPlane(controllers=wanted, kwok=True) as plane:
        yield plane


@contextlib.asynccontextmanager
async def served(plane: ControlPlane) -> AsyncIterator[Objects]:
    """Our scheduler, and the controller that makes groups."""
    clock = SystemClock()
    async with KubeObjects(load(plane.kubeconfig)) as objects:
        await install_kinds(objects)
        recorder = Recorder(objects, clock, "test", per_second=1000)
        loop = ControllerLoop(
            WorkloadGroupController(objects), Performer(objects, recorder, flight=8), clock, workers=4
        )
        scheduler = Scheduler(objects, clock, options=SchedulerOptions(names=("volcano",)))
        tasks = [asyncio.create_task(it.run()) for it in (recorder, loop, scheduler)]
        try:
            yield objects
        finally:
            for it in tasks:
                it.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def until(what: str, look: Callable[[], Awaitable[Any]]) -> None:
    try:
        async with asyncio.timeout(WITHIN_SECONDS):
            while not await look():  # noqa: ASYNC110
                await asyncio.sleep(0.2)
    except TimeoutError:
        raise AssertionError(what) from None


async def listed(objects: Objects, resource: Resource, app: str = "") -> list[Manifest]:
    labels = f"app={app}" if app else ""
    page = await objects.list(resource, Query(namespace="default", labels=labels))
    return [msgspec.json.decode(it) for it in page.items]


async def node(objects: Objects, name: str) -> None:
    manifest = node_manifest(name, NodeSize("4"), utc_text(int(SystemClock().now().timestamp())))
    manifest["metadata"].setdefault("annotations", {})["kwok.x-k8s.io/node"] = "fake"
    await add_node(objects, manifest)


def workload(name: str, **spec: Any) -> Manifest:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    template = {"metadata": {"labels": {"app": name}}, "spec": {"schedulerName": "volcano", "containers": [container]}}
    body = {"replicas": 3, "selector": {"matchLabels": {"app": name}}, "template": template, **spec}
    return {"metadata": {"name": name, "annotations": {MIN_MEMBER: "3"}}, "spec": body}


async def bound(objects: Objects, app: str) -> int:
    return sum(1 for it in await listed(objects, PODS, app) if it["spec"].get("nodeName"))


async def test_a_deployment_starts_whole_and_is_rolled_out(plane: ControlPlane) -> None:
    async with served(plane) as objects:
        await objects.create(DEPLOYMENTS, workload("web"), "default")

        async def all_joined() -> bool:
            pods = await listed(objects, PODS, "web")
            return len(pods) == 3 and all(GROUP in (it["metadata"].get("annotations") or {}) for it in pods)

        await until("pods in a group", all_joined)
        (group,) = await listed(objects, POD_GROUPS)
        (pod, *_) = await listed(objects, PODS, "web")
        assert group["metadata"]["name"] == f"podgroup-{pod['metadata']['ownerReferences'][0]['uid']}"
        assert (group["spec"]["minMember"], group["spec"]["minResources"]) == (3, {"cpu": "3"})
        await node(objects, "first")

        async def all_run() -> bool:
            groups = await listed(objects, POD_GROUPS)
            return [(it.get("status") or {}).get("running") for it in groups] == [3]

        await until("all pods run", all_run)
        patch = {"spec": {"template": {"metadata": {"labels": {"version": "2"}}}}}
        await objects.patch(DEPLOYMENTS, "web", "merge", patch, "default")

        async def is_replaced() -> bool:
            names = [it["metadata"]["name"] for it in await listed(objects, POD_GROUPS)]
            return group["metadata"]["name"] not in names and await all_run()

        await until("the rollout", is_replaced)
        await objects.delete(DEPLOYMENTS, "web", "default")

        async def is_gone() -> bool:
            return not await listed(objects, POD_GROUPS)

        await until("the end of the group", is_gone)


async def test_a_stateful_set_whose_pods_come_together_starts_whole(plane: ControlPlane) -> None:
    async with served(plane) as objects:
        await node(objects, "second")
        spec = {"podManagementPolicy": "Parallel", "serviceName": "db"}
        await objects.create(STATEFUL_SETS, workload("db", **spec), "default")

        async def all_bound() -> bool:
            return await bound(objects, "db") == 3

        await until("all pods have a node", all_bound)

        async def are_in_one_group() -> bool:
            pods = await listed(objects, PODS, "db")
            groups = {(it["metadata"].get("annotations") or {}).get(GROUP) for it in pods}
            return len(groups) == 1 and None not in groups

        await until("all pods are in one group", are_in_one_group)
