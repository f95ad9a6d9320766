"""A cycle that fails ends nothing: it is tried again, ever more seldom, and goes on when the cause is gone."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import msgspec
import pytest

from allhands.core.policy import DEFAULT
from allhands.runtime.metrics import MetricsRegistry
from allhands.runtime.scheduling.scheduler import Scheduler, SchedulerOptions
from tests.scheduler_world import SchedulerWorld
from tests.virtual import on_virtual_time, running

if TYPE_CHECKING:
    from allhands.core.snapshot import GroupEntry, Snapshot


class Breaking:
    """An order that has a mistake in it, for a while."""

    name = "breaking"

    def __init__(self) -> None:
        self.is_broken = True
        self.asked = 0

    def rank(self, entry: GroupEntry, snapshot: Snapshot, now: int) -> int:  # noqa: ARG002
        self.asked += 1
        if self.is_broken:
            raise ZeroDivisionError("a mistake")
        return 0


@on_virtual_time
async def test_the_scheduler_outlives_a_cycle_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    world, order = SchedulerWorld(), Breaking()
    policy = msgspec.structs.replace(DEFAULT, orders=(order, *DEFAULT.orders))
    metrics = MetricsRegistry()
    options = SchedulerOptions(flight=1)
    scheduler = Scheduler(world.noted.port, world.clock, policy=policy, options=options, metrics=metrics)
    await world.node("a", 4)
    await world.gang("one", 2)
    await world.gang("two", 2)
    with caplog.at_level(logging.ERROR):
        async with running(scheduler.run()):
            await asyncio.sleep(300)
            assert await world.bound() == {}
            assert 5 < order.asked < 20
            assert "a cycle failed" in caplog.text
            assert not scheduler.is_well
            assert metrics.value("allhands_cycles_failed_total") > 4
            order.is_broken = False
            await asyncio.sleep(61)
            assert sorted(await world.bound()) == ["one-0", "one-1", "two-0", "two-1"]
            assert scheduler.is_well


@on_virtual_time
async def test_in_simulations_a_failure_is_not_hidden() -> None:
    world, order = SchedulerWorld(), Breaking()
    policy = msgspec.structs.replace(DEFAULT, orders=(order, *DEFAULT.orders))
    options = SchedulerOptions(flight=1, survives=False)
    scheduler = Scheduler(world.noted.port, world.clock, policy=policy, options=options)
    await world.gang("one", 2)
    await world.gang("two", 2)
    with pytest.raises(ExceptionGroup) as failed:
        await scheduler.run()
    assert failed.group_contains(ZeroDivisionError)
