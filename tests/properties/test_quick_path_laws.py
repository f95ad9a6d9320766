"""What saves work changes nothing: one node at a time or all at once, with a memory or without, explained or silent."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.core.cycle import cycle
from allhands.core.facts import Facts
from allhands.core.memo import Memo
from allhands.core.policy import DEFAULT, Backfill, Policy
from allhands.core.room import Room
from allhands.core.scores.allocated import BinPack, LeastAllocated, MostAllocated
from allhands.core.scores.balanced import Balanced
from allhands.core.scores.resourcestrategy import ResourceStrategy, Strategy, StrategyType
from allhands.core.shapes import ShapeState
from allhands.core.view import Asks, NodeView
from allhands.core.world import World
from allhands.model.domain import Domain
from allhands.model.node import Node
from allhands.model.pod import Pod
from allhands.model.podgroup import SubGroup, TopologyMode, TopologyRule
from allhands.model.queue import Queue, QueueOrder, Quota
from allhands.model.resources import ResourceVector
from allhands.model.shape import PodShape
from tests.core_simulator import Job, Simulator, job, node
from tests.depth import examples

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allhands.core.columns import Column
    from allhands.core.extension import Score
    from allhands.core.plan import Plan
    from allhands.core.snapshot import Snapshot

GPU = "example.com/gpu"
seeds = st.integers(0, 2**32 - 1)
PACK_GPUS = Strategy(StrategyType.MOST_ALLOCATED, 3)
SCORES: Mapping[str, BinPack | LeastAllocated | Balanced | ResourceStrategy] = {
    "packing": BinPack(),
    "packing, with weights": BinPack({"cpu": 3, "memory": 1, GPU: 7}),
    "packing one resource": BinPack({GPU: 5}),
    "spreading": LeastAllocated(),
    "spreading over four": LeastAllocated({"cpu": 1, "memory": 1, GPU: 1, "pods": 3}),
    "most allocated": MostAllocated({"cpu": 1, "memory": 2}),
    "of what no node has": MostAllocated({"example.com/none": 2}),
    "balanced": Balanced(),
    "balanced over three": Balanced(("cpu", "memory", GPU)),
    "balanced over one": Balanced(("cpu",)),
    "strategies": ResourceStrategy(),
    "strategies, mixed": ResourceStrategy({"cpu": Strategy(), "example.com/*": PACK_GPUS}),
}


class AllAtOnce:
    """A score that cannot speak of one node."""

    def __init__(self, score: Score) -> None:
        self.name = score.name
        self._score = score

    def score(self, view: NodeView) -> Column:
        return self._score.score(view)


def _room(chance: random.Random, most_nodes: int = 40) -> Room:
    world = World()
    for number in range(chance.randint(1, most_nodes)):
        amounts = {
            "cpu": chance.choice((0, 1500, 4000, 7777, 2**52)),
            "memory": chance.choice((3, 5, 16, 999)) << 30,
            "pods": chance.choice((0, 2, 6, 110)),
            GPU: chance.choice((0, 3, 8)),
        }
        world.set_node(Node(f"node-{number:02}", ready=True, allocatable=ResourceVector.of(amounts)))
    for number in range(chance.randint(0, 2 * most_nodes)):
        world.set_pod(
            Pod("default", f"pod-{number}", uid=f"uid-{number}", node_name=f"node-{chance.randint(0, 12):02}",
                requests=ResourceVector.of({"cpu": chance.choice((100, 901, 9000)), "memory": 1 << 30}))
        )  # fmt: skip
    return Room(world.snapshot().columns)


def _shape(chance: random.Random) -> PodShape:
    requests = {"cpu": chance.choice((0, 251, 2000)), "memory": chance.choice((0, 1 << 29)), GPU: chance.choice((0, 1))}
    return PodShape.of(Pod("default", "pod", requests=ResourceVector.of(requests)), None)


@pytest.mark.parametrize("name", SCORES)
@settings(max_examples=examples(25))
@given(seed=seeds)
def test_a_score_says_of_one_node_what_it_says_of_all(name: str, seed: int) -> None:
    chance = random.Random(seed)
    room, shape, score = _room(chance), _shape(chance), SCORES[name]
    request = room.columns.request(shape.requests)
    assert request is not None
    view = NodeView(shape, request, room, slice(None))
    shares = np.array([view.free_share_after(column) for column in range(len(room.free))])
    of_one = score.score_of_one(Asks(shape, request, room.columns))
    assert [of_one(shares[:, row].tolist()) for row in range(len(room.columns))] == score.score(view).tolist()


@settings(max_examples=examples(150))
@given(seed=seeds)
def test_columns_of_a_shape_are_the_same_one_row_at_a_time_and_all_at_once(seed: int) -> None:
    chance = random.Random(seed)
    room, shape = _room(chance), _shape(chance)
    scores = tuple((SCORES[name], chance.randint(1, 9)) for name in chance.sample(sorted(SCORES), chance.randint(0, 3)))
    policies = (Policy(scores=scores), Policy(scores=tuple((AllAtOnce(score), weight) for score, weight in scores)))
    mask = np.array([chance.random() < 0.8 for _ in room.columns.names], dtype=np.bool_)
    static_score = chance.choice((0, np.array([chance.choice((0, 7)) for _ in room.columns.names], dtype=np.int64)))
    states = [ShapeState(shape, room.columns.request(shape.requests), room, policy) for policy in policies]
    for state in states:
        state.set_static(mask, static_score)
    for _ in range(6):
        few, all_at_once = states
        if chance.random() < 0.5:
            assert few.fit(room).tolist() == all_at_once.fit(room).tolist()
        few.refresh(room)
        all_at_once.refresh(room)
        assert few.key.tolist() == all_at_once.key.tolist()
        if room.holds_none(few.request):
            assert not room.fit(few.request, slice(None), 1).any()
        picks = [chance.randrange(len(room.columns)) for _ in range(chance.randint(1, 5))]
        room.take(few.request, picks, chance.choice((1, 1, -1)))


def _facts(chance: random.Random) -> Facts:
    orders = (QueueOrder.FIFO_BEST_EFFORT, QueueOrder.FIFO_BEST_EFFORT, QueueOrder.FIFO_STRICT, QueueOrder.FAIR)
    queues = [
        Queue(
            name,
            order=chance.choice(orders),
            backfill=chance.random() < 0.8,
            default_duration_seconds=chance.choice((None, 50)),
            quotas=(Quota("cpu", capability=chance.choice((3000, 9000))),) if chance.random() < 0.3 else (),
        )
        for name in ("q", "r")[: chance.randint(1, 2)]
    ]
    racks = (Domain("rack", 1, None, ("node-0", "node-1")),) if chance.random() < 0.4 else ()
    return Facts(accounts=tuple(queues), domains=racks)


def _jobs(chance: random.Random, queues: list[str]) -> list[Job]:
    knows = chance.random()
    jobs = []
    for number in range(chance.randint(3, 18)):
        seconds = chance.choice((1, 20, 70, 300))
        count = chance.choice((1, 1, 1, 2, 5))
        rule = TopologyRule(mode=TopologyMode.HARD, highest_tier=1) if chance.random() < 0.1 else None
        jobs.append(
            job(
                f"job-{number:02}",
                count,
                seconds=seconds,
                estimate=seconds * chance.choice((1, 1, 3)) if chance.random() < knows else None,
                created=chance.randint(0, 120),
                queue=chance.choice(queues),
                priority=chance.choice((0, 0, 0, 5)),
                members=SubGroup(min_count=chance.randint(1, count), topology=rule),
                deadline=chance.choice((None, None, None, 400)),
                cpu=chance.choice((500, 1000, 1500, 4000, 90_000)),
            )
        )
    return jobs


@settings(max_examples=examples(60))
@given(seed=seeds)
def test_who_is_not_told_why_gets_the_same_and_no_memory_shows(seed: int) -> None:
    """Whole lives of clusters: each plan beside that of a silent policy, with a memory of its own and with none."""
    chance = random.Random(seed)
    policy = msgspec.structs.replace(
        DEFAULT,
        backfill=chance.choice((Backfill.OFF, Backfill.EASY, Backfill.EASY, Backfill.CONSERVATIVE)),
        preempts=chance.random() < 0.3,
        reclaims=chance.random() < 0.3,
        drain_after_seconds=chance.choice((30, 3600)),
    )
    silent = msgspec.structs.replace(policy, explains=False)
    quick = msgspec.structs.replace(silent, tells_promises=False)
    memo, quick_memo = Memo(), Memo()

    def check(snapshot: Snapshot, plan: Plan, now: int) -> None:
        expected = msgspec.structs.replace(plan, waits=())
        assert cycle(snapshot, silent, memo, now)[0] == expected
        assert cycle(snapshot, silent, Memo(), now)[0] == expected
        for other in (quick_memo, Memo()):
            found = cycle(snapshot, quick, other, now)[0]
            assert set(found.holds) <= set(plan.holds)
            leaving = tuple(hold for hold in plan.holds if hold.awaits_leaving)
            assert tuple(hold for hold in found.holds if hold.awaits_leaving) == leaving
            assert msgspec.structs.replace(found, holds=plan.holds) == expected
        assert cycle(snapshot, policy, Memo(), now)[0] == plan

    facts = _facts(chance)
    nodes = [node(f"node-{number}", cpu=chance.choice((2000, 4000))) for number in range(chance.randint(1, 4))]
    simulator = Simulator(nodes, facts, policy=policy, check=check)
    simulator.submit(*_jobs(chance, [account.name for account in facts.accounts]))
    simulator.run(600)
