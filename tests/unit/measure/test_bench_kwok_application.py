"""The application of the KWOK test: a job's clock starts when its last pod runs, and ends all of its pods."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from allhands.measure.api.application import JOBS, PODS, Application
from allhands.ports import DeleteOptions, Objects
from tests.virtual import cluster, on_virtual_time, refused, running

CONTAINER = {"name": "main", "image": "registry.example/work:1"}


async def add_pod(objects: Objects, job: str, number: int) -> None:
    metadata = {"name": f"{job}-{number}", "labels": {"job-name": job}}
    await objects.create(PODS, {"metadata": metadata, "spec": {"containers": [CONTAINER]}}, "default")


async def let_run(objects: Objects, job: str, number: int) -> None:
    running = {"status": {"phase": "Running"}}
    await objects.patch(PODS, f"{job}-{number}", "merge", running, "default", subresource="status")


async def phases(objects: Objects) -> dict[str, str]:
    found = [msgspec.json.decode(raw) for raw in (await objects.list(PODS)).items]
    return {it["metadata"]["name"]: it["status"]["phase"] for it in found}


@on_virtual_time
async def test_a_job_ends_so_long_after_its_last_pod_has_started() -> None:
    here = cluster()
    application = Application(here.objects, "default", {"a": 5.0, "b": 5.0}, 2)
    async with running(application.run()):
        for job in ("a", "b"):
            for number in (0, 1):
                await add_pod(here.objects, job, number)
        await application.synced()
        await let_run(here.objects, "a", 0)
        await let_run(here.objects, "b", 0)
        await asyncio.sleep(10)
        await let_run(here.objects, "a", 1)
        await asyncio.sleep(4)
        assert set((await phases(here.objects)).values()) == {"Running", "Pending"}
        await asyncio.sleep(2)
        assert await phases(here.objects) == {
            "a-0": "Succeeded", "a-1": "Succeeded", "b-0": "Running", "b-1": "Pending",
        }  # fmt: skip


@on_virtual_time
async def test_a_job_that_lost_a_pod_meanwhile_is_not_ended() -> None:
    here = cluster()
    application = Application(here.objects, "default", {"a": 5.0}, 2)
    async with running(application.run()):
        for number in (0, 1):
            await add_pod(here.objects, "a", number)
            await let_run(here.objects, "a", number)
        await asyncio.sleep(1)
        await here.objects.delete(PODS, "a-1", "default", DeleteOptions(grace_seconds=0))
        await asyncio.sleep(20)
        assert await phases(here.objects) == {"a-0": "Running"}


@on_virtual_time
async def test_an_end_that_the_server_refuses_is_tried_again() -> None:
    here = cluster()
    failures = iter(range(2))
    here.noted.refuse = lambda it: refused() if it.verb == "patch" and next(failures, None) is not None else None
    application = Application(here.noted.port, "default", {"a": 5.0}, 1)
    async with running(application.run()):
        await add_pod(here.objects, "a", 0)
        await let_run(here.objects, "a", 0)
        await asyncio.sleep(20)
        assert await phases(here.objects) == {"a-0": "Succeeded"}


@on_virtual_time
async def test_the_ends_of_jobs_are_noted_once() -> None:
    here = cluster()
    application = Application(here.objects, "default", {}, 1)
    spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}}
    async with running(application.run()):
        await application.synced()
        for name, ending in (("good", "Complete"), ("late", "Failed"), ("busy", "Suspended")):
            await here.objects.create(JOBS, {"metadata": {"name": name}, "spec": spec}, "default")
            now = "2026-01-01T00:00:00Z"
            conditions = [{"type": ending, "status": "True", "lastTransitionTime": now}]
            status: dict[str, Any] = {"conditions": conditions, "startTime": now}
            if ending == "Complete":
                conditions.insert(0, {**conditions[0], "type": "SuccessCriteriaMet"})
                status["completionTime"] = now
            if ending == "Failed":
                conditions.insert(0, {**conditions[0], "type": "FailureTarget"})
            await here.objects.patch(JOBS, name, "merge", {"status": status}, "default", subresource="status")
        await asyncio.sleep(1)
        assert set(application.ended_at) == {"good", "late"}
        assert application.succeeded == {"good"}
