"""Bugs that other schedulers had, by their numbers, each as what must happen here instead."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from allhands.core.cycle import cycle
from allhands.core.gates.overcommit import Overcommit
from allhands.core.memo import Memo
from allhands.core.plan import Plan
from allhands.core.policy import DEFAULT
from allhands.core.room import Room
from allhands.core.shapes import ShapeState
from allhands.core.statement import Statement
from allhands.model.pod import Pod, PodPhase
from allhands.model.podgroup import SubGroup, TaskMinimum, TopologyMode, TopologyRule
from allhands.model.queue import Account, Queue
from allhands.model.reason import Reason
from allhands.model.resources import ResourceVector
from allhands.model.volume import PersistentVolumeClaim, VolumeFacts
from tests.scenarios.cluster import Cluster, amounts, cpu, nodes_of, started


def used(it: Cluster, node: str, resource: str = "cpu") -> int:
    columns = it.world.snapshot().columns
    return int(columns.used[columns.column_by_resource[resource], columns.row_by_name[node]])


# -- gangs and binding


def test_volcano_6010_a_gang_that_is_enlarged_gets_all_of_its_new_pods_or_none() -> None:
    """A stale group in the cache made a scaled-up gang look complete, and a part of it was bound."""
    it = Cluster("n1", cpu=8).gang("g", 2).settle()
    it.change("g", members=SubGroup(min_count=4)).more("g", 1).settle()
    assert it.running("g") == 2
    assert it.why("g") == "3 of the 4 pods that must start together exist."
    it.more("g", 1).settle()
    assert it.running("g") == 4


def test_volcano_5805_a_gang_that_lost_a_node_is_repaired_before_a_queue_that_has_nothing_yet() -> None:
    """Dominant-share order preferred newcomers without any share, so that a damaged gang never got its member back."""
    it = Cluster("n1 n2").know(Queue("q", reclaimable=False), Queue("new")).gang("g", 2, cpu=4, on="n1 n2").settle()
    it.world.delete_node("n2")
    it.lose("g-1").nodes("n3")
    for number in range(3):
        it.gang(f"newcomer{number}", 1, cpu=4, queue="new", group={"created_at_seconds": 0})
    it.settle()
    assert it.where("g") == ["n1", "n3"]


def test_volcano_dceaa6c_what_is_taken_back_twice_or_carried_out_twice_counts_once() -> None:
    """A statement was finalized twice, and every operation in it was applied twice."""
    it = Cluster("n1").gang("g", 1, cpu=2)
    bind = it.decide().binds[0]
    for _ in range(2):
        it.world.assume_bound(bind.uid, bind.node, it.now)
    for _ in range(2):
        it.alter("g-0", node_name="n1", phase=PodPhase.RUNNING)
    assert used(it, "n1") == 2000
    room = Room(it.world.snapshot().columns)
    before = room.free.copy()
    statement = Statement(room, lambda _state, _row, _sign: None)
    shape = it.world.snapshot().pods.shapes[0]
    state = ShapeState(shape, room.columns.request(shape.requests), room, DEFAULT)
    statement.place(state, [0, 0], noticed=False)
    statement.rollback(0)
    statement.rollback(0)
    assert np.array_equal(room.free, before)


def test_volcano_0b82db7_a_pod_that_is_being_bound_is_charged_once() -> None:
    """Pods in the state Binding were counted as running and as promised, so that their queue looked full."""
    it = Cluster("n1", cpu=8).know(Queue("q", quotas=(cpu(capability=4),))).gang("one", 1, cpu=2)
    it.world.assume_bound("uid-one-0", "n1", it.now)
    it.gang("two", 1, cpu=2)
    assert started(it.decide()) == ["two"]


def test_scheduler_plugins_930_a_gang_that_lost_a_pod_since_it_was_counted_binds_nothing() -> None:
    """Members were let through on a count from before one of them was deleted, and half a gang got nodes."""
    it = Cluster("n1").gang("g", 3)
    assert len(it.decide().binds) == 3
    it.world.delete_pod("uid-g-1")
    assert it.decide().binds == ()


def test_scheduler_plugins_713_a_gang_that_cannot_fit_holds_nothing_that_others_could_use() -> None:
    """Pods that waited for the rest of their gang held their places, although the rest could never come."""
    it = Cluster("n1").gang("never", 9).gang("small", 4).settle()
    assert (it.running("never"), it.running("small")) == (0, 4)


def test_scheduler_plugins_682_what_cannot_start_costs_and_says_nothing_until_something_changes() -> None:
    """A group that could not be scheduled woke its own members again and again, and blocked the scheduler."""
    it = Cluster("n1")
    for number in range(200):
        it.gang(f"g{number:03d}", 9)
    it.settle()
    snapshot = it.world.snapshot()
    first, memo = cycle(snapshot, it.policy, Memo(), it.now)
    again, memo = cycle(it.world.snapshot(), it.policy, memo, it.now + 1)
    assert again is first
    assert not any(wait.say for wait in first.waits)


def test_scheduler_plugins_117_pods_of_two_gangs_that_come_in_turn_do_not_block_each_other() -> None:
    """Pods of several groups stood interleaved in the queue; each group got a part of the room, and all waited."""
    it = Cluster("n1", cpu=6).gang("a", 0, minimum=4).gang("b", 0, minimum=4)
    for _ in range(4):
        it.more("b", 1).more("a", 1)
    it.settle()
    assert (it.running("a"), it.running("b")) == (4, 0)


def test_koordinator_872_two_pairs_of_gangs_do_not_each_hold_half() -> None:
    """Gangs that must start together in pairs each got one half of their pair, for ever."""
    pair = SubGroup(children=(SubGroup("one", min_count=2), SubGroup("other", min_count=2)))
    it = Cluster("n1", cpu=6).gang("ab", 4, parts="one one other other", members=pair)
    it.gang("cd", 4, parts="one one other other", members=pair).settle()
    assert (it.running("ab"), it.running("cd")) == (4, 0)


def test_koordinator_3185_a_pod_that_was_deleted_while_it_waited_is_never_placed() -> None:
    """A pod that was deleted during a failed attempt was queued again as a ghost."""
    it = Cluster("n1").gang("full", 1, cpu=4, on="n1").gang("ghost", 1).settle()
    it.world.delete_pod("uid-ghost-0")
    it.world.delete_group("default/ghost")
    it.finish("full")
    assert it.decide() == Plan()


def test_koordinator_1741_2673_a_binding_that_failed_or_came_late_leaves_nothing_behind() -> None:
    """A binding that failed, or timed out and then succeeded, left its reservation behind for ever."""
    it = Cluster("n1 n2").gang("g", 1, cpu=4)
    it.world.assume_bound("uid-g-0", "n1", it.now)
    it.world.assume_bound("uid-g-0", "", it.now)
    assert (used(it, "n1"), used(it, "n2")) == (0, 0)
    it.world.assume_bound("uid-g-0", "n2", it.now)
    it.alter("g-0", node_name="n1", phase=PodPhase.RUNNING)
    assert (used(it, "n1"), used(it, "n2")) == (4000, 0)
    it.world.delete_pod("uid-g-0")
    assert (used(it, "n1"), used(it, "n2"), used(it, "n1", "pods")) == (0, 0, 0)


# -- quotas and queues


@pytest.mark.parametrize("units", [2**63 - 1, 2**62, 2**53 - 1])
def test_kueue_11140_requests_whose_sum_leaves_64_bits_do_not_pass_a_quota(units: int) -> None:
    """Sums of requests wrapped around to small or negative numbers, and were allowed."""
    it = Cluster("n1").know(Queue("q", quotas=(cpu(capability=4),)))
    it.gang("g", 4, requests=ResourceVector.of({"cpu": units})).gang("h", 1).settle()
    assert (it.running("g"), it.running("h")) == (0, 1)


def test_kueue_13391_a_negative_request_gives_nobody_room() -> None:
    """Requests below zero lowered the use of a queue, and others got what was not there."""
    it = Cluster("n1").know(Queue("q", quotas=(cpu(capability=2),)))
    it.gang("bad", 1, on="n1", requests=ResourceVector.of({"cpu": -4000})).gang("g", 1, cpu=3).settle()
    assert it.running("g") == 0


def test_kueue_6570_9508_the_heartbeats_of_nodes_change_nothing() -> None:
    """Updates of nodes that changed nothing put every waiting workload back into the queue."""
    it = Cluster("n1 n2").gang("g", 9, cpu=4).settle()
    plan, memo = cycle(it.world.snapshot(), it.policy, Memo(), it.now)
    it.nodes("n1 n2")
    again, _ = cycle(it.world.snapshot(), it.policy, memo, it.now)
    assert again is plan


def test_kueue_12752_a_gang_whose_topology_vanishes_gives_back_exactly_what_it_had() -> None:
    """Use was not given back when the topology of a workload was gone."""
    it = Cluster("n1 n2").know(Queue("q", quotas=(cpu(capability=4),))).domain("r", "n1 n2")
    rack = SubGroup(min_count=2, topology=TopologyRule(TopologyMode.HARD, 1))
    it.gang("g", 2, cpu=2, members=rack).gang("next", 1, cpu=4).settle()
    it.know(domains=()).settle()
    assert (it.running("g"), it.running("next")) == (2, 0)
    it.finish("g").settle()
    assert it.running("next") == 1


def test_kueue_12963_a_gang_scaled_below_what_has_succeeded_is_whole_and_holds_only_what_runs() -> None:
    """Scaling a workload to fewer pods than had succeeded already made its use wrong."""
    it = Cluster("n1").know(Queue("q", quotas=(cpu(capability=4),))).gang("g", 4).settle()
    for number in range(3):
        it.alter(f"g-{number}", phase=PodPhase.SUCCEEDED)
    it.change("g", members=SubGroup(min_count=2)).gang("next", 3).settle()
    assert (it.running("g"), it.running("next")) == (1, 3)


@pytest.mark.parametrize("members", [SubGroup(), SubGroup(children=(SubGroup("a"), SubGroup("b")), min_children=0)])
def test_kueue_10510_a_group_with_parts_of_no_pods_comes_to_an_end(members: SubGroup) -> None:
    """A set of zero pods was scheduled again and again without end."""
    it = Cluster("n1").gang("empty", 0, members=members).gang("g", 1).settle()
    assert it.running("g") == 1
    it.more("empty", 1).settle()
    assert it.running("empty") == 1


def test_kueue_13266_counts_that_do_not_divide_evenly_do_no_harm() -> None:
    """A group whose pods could not be cut into equal slices crashed the controller for ever."""
    parts = tuple(SubGroup(name, min_count=2, topology=TopologyRule(TopologyMode.HARD, 1)) for name in "ab")
    it = Cluster("n1 n2").domain("hall", tier=2).domain("r1", "n1", "hall").domain("r2", "n2", "hall")
    it.gang("g", 5, cpu=2, parts="a a a b b", members=SubGroup(min_count=4, children=parts)).settle()
    assert it.running("g") == 4


def test_yunikorn_251_the_end_of_one_pod_gives_back_that_pod_and_no_more() -> None:
    """After a restart, the end of one pod released everything that its application had."""
    it = Cluster("n1").know(Queue("q", quotas=(cpu(capability=4),)))
    it.gang("g", 4, minimum=1, on="n1 n1 n1 n1", owner="").gang("next", 2)
    it.alter("g-0", phase=PodPhase.SUCCEEDED).settle()
    assert (it.running("g"), it.running("next")) == (3, 0)
    it.alter("g-1", phase=PodPhase.SUCCEEDED).settle()
    assert it.running("next") == 2


def test_yunikorn_2171_nothing_is_put_on_a_node_that_is_gone() -> None:
    """A node that was removed while pods were being placed kept its allocations."""
    it = Cluster("n1 n2").gang("g", 1, cpu=4)
    assert nodes_of(it.decide(), "g") == ["n1"]
    it.world.assume_bound("uid-g-0", "n1", it.now)
    it.world.delete_node("n1")
    plan = it.decide()
    assert plan.binds == ()
    assert [it.name for it in plan.set_aside] == ["default/g-0"]
    it.world.assume_bound("uid-g-0", "", it.now)
    assert nodes_of(it.decide(), "g") == ["n2"]


def test_yunikorn_287_a_pod_that_is_released_twice_gives_its_room_back_once() -> None:
    """A reserved ask was released twice."""
    it = Cluster("n1").gang("g", 1, cpu=2, on="n1").gang("h", 1, cpu=1, on="n1")
    for _ in range(2):
        it.world.assume_evicted("uid-g-0")
    for _ in range(2):
        it.world.delete_pod("uid-g-0")
    assert used(it, "n1") == 1000


# -- crashes from input or order


def test_volcano_5568_a_pod_may_come_before_its_group() -> None:
    """A pod whose group had not been seen yet ended the scheduler."""
    it = Cluster("n1")
    it.world.set_pod(Pod("default", "early", "u", requests=amounts(cpu=1)), group="default/g")
    assert [str(wait.explanation) for wait in it.decide().waits] == ['Pod-group "default/g" does not exist.']
    it.gang("g", 0, minimum=1)
    assert started(it.decide()) == ["g"]


def test_volcano_3301_4261_a_node_that_holds_more_than_it_has_is_full_and_no_more() -> None:
    """Subtracting more than there was failed an assertion at every start."""
    it = Cluster("n1 n2").gang("g", 3, cpu=3, on="n1 n1 n1").gang("late", 1, cpu=4).settle()
    assert it.where("late") == ["n2"]
    it.finish("g").gang("later", 1, cpu=4).settle()
    assert it.where("later") == ["n1"]


def test_volcano_1073_2481_a_claim_or_volume_that_does_not_exist_is_waited_for() -> None:
    """A pod with a claim, or a claim with a volume, that did not exist ended the scheduler."""
    bound = PersistentVolumeClaim("default", "bound", "u", volume_name="gone", bind_completed=True)
    it = Cluster("n1").know(volumes=VolumeFacts(claims={bound.key: bound}))
    it.gang("a", 1, claims=("missing",)).gang("b", 1, claims=("bound",)).gang("c", 1).settle()
    assert it.why("a") == 'Volume claim "default/missing" is not ready: it does not exist.'
    assert it.why("b") == 'Volume claim "default/bound" is not ready: its volume does not exist.'
    assert it.running("c") == 1


def test_volcano_2488_a_limit_on_all_meets_groups_without_any_quota() -> None:
    """A plugin that looked at quotas met a namespace without one, and ended the scheduler."""
    policy = msgspec.structs.replace(DEFAULT, limits=(Overcommit(100),))
    it = Cluster("n1", policy=policy).pod("lone").gang("g", 1).gang("lost", 1, queue="nowhere").settle()
    assert it.running("g") == 1


def test_volcano_81424b8_d02fda2_guarantees_above_the_parent_and_the_cluster_are_cut() -> None:
    """Guarantees that added up to more than there was ended the scheduler."""
    top = Queue("top", quotas=(cpu(guarantee=8, capability=8),))
    it = Cluster("n1").know(top, Queue("q", "top", (cpu(guarantee=64),)), Queue("r", quotas=(cpu(guarantee=8),)))
    it.gang("g", 1).gang("h", 1, queue="r").settle()
    assert (it.running("g"), it.running("h")) == (1, 1)


def test_volcano_57e79f2_two_roots_of_one_name_stop_only_what_is_below_them() -> None:
    """Two schedulers created the root queue at the same time, and both ended."""
    it = Cluster("n1").know(Account("root"), Account("root"), Queue("q"), Queue("below", "root"))
    it.gang("g", 1).gang("h", 1, queue="below").settle()
    assert (it.running("g"), it.running("h")) == (1, 0)
    assert it.reason("h") is Reason.INVALID


def test_kubernetes_138324_a_pod_made_again_under_its_name_is_another_pod() -> None:
    """A pod that was re-created under the same name during an attempt stayed in flight for ever."""
    it = Cluster("n1").gang("g", 1, cpu=3)
    it.world.assume_bound("uid-g-0", "n1", it.now)
    it.world.set_pod(
        Pod("default", "g-0", "second", created_at_seconds=it.now + 1, requests=amounts(cpu=3)), group="default/g"
    )
    it.world.delete_pod("uid-g-0")
    plan = it.decide()
    assert [(bind.uid, bind.node) for bind in plan.binds] == [("second", "n1")]
    assert used(it, "n1") == 0


def test_kubernetes_60469_what_others_have_bound_is_seen() -> None:
    """A second scheduler did not see the pods of the first, and filled nodes that were full."""
    it = Cluster("n1 n2").stranger("theirs", on="n1", cpu=4).gang("g", 1, cpu=4).settle()
    assert it.where("g") == ["n2"]


def test_kai_1664_1863_a_task_of_no_pods_and_a_queue_without_a_parent_are_like_any_other() -> None:
    """An empty list of tasks, and a queue at the top level, ended the scheduler."""
    it = Cluster("n1").gang("g", 1, members=SubGroup(min_count=1, task_minimums=(TaskMinimum("none", 0),)))
    it.know(Queue("q", parent=None)).gang("empty", 0, members=SubGroup(task_minimums=(TaskMinimum("w", 1),))).settle()
    assert it.running("g") == 1
    assert it.reason("empty") is Reason.SUB_GROUP_INCOMPLETE
