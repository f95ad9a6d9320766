"""Leading with a lease that a thread renews: long work keeps it, lost leadership ends the work, the end is clean."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING

import pytest

from allhands.api.errors import StatusError
from allhands.compose.machine import SystemClock
from allhands.kube.kubeconfig import load
from allhands.kube.objects import KubeObjects
from allhands.runtime.leadership import ThreadedLeadership, counted
from allhands.runtime.lease import LEASES, LeaseTimes
from allhands.runtime.metrics import MetricsRegistry
from tests.embedded import EmbeddedInThread

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from allhands.api.document import Manifest
    from allhands.kube.kubeconfig import Access
    from allhands.ports import Objects

WAIT_SECONDS = 20.0
QUICK = LeaseTimes(duration_seconds=1.0, give_up_seconds=0.8, retry_seconds=0.05)


@pytest.fixture(scope="module")
def access(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Access]:
    folder: Path = tmp_path_factory.mktemp("cluster")
    with EmbeddedInThread(folder) as cluster:
        yield load(cluster.kubeconfig)


class Worker:
    """Work that says when it runs."""

    def __init__(self) -> None:
        self.running = asyncio.Event()
        self.ended = asyncio.Event()
        self.thread = ""

    async def work(self) -> None:
        self.thread = threading.current_thread().name
        self.ended.clear()
        self.running.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.running.clear()
            self.ended.set()


def leadership(access: Access, identity: str, name: str) -> ThreadedLeadership:
    return ThreadedLeadership(
        lambda: KubeObjects(access),
        SystemClock(),
        name=name,
        namespace="allhands-system",
        identity=identity,
        times=QUICK,
    )


@contextlib.asynccontextmanager
async def leading(access: Access, identity: str, worker: Worker, name: str) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(leadership(access, identity, name).lead(worker.work))
    try:
        yield task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def spec_of(access: Access, name: str) -> Manifest:
    async with KubeObjects(access) as objects:
        return (await objects.get(LEASES, name, "allhands-system")).manifest()["spec"]  # type: ignore[no-any-return]


def lease_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("lease ")]


async def test_work_runs_in_the_loop_that_asked_and_its_end_gives_the_lease_back(access: Access) -> None:
    worker = Worker()
    async with asyncio.timeout(WAIT_SECONDS):
        async with leading(access, "one", worker, "back"):
            await worker.running.wait()
            assert worker.thread == threading.current_thread().name
            assert (await spec_of(access, "back"))["holderIdentity"] == "one"
            assert lease_threads() == ["lease allhands-system/back"]
        assert worker.ended.is_set()
    assert not (await spec_of(access, "back")).get("holderIdentity")
    assert lease_threads() == []


async def test_a_decision_that_takes_long_does_not_cost_the_lease(access: Access) -> None:
    first, second = Worker(), Worker()
    async with asyncio.timeout(WAIT_SECONDS), leading(access, "first", first, "long"):
        await first.running.wait()
        async with leading(access, "second", second, "long"):
            before = (await spec_of(access, "long"))["renewTime"]
            # The loop is busy for longer than a lease lasts that nobody renews.
            threading.Event().wait(2 * QUICK.duration_seconds)
            after = await spec_of(access, "long")
            assert after["holderIdentity"] == "first"
            assert after["renewTime"] > before
            assert first.running.is_set()
            assert not second.running.is_set()


async def test_who_loses_the_lease_stops_working_and_the_next_begins(access: Access) -> None:
    first, second = Worker(), Worker()
    async with asyncio.timeout(WAIT_SECONDS), leading(access, "first", first, "lost"):
        await first.running.wait()
        async with KubeObjects(access) as objects:
            while True:
                lease = (await objects.get(LEASES, "lost", "allhands-system")).manifest()
                lease["spec"] |= {"holderIdentity": "thief", "leaseDurationSeconds": 1}
                try:
                    await objects.update(LEASES, "lost", lease, "allhands-system")
                except StatusError:
                    continue  # it was renewed meanwhile
                break
        await first.ended.wait()
        async with leading(access, "second", second, "lost"):
            looking = [asyncio.create_task(it.running.wait()) for it in (first, second)]
            await asyncio.wait(looking, return_when=asyncio.FIRST_COMPLETED)
            for task in looking:
                task.cancel()
            assert first.running.is_set() != second.running.is_set()


async def test_a_mistake_of_the_work_is_the_mistake_of_who_leads(access: Access) -> None:
    async def work() -> None:
        raise RuntimeError("a part that ends by itself has a mistake")

    async with asyncio.timeout(WAIT_SECONDS):
        with pytest.raises(RuntimeError, match="has a mistake"):
            await leadership(access, "one", "mistake").lead(work)
    assert lease_threads() == []


async def test_a_port_that_cannot_be_opened_is_told() -> None:
    def closed() -> contextlib.AbstractAsyncContextManager[Objects]:
        raise OSError("no such server")

    held = ThreadedLeadership(closed, SystemClock(), name="x", namespace="y", identity="z")
    with pytest.raises(OSError, match="no such server"):
        await held.lead(Worker().work)
    assert lease_threads() == []


async def test_it_can_be_ended_at_any_moment(access: Access) -> None:
    """Also before its thread has begun, and while it waits for another."""
    for turns in range(6):
        task = asyncio.create_task(leadership(access, f"brief-{turns}", "brief").lead(Worker().work))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert lease_threads() == []


async def test_whether_it_leads_is_counted() -> None:
    metrics, worker = MetricsRegistry(), Worker()
    work = counted(worker.work, metrics, "scheduler")
    assert metrics.value("leader_election_master_status", name="scheduler") == 0
    task = asyncio.create_task(work())
    await worker.running.wait()
    assert metrics.value("leader_election_master_status", name="scheduler") == 1
    task.cancel()
    await asyncio.wait([task])
    assert metrics.value("leader_election_master_status", name="scheduler") == 0
