"""Past use of users and namespaces, folded at events: as if it had been added up second by second."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.core.cycle import cycle
from allhands.core.facts import Facts, PastRuns
from allhands.core.memo import Memo
from allhands.core.policy import DEFAULT
from allhands.core.quota.usage import AMOUNT_BITS, Usage, UsageKey, UsageLedger
from allhands.core.world import World
from allhands.model.node import Node
from allhands.model.pod import Pod, PodPhase
from allhands.model.podgroup import PodGroup, SubGroup
from allhands.model.queue import Queue, ShareBy
from allhands.model.resources import ResourceVector
from allhands.runtime.scheduling.past_usage import MOST_BYTES, PastUsage
from allhands.runtime.scheduling.run_times import RunTimes
from tests.depth import examples
from tests.scheduler_world import SchedulerWorld
from tests.virtual import on_virtual_time

if TYPE_CHECKING:
    from allhands.core.policy import Policy

LONG = msgspec.structs.replace(DEFAULT, half_life_seconds=10 * 365 * 24 * 3600)
"""So slow a fading that amounts are sums."""


class Counted:
    """A cluster of ten cores, shared by namespace, whose scheduler keeps past use."""

    def __init__(self, policy: Policy = LONG) -> None:
        self.world = World()
        allocatable = ResourceVector.of({"cpu": 10_000, "pods": 100})
        self.world.set_node(Node(name="node", labels={}, allocatable=allocatable))
        self.world.set_facts(Facts(accounts=(Queue("q", share_by=ShareBy.NAMESPACE),)))
        self.policy = policy
        self.memo = Memo()
        self.usage = PastUsage(policy)

    def run(self, namespace: str, name: str, cores: int) -> None:
        self.world.set_group(PodGroup(namespace, name, "q", uid=name, members=SubGroup(min_count=1)))
        pod = Pod(
            namespace,
            name,
            uid=name,
            node_name="node",
            scheduler_name="allhands",
            phase=PodPhase.RUNNING,
            requests=ResourceVector.of({"cpu": cores * 1_000}),
        )
        self.world.set_pod(pod, group=f"{namespace}/{name}", ours=True)

    def end(self, name: str) -> None:
        self.world.delete_pod(name)

    def decide(self, now: int) -> bool:
        is_news = self.usage.fold(now)
        snapshot = self.world.snapshot()
        _, self.memo = cycle(snapshot, self.policy, self.memo, now)
        self.usage.decided(snapshot, self.memo)
        return is_news

    def seconds(self, namespace: str) -> float:
        """Seconds of the whole cluster."""
        entry = self.usage.ledger.entry(UsageKey("q", ShareBy.NAMESPACE, namespace))
        return 0.0 if entry is None else entry.amount / (1_000_000 << AMOUNT_BITS)


def test_each_namespace_is_charged_for_what_it_had_until_it_ended() -> None:
    counted = Counted()
    counted.run("blue", "a", 5)
    counted.run("green", "b", 2)
    counted.decide(1_000)
    counted.decide(1_001)
    counted.end("a")
    counted.decide(1_101)
    counted.decide(1_201)
    assert counted.seconds("blue") == pytest.approx(0.5 * 100, rel=0.001)
    assert counted.seconds("green") == pytest.approx(0.2 * 200, rel=0.001)


@settings(max_examples=examples(50))
@given(st.lists(st.tuples(st.sampled_from(["blue", "green"]), st.integers(1, 4), st.integers(1, 50)), max_size=6))
def test_how_often_it_is_asked_leaves_no_trace(runs: list[tuple[str, int, int]]) -> None:
    often, seldom = Counted(DEFAULT), Counted(DEFAULT)
    for each in (often, seldom):
        each.run("blue", "first", 1)
        each.run("green", "other", 1)
        each.decide(0)
        each.decide(1)
    now = 1
    for number, (namespace, cores, length) in enumerate(runs):
        for each in (often, seldom):
            each.run(namespace, f"run-{number}", cores)
            each.decide(now)
        for moment in range(now, now + length):
            often.decide(moment)
        now += length
        for each in (often, seldom):
            each.end(f"run-{number}")
            each.decide(now)
    for namespace in ("blue", "green"):
        assert often.seconds(namespace) == pytest.approx(seldom.seconds(namespace), rel=1e-4, abs=1e-3)


def test_a_clock_that_goes_back_changes_nothing() -> None:
    counted = Counted()
    counted.run("blue", "a", 5)
    for now in (100, 110):
        counted.decide(now)
    before = counted.usage.ledger
    assert not counted.decide(50)
    assert not counted.decide(110)
    assert counted.usage.ledger == before
    assert counted.decide(120)


def test_a_ledger_that_would_not_fit_loses_the_least() -> None:
    usage = PastUsage(DEFAULT)
    count = 5_000
    entries = (Usage(UsageKey("q", ShareBy.USER, f"{number:0250d}"), number, 0) for number in range(count))
    usage.ledger = UsageLedger(tuple(entries))
    text = usage.encode()
    assert MOST_BYTES // 2 < len(text) <= MOST_BYTES
    other = PastUsage(DEFAULT)
    other.decode(text, 10)
    kept = [it.amount for it in other.ledger.entries]
    assert kept == list(range(count - len(kept), count))


@on_virtual_time
async def test_run_times_of_many_queues_fit_into_one_object() -> None:
    runs = RunTimes(SchedulerWorld().scheduler.watched.jobs)
    runs.decode(msgspec.json.encode({f"{number:0100d}": [1 << 30] * 80 for number in range(1_000)}))
    text = runs.encode()
    assert 100_000 < len(text) < 200_000
    assert {len(seconds) for seconds in msgspec.json.decode(text).values()} == {1}
    runs.decode(msgspec.json.encode({"q": list(range(80))}))
    assert msgspec.json.decode(runs.encode()) == {"q": list(range(30, 80))}
    assert runs.past_runs(["q", "other"]) == {"q": PastRuns(54, 50)}
    assert runs.past_runs([]) == {}
