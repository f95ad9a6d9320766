"""Who is spread although it does not ask for it, and by which labels: as kube-scheduler's system defaults have it."""

from __future__ import annotations

from typing import Any

import pytest

from allhands.core.default_spread import with_default_spread
from allhands.core.scores.spread import HOSTNAME, ZONE, is_system_default
from allhands.model.affinity import SpreadConstraint
from allhands.model.pod import Pod
from allhands.model.selector import LabelSelector, Requirement
from tests.scenarios.cluster import Cluster, nodes_of

LABELS = {"app": "web", "hash": "1"}
BY_APP = LabelSelector.of({"app": "web"})


def pod(**fields: Any) -> Pod:
    return Pod("default", **{"name": "p", "uid": "u", "labels": LABELS, **fields})


def selector_of(made: Pod) -> LabelSelector | None:
    assert not made.spread or is_system_default(made.spread)
    return made.spread[0].selector if made.spread else None


@pytest.mark.parametrize(
    ("services", "owner", "wanted"),
    [
        ((), None, None),
        (({"app": "web"},), None, BY_APP),
        (({"app": "other"},), None, None),
        (({},), None, None),
        (({"app": "web"}, {"hash": "1"}, {"app": "other"}), None, LabelSelector.of(LABELS)),
        ((), BY_APP, BY_APP),
        (({"app": "web"},), LabelSelector.of({"hash": "1"}), LabelSelector.of(LABELS)),
        ((), LabelSelector((), (Requirement("app", "Exists"),)), LabelSelector((), (Requirement("app", "Exists"),))),
        ((), LabelSelector((), (Requirement("app", "Wrong"),)), None),
        ((), LabelSelector(()), None),
    ],
    ids=[
        "nobody manages it",
        "a service",
        "a service of other pods",
        "a service that selects all says nothing",
        "all services that select it",
        "its controller",
        "a service and its controller",
        "a controller with expressions",
        "a controller whose selector cannot be parsed",
        "a controller that selects all",
    ],
)
def test_by_which_labels_a_pod_is_spread(
    services: tuple[dict[str, str], ...], owner: LabelSelector | None, wanted: LabelSelector | None
) -> None:
    assert selector_of(with_default_spread(pod(), services, owner)) == wanted


def test_who_asks_for_spreading_gets_what_it_asks_for_and_nothing_else() -> None:
    own = pod(spread=(SpreadConstraint(1, "rack", True, BY_APP),))
    assert with_default_spread(own, ({"app": "web"},), BY_APP) is own


def test_who_is_on_a_node_is_spread_no_more() -> None:
    bound = pod(node_name="n1")
    assert with_default_spread(bound, ({"app": "web"},), BY_APP) is bound


def test_the_constraints_are_one_value_for_all_pods_alike() -> None:
    one, other = (with_default_spread(pod(name=name), ({"app": "web"},)) for name in "ab")
    assert one.spread is other.spread
    assert [(it.topology_key, it.max_skew, it.hard) for it in one.spread] == [(HOSTNAME, 3, False), (ZONE, 5, False)]


def test_pods_that_were_completed_go_where_fewest_of_their_kind_are() -> None:
    it = Cluster().nodes("a1 a2", labels={ZONE: "a"}).nodes("b1", labels={ZONE: "b"})
    it.pod("old-1", on="a1", labels=LABELS).pod("old-2", on="a1", labels=LABELS)
    completed = with_default_spread(pod(), ({"app": "web"},))
    plan = it.pod("plain", labels=LABELS).pod("spread", labels=LABELS, spread=completed.spread).decide()
    assert nodes_of(plan, "pod:plain") == ["a1"], "beside the others, where it is fullest"
    assert nodes_of(plan, "pod:spread") == ["b1"]
