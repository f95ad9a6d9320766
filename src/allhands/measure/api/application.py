"""The application in the KWOK test: its jobs need all of their pods, and their clock starts when the last one runs.

It plays what runs inside the pods, nothing else: kwok plays the nodes, kube-controller-manager the Jobs. A job that has
only some of its pods holds their room and gets nothing done, which is what gangs are for.
"""

from __future__ import annotations

import asyncio
import datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from allhands.api.errors import StatusError
from allhands.api.kinds import Resource
from allhands.ports import Query
from allhands.runtime.informer import Informer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allhands.ports import Objects

PODS: Final = Resource("", "v1", "pods")
JOBS: Final = Resource("batch", "v1", "jobs")
WRITERS: Final = 32
AGAIN_SECONDS: Final = 0.2
NOT_FOUND: Final = 404


class _Meta(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str
    labels: dict[str, str] = {}
    deletion_timestamp: str = ""


class _PodStatus(msgspec.Struct, frozen=True, gc=False):
    phase: str = ""


class _Pod(msgspec.Struct, frozen=True):
    metadata: _Meta
    status: _PodStatus = _PodStatus()

    @property
    def job(self) -> str:
        return self.metadata.labels.get("job-name", "")


class _Condition(msgspec.Struct, frozen=True, gc=False):
    type: str
    status: str


class _JobStatus(msgspec.Struct, frozen=True):
    conditions: list[_Condition] | None = None


class _Job(msgspec.Struct, frozen=True):
    metadata: _Meta
    status: _JobStatus = _JobStatus()

    @property
    def ending(self) -> str:
        """`Complete`, `Failed`, or nothing yet."""
        return next(
            (
                it.type
                for it in self.status.conditions or ()
                if it.status == "True" and it.type in ("Complete", "Failed")
            ),
            "",
        )


class Application:
    """`run_seconds`: how long each job works, by name. All moments are the loop's."""

    def __init__(self, objects: Objects, namespace: str, run_seconds: Mapping[str, float], pods_per_job: int) -> None:
        query = Query(namespace=namespace)
        self._objects = objects
        self._namespace = namespace
        self._run_seconds = run_seconds
        self._pods_per_job = pods_per_job
        self._pods: Informer[_Pod] = Informer(objects, PODS, msgspec.json.Decoder(_Pod).decode, query=query)
        self._jobs: Informer[_Job] = Informer(objects, JOBS, msgspec.json.Decoder(_Job).decode, query=query)
        self._running: dict[str, set[str]] = {}
        self._done: asyncio.Queue[str] = asyncio.Queue()
        self.started_at: dict[str, float] = {}
        """When a job had all of its pods."""
        self.ended_at: dict[str, float] = {}
        self.succeeded: set[str] = set()
        self._pods.on_change(self._see_pod)
        self._jobs.on_change(self._see_job)

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._pods.run())
            tasks.create_task(self._jobs.run())
            for _ in range(WRITERS):
                tasks.create_task(self._finish())

    async def synced(self) -> None:
        await self._pods.synced.wait()
        await self._jobs.synced.wait()

    def _see_pod(self, key: str, before: _Pod | None, after: _Pod | None) -> None:
        del key
        seen = after or before
        assert seen is not None
        running = self._running.setdefault(seen.job, set())
        if after is None or after.status.phase != "Running" or after.metadata.deletion_timestamp:
            running.discard(seen.metadata.name)
            return
        running.add(seen.metadata.name)
        if len(running) == self._pods_per_job and seen.job not in self.started_at:
            loop = asyncio.get_running_loop()
            self.started_at[seen.job] = loop.time()
            loop.call_later(self._run_seconds[seen.job], self._end, seen.job)

    def _end(self, job: str) -> None:
        """If it is still whole: a job past its deadline has lost its pods."""
        running = self._running.get(job, set())
        if len(running) == self._pods_per_job:
            for pod in sorted(running):
                self._done.put_nowait(pod)

    def _see_job(self, key: str, before: _Job | None, after: _Job | None) -> None:
        del key, before
        if after is None or not after.ending or after.metadata.name in self.ended_at:
            return
        self.ended_at[after.metadata.name] = asyncio.get_running_loop().time()
        if after.ending == "Complete":
            self.succeeded.add(after.metadata.name)

    async def _finish(self) -> None:
        while True:
            pod = await self._done.get()
            try:
                await self._objects.patch(PODS, pod, "merge", _succeeded(), self._namespace, subresource="status")
            except StatusError as refusal:
                if refusal.code != NOT_FOUND:
                    await asyncio.sleep(AGAIN_SECONDS)
                    self._done.put_nowait(pod)


def _succeeded() -> dict[str, Any]:
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    ended = {"exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now}
    container = {
        "name": "main", "image": "registry.example/work:1", "imageID": "", "ready": False, "started": False,
        "restartCount": 0, "state": {"terminated": ended},
    }  # fmt: skip
    return {"status": {"phase": "Succeeded", "containerStatuses": [container]}}
