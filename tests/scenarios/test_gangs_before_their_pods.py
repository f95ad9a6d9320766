"""Groups that are decided before their pods exist: their room is real and held, and looked at again if pods differ."""

from __future__ import annotations

from allhands.model.podgroup import SubGroup
from allhands.model.queue import Queue
from allhands.model.reason import Reason
from tests.scenarios.cluster import Cluster, amounts, cpu, nodes_of, started


def test_a_group_without_pods_is_admitted_with_a_place_for_each_of_them() -> None:
    it = Cluster("n1 n2").gang("job", 2, cpu=3, predicted=True)
    plan = it.decide()
    assert plan.starts[0].is_admission
    assert nodes_of(plan, "job") == ["n1", "n2"]
    assert all(bind.uid == "" for bind in plan.binds)
    it.settle()
    assert it.where("job") == ["n1", "n2"]


def test_no_two_pods_that_are_yet_to_come_have_the_same_name() -> None:
    parts = SubGroup(children=(SubGroup("a", min_count=2), SubGroup("b", min_count=2)))
    it = Cluster("n1 n2").gang("job", 4, parts="a a b b", tasks="worker", members=parts, predicted=True)
    names = [bind.pod for bind in it.decide().binds]
    assert len(set(names)) == 4
    it.settle()
    assert it.running("job") == 4


def test_a_group_that_does_not_fit_is_not_admitted_and_says_why() -> None:
    it = Cluster("n1").gang("job", 2, cpu=3, predicted=True).settle()
    assert not it.entry("job").status.admitted_at_seconds
    assert it.reason("job") is Reason.GROUP_NEVER_FITS


def test_its_queue_is_asked_before_the_first_pod_is_made() -> None:
    it = Cluster("n1").know(Queue("q", quotas=(cpu(capability=1),))).gang("job", 2, predicted=True).settle()
    assert it.reason("job") is Reason.QUEUE_OVER_CAPABILITY


def test_its_room_is_held_while_its_pods_are_being_made() -> None:
    it = Cluster("n1").gang("job", 1, cpu=3, predicted=True).gang("rival", 1, cpu=3, group={"priority": 9})
    it.set_status("job", admitted_at_seconds=it.now)
    plan = it.decide()
    assert started(plan) == ["job"]
    assert plan.starts[0].is_admission


def test_its_quota_is_held_while_its_pods_are_being_made() -> None:
    it = Cluster("n1 n2").know(Queue("q", quotas=(cpu(capability=3),)))
    it.gang("job", 1, cpu=3, predicted=True).gang("rival", 1, cpu=3, group={"priority": 9})
    it.set_status("job", admitted_at_seconds=it.now)
    assert started(it.decide()) == ["job"]


def test_pods_that_exist_already_are_not_predicted_again() -> None:
    it = Cluster("n1").gang("job", 3, predicted=True).more("job", 1)
    binds = it.decide().binds
    assert sorted(bool(bind.uid) for bind in binds) == [False, False, True]


def test_pods_that_come_out_larger_and_still_fit_start() -> None:
    it = Cluster("n1 n2").gang("job", 2, cpu=1, predicted=True)
    it.comes_out["job"] = {"requests": amounts(cpu=3)}
    it.settle()
    assert it.where("job") == ["n1", "n2"]


def test_pods_that_come_out_larger_than_any_room_wait_and_say_why() -> None:
    it = Cluster("n1").gang("job", 2, cpu=1, predicted=True)
    it.comes_out["job"] = {"requests": amounts(cpu=3)}
    it.settle()
    assert it.running("job") == 0
    assert it.reason("job") is Reason.GROUP_NEVER_FITS


def test_pods_that_come_out_larger_than_the_quota_wait_although_the_group_was_admitted() -> None:
    it = Cluster("n1 n2").know(Queue("q", quotas=(cpu(capability=4),))).gang("job", 2, cpu=2, predicted=True)
    it.comes_out["job"] = {"requests": amounts(cpu=3)}
    it.settle()
    assert it.running("job") == 0
    assert it.reason("job") is Reason.QUEUE_OVER_CAPABILITY


def test_a_room_that_was_promised_and_is_gone_is_said_to_be_gone() -> None:
    it = Cluster("n1 n2").gang("job", 2, cpu=4, predicted=True)
    it.step()
    it.world.delete_node("n2")
    it.settle()
    assert it.running("job") == 0
    assert it.reason("job") is Reason.GROUP_NEVER_FITS
    it.nodes("n3").settle()
    assert it.where("job") == ["n1", "n3"]


def test_elastic_pods_above_the_minimum_are_admitted_as_far_as_they_fit() -> None:
    it = Cluster("n1").gang("job", 6, minimum=2, predicted=True).settle()
    assert it.running("job") == 4
