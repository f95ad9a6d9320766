"""The parts of one process on virtual time: whoever dies is named, counted, seen by probes, and comes back."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

from allhands.compose.nodes import NodeSize, add_node, node_manifest
from allhands.compose.system import System, SystemOptions
from allhands.runtime.installing import KINDS
from allhands.runtime.keeper import SETTLED_SECONDS, Keeper
from allhands.runtime.metrics import MetricsRegistry
from allhands.runtime.scheduling.scheduler import SchedulerOptions
from tests.manifests import JOBS, LEASES
from tests.virtual import Request, cluster, on_virtual_time, running

if TYPE_CHECKING:
    import pytest

    from allhands.api.errors import StatusError


class MistakeError(Exception):
    """What no part expects of its port."""


class World:
    """A whole system whose port fails as a test says."""

    def __init__(self) -> None:
        self.store, self.objects, self.noted, self.clock = cluster()
        self.metrics = MetricsRegistry()
        self.keeper = Keeper(self.metrics)
        scheduler = SchedulerOptions(names=("allhands", "default-scheduler"), flight=1)
        options = SystemOptions(scheduler=scheduler)
        self.system = System(self.noted.port, self.clock, options, self.metrics, self.keeper)

    def fail(self, verb: str, kind: str, times: int) -> None:
        """The next requests of this sort end in what is no answer of an API."""
        left = times

        def refuse(request: Request) -> StatusError | None:
            nonlocal left
            if left and (request.verb, request.kind) == (verb, kind):
                left -= 1
                return cast("StatusError", MistakeError(f"{verb} {kind}"))
            return None

        self.noted.refuse = refuse

    @property
    def unwell(self) -> list[str]:
        return sorted(name for name, is_well in self.keeper.checks.items() if not is_well())

    def failures(self, part: str) -> float:
        return self.metrics.value("allhands_part_failures_total", part=part)

    async def node(self) -> None:
        await add_node(self.objects, node_manifest("node-0", NodeSize("8"), self.store.now()))

    async def job(self, name: str) -> None:
        container = {"name": "main", "image": "work", "resources": {"requests": {"cpu": "1"}}}
        template = {
            "metadata": {"annotations": {"sim.allhands.dev/run-seconds": "5"}},
            "spec": {"restartPolicy": "Never", "containers": [container]},
        }
        await self.objects.create(JOBS, {"metadata": {"name": name}, "spec": {"template": template}}, "default")

    async def is_complete(self, name: str) -> bool:
        status = (await self.objects.get(JOBS, name, "default")).manifest().get("status") or {}
        return any(it["type"] == "Complete" for it in status.get("conditions", ()))

    def run(self) -> Any:
        return running(self.store.housekeeper.run(), self.system.run())


@on_virtual_time
async def test_parts_that_die_come_back_and_jobs_end(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    await world.node()
    world.fail("list", "nodes", 3)
    assert world.unwell, "nothing has begun"
    async with world.run():
        await asyncio.sleep(0.9)
        dead = ["kubelets", "node-controller", "scheduler"]
        assert world.unwell == dead
        for part in dead:
            assert world.failures(part) == 1
            assert f"{part} has ended: MistakeError: list nodes; it begins anew in 1 s" in caplog.text
        assert world.failures("job-controller") == 0
        await world.job("work")
        await asyncio.sleep(1 + SETTLED_SECONDS)
        assert not world.unwell
        await asyncio.sleep(20)
        assert await world.is_complete("work")
    assert world.failures("scheduler") == 1


@on_virtual_time
async def test_a_controller_that_dies_again_and_again_takes_nobody_along() -> None:
    world = World()
    await world.node()
    world.fail("watch", "numatopologies", 10**9)
    async with world.run():
        await world.job("work")
        await asyncio.sleep(600)
        assert await world.is_complete("work")
        assert world.unwell == ["numatopology-controller"]
        others = [name for name in world.keeper.checks if world.failures(name)]
        assert others == ["numatopology-controller"]
        assert 5 < world.failures("numatopology-controller") < 20, "ever more seldom"


@on_virtual_time
async def test_where_our_kinds_cannot_be_brought_the_rest_runs_and_it_is_tried_again() -> None:
    world = World()
    await world.node()
    world.fail("create", "customresourcedefinitions", 1)
    async with world.run():
        await world.job("work")
        await asyncio.sleep(0.5)
        assert world.unwell == ["kinds"]
        await asyncio.sleep(20)
        assert not world.unwell
        assert await world.is_complete("work")
    assert world.failures("kinds") == 1


@on_virtual_time
async def test_our_kinds_are_brought_once() -> None:
    world = World()
    async with world.run():
        await asyncio.sleep(60)
        assert not world.unwell
    assert len(world.noted.of("create", "customresourcedefinitions")) == len(KINDS)
    assert len(world.noted.of("create", "queues")) == 2


@on_virtual_time
async def test_a_heart_goes_on_beating_after_any_mistake() -> None:
    world = World()
    await world.node()
    async with world.run():
        await asyncio.sleep(60)
        world.fail("patch", "leases", 3)
        await asyncio.sleep(60)
        before = (await world.objects.get(LEASES, "node-0", "kube-node-lease")).manifest()["spec"]["renewTime"]
        await asyncio.sleep(60)
        after = (await world.objects.get(LEASES, "node-0", "kube-node-lease")).manifest()["spec"]["renewTime"]
        assert after > before
        assert world.failures("kubelets") == 0
