"""What the scheduler counts is what happened."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from allhands.runtime.metrics import MetricsRegistry
from allhands.runtime.scheduling.scheduler import Scheduler
from tests.scheduler_world import SchedulerWorld
from tests.virtual import on_virtual_time, refused, running

if TYPE_CHECKING:
    from tests.virtual import Request


class MeasuredWorld(SchedulerWorld):
    """With a registry that outlives its schedulers, as one of a process does."""

    def __init__(self, flight: int = 1) -> None:
        self.metrics = MetricsRegistry()
        super().__init__(flight)

    def _made(self) -> Scheduler:
        return Scheduler(self.noted.port, self.clock, options=self._options, metrics=self.metrics)

    def value(self, name: str, /, **labels: str) -> float:
        self.metrics.refresh()
        return self.metrics.value(name, **labels)


@on_virtual_time
async def test_pods_that_start_and_pods_that_wait_are_counted_with_their_reasons() -> None:
    world = MeasuredWorld()
    await world.node("a", 4)
    async with world.scheduling():
        await world.gang("ring", 3)
        await asyncio.sleep(2)
        await world.gang("wide", 2)
        await world.gang("absurd", 9)
        await world.pod("gated", schedulingGates=[{"name": "later"}])
        await asyncio.sleep(5)
        labels = {"profile": "allhands"}
        assert world.value("scheduler_schedule_attempts_total", result="scheduled", **labels) == 3
        assert world.value("scheduler_schedule_attempts_total", result="unschedulable", **labels) == 2 + 9
        assert world.value("scheduler_podgroup_schedule_attempts_total", result="unschedulable", **labels) == 2
        assert world.value("scheduler_pending_pods", queue="unschedulable") == 11
        assert world.value("scheduler_pending_pods", queue="gated") == 1
        assert world.value("scheduler_pending_pods", queue="active") == 0
        assert world.value("allhands_groups_waiting", reason="InsufficientResources") == 1
        assert world.value("allhands_groups_waiting", reason="GroupNeverFits") == 1
        assert world.value("allhands_binds_total", result="bound") == 3
        assert world.value("volcano_queue_allocated_milli_cpu", queue_name="") == 3_000
        assert world.value("scheduler_cache_size", type="nodes") == 1
        assert world.value("scheduler_pod_scheduling_sli_duration_seconds", attempts="1") == 3
        assert world.value("allhands_cycles_total", sort="telling") >= 2
    told = world.value("scheduler_schedule_attempts_total", result="unschedulable", profile="allhands")
    async with world.scheduling():
        await asyncio.sleep(5)
        assert world.value("scheduler_pending_pods", queue="unschedulable") == 11
        assert world.value("scheduler_schedule_attempts_total", result="unschedulable", profile="allhands") >= told


@on_virtual_time
async def test_a_group_that_waits_for_the_same_reason_is_not_counted_again() -> None:
    world = MeasuredWorld()
    await world.node("a", 2)
    async with world.scheduling():
        await world.gang("wide", 4)
        await asyncio.sleep(5)
        before = world.value("scheduler_podgroup_schedule_attempts_total", result="unschedulable", profile="allhands")
        for number in range(10):
            await world.pod(f"other-{number}", "10m")
            await asyncio.sleep(2)
        after = world.value("scheduler_podgroup_schedule_attempts_total", result="unschedulable", profile="allhands")
        assert before == after == 1


@on_virtual_time
async def test_binds_that_fail_are_errors_and_the_next_attempt_says_so() -> None:
    world = MeasuredWorld()
    await world.node("a", 4)

    def refuse(request: Request) -> Exception | None:
        return refused(500) if request.verb == "bind" and request.at_seconds < 2 else None

    world.noted.refuse = refuse  # type: ignore[assignment]
    async with world.scheduling():
        await world.gang("ring", 2)
        await asyncio.sleep(60)
        assert len(await world.bound()) == 2
        assert world.value("allhands_binds_total", result="failed") >= 1
        assert world.value("allhands_starts_partial_total") >= 1
        assert world.value("scheduler_podgroup_schedule_attempts_total", result="error", profile="allhands") >= 1
        assert world.value("scheduler_pod_scheduling_sli_duration_seconds", attempts="1") == 1
        assert world.value("scheduler_pod_scheduling_sli_duration_seconds", attempts="2") == 1
        assert world.value("scheduler_pod_scheduling_attempts") == 2


@on_virtual_time
async def test_victims_of_a_preemption_are_counted() -> None:
    world = MeasuredWorld()
    await world.node("a", 4)
    await world.priority("high", 1000)
    async with world.scheduling(), running(world.run_pods()):
        await world.gang("low", 4)
        await asyncio.sleep(5)
        await world.gang("urgent", 4, priority="high")
        await asyncio.sleep(30)
        assert world.value("scheduler_preemption_attempts_total") == 1
        assert world.value("scheduler_preemption_victims") == 1
        assert world.value("allhands_evictions_total", reason="Preempted") == 4


@on_virtual_time
async def test_how_far_the_expected_start_was_off_is_counted() -> None:
    world = MeasuredWorld()
    await world.node("a", 4)
    async with world.scheduling(), running(world.run_pods()):
        await world.gang("first", 4, expected_duration="100s")
        await asyncio.sleep(5)
        await world.gang("second", 4)
        await asyncio.sleep(60)
        for number in range(4):
            await world.phase(f"first-{number}", "Succeeded")
        await asyncio.sleep(5)
        assert max(await world.bound()) == "second-3"
        assert world.value("allhands_expected_start_error_seconds", direction="early") == 1
        assert world.value("allhands_expected_start_error_seconds", direction="late") == 0


@on_virtual_time
async def test_counting_changes_no_decision_and_repeats() -> None:
    texts = []
    for measured in (True, True, False):
        world = MeasuredWorld() if measured else SchedulerWorld()
        await world.node("a", 4)
        async with world.scheduling():
            begin = asyncio.get_running_loop().time()
            for number in range(4):
                await world.gang(f"ring-{number}", 2)
                await asyncio.sleep(1)
                if isinstance(world, MeasuredWorld):
                    world.metrics.text()
            bound = [(it.name, round(it.at_seconds - begin, 6)) for it in world.noted.of("bind")]
        text = world.metrics.text() if isinstance(world, MeasuredWorld) else ""
        texts.append((text, bound))
    assert texts[0][1] == texts[1][1] == texts[2][1]


@on_virtual_time
async def test_nodes_on_which_another_scheduler_put_too_much_are_counted() -> None:
    world = MeasuredWorld()
    await world.node("a", 2)
    await world.node("b", 2)
    async with world.scheduling():
        await world.gang("ours", 4)
        await asyncio.sleep(2)
        assert world.value("allhands_nodes_overcommitted") == 0
        await world.pod("rival", schedulerName="rival", nodeName="a")
        await asyncio.sleep(2)
        assert world.value("allhands_nodes_overcommitted") == 1
        await world.delete_pod("rival")
        await asyncio.sleep(2)
        assert world.value("allhands_nodes_overcommitted") == 0
