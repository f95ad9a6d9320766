"""Cases of Volcano's CronJobs and flows for the laws of controllers, and what they are made of.

Jobs are led by hand here: what becomes of their pods is the business of others.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from allhands.api.definitions import DEFINITIONS
from allhands.api.volcano.cron_job import CRON_JOB
from allhands.api.volcano.job import JOB
from allhands.api.volcano.job_flow import JOB_FLOW
from allhands.api.volcano.job_template import JOB_TEMPLATE
from allhands.controllers.cron_job import VolcanoCronJobController
from allhands.controllers.job_flow import JobFlowController
from allhands.controllers.job_template import JobTemplateController
from allhands.lifecycle.job_flow.documents import FLOWS, TEMPLATES
from allhands.lifecycle.job_flow.documents import JOBS as VOLCANO_JOBS
from allhands.lifecycle.volcano_cron_job import VOLCANO

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from allhands.api.definitions import Definition
    from allhands.api.document import Manifest
    from tests.controller_world import World


def loose(definition: Definition) -> Manifest:
    """The kind without its schema, which takes long to read: these tests ask what controllers write, not what a server
    lets them."""
    anything: Manifest = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": anything, "status": anything}}
    manifest = definition.manifest()
    for version in manifest["spec"]["versions"]:
        version |= {"schema": {"openAPIV3Schema": schema}, "additionalPrinterColumns": []}
    return manifest


async def define(world: World, *definitions: Definition) -> None:
    for definition in definitions:
        await world.create(DEFINITIONS, loose(definition), "")
    world.store.housekeeper.run_pending()


def volcano_spec(replicas: int = 1) -> Manifest:
    containers = [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}]
    template = {"spec": {"restartPolicy": "Never", "containers": containers}}
    return {"schedulerName": "allhands", "tasks": [{"name": "work", "replicas": replicas, "template": template}]}


async def set_phase(world: World, name: str, phase: str, **more: Any) -> None:
    """What the controller of Volcano Jobs writes."""
    status: Manifest = {"state": {"phase": phase, "lastTransitionTime": world.store.now()}, **more}
    await world.patch(VOLCANO_JOBS, name, {"status": status}, subresource="status")


class VolcanoCronJobCase:
    name = "volcano-cron-job"
    resources = (VOLCANO.crons, VOLCANO.jobs)
    horizon_seconds = 3600.0
    kubelet = False

    def controllers(self, objects: Any, _world: World) -> Sequence[Any]:
        return [VolcanoCronJobController(objects)]

    def watch(self, world: World) -> None:
        world.watchers.append(_one_job_for_each_minute)

    def story(self, seed: int) -> list[Callable[[World], Awaitable[None]]]:
        chance = random.Random(seed)
        spec = {
            "schedule": chance.choice(["*/20 * * * *", "0 * * * *", "7,13,50 * * * *", "@hourly"]),
            "timeZone": chance.choice(["Europe/Berlin", "Asia/Kolkata", "UTC"]),
            "concurrencyPolicy": chance.choice(["Allow", "Forbid", "Replace"]),
            "successfulJobsHistoryLimit": chance.randrange(3),
            "failedJobsHistoryLimit": chance.randrange(2),
            "jobTemplate": {"spec": volcano_spec()},
        }
        ends = [chance.choice(["Completed", "Failed", "Terminated", "Running", "Aborted"]) for _ in range(40)]

        async def begin(world: World) -> None:
            await define(world, JOB, CRON_JOB)
            await world.create(VOLCANO.crons, {"metadata": {"name": "tick"}, "spec": spec})

        async def end_jobs(world: World) -> None:
            for number, job in enumerate(world.all(VOLCANO.jobs)):
                await set_phase(world, job["metadata"]["name"], ends[number])

        async def wait(world: World) -> None:
            pass

        return [begin, end_jobs, wait, end_jobs, wait]


def _one_job_for_each_minute(world: World) -> None:
    jobs = world.all(VOLCANO.jobs) if world.all(DEFINITIONS) else []
    minutes = [it["metadata"]["annotations"][VOLCANO.scheduled_at] for it in jobs]
    assert len(set(minutes)) == len(minutes)


class JobFlowCase:
    """A random flow: steps that fail now and then, retries, a template that comes late, Jobs that are not retained."""

    name = "job-flow"
    resources = (FLOWS, TEMPLATES, VOLCANO_JOBS)
    horizon_seconds = 3600.0
    kubelet = False

    def __init__(self) -> None:
        self._waits: dict[str, list[str]] = {}
        self._failing: dict[str, int] = {}

    def controllers(self, objects: Any, _world: World) -> Sequence[Any]:
        return [JobFlowController(objects), JobTemplateController(objects)]

    def watch(self, world: World) -> None:
        self._made: dict[str, dict[str, None]] = {}
        self._done: dict[str, None] = {}
        world.watchers.append(self._check)
        world.nature.append(self._live)

    def _check(self, world: World) -> None:
        """No step begins before its targets are done, and none is made more often than it may fail."""
        if not world.all(DEFINITIONS):
            return
        for job in world.all(VOLCANO_JOBS):
            step = job["metadata"]["name"].removeprefix("f-")
            self._made.setdefault(step, {})[job["metadata"]["uid"]] = None
            assert all(it in self._done for it in self._waits[step]), f"{step} began too early"
            assert len(self._made[step]) <= 1 + self._failing[step], f"{step} was made too often"
            if (job.get("status") or {}).get("state", {}).get("phase") == "Completed":
                self._done[step] = None

    async def _live(self, world: World) -> bool:
        """Jobs go from phase to phase; so many of each step fail."""
        changed = False
        for job in world.all(VOLCANO_JOBS) if world.all(DEFINITIONS) else []:
            name = job["metadata"]["name"]
            phase = ((job.get("status") or {}).get("state") or {}).get("phase", "")
            attempt = int((job["metadata"].get("annotations") or {}).get("allhands.dev/flow-attempt", "0"))
            end = "Failed" if attempt < self._failing[name.removeprefix("f-")] else "Completed"
            after = {"": "Pending", "Pending": "Running", "Running": end}.get(phase)
            if after is not None:
                changed = True
                await set_phase(world, name, after, **({"runningDuration": "5s"} if after == end else {}))
        return changed

    def story(self, seed: int) -> list[Callable[[World], Awaitable[None]]]:
        chance = random.Random(seed)
        names = [f"s{number}" for number in range(chance.randrange(1, 8))]
        retries = chance.randrange(3)
        self._waits = {it: [other for other in names[:at] if chance.random() < 0.4] for at, it in enumerate(names)}
        self._failing = {it: chance.choice([0, 0, 0, 1, 2, 3]) if chance.random() < 0.5 else 0 for it in names}
        late = chance.choice(names)
        shuffled = chance.sample(names, len(names))
        flows = [
            {"name": it, **({"dependsOn": {"targets": self._waits[it]}} if self._waits[it] else {})} for it in shuffled
        ]
        metadata = {"name": "f", "annotations": {"allhands.dev/flow-retries": str(retries)}}
        policy = chance.choice(["retain", "delete"])

        async def begin(world: World) -> None:
            await define(world, JOB, JOB_FLOW, JOB_TEMPLATE)
            for name in names:
                if name != late:
                    await world.create(TEMPLATES, {"metadata": {"name": name}, "spec": volcano_spec()})
            await world.create(FLOWS, {"metadata": metadata, "spec": {"flows": flows, "jobRetainPolicy": policy}})

        async def the_late_one(world: World) -> None:
            await world.create(TEMPLATES, {"metadata": {"name": late}, "spec": volcano_spec()})

        async def ended(world: World) -> None:
            """Every flow ends."""
            (flow,) = world.all(FLOWS)
            wanted = "Failed" if any(it > retries for it in self._failing.values()) else "Succeed"
            assert flow["status"]["state"]["phase"] == wanted
            if wanted == "Succeed":
                assert len(flow["status"]["completedJobs"]) == len(names)
                assert bool(world.all(VOLCANO_JOBS)) == (policy == "retain")

        return [begin, the_late_one, ended]
