"""A whole embedded cluster (API, scheduler, controllers, simulated kubelets) beside commands in this thread."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, TypeVar

from allhands.api.errors import StatusError
from allhands.api.kinds import Resource
from allhands.compose.embedded import EmbeddedCluster, embedded
from allhands.compose.nodes import NodeSize
from allhands.compose.system import SystemOptions
from allhands.ports import DeleteOptions, Query

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from allhands.api.document import Manifest

T = TypeVar("T")
SECONDS = 30
JOBS = Resource("batch", "v1", "jobs")
PODS = Resource("", "v1", "pods")
QUEUES = Resource("scheduling.volcano.sh", "v1beta1", "queues")


class RunningCluster:
    """Three nodes of four cores; pods run as long as they say, by default for a minute."""

    def __init__(self, folder: Path, *, nodes: int = 3, system: SystemOptions | None = None) -> None:
        self._folder = folder
        self._nodes = nodes
        self._system = system or SystemOptions()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="running cluster", daemon=True)
        self._cluster: EmbeddedCluster | None = None

    async def _run(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        size = NodeSize("4", "16Gi", 0)
        async with embedded(self._folder, nodes=self._nodes, size=size, system=self._system) as self._cluster:
            await asyncio.wait_for(self._has_queues(), SECONDS)
            self._ready.set()
            await self._stop.wait()

    async def _has_queues(self) -> None:
        """The kind and the queue that everybody is in are made by the cluster itself, just after it has begun."""
        while True:
            try:
                await self.cluster.objects.get(QUEUES, "default")
            except StatusError:
                await asyncio.sleep(0.02)
            else:
                return

    def __enter__(self) -> RunningCluster:
        self._thread.start()
        assert self._ready.wait(SECONDS), "the cluster did not start"
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(SECONDS)
        assert not self._thread.is_alive(), "the cluster did not stop"

    @property
    def cluster(self) -> EmbeddedCluster:
        assert self._cluster is not None
        return self._cluster

    @property
    def kubeconfig(self) -> Path:
        return self.cluster.kubeconfig

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Runs it in the cluster's own event loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(SECONDS)

    def get(self, resource: Resource, name: str, namespace: str = "default") -> Manifest:
        return self.call(self.cluster.objects.get(resource, name, namespace)).manifest()

    def create(self, resource: Resource, manifest: Manifest, namespace: str = "") -> None:
        self.call(self.cluster.objects.create(resource, manifest, namespace))

    def delete(self, resource: Resource, name: str, namespace: str = "default") -> None:
        self.call(self.cluster.objects.delete(resource, name, namespace))

    def until(
        self, resource: Resource, name: str, wanted: Callable[[Manifest], bool], namespace: str = "default"
    ) -> Manifest:
        """The object once it is as wanted, seen by a watch."""
        return self.call(asyncio.wait_for(self._until(resource, name, wanted, namespace), SECONDS))

    async def _until(
        self, resource: Resource, name: str, wanted: Callable[[Manifest], bool], namespace: str
    ) -> Manifest:
        watch = await self.cluster.objects.watch(resource, Query(namespace=namespace))
        try:
            async for event in watch:
                found = event.manifest()
                if event.type != "DELETED" and found["metadata"]["name"] == name and wanted(found):
                    return found
        finally:
            await watch.close()
        raise AssertionError("the watch ended")

    def clean(self) -> None:
        """Deletes all jobs and pods, at once."""
        self.call(self._clean())

    async def _clean(self) -> None:
        everything = Query(namespace="default")
        await self.cluster.objects.delete_all(JOBS, everything, DeleteOptions(propagation="Background"))
        for _ in range(100):
            await self.cluster.objects.delete_all(PODS, everything, DeleteOptions(grace_seconds=0))
            if not (await self.cluster.objects.list(PODS, everything)).items:
                return
            await asyncio.sleep(0.05)
