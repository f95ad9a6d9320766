"""What a cycle leaves behind: nothing for the collector, and for the next cycle that it can see at a glance that nobody
finds room."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import msgspec
import pytest

from allhands.core.cycle import NOTHING, cycle
from allhands.core.memo import Memo
from allhands.core.policy import DEFAULT
from allhands.core.work import Work
from allhands.model.queue import Queue
from allhands.sim.decisions import DecisionSimulator
from allhands.sim.disciplines import discipline
from allhands.sim.machine import Machine
from allhands.sim.traces.job import TraceJob
from tests.scenarios.cluster import Cluster, cpu

if TYPE_CHECKING:
    from allhands.core.plan import Plan
    from allhands.core.snapshot import Snapshot

SILENT = msgspec.structs.replace(DEFAULT, explains=False, tells_promises=False)
"""As a scheduler decides between the cycles in which it tells: it may evict."""
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


class _Silent:
    """Cycles that tell nothing, over the same cluster as those that do."""

    def __init__(self) -> None:
        """Eight run, each for itself, and a gang of four waits."""
        self.cluster = Cluster("a b", cpu=4)
        for number in range(8):
            self.cluster.gang(f"runs-{number}", cpu=1, group={"priority": 5})
        self.cluster.run(2)
        self.cluster.gang("waits", 4, cpu=1, group={"priority": 5})
        self._memo = Memo()
        self.decide()

    def decide(self) -> Plan:
        snapshot, now = self.cluster.world.snapshot(), self.cluster.now
        plan, self._memo = cycle(snapshot, SILENT, self._memo, now)
        assert plan == cycle(snapshot, SILENT, Memo(), now)[0], "a memo changed the plan"
        return plan


def test_where_nobody_could_be_evicted_it_is_seen_at_a_glance_too() -> None:
    silent = _Silent()
    glances = []
    for number in range(3):
        silent.cluster.finish(f"runs-{number}")
        glances.append(silent.decide() is NOTHING)
    assert glances == [True, True, True], "there is room for one, for two, for three"
    silent.cluster.finish("runs-3")
    assert silent.decide().starts


def test_who_outranks_those_who_run_is_asked() -> None:
    silent = _Silent()
    silent.cluster.finish("runs-0").gang("outranks", 2, cpu=1, group={"priority": 9})
    assert silent.decide().evictions


def test_who_may_have_room_of_another_queue_is_asked() -> None:
    silent = _Silent()
    accounts = (Queue("q", quotas=(cpu(deserved=2),)), Queue("owner", quotas=(cpu(deserved=6),)))
    silent.cluster.know(accounts=accounts)
    silent.decide()
    silent.cluster.gang("owed", 2, cpu=1, queue="owner")
    assert silent.decide().evictions


def test_a_cycle_that_looks_for_victims_leaves_nothing_for_the_collector() -> None:
    silent = _Silent()
    silent.cluster.know(accounts=(Queue("q"), Queue("other"))).gang("else", 3, cpu=1, queue="other")
    silent.decide()
    gc.collect()
    gc.disable()
    try:
        for number in range(3):
            silent.cluster.finish(f"runs-{number}")
            silent.decide()
        assert not [it for it in gc.get_objects() if type(it) is Work]
    finally:
        gc.enable()
