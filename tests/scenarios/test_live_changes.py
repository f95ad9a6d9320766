"""What happens to what runs and what waits when queues, nodes, groups and policies change under them: nothing is killed
unless the change says so, and nothing is lost."""

from __future__ import annotations

import msgspec
import pytest

from allhands.core.policy import DEFAULT, Policy, QueueChoice
from allhands.core.scores.allocated import LeastAllocated
from allhands.model.podgroup import SubGroup
from allhands.model.queue import Account, Queue, QueueOrder
from allhands.model.reason import Reason
from tests.scenarios.cluster import Cluster, amounts, cpu

KIND = msgspec.structs.replace(DEFAULT, reclaims=False)
"""Does not take back what queues have borrowed."""


def busy(*accounts: Account | Queue) -> Cluster:
    """Two gangs of two cores each run in queue q, and one waits for want of quota."""
    it = Cluster("n1 n2", policy=KIND).know(*(accounts or (Queue("q", quotas=(cpu(capability=4),)),)))
    return it.gang("one", 2).gang("two", 2).gang("three", 2).settle()


def runs(it: Cluster) -> list[int]:
    return [it.running(name) for name in ("one", "two", "three")]


def test_a_cap_lowered_below_use_kills_nothing_and_starts_nothing() -> None:
    it = busy().know(Queue("q", quotas=(cpu(capability=1),))).settle()
    assert runs(it) == [2, 2, 0]
    assert it.why("three") == (
        'Queue "q" uses 4 of its capability of 1 cpu; the group asks for 2. '
        "It can never start with these quotas, even if nothing else ran."
    )
    assert it.evicted == []
    it.finish("one").finish("two").settle()
    assert runs(it) == [0, 0, 0]
    it.know(Queue("q", quotas=(cpu(capability=2),))).settle()
    assert it.running("three") == 2


def test_a_cap_that_is_raised_starts_who_waits() -> None:
    it = busy().know(Queue("q", quotas=(cpu(capability=6),))).settle()
    assert runs(it) == [2, 2, 2]


def test_a_queue_that_is_moved_takes_its_use_along() -> None:
    it = busy(
        Account("a"), Account("b", quotas=(cpu(capability=5),)), Queue("q", "a", (cpu(capability=8),)), Queue("r", "b")
    )
    assert runs(it) == [2, 2, 2]
    it.gang("other", 1, queue="r").settle()
    it.know(Account("a"), Account("b", quotas=(cpu(capability=5),)), Queue("q", "b"), Queue("r", "b"))
    it.gang("late", 1, queue="r").settle()
    assert (runs(it), it.running("other"), it.running("late")) == ([2, 2, 2], 1, 0)
    assert it.why("late") == 'Queue "b" uses 7 of its capability of 5 cpu; the group asks for 1.'
    assert it.evicted == []


def test_a_queue_that_is_deleted_lets_run_what_runs_and_tells_who_waits() -> None:
    it = busy().know(Queue("another")).settle()
    assert runs(it) == [2, 2, 0]
    assert it.why("three") == 'Queue "q" does not exist.'
    it.know(Queue("q")).settle()
    assert runs(it) == [2, 2, 2]
    assert it.evicted == []


def test_a_tree_that_is_relabelled_kills_nothing() -> None:
    it = busy(Account("old"), Queue("q", "old", (cpu(capability=4),)))
    it.know(Account("new", quotas=(cpu(capability=4),)), Queue("renamed", "new"))
    for name in ("one", "two", "three"):
        it.change(name, queue="renamed")
    it.settle()
    assert runs(it) == [2, 2, 0]
    assert it.why("three") == 'Queue "new" uses 4 of its capability of 4 cpu; the group asks for 2.'
    assert it.evicted == []


def test_a_queue_whose_parent_vanishes_stops_starting_and_goes_on_when_it_returns() -> None:
    it = busy(Account("top"), Queue("q", "top", (cpu(capability=4),)))
    it.know(Queue("q", "top", (cpu(capability=6),))).settle()
    assert runs(it) == [2, 2, 0]
    assert it.why("three") == 'account "q" has the parent "top", which does not exist'
    it.know(Account("top"), Queue("q", "top", (cpu(capability=6),))).settle()
    assert runs(it) == [2, 2, 2]


POLICIES = {
    "by priority alone": msgspec.structs.replace(DEFAULT, queue_choice=QueueChoice.PRIORITY),
    "spreading": msgspec.structs.replace(DEFAULT, scores=((LeastAllocated(), 1),)),
    "without any plugin": Policy(),
    "that neither preempts nor reclaims": msgspec.structs.replace(DEFAULT, preempts=False, reclaims=False),
}


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_that_is_replaced_kills_nothing(name: str) -> None:
    it = busy()
    it.policy = POLICIES[name]
    it.settle()
    assert runs(it) == [2, 2, 0]
    it.finish("one").settle()
    assert runs(it) == [0, 2, 2]
    assert it.evicted == []


def test_a_queue_that_becomes_strict_keeps_what_runs() -> None:
    it = Cluster("n1").gang("big", 2, cpu=3).gang("small", 1).settle()
    it.know(Queue("q", order=QueueOrder.FIFO_STRICT)).gang("late", 1).settle()
    assert (it.running("small"), it.running("late")) == (1, 0)
    assert it.reason("late") is Reason.BEHIND_OTHERS


def test_a_group_whose_minimum_is_raised_while_it_runs_is_completed_and_never_killed() -> None:
    it = Cluster("n1").gang("g", 2).settle()
    it.change("g", members=SubGroup(min_count=5)).settle()
    assert it.running("g") == 2
    assert it.evicted == []
    it.more("g", 3).nodes("n2").settle()
    assert it.running("g") == 5


def test_a_group_whose_minimum_is_lowered_starts() -> None:
    it = Cluster("n1").gang("g", 6).settle()
    assert it.running("g") == 0
    it.change("g", members=SubGroup(min_count=4)).settle()
    assert it.running("g") == 4


def test_a_node_that_shrinks_below_its_use_keeps_its_pods_and_gets_no_more() -> None:
    it = Cluster("n1").gang("g", 4).settle().nodes("n1", cpu=2).gang("late", 1).settle()
    assert (it.running("g"), it.running("late")) == (4, 0)
    it.finish("g").settle()
    assert it.running("late") == 1


def test_a_node_that_is_cordoned_keeps_its_pods_and_gets_no_more() -> None:
    it = Cluster("n1").gang("g", 1).settle().nodes("n1", unschedulable=True).gang("late", 1).settle()
    assert (it.running("g"), it.running("late")) == (1, 0)
    assert it.why("late").startswith("1 of 1 nodes have a taint that the pod does not tolerate")
    it.nodes("n1").settle()
    assert it.running("late") == 1


def test_a_pod_that_is_resized_in_place_is_counted_by_what_it_has_now() -> None:
    it = Cluster("n1").gang("g", 1, cpu=1).settle().alter("g-0", requests=amounts(cpu=4)).gang("late", 1).settle()
    assert it.running("late") == 0
    it.alter("g-0", requests=amounts(cpu=2)).settle()
    assert it.running("late") == 1


def test_a_group_that_is_deleted_frees_those_who_wait_behind_it() -> None:
    it = Cluster("n1").know(Queue("q", order=QueueOrder.FIFO_STRICT)).gang("big", 9).gang("small", 1).settle()
    assert it.running("small") == 0
    for uid in [uid for uid, member in it.pods.items() if member.group == "default/big"]:
        it.world.delete_pod(uid)
        del it.pods[uid]
    it.world.delete_group("default/big")
    it.settle()
    assert it.running("small") == 1


def test_a_group_that_is_suspended_stays_out_and_comes_back() -> None:
    it = Cluster("n1").gang("g", 2, group={"suspended": True}).settle()
    assert it.why("g") == "It is suspended."
    it.change("g", suspended=False).settle()
    assert it.running("g") == 2
