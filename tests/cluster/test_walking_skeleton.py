"""A batch/v1 Job becomes a gang, is placed, bound, run and finished on the real API server, by our scheduler."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from allhands.api.kinds import Resource
from allhands.compose.machine import SystemClock
from allhands.kube import kubeconfig
from allhands.kube.objects import KubeObjects
from allhands.ports import Query
from allhands.runtime.scheduling.scheduler import Scheduler, SchedulerOptions
from tests.controlplane import ControlPlane

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

JOBS = Resource("batch", "v1", "jobs")
PODS = Resource("", "v1", "pods")
NODES = Resource("", "v1", "nodes")
WITHIN_SECONDS = 60


@pytest.fixture(scope="module")
def plane(real_tools: Path) -> Iterator[ControlPlane]:
    with ControlPlane(controllers=("job-controller", "node-lifecycle-controller"), kwok=True) as plane:
        yield plane


@contextlib.asynccontextmanager
async def scheduled(plane: ControlPlane) -> AsyncIterator[KubeObjects]:
    async with KubeObjects(kubeconfig.load(plane.kubeconfig)) as objects:
        scheduler = asyncio.create_task(Scheduler(objects, SystemClock(), options=SchedulerOptions()).run())
        try:
            yield objects
        finally:
            scheduler.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await scheduler


def job(name: str, pods: int, cpu: str, least: str) -> dict[str, Any]:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}
    template = {"spec": {"schedulerName": "allhands", "restartPolicy": "Never", "containers": [container]}}
    return {
        "metadata": {"name": name, "annotations": {"allhands.dev/min-available": least}},
        "spec": {"parallelism": pods, "completions": pods, "template": template},
    }


async def seen(objects: KubeObjects, resource: Resource, name: str, good: Any) -> dict[str, Any]:
    """The object as soon as it is as wanted."""
    async with asyncio.timeout(WITHIN_SECONDS):
        watch = await objects.watch(resource, Query(namespace="default", fields=f"metadata.name={name}"))
        try:
            async for event in watch:
                if good(found := event.manifest()):
                    return found
        finally:
            await watch.close()
    raise AssertionError("the watch ended")


def is_complete(found: dict[str, Any]) -> bool:
    conditions = found.get("status", {}).get("conditions", ())
    return any(it["type"] == "Complete" and it["status"] == "True" for it in conditions)


async def test_a_job_with_one_annotation_runs_as_a_gang_on_the_real_api_server(plane: ControlPlane) -> None:
    async with scheduled(plane) as objects:
        for name in ("kwok-a", "kwok-b"):
            await objects.create(NODES, {"metadata": {"name": name, "annotations": {"kwok.x-k8s.io/node": "fake"}}})
        await objects.create(JOBS, job("whole", 8, "4", "all"), "default")
        await objects.create(JOBS, job("too-large", 3, "30", "all"), "default")
        done = await seen(objects, JOBS, "whole", is_complete)
        assert done["status"]["succeeded"] == 8

        def is_told(found: dict[str, Any]) -> bool:
            return "allhands.dev/scheduling" in found["metadata"]["annotations"]

        await seen(objects, JOBS, "too-large", is_told)
        waiting = await objects.list(PODS, Query(namespace="default", labels="job-name=too-large"))
        assert len(waiting.items) == 3
        assert not any(b'"nodeName"' in raw for raw in waiting.items)
