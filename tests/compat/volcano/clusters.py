"""The two servers that the manifests run on: the embedded cluster, and the real API server with our processes.

Either runs beside tests that are not asynchronous, on an event loop of its own; it is reached by its kubeconfig, as
users reach it. Nodes are simulated on both, so pods only pretend to run; everything else is the real thing.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
from typing import TYPE_CHECKING, Any, TypeVar

from allhands.agents.behaviour import Behaviour, Fixed
from allhands.agents.simulated import SimulatedKubelets
from allhands.api.errors import StatusError
from allhands.api.volcano.job import JOB
from allhands.compose.embedded import embedded
from allhands.compose.machine import SystemClock
from allhands.compose.nodes import NodeSize, add_node, node_manifest
from allhands.compose.system import SystemOptions
from allhands.kube import kubeconfig
from allhands.kube.objects import KubeObjects
from allhands.measure.processes import free_ports
from allhands.ports import WriteOptions
from allhands.runtime.installing import install_kinds
from tests.controlplane import ControlPlane
from tests.manifests import NAMESPACES
from tests.scheduler_process import SchedulerProcess
from tests.volcano_jobs import job, task

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Iterator
    from pathlib import Path

T = TypeVar("T")
START_SECONDS = 180
END_SECONDS = 60
NAMES = ("--scheduler-name=volcano", "--scheduler-name=allhands")
BEHAVIOUR = Behaviour(run=Fixed(1))
NODES, NODE_SIZE = 8, NodeSize("16", "64Gi", 8)
"""Room for all of them at once: who wants less brings nodes of its own."""
CONTROLLERS = (
    "deployment-controller",
    "replicaset-controller",
    "job-controller",
    "garbage-collector-controller",
    "persistentvolume-binder-controller",
)
"""Of Kubernetes itself; the rest of what a Volcano user needs is ours."""


class Cluster:
    """A server that is ready, and work on it that goes on beside the tests."""

    def __init__(self, server: str, loop: asyncio.AbstractEventLoop, objects: KubeObjects) -> None:
        self.server = server
        self.objects = objects
        self.over = asyncio.Event()
        self._loop = loop
        self._begun: dict[str, concurrent.futures.Future[Any]] = {}

    def begin(self, name: str, story: Coroutine[Any, Any, None]) -> None:
        self._begun[name] = asyncio.run_coroutine_threadsafe(story, self._loop)

    def end_of(self, name: str) -> None:
        """Returns when what was begun has ended; raises what it raised."""
        self._begun[name].result()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def stop(self) -> None:
        for it in self._begun.values():
            it.cancel()
        self._loop.call_soon_threadsafe(self.over.set)


@contextlib.contextmanager
def cluster_of(server: str, folder: Path) -> Iterator[Cluster]:
    if server == "embedded":
        with _in_thread(server, _embedded(folder)) as cluster:
            yield cluster
        return
    with ControlPlane(controllers=CONTROLLERS) as plane, contextlib.ExitStack() as processes:
        asyncio.run(_prepare(plane.kubeconfig))
        (port,) = free_ports(1)
        leads = ("--no-leader-elect", *NAMES)
        webhooks = (f"--address=127.0.0.1:{port}", f"--url=https://127.0.0.1:{port}", *NAMES)
        started = [
            processes.enter_context(SchedulerProcess(folder, plane.kubeconfig, *options, part=part))
            for part, options in (("scheduler", leads), ("controllers", leads), ("webhooks", webhooks))
        ]
        for it in started:
            it.wait_until_ready()
        with _in_thread(server, _beside(plane.kubeconfig)) as cluster:
            yield cluster


async def _prepare(config: Path) -> None:
    async with KubeObjects(kubeconfig.load(config)) as objects:
        await install_kinds(objects)
        await objects.create(NAMESPACES, {"metadata": {"name": "allhands-system"}})


@contextlib.asynccontextmanager
async def _embedded(folder: Path) -> AsyncIterator[KubeObjects]:
    async with (
        embedded(folder / "cluster", system=SystemOptions(behaviour=BEHAVIOUR)) as cluster,
        KubeObjects(kubeconfig.load(cluster.kubeconfig)) as objects,
    ):
        yield objects


@contextlib.asynccontextmanager
async def _beside(config: Path) -> AsyncIterator[KubeObjects]:
    async with KubeObjects(kubeconfig.load(config)) as objects:
        kubelets = asyncio.create_task(
            SimulatedKubelets(objects, SystemClock(), behaviour=BEHAVIOUR, workers=8).run(), name="kubelets"
        )
        try:
            yield objects
            if kubelets.done():
                kubelets.result()
        finally:
            kubelets.cancel()
            await asyncio.gather(kubelets, return_exceptions=True)


async def _is_ready(objects: KubeObjects) -> bool:
    """Whether what makes no sense is refused, and what makes sense is not: then everybody is up."""
    try:
        await objects.create(JOB.resource, job("good", task("a", 1)), "default", WriteOptions(dry_run=True))
        await objects.create(JOB.resource, job("bad", task("a", 1), queue="no"), "default", WriteOptions(dry_run=True))
    except StatusError as refusal:
        return refusal.code == 422 and "spec.queue" in refusal.message
    return False


@contextlib.contextmanager
def _in_thread(server: str, opened: contextlib.AbstractAsyncContextManager[KubeObjects]) -> Iterator[Cluster]:
    """An event loop of its own, in which the cluster and the work on it live until the block ends."""
    ready: concurrent.futures.Future[Cluster] = concurrent.futures.Future()

    async def live() -> None:
        async with opened as objects:
            await _fill(objects)
            cluster = Cluster(server, asyncio.get_running_loop(), objects)
            ready.set_result(cluster)
            await cluster.over.wait()

    def run() -> None:
        try:
            asyncio.run(live())
        except BaseException as error:
            if ready.done():
                raise
            ready.set_exception(error)

    thread = threading.Thread(target=run, name=f"the {server} cluster", daemon=True)
    thread.start()
    cluster = ready.result(2 * START_SECONDS)
    try:
        yield cluster
    finally:
        cluster.stop()
        thread.join(END_SECONDS)
        assert not thread.is_alive(), f"the {server} cluster did not end"


async def _fill(objects: KubeObjects) -> None:
    """With nodes, once everybody is up."""
    async with asyncio.timeout(START_SECONDS):
        while not await _is_ready(objects):  # noqa: ASYNC110 (it is another process that becomes ready)
            await asyncio.sleep(0.1)
        for number in range(NODES):
            await add_node(objects, node_manifest(f"node-{number}", NODE_SIZE, "2026-01-01T00:00:00Z"))
