"""Pods for which room is held are not on their nodes yet: they keep others away, but open no place to anybody.

What is placed beside them must be right with them and without them, since it is on its node before they are.
"""

from __future__ import annotations

from typing import Any

from allhands.model.affinity import PodAffinity, PodTerm, SpreadConstraint
from allhands.model.selector import LabelSelector
from tests.scenarios.cluster import Cluster

ZONE = "topology.kubernetes.io/zone"
WEB = LabelSelector((("app", "web"),))
LABELS = {"app": "web"}
EVENLY: dict[str, Any] = {"labels": LABELS, "spread": (SpreadConstraint(1, ZONE, hard=True, selector=WEB),)}
NEAR_WEB = PodAffinity(required_together=(PodTerm(WEB, ZONE, ("default",)),))
AWAY_FROM_WEB = PodAffinity(required_apart=(PodTerm(WEB, ZONE, ("default",)),))


def two_zones(**fields: Any) -> Cluster:
    return Cluster(**fields).nodes("a", labels={ZONE: "a"}).nodes("b", labels={ZONE: "b"})


def zone_b_is_being_emptied() -> Cluster:
    """For a pod of "high" that must go there to be spread evenly."""
    it = two_zones(leave_after=3).gang("there", on="a", labels=LABELS, group={"priority": 9})
    it.gang("low", cpu=4, on="b").gang("high", group={"priority": 9}, **EVENLY)
    it.step()
    assert [hold.nodes for hold in it.plans[-1].holds if hold.awaits_leaving] == [("b",)]
    return it


def test_a_pod_that_is_yet_to_come_does_not_make_the_spread_of_others_even() -> None:
    it = zone_b_is_being_emptied().gang("next", **EVENLY)
    it.step()
    assert (it.running("next"), it.running("high")) == (0, 0)
    it.settle()
    assert (it.where("next"), it.where("high")) == (["a"], ["b"])


def test_in_the_very_cycle_that_holds_the_room_it_does_not_either() -> None:
    it = two_zones(leave_after=3).gang("there", on="a", labels=LABELS, group={"priority": 9}).gang("low", cpu=4, on="b")
    it.gang("high", group={"priority": 9}, **EVENLY).gang("next", **EVENLY)
    assert it.step().starts == ()
    it.settle()
    assert (it.where("next"), it.where("high")) == (["a"], ["b"])


def test_a_pod_that_is_yet_to_come_is_no_company() -> None:
    it = Cluster(leave_after=3).nodes("b", labels={ZONE: "b"}).nodes("c", labels={ZONE: "b"}, cpu=1)
    it.gang("low", cpu=4, on="b").gang("high", cpu=4, labels=LABELS, group={"priority": 9})
    it.gang("friend", cpu=1, pod_affinity=NEAR_WEB)
    assert it.step().starts == ()
    it.settle()
    assert (it.where("high"), it.where("friend")) == (["b"], ["c"])


def test_a_pod_that_is_yet_to_come_keeps_those_away_who_may_not_be_near_it() -> None:
    it = zone_b_is_being_emptied().nodes("c", labels={ZONE: "b"}).gang("shy", cpu=1, pod_affinity=AWAY_FROM_WEB)
    it.settle()
    assert it.running("shy") == 0


def test_pods_that_do_not_exist_yet_do_not_make_the_spread_of_others_even() -> None:
    """Their group is admitted, and its pods are still to be made."""
    it = two_zones().gang("there", on="a", labels=LABELS, group={"priority": 9}).nodes("b", labels={ZONE: "b"}, cpu=1)
    it.gang("job", predicted=True, **EVENLY).gang("next", **EVENLY)
    plan = it.step()
    assert [start.group for start in plan.starts] == ["default/job"]
    it.settle()
    assert (it.where("job"), it.where("next")) == (["b"], ["a"])
