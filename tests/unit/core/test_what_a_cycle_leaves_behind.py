"""What a cycle leaves behind: nothing for the collector, and for the next cycle that it can see at a glance that nobody
finds room."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest

from allhands.core.cycle import NOTHING
from allhands.core.work import Work
from allhands.sim.decisions import DecisionSimulator
from allhands.sim.disciplines import discipline
from allhands.sim.machine import Machine
from allhands.sim.traces.job import TraceJob

if TYPE_CHECKING:
    from allhands.core.plan import Plan
    from allhands.core.snapshot import Snapshot

ENDING_ONE_BY_ONE = [TraceJob(f"running-{number}", 0, 10 * (number + 1), 1, 100) for number in range(8)]


def _glances(name: str, waiting: list[TraceJob]) -> list[int]:
    """When it was seen at a glance that nobody starts."""
    seen: list[int] = []

    def check(snapshot: Snapshot, plan: Plan, now: int) -> None:
        if plan is NOTHING:
            seen.append(now)

    DecisionSimulator(Machine(8), discipline(name), check=check).run([*ENDING_ONE_BY_ONE, *waiting])
    return seen


@pytest.mark.parametrize("name", ["fcfs-greedy", "fcfs-easy", "wfp3-greedy", "wfp3-easy"])
def test_as_long_as_the_narrowest_finds_no_room_nobody_is_asked(name: str) -> None:
    wide = [TraceJob("six", 1, 5, 6, 5), TraceJob("four", 2, 5, 4, 5)]
    seen = _glances(name, wide)
    # Four have room from the fourth end on.
    assert [now for now in seen if now < 40] == [10, 20, 30]


def test_in_a_strict_queue_it_is_enough_that_the_first_finds_no_room() -> None:
    seen = _glances("fcfs-strict", [TraceJob("six", 1, 5, 6, 5), TraceJob("one", 2, 5, 1, 5)])
    assert [now for now in seen if now < 60] == [2, 10, 20, 30, 40, 50]


def test_a_cycle_leaves_nothing_for_the_collector() -> None:
    jobs = [
        *ENDING_ONE_BY_ONE,
        TraceJob("six", 1, 5, 6, 5),
        TraceJob("one", 2, 5, 1, 5),
        TraceJob("long", 2, 900, 2, 900),
    ]
    for name in ("fcfs-easy", "fcfs-strict"):
        simulator = DecisionSimulator(Machine(8), discipline(name))
        gc.collect()
        gc.disable()
        try:
            simulator.run(jobs)
            assert not [it for it in gc.get_objects() if type(it) is Work]
        finally:
            gc.enable()
