"""Hard topology spreading: skew, least domains, and which nodes and pods count."""

from __future__ import annotations

from allhands.model.node import Taint, Toleration
from tests.unit.core.feasibility.town import DATABASE, HOST, WEB, ZONE, Town, node, pod, spread

NODES = [node("a1", "a"), node("a2", "a"), node("b1", "b"), node("nowhere")]


def test_the_fuller_domain_is_closed_when_the_skew_would_be_too_large() -> None:
    town = Town(NODES, [pod("web", WEB, "a1"), pod("it", WEB, spread=(spread(WEB),))])
    assert town.where("it") == {"b1"}


def test_a_larger_skew_leaves_it_open() -> None:
    town = Town(NODES, [pod("web", WEB, "a1"), pod("it", WEB, spread=(spread(WEB, skew=2),))])
    assert town.where("it") == {"a1", "a2", "b1"}


def test_a_pod_that_its_own_selector_does_not_match_adds_nothing() -> None:
    town = Town(NODES, [pod("web", WEB, "a1"), pod("it", DATABASE, spread=(spread(WEB),))])
    assert town.where("it") == {"a1", "a2", "b1"}


def test_nodes_without_the_key_are_closed() -> None:
    assert Town(NODES, [pod("it", WEB, spread=(spread(WEB, skew=9),))]).where("it") == {"a1", "a2", "b1"}


def test_with_too_few_domains_the_missing_ones_count_as_empty() -> None:
    pods = [pod("web", WEB, "a1"), pod("web2", WEB, "b1")]
    enough = pod("it", WEB, spread=(spread(WEB, min_domains=2),))
    too_few = pod("it", WEB, spread=(spread(WEB, min_domains=3),))
    assert Town(NODES, [*pods, enough]).where("it") == {"a1", "a2", "b1"}
    assert Town(NODES, [*pods, too_few]).where("it") == set()


def test_a_node_that_lacks_the_key_of_one_constraint_is_no_domain_of_the_other() -> None:
    nodes = [node("a1", "a", labels={"rack": "r1"}), node("b1", "b")]
    both = (spread(WEB), spread(WEB, "rack", skew=5))
    # Zone b would be the emptier one, but its only node has no rack.
    town = Town(nodes, [pod("web", WEB, "a1"), pod("it", WEB, spread=both)])
    assert town.where("it") == {"a1"}


def test_all_constraints_must_hold() -> None:
    both = (spread(WEB, skew=2), spread(WEB, HOST))
    town = Town(NODES[:3], [pod("web", WEB, "a1"), pod("it", WEB, spread=both)])
    assert town.where("it") == {"a2", "b1"}


def test_nodes_that_its_affinity_rules_out_are_not_counted_unless_told_so() -> None:
    bound = [pod("web", WEB, "a1")]
    honored = pod("it", WEB, spread=(spread(WEB),), node_selector={ZONE: "a"})
    ignored = pod("it", WEB, spread=(spread(WEB, honor_node_affinity=False),), node_selector={ZONE: "a"})
    assert Town(NODES, [*bound, honored]).where("it") & {"a1", "a2"} == {"a1", "a2"}
    assert Town(NODES, [*bound, ignored]).where("it") & {"a1", "a2"} == set()


def test_tainted_nodes_are_counted_unless_told_otherwise() -> None:
    nodes = [node("a1", "a"), node("b1", "b", (Taint("spot", "NoSchedule"),))]
    bound = pod("web", WEB, "a1")
    ignored = pod("it", WEB, spread=(spread(WEB),))
    honored = pod("it", WEB, spread=(spread(WEB, honor_node_taints=True),))
    tolerated = pod(
        "it", WEB, spread=(spread(WEB, honor_node_taints=True),), tolerations=(Toleration("spot", "Exists"),)
    )
    assert "a1" not in Town(nodes, [bound, ignored]).where("it")
    assert "a1" in Town(nodes, [bound, honored]).where("it")
    assert "a1" not in Town(nodes, [bound, tolerated]).where("it")


def test_being_cordoned_is_no_taint_that_the_policy_honors() -> None:
    nodes = [node("a1", "a"), node("b1", "b", unschedulable=True)]
    town = Town(nodes, [pod("web", WEB, "a1"), pod("it", WEB, spread=(spread(WEB, honor_node_taints=True),))])
    assert "a1" not in town.where("it")


def test_pods_that_are_being_deleted_do_not_count() -> None:
    town = Town(NODES, [pod("web", WEB, "a1", deleting=True), pod("it", WEB, spread=(spread(WEB),))])
    assert town.where("it") == {"a1", "a2", "b1"}


def test_a_leaving_pod_that_goes_changes_nothing() -> None:
    town = Town(NODES, [pod("web", WEB, "a1", deleting=True), pod("it", WEB, spread=(spread(WEB),))])
    town.where("it")
    town.neighbours.placed(town.shape("web"), town.snapshot.columns.row_by_name["a1"], -1, leaving=True)
    assert town.where("it") == {"a1", "a2", "b1"}


def test_pods_of_other_namespaces_do_not_count() -> None:
    town = Town(NODES, [pod("web", WEB, "a1", "away"), pod("it", WEB, spread=(spread(WEB),))])
    assert town.where("it") == {"a1", "a2", "b1"}


def test_an_empty_selector_counts_no_pod_but_the_newcomer() -> None:
    town = Town(NODES, [pod("web", WEB, "a1"), pod("it", WEB, spread=(spread({}),))])
    assert town.where("it") == {"a1", "a2", "b1"}
    town = Town(NODES, [pod("it", WEB, spread=(spread({}, min_domains=5),))])
    assert town.where("it") == {"a1", "a2", "b1"}


def test_an_absent_selector_counts_nobody() -> None:
    town = Town(NODES, [pod("web", WEB, "a1"), pod("it", WEB, spread=(spread(None),))])
    assert town.where("it") == {"a1", "a2", "b1"}


def test_soft_constraints_close_nothing() -> None:
    town = Town(NODES, [pod("web", WEB, "a1"), pod("it", WEB, spread=(spread(WEB, hard=False),))])
    assert town.where("it") == {"a1", "a2", "b1", "nowhere"}


def test_a_gang_spreads_as_it_is_placed() -> None:
    town = Town(NODES, [pod("it", WEB, spread=(spread(WEB),))])
    town.move("it", "a1")
    assert town.where("it") == {"b1"}
    town.move("it", "b1")
    assert town.where("it") == {"a1", "a2", "b1"}
    town.move("it", "b1", -1)
    assert town.where("it") == {"b1"}


def test_a_key_that_no_node_has_closes_all_nodes() -> None:
    assert Town(NODES, [pod("it", WEB, spread=(spread(WEB, "rack"),))]).where("it") == set()
