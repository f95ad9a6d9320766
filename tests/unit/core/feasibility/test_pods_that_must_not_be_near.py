"""Anti-affinity, of the pod to be placed and of those that are there, as kube-scheduler filters by it."""

from __future__ import annotations

from allhands.model.selector import LabelSelector, Requirement
from tests.unit.core.feasibility.town import DATABASE, HOST, WEB, ZONE, Town, apart, node, pod, term

NODES = [node("a1", "a"), node("a2", "a"), node("b1", "b"), node("nowhere")]
EVERYWHERE = {"a1", "a2", "b1", "nowhere"}
HAS_NO_STAGE = LabelSelector(match_expressions=(Requirement("stage", "DoesNotExist"),))


def test_a_pod_keeps_out_of_the_domain_of_what_it_does_not_want() -> None:
    town = Town(NODES, [pod("db", DATABASE, "a1"), pod("it", pod_affinity=apart(term(DATABASE)))])
    assert town.where("it") == {"b1", "nowhere"}


def test_a_node_without_the_topology_key_is_in_no_domain() -> None:
    town = Town(NODES, [pod("db", DATABASE, "nowhere"), pod("it", pod_affinity=apart(term(DATABASE)))])
    assert town.where("it") == EVERYWHERE


def test_pods_that_are_there_keep_others_out() -> None:
    town = Town(NODES, [pod("db", DATABASE, "a1", pod_affinity=apart(term(WEB))), pod("it", WEB)])
    assert town.where("it") == {"b1", "nowhere"}
    assert town.neighbours.is_dynamic(town.shape("it"))


def test_a_pod_that_keeps_others_out_of_no_domain_keeps_nobody_out() -> None:
    town = Town(NODES, [pod("db", DATABASE, "nowhere", pod_affinity=apart(term(WEB))), pod("it", WEB)])
    assert town.where("it") == EVERYWHERE


def test_each_term_stands_for_itself() -> None:
    affinity = apart(term(DATABASE, HOST), term(WEB))
    town = Town(NODES, [pod("db", DATABASE, "a1"), pod("web", WEB, "b1"), pod("it", pod_affinity=affinity)])
    assert town.where("it") == {"a2", "nowhere"}


def test_other_namespaces_are_not_looked_at_unless_named() -> None:
    elsewhere = pod("db", DATABASE, "a1", "away")
    here = pod("it", pod_affinity=apart(term(DATABASE)))
    there = pod("it", pod_affinity=apart(term(DATABASE, ZONE, "away", "home")))
    assert Town(NODES, [elsewhere, here]).where("it") == EVERYWHERE
    assert Town(NODES, [elsewhere, there]).where("it") == {"b1", "nowhere"}


def test_a_namespace_selector_adds_namespaces_by_their_labels() -> None:
    namespaces = {"home": {}, "away": {"team": "red"}, "far": {"team": "blue"}}
    pods = [pod("db", DATABASE, "a1", "away"), pod("other", DATABASE, "b1", "far")]
    asks = pod("it", pod_affinity=apart(term(DATABASE, where=LabelSelector.of({"team": "red"}))))
    assert Town(NODES, [*pods, asks], namespaces).where("it") == {"b1", "nowhere"}


def test_an_empty_namespace_selector_means_all_namespaces() -> None:
    asks = pod("it", pod_affinity=apart(term(DATABASE, where=LabelSelector())))
    assert Town(NODES, [pod("db", DATABASE, "a1", "unheard-of"), asks]).where("it") == {"b1", "nowhere"}


def test_a_namespace_selector_that_no_labels_meet_speaks_of_every_namespace_as_in_kube_scheduler_1_36() -> None:
    namespaces = {"home": {}, "away": {"stage": "prod"}}
    asks = pod("it", pod_affinity=apart(term(DATABASE, where=HAS_NO_STAGE)))
    assert Town(NODES, [pod("db", DATABASE, "a1", "away"), asks], namespaces).where("it") == {"b1", "nowhere"}


def test_the_namespace_selector_of_a_pod_that_is_there_looks_at_the_labels_of_the_newcomers_namespace() -> None:
    namespaces = {"home": {}, "away": {"stage": "prod"}}
    keeper = pod("db", DATABASE, "a1", pod_affinity=apart(term(WEB, where=HAS_NO_STAGE)))
    town = Town(NODES, [keeper, pod("far", WEB, namespace="away"), pod("near", WEB)], namespaces)
    assert town.where("far") == EVERYWHERE
    assert town.where("near") == {"b1", "nowhere"}


def test_an_absent_selector_means_nobody_and_an_empty_one_everybody() -> None:
    bound = pod("other", {}, "a1")
    nobody = pod("it", pod_affinity=apart(term(None)))
    everybody = pod("it", pod_affinity=apart(term({})))
    assert Town(NODES, [bound, nobody]).where("it") == EVERYWHERE
    assert Town(NODES, [bound, everybody]).where("it") == {"b1", "nowhere"}


def test_pods_that_are_being_deleted_still_count() -> None:
    town = Town(NODES, [pod("db", DATABASE, "a1", deleting=True), pod("it", pod_affinity=apart(term(DATABASE)))])
    assert town.where("it") == {"b1", "nowhere"}


def test_a_term_that_cannot_be_parsed_lets_the_pod_go_nowhere() -> None:
    broken = LabelSelector(match_expressions=(Requirement("app", "Like", ("web",)),))
    assert Town(NODES, [pod("it", pod_affinity=apart(term(broken)))]).where("it") == set()


def test_pods_placed_in_this_cycle_count_and_what_is_taken_back_does_not() -> None:
    town = Town(NODES, [pod("it", WEB, pod_affinity=apart(term(WEB)))])
    assert town.where("it") == EVERYWHERE
    town.move("it", "a2")
    assert town.where("it") == {"b1", "nowhere"}
    town.move("it", "a2", -1)
    assert town.where("it") == EVERYWHERE


def test_what_was_placed_before_anybody_asked_counts_too() -> None:
    town = Town(NODES, [pod("first", WEB, pod_affinity=apart(term(WEB))), pod("it", WEB)])
    town.move("first", "a2")
    assert town.where("it") == {"b1", "nowhere"}


def test_a_victim_that_goes_gives_its_domain_free() -> None:
    town = Town(NODES, [pod("db", DATABASE, "a1"), pod("it", pod_affinity=apart(term(DATABASE)))])
    town.move("db", "a1", -1)
    assert town.where("it") == EVERYWHERE


def test_two_pods_in_a_domain_must_both_go() -> None:
    pods = [pod("db", DATABASE, "a1"), pod("db2", DATABASE, "a2"), pod("it", pod_affinity=apart(term(DATABASE)))]
    town = Town(NODES, pods)
    town.move("db", "a1", -1)
    assert town.where("it") == {"b1", "nowhere"}
