"""Objects that make no sense: each is set aside with a reason that names it, and everything else goes on."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from allhands.core.entries import Predicted
from allhands.core.facts import Reservation
from allhands.model.affinity import PodAffinity, PodTerm, SpreadConstraint
from allhands.model.group_status import GroupStatus
from allhands.model.node import Node
from allhands.model.pod import Pod, PodPhase
from allhands.model.podgroup import PodGroup, Slot, SubGroup, TaskMinimum, TopologyMode, TopologyRule
from allhands.model.queue import Account, Queue
from allhands.model.reason import Reason
from allhands.model.resources import ResourceVector
from allhands.model.selector import LabelSelector
from tests.scenarios.cluster import Cluster, Member, amounts, cpu, wait_of

HUGE = 2**63 - 1


def healthy(it: Cluster) -> bool:
    """Whether an innocent gang beside it starts."""
    it.gang("innocent", 2).settle()
    return it.running("innocent") == 2


# -- nodes


@pytest.mark.parametrize("units", [-1, -HUGE, HUGE, 2**63, 2**64, 2**200])
@pytest.mark.parametrize("resource", ["cpu", "memory", "pods", "example.com/gpu"])
def test_a_node_with_absurd_resources_is_set_aside(resource: str, units: int) -> None:
    it = Cluster("good")
    allocatable = ResourceVector.of({"cpu": 64_000, "memory": 1 << 40, "pods": 110, resource: units})
    it.world.set_node(Node("bad", allocatable=allocatable))
    assert healthy(it)
    assert it.where("innocent") == ["good", "good"]
    assert it.set_aside["Node bad"] == f"Its allocatable {resource} of {units} is not between 0 and {2**53 - 1}."


def test_a_node_that_becomes_absurd_keeps_its_pods_and_is_used_again_when_it_is_mended() -> None:
    it = Cluster("n1 n2").gang("g", 2, cpu=4).settle()
    it.world.set_node(Node("n1", allocatable=ResourceVector.of({"cpu": -5, "pods": 110})))
    it.gang("late", 1).settle()
    assert (it.running("g"), it.running("late"), it.evicted) == (2, 0, [])
    it.nodes("n1", cpu=8).settle()
    assert it.where("late") == ["n1"]


def test_a_node_without_any_resources_gets_nothing() -> None:
    it = Cluster("good")
    it.world.set_node(Node("empty"))
    assert healthy(it)


def test_a_second_node_of_the_same_name_replaces_the_first() -> None:
    it = Cluster().nodes("n1", cpu=1, uid="one").nodes("n1", cpu=2, uid="two").gang("g", 2).settle()
    assert it.running("g") == 2


# -- pods


def test_a_pod_on_a_node_that_does_not_exist_is_named_and_harms_nobody() -> None:
    it = Cluster("n1").gang("g", 1, on="nowhere")
    assert healthy(it)
    assert it.set_aside == {"Pod default/g-0": 'It is on node "nowhere", which is unknown.'}


@pytest.mark.parametrize("units", [-1, -HUGE, 2**53, HUGE, 2**63])
def test_a_pod_that_asks_for_an_absurd_amount_is_set_aside(units: int) -> None:
    it = Cluster("n1").gang("g", 1, requests=ResourceVector.of({"cpu": units}))
    assert healthy(it)
    assert it.running("g") == 0
    assert it.reason("g") is Reason.INVALID
    assert str(units) in it.why("g")


@pytest.mark.parametrize("units", [-1, -HUGE, 2**53, HUGE, 2**63])
def test_a_pod_that_runs_with_an_absurd_request_fills_its_own_node_at_most(units: int) -> None:
    it = Cluster("n1 n2").gang("g", 1, on="n1", requests=ResourceVector.of({"cpu": units}))
    assert healthy(it)
    if units > 0:
        assert it.where("innocent") == ["n2", "n2"]


@pytest.mark.parametrize("units", [2**64, 2**200, -(2**200)])
def test_a_pod_with_a_number_that_no_api_has_is_set_aside(units: int) -> None:
    it = Cluster("n1").gang("g", 1, requests=ResourceVector.of({"cpu": units}))
    assert healthy(it)
    assert it.set_aside == {"Pod default/g-0": "It has a number beyond 64 bits."}


def test_a_pod_without_a_uid_is_set_aside() -> None:
    it = Cluster("n1")
    it.world.set_pod(Pod("default", "p", ""))
    assert healthy(it)
    assert it.set_aside == {"Pod default/p": "It has no uid."}


def test_a_thousand_absurd_pods_on_a_node_do_not_make_it_look_empty() -> None:
    it = Cluster("n1 n2", pods=5000)
    for number in range(3000):
        pod = Pod("default", f"p{number}", f"p{number}", node_name="n1", requests=ResourceVector.of({"cpu": HUGE}))
        it.world.set_pod(pod, ours=False)
    it.gang("innocent", 2).settle()
    assert it.where("innocent") == ["n2", "n2"]


def test_a_pod_that_asks_for_a_resource_that_no_node_has_waits_and_is_told() -> None:
    it = Cluster("n1").gang("g", 1, others={"example.com/tpu": 1})
    assert healthy(it)
    assert it.why("g") == "A pod asks for 1 of example.com/tpu, but the largest node has 0."


def test_a_pod_of_an_absurd_priority_or_age_is_like_any_other() -> None:
    it = Cluster("n1").gang("g", 1, on="n1", priority=2**40, created_at_seconds=2**70, started_at_seconds=-(2**70))
    assert healthy(it)


def test_of_two_pods_of_one_name_the_younger_is_the_pod_and_the_other_is_set_aside() -> None:
    it = Cluster("n1").gang("g", 1, on="n1", cpu=2)
    ghost = next(iter(it.pods.values()))
    again = msgspec.structs.replace(
        ghost.pod, uid="again", node_name="", phase=PodPhase.PENDING, created_at_seconds=it.now + 1
    )
    it.put(Member(again, ghost.group, ghost.slot))
    it.step()
    assert [bind.uid for bind in it.plan.binds] == ["again"]
    assert it.set_aside == {"Pod default/g-0": f'A younger pod has its name; this one has the uid "{ghost.pod.uid}".'}
    # It may still be running, so its room is not given away.
    it.gang("other", 1, cpu=1).step()
    assert it.running("other") == 0


def test_two_lone_pods_of_one_name_are_one_pod() -> None:
    it = Cluster("n1").pod("p", created_at_seconds=1).pod("p", uid="younger", created_at_seconds=2)
    assert [bind.uid for bind in it.step().binds] == ["younger"]
    it.settle()


def test_a_pod_that_wants_to_be_near_itself_starts() -> None:
    itself = PodTerm(LabelSelector((("app", "x"),)), "kubernetes.io/hostname", ("default",))
    it = Cluster("n1 n2").gang("g", 2, labels={"app": "x"}, pod_affinity=PodAffinity(required_together=(itself,)))
    assert healthy(it)
    assert len(set(it.where("g"))) == 1


def test_a_gang_that_wants_to_be_near_and_apart_from_itself_waits_and_is_told() -> None:
    itself = PodTerm(LabelSelector((("app", "x"),)), "kubernetes.io/hostname", ("default",))
    both = PodAffinity(required_together=(itself,), required_apart=(itself,))
    it = Cluster("n1 n2").gang("g", 2, labels={"app": "x"}, pod_affinity=both)
    assert healthy(it)
    assert it.running("g") == 0
    assert it.reason("g") in (Reason.AFFINITY, Reason.GROUP_NEVER_FITS)


def test_a_spread_over_a_label_that_no_node_has_waits_and_is_told() -> None:
    spread = (SpreadConstraint(1, "nowhere", hard=True, selector=LabelSelector()),)
    it = Cluster("n1").gang("g", 1, spread=spread)
    assert healthy(it)
    assert it.running("g") == 0


def test_names_full_of_digits_do_no_harm() -> None:
    it = Cluster("n1").gang("g", 1, on="")
    it.put(Member(Pod("default", "9" * 5000, "u", requests=amounts(cpu=1)), "default/g", Slot("", "")))
    it.settle()
    assert it.running("g") == 2


# -- groups


def test_a_group_that_needs_more_pods_than_it_may_have_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="at most 2 members but at least 3 needed"):
        SubGroup(min_count=3, max_count=2)


def test_a_group_with_a_minimum_above_its_size_waits_for_pods() -> None:
    it = Cluster("n1").gang("g", 1, minimum=3)
    assert healthy(it)
    assert it.why("g") == "1 of the 3 pods that must start together exist."


def test_a_group_without_any_pods_waits_for_them_and_one_that_needs_none_is_silent() -> None:
    it = Cluster("n1").gang("none", 0, minimum=2).gang("content", 0, minimum=0)
    assert healthy(it)
    assert it.why("none") == "0 of the 2 pods that must start together exist."
    assert "content" not in it.waiting


def test_a_pod_that_names_a_group_that_does_not_exist_waits_and_is_told() -> None:
    it = Cluster("n1")
    it.put(Member(Pod("default", "p", "u", requests=amounts(cpu=1)), "default/missing", Slot("", "")))
    assert healthy(it)
    assert it.why("missing") == 'Pod-group "default/missing" does not exist.'


def test_a_pod_in_a_sub_group_that_is_not_defined_sets_its_group_aside_and_says_which() -> None:
    it = Cluster("n1").gang("g", 2, parts="a b", members=SubGroup(children=(SubGroup("a", min_count=1),)))
    assert healthy(it)
    assert it.why("g") == 'Pod "default/g-1" belongs to sub-group "b", which is not defined.'


def test_what_runs_of_a_group_that_is_set_aside_goes_on() -> None:
    it = Cluster("n1").gang("g", 2, on="n1 n1").settle().more("g", 1, parts="nowhere").settle()
    assert (it.running("g"), it.evicted) == (2, [])


ABSURD_GROUPS: dict[str, dict[str, Any]] = {
    "an absurd priority": {"priority": 2**80},
    "an absurd creation": {"created_at_seconds": -(2**80)},
    "an absurd duration": {"expected_duration_seconds": 2**80},
    "an absurd deadline": {"deadline_seconds": 2**80},
    "an absurd time-out": {"start_timeout_seconds": 2**80},
    "an absurd grace": {"grace_seconds": 2**80},
    "an absurd minimum": {"members": SubGroup(min_count=2**80)},
    "an absurd task": {"members": SubGroup(task_minimums=(TaskMinimum("w", 2**80),))},
    "an absurd feature": {"features": (("f", 2**80),)},
    "an absurd tier": {"members": SubGroup(topology=TopologyRule(TopologyMode.HARD, 2**80))},
}


@pytest.mark.parametrize("name", ABSURD_GROUPS)
def test_nothing_stops_at_a_group_with(name: str) -> None:
    it = Cluster("n1")
    it.world.set_group(PodGroup("default", "g", "q", **{"members": SubGroup(min_count=1), **ABSURD_GROUPS[name]}))
    it.world.set_pod(Pod("default", "p", "u", requests=amounts(cpu=1)), group="default/g")
    plan = it.gang("innocent", 2).decide()
    assert "default/innocent" in {start.group for start in plan.starts}
    assert "absurd" in str(wait_of(plan, "g").explanation)


def test_nothing_stops_at_an_absurd_status() -> None:
    it = Cluster("n1")
    for number, status in enumerate(
        (
            GroupStatus(failed_starts=-(2**80), retry_at_seconds=-(2**80), avoid_nodes=("no such node", "n1")),
            GroupStatus(failed_starts=2**80, retry_at_seconds=2**80),
            GroupStatus(admitted_at_seconds=2**80, preempting_since_seconds=-5, nominated_nodes=("n1", "nowhere")),
        )
    ):
        it.gang(f"g{number}", 1, status=status)
        it.gang(f"h{number}", 1, on="n1", phase=PodPhase.PENDING, created_at_seconds=0, cpu=0, status=status)
    assert healthy(it)


def test_predicted_members_that_make_no_sense_do_not_stop_anything() -> None:
    it = Cluster("n1")
    group = PodGroup("default", "g", "q", members=SubGroup(min_count=1))
    pattern = Pod("default", "p", requests=ResourceVector.of({"cpu": -5}))
    predicted = (Predicted(Slot("nowhere", ""), pattern, -3), Predicted(Slot("", ""), pattern, 2))
    it.world.set_group(group, predicted=predicted)
    assert wait_of(it.decide(), "g").explanation.reason is Reason.INVALID
    it.world.set_group(group, predicted=(Predicted(Slot("", ""), Pod("default", "p"), 2**80),))
    assert wait_of(it.decide(), "g").explanation.reason is Reason.INVALID


# -- queues


BROKEN_QUEUES: dict[str, tuple[tuple[Account | Queue, ...], str]] = {
    "a cycle of queues": ((Queue("bad", "worse"), Queue("worse", "bad")), "cycle"),
    "a queue below itself": ((Queue("bad", "bad"),), "cycle"),
    "a queue below one that does not exist": ((Queue("bad", "nowhere"),), "which does not exist"),
    "two queues of one name": ((Queue("bad"), Queue("bad", weight_millis=5)), "defined twice"),
    "a queue without a name": ((Queue(""),), "must have a name"),
}


@pytest.mark.parametrize("name", BROKEN_QUEUES)
def test_nothing_else_stops_at(name: str) -> None:
    queues, words = BROKEN_QUEUES[name]
    it = Cluster("n1").know(Queue("q"), *queues).gang("g", 1, queue=queues[0].name or "bad")
    assert healthy(it)
    assert it.running("g") == 0
    assert any(words in why for what, why in it.set_aside.items() if what.startswith("Queue"))
    assert it.reason("g") in (Reason.INVALID, Reason.QUEUE_NOT_FOUND)


def test_quotas_beyond_all_numbers_are_numbers() -> None:
    it = Cluster("n1").know(Queue("q", quotas=(cpu(capability=2**200),)), Queue("r", quotas=(cpu(guarantee=2**200),)))
    it.gang("g", 1).step()
    assert it.plan.starts or it.reason("g") is Reason.QUEUE_OVER_DESERVED


def test_an_account_that_a_group_charges_and_that_does_not_exist_is_named() -> None:
    it = Cluster("n1").gang("g", 1, group={"accounts": ("q", "nowhere")})
    assert healthy(it)
    assert it.why("g") == 'Queue "nowhere" does not exist.'


# -- the rest


def test_reservations_that_make_no_sense_do_not_stop_anything() -> None:
    it = Cluster("n1").know(
        reservations=(
            Reservation("backwards", 50, 10, nodes=("n1",)),
            Reservation("nowhere", 0, 2**80, nodes=("no such node",)),
            Reservation("negative", -(2**80), -5, resources=ResourceVector.of({"cpu": -5})),
            Reservation("strange", 0, HUGE, resources=ResourceVector.of({"no such thing": 5})),
        )
    )
    assert healthy(it)


def test_an_empty_cluster_tells_everybody_why_they_wait() -> None:
    it = (
        Cluster()
        .gang("g", 2)
        .gang("topology", 1, members=SubGroup(min_count=1, topology=TopologyRule(TopologyMode.HARD)))
    )
    it.pod("lone").settle()
    assert sorted(it.waiting) == ["g", "pod:lone", "topology"]


def test_a_world_without_anything_gives_an_empty_plan() -> None:
    it = Cluster()
    it.know(accounts=())
    assert it.decide().waits == ()
