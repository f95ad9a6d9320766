"""What is counted of a group: who waits, who is there, who holds what, and when two groups ask for the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.core.entries import Predicted
from allhands.core.world import NO_SLOT, World
from allhands.model.group_status import GroupStatus
from allhands.model.identity import Identity
from allhands.model.node import Node
from allhands.model.pod import Pod, PodPhase
from allhands.model.podgroup import PodGroup, Slot, SubGroup, TaskMinimum
from allhands.model.resources import ResourceVector
from tests.depth import examples

if TYPE_CHECKING:
    from allhands.core.snapshot import GroupEntry

ADMITTED = GroupStatus(admitted_at_seconds=5)


def pod(name: str, cpu: int = 1000, **fields: Any) -> Pod:
    return Pod("default", name, uid=f"uid-{name}", requests=ResourceVector.of({"cpu": cpu}), **fields)


def entry_of(
    *pods: Pod | tuple[Pod, Slot],
    group: PodGroup | None = None,
    status: GroupStatus | None = None,
    predicted: tuple[Predicted, ...] = (),
) -> GroupEntry:
    world = World()
    world.set_node(Node("n1", allocatable=ResourceVector.of({"cpu": 9000, "pods": 99})))
    made = group or PodGroup("default", "g", "q", members=SubGroup(min_count=2))
    world.set_group(made, status or GroupStatus(), predicted)
    for it in pods:
        one, slot = it if isinstance(it, tuple) else (it, NO_SLOT)
        world.set_pod(one, group=made.key, slot=slot)
    return world.snapshot().groups[made.key]


def test_members_are_sorted_by_slot_and_shape() -> None:
    entry = entry_of(
        (pod("a"), Slot("", "worker")), (pod("b", cpu=2000), Slot("", "worker")), (pod("c"), Slot("", "master"))
    )
    assert [(members.slot.task, len(members.pods)) for members in entry.pending] == [
        ("master", 1),
        ("worker", 1),
        ("worker", 1),
    ]


def test_who_is_there_and_who_holds_what() -> None:
    running: dict[str, Any] = {"node_name": "n1", "phase": PodPhase.RUNNING}
    entry = entry_of(
        pod("runs", **running),
        pod("bound", node_name="n1"),
        pod("leaves", deleting=True, **running),
        pod("done", node_name="n1", phase=PodPhase.SUCCEEDED),
        pod("failed", node_name="n1", phase=PodPhase.FAILED),
        pod("waits"),
        pod("gated", scheduling_gates=("a", "b")),
        pod("astray", node_name="nowhere"),
        pod("dropped", deleting=True),
        pod("lost", node_name="nowhere", deleting=True),
    )
    assert entry.present == ((NO_SLOT, 3),)
    assert (len(entry.bound), len(entry.leaving), entry.unstarted, entry.is_whole) == (2, 1, 1, True)
    assert [ref.key for members in entry.pending for ref in members.pods] == ["default/waits"]
    assert entry.gated == (("a", 1), ("b", 1))
    assert entry.holding == (("cpu", 3000), ("pods", 3))


def test_predicted_members_are_those_that_are_not_there_yet() -> None:
    predicted = (Predicted(NO_SLOT, pod("x"), 4),)
    entry = entry_of(
        pod("runs", node_name="n1"),
        pod("waits"),
        pod("failed", node_name="n1", phase=PodPhase.FAILED),
        pod("done", node_name="n1", phase=PodPhase.SUCCEEDED),
        predicted=predicted,
    )
    refs = [ref for members in entry.pending for ref in members.pods]
    assert sorted((ref.key, ref.uid) for ref in refs) == [("default/g#//0", ""), ("default/waits", "uid-waits")]


def test_predicted_members_of_one_slot_and_of_several_have_distinct_names() -> None:
    left, right = Slot("left", "w"), Slot("right", "w")
    predicted = (
        Predicted(left, pod("x"), 2),
        Predicted(left, pod("x", cpu=2000), 2),
        Predicted(right, pod("x"), 2),
    )
    children = (SubGroup("left"), SubGroup("right"))
    entry = entry_of(
        (pod("there"), left),
        group=PodGroup("default", "g", "q", members=SubGroup(children=children)),
        predicted=predicted,
    )
    refs = [ref.key for members in entry.pending for ref in members.pods if not ref.uid]
    assert len(refs) == len(set(refs)) == 5
    assert entry.problem is None


def test_an_admitted_group_whose_pods_are_as_predicted_stays_admitted() -> None:
    for cpu in (500, 1000):
        entry = entry_of(pod("a", cpu), status=ADMITTED, predicted=(Predicted(NO_SLOT, pod("x"), 2),))
        assert entry.status == ADMITTED


def test_an_admitted_group_whose_pods_come_out_larger_is_decided_anew() -> None:
    larger = (pod("a", 1001), pod("a", 1000, node_selector={"x": "y"}))
    found = [entry_of(it, status=ADMITTED, predicted=(Predicted(NO_SLOT, pod("x"), 2),)).status for it in larger]
    assert [status.admitted_at_seconds for status in found] == [None, 5]


def test_a_group_with_a_number_that_nothing_can_bear_is_set_aside_with_its_name_and_queue() -> None:
    entry = entry_of(pod("a"), group=PodGroup("default", "g", "q", priority=2**70, members=SubGroup(min_count=3)))
    assert str(entry.problem) == f"Its priority of {2**70} is absurd."
    assert (entry.group.name, entry.group.queue, entry.group.priority) == ("g", "q", 0)


def test_groups_that_ask_for_the_same_have_the_same_signature() -> None:
    def signature(name: str, *pods: Pod, **fields: Any) -> str:
        given = {"members": SubGroup(min_count=1), **fields}
        return entry_of(*pods, group=PodGroup("default", name, "q", **given)).signature

    one = signature("one", pod("one-0"), pod("one-1"))
    assert signature("two", pod("two-0"), pod("two-1"), priority=7, created_at_seconds=9) == one
    assert signature("two", pod("two-0")) != one
    assert signature("two", pod("two-0"), pod("two-1", 2000)) != one
    assert signature("two", pod("two-0"), pod("two-1"), members=SubGroup(min_count=2)) != one
    assert signature("two", pod("two-0"), pod("two-1"), accounts=("q", "r")) != one
    assert signature("two", pod("two-0"), pod("two-1"), expected_duration_seconds=9) != one
    assert signature("two", pod("two-0"), pod("two-1"), identity=Identity("ann")) != one
    assert signature("two", pod("two-0"), pod("two-1"), pod("two-2", node_name="n1")) != one


def test_one_waiting_member_that_never_preempts_speaks_for_its_group_and_makes_it_another_question() -> None:
    plain, polite = pod("a"), pod("b", preemption_policy_never=True)
    assert not entry_of(plain).never_preempts
    assert entry_of(plain, polite).never_preempts
    assert entry_of(predicted=(Predicted(NO_SLOT, polite, 2),)).never_preempts
    running = pod("c", preemption_policy_never=True, node_name="n1", phase=PodPhase.RUNNING)
    assert not entry_of(plain, running).never_preempts
    assert entry_of(pod("a")).signature != entry_of(pod("a", preemption_policy_never=True)).signature


PODS = st.builds(
    pod,
    st.just("a"),
    cpu=st.sampled_from([0, 1000, 1 << 61]),
    node_name=st.sampled_from(["", "n1", "unknown"]),
    phase=st.sampled_from(list(PodPhase)),
    deleting=st.booleans(),
    scheduling_gates=st.sampled_from([(), ("g",)]),
    preemption_policy_never=st.booleans(),
    priority=st.sampled_from([0, 5]),
)
STATUSES = st.sampled_from([GroupStatus(), ADMITTED, GroupStatus(avoid_nodes=("n1",))])
STRUCTURES = st.sampled_from(
    [
        SubGroup(),
        SubGroup(min_count=1),
        SubGroup(min_count=2),
        SubGroup(min_count=1, task_minimums=(TaskMinimum("worker", 1),)),
        SubGroup(children=(SubGroup("part", min_count=1),)),
    ]
)


@settings(max_examples=examples(300))
@given(
    one=PODS,
    slot=st.sampled_from([NO_SLOT, Slot("part", ""), Slot("", "worker")]),
    members=STRUCTURES,
    status=STATUSES,
    ours=st.booleans(),
    assumed=st.sampled_from(["", "n1"]),
    evicted=st.booleans(),
)
def test_one_pod_is_counted_like_many(
    one: Pod, slot: Slot, members: SubGroup, status: GroupStatus, ours: bool, assumed: str, evicted: bool
) -> None:
    """There is a shorter way for groups of one pod. Who predicts none of its members goes the long way."""

    def counted(predicted: tuple[Predicted, ...]) -> GroupEntry:
        world = World()
        world.set_node(Node("n1", allocatable=ResourceVector.of({"cpu": 9000, "pods": 99})))
        group = PodGroup("default", "g", "q", members=members)
        world.set_group(group, status, predicted)
        world.set_pod(one, group=group.key, slot=slot, ours=ours)
        world.snapshot()
        world.assume_bound(one.uid, assumed, 7)
        world.assume_evicted(one.uid, evicted=evicted)
        return world.snapshot().groups[group.key]

    assert counted(()) == counted((Predicted(slot, one, 0),))
