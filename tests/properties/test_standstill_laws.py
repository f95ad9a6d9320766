"""Replays of random traces: who remembers, and sees at a glance that nobody can start, decides like who does not."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.core.cycle import cycle
from allhands.core.memo import Memo
from allhands.core.policy import Backfill
from allhands.sim.decisions import DecisionSimulator
from allhands.sim.disciplines import discipline
from allhands.sim.machine import Machine
from allhands.sim.traces.job import TraceJob
from tests.depth import examples

if TYPE_CHECKING:
    from allhands.core.plan import Plan
    from allhands.core.snapshot import Snapshot

ORDERS = ("fcfs", "fcfs", "sjf", "saf", "f1", "f2", "wfp3")
WAYS = ("strict", "easy", "easy", "greedy")
seeds = st.integers(0, 2**32 - 1)


def _trace(chance: random.Random, units: int) -> list[TraceJob]:
    """Bursts and pauses, estimates that are right, too long and too short; some for the whole machine."""
    jobs, now = [], 0
    widths = [1, 1, 2, max(1, units // 4), max(1, units // 2), units]
    for number in range(chance.randint(5, 30)):
        now += chance.choice((0, 0, 1, 3, 10, 40))
        run = chance.choice((1, 5, 20, 20, 60, 150))
        expected = max(1, run * chance.choice((1, 1, 2, 5)) // chance.choice((1, 1, 1, 3)))
        jobs.append(TraceJob(str(number), now, run, chance.choice(widths), expected))
    return jobs


@settings(max_examples=examples(60))
@given(seed=seeds)
def test_what_a_replay_remembers_does_not_show_in_what_it_decides(seed: int) -> None:
    chance = random.Random(seed)
    nodes = chance.choice((1, 1, 1, 2, 4))
    machine = Machine(nodes * chance.choice((2, 4, 6)), nodes)
    named = discipline(f"{chance.choice(ORDERS)}-{chance.choice(WAYS)}")
    if chance.random() < 0.3:
        policy = msgspec.structs.replace(named.policy, drain_after_seconds=chance.choice((20, 100)))
        named = msgspec.structs.replace(named, policy=policy)
    if chance.random() < 0.3:
        most = chance.choice((1, 3, 64))
        policy = msgspec.structs.replace(named.policy, backfill=Backfill.CONSERVATIVE, max_reservations=most)
        named = msgspec.structs.replace(named, policy=policy)
    quick = msgspec.structs.replace(named.policy, tells_promises=False)

    def check(snapshot: Snapshot, plan: Plan, now: int) -> None:
        assert cycle(snapshot, quick, Memo(), now)[0] == plan
        told = cycle(snapshot, named.policy, Memo(), now)[0]
        assert told.starts == plan.starts

    jobs = _trace(chance, machine.units)
    checked = DecisionSimulator(machine, named, check=check).run(jobs)
    assert DecisionSimulator(machine, named).run(jobs) == checked, "snapshots that do not last show the same"
