"""On the real API server: two schedulers, of which one leads by a lease that a thread renews; the next goes on from the
history that the first wrote down."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from allhands.compose.machine import SystemClock
from allhands.compose.nodes import NodeSize, add_node, node_manifest
from allhands.core.quota.usage import UsageKey, decode
from allhands.kube import kubeconfig
from allhands.kube.objects import KubeObjects
from allhands.ports import DeleteOptions, Query
from allhands.runtime.installing import install_kinds
from allhands.runtime.leadership import ThreadedLeadership, counted
from allhands.runtime.metrics import MetricsRegistry
from allhands.runtime.scheduling.scheduler import Scheduler, SchedulerOptions
from tests.controlplane import ControlPlane
from tests.manifests import CONFIG_MAPS, NODES, PODS, pod
from tests.scheduler_world import QUEUES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

WITHIN_SECONDS = 60


@pytest.fixture(scope="module")
def plane(real_tools: Path) -> Iterator[ControlPlane]:
    with ControlPlane() as plane:
        yield plane


class Candidate:
    """One process' worth of scheduler."""

    def __init__(self, plane: ControlPlane, identity: str) -> None:
        self._access = kubeconfig.load(plane.kubeconfig)
        self._identity = identity
        self.metrics = MetricsRegistry()
        self.scheduler: Scheduler | None = None
        self.leads = asyncio.Event()

    @contextlib.asynccontextmanager
    async def standing(self) -> AsyncIterator[None]:
        async with KubeObjects(self._access, self.metrics) as objects:
            leadership = ThreadedLeadership(
                lambda: KubeObjects(self._access),
                SystemClock(),
                name="scheduler",
                namespace="allhands-system",
                identity=self._identity,
            )

            async def work() -> None:
                self.scheduler = Scheduler(
                    objects, SystemClock(), options=SchedulerOptions(names=("ours",)), metrics=self.metrics
                )
                self.leads.set()
                await self.scheduler.run()

            task = asyncio.create_task(leadership.lead(counted(work, self.metrics, "scheduler")))
            try:
                yield
            finally:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task


async def bound(objects: KubeObjects, name: str) -> dict[str, Any]:
    async with asyncio.timeout(WITHIN_SECONDS):
        watch = await objects.watch(PODS, Query(namespace="default", fields=f"metadata.name={name}"))
        try:
            async for event in watch:
                if (found := event.manifest())["spec"].get("nodeName"):
                    return found
        finally:
            await watch.close()
    raise AssertionError("the watch ended")


def in_queue(name: str, queue: str) -> dict[str, Any]:
    manifest = pod(name, schedulerName="ours")
    manifest["metadata"]["annotations"] = {"allhands.dev/queue": queue}
    return manifest


async def _counted(candidate: Candidate, binds: int) -> None:
    """Returns when the candidate knows of so many binds: the answer comes a moment after the pod shows its node."""
    async with asyncio.timeout(30):
        while candidate.metrics.value("allhands_binds_total", result="bound") != binds:  # noqa: ASYNC110
            await asyncio.sleep(0)


async def test_the_next_leader_binds_what_comes_and_knows_what_was_used(plane: ControlPlane) -> None:
    first, second = Candidate(plane, "first"), Candidate(plane, "second")
    async with KubeObjects(kubeconfig.load(plane.kubeconfig)) as objects, asyncio.timeout(2 * WITHIN_SECONDS):
        await install_kinds(objects)
        head = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"}
        await objects.create(QUEUES, {**head, "metadata": {"name": "blue"}, "spec": {"weight": 1}})
        await add_node(objects, node_manifest("a", NodeSize("4"), "2026-01-01T00:00:00Z"))
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(first.standing())
            await first.leads.wait()
            async with second.standing():
                await objects.create(PODS, in_queue("one", "blue"), "default")
                await bound(objects, "one")
                assert not second.leads.is_set()
                await objects.create(PODS, in_queue("two", "blue"), "default")
                await bound(objects, "two")
                await _counted(first, 2)
                await stack.aclose()
                kept = (await objects.get(CONFIG_MAPS, "usage-ledger", "allhands-system")).manifest()
                assert decode(kept["data"]["usage"].encode()).entry(UsageKey("blue")) is not None
                await second.leads.wait()
                await objects.create(PODS, in_queue("three", "default"), "default")
                await bound(objects, "three")
                await _counted(second, 1)
                assert second.scheduler is not None
                assert second.scheduler.watched.facts.ledger.entry(UsageKey("blue")) is not None
                assert second.metrics.value("leader_election_master_status", name="scheduler") == 1
                assert first.metrics.value("leader_election_master_status", name="scheduler") == 0
        assert first.metrics.value("allhands_binds_total", result="bound") == 2
        assert second.metrics.value("allhands_binds_total", result="bound") == 1
        await objects.delete(NODES, "a", "", DeleteOptions())
