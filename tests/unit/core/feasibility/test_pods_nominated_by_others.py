"""Pods that another scheduler means to put on a node count there, with and without, and nowhere else."""

from __future__ import annotations

from tests.unit.core.feasibility.town import DATABASE, WEB, Town, apart, node, pod, port, spread, term, together

NODES = [node("a1", "a"), node("a2", "a"), node("b1", "b")]


def test_a_nominated_pod_holds_its_ports() -> None:
    nominated = pod("rival", nominated_node="a1", host_ports=(port(80),))
    assert Town(NODES, [nominated, pod("it", host_ports=(port(80),))]).where("it") == {"a2", "b1"}


def test_anti_affinity_to_it_closes_its_own_node_alone() -> None:
    nominated = pod("rival", DATABASE, nominated_node="a1")
    assert Town(NODES, [nominated, pod("it", pod_affinity=apart(term(DATABASE)))]).where("it") == {"a2", "b1"}


def test_affinity_to_it_opens_nothing() -> None:
    nominated = pod("rival", DATABASE, nominated_node="a1")
    assert Town(NODES, [nominated, pod("it", pod_affinity=together(term(DATABASE)))]).where("it") == set()


def test_what_it_forbids_is_seen_by_pods_that_ask_for_affinity_themselves() -> None:
    nominated = pod("rival", DATABASE, nominated_node="a1", pod_affinity=apart(term(WEB)))
    asking = pod("it", WEB, pod_affinity=apart(term({"app": "none"})))
    assert Town(NODES, [nominated, asking]).where("it") == {"a2", "b1"}


def test_what_it_forbids_is_not_seen_by_a_pod_to_which_nothing_else_is_forbidden() -> None:
    nominated = pod("rival", DATABASE, nominated_node="a1", pod_affinity=apart(term(WEB)))
    assert Town(NODES, [nominated, pod("it", WEB)]).where("it") == {"a1", "a2", "b1"}


def test_what_it_forbids_is_seen_once_a_pod_that_is_there_forbids_something() -> None:
    nominated = pod("rival", DATABASE, nominated_node="a1", pod_affinity=apart(term(WEB)))
    there = pod("db", DATABASE, "b1", pod_affinity=apart(term(WEB)))
    assert Town(NODES, [nominated, there, pod("it", WEB)]).where("it") == {"a2"}


def test_spreading_counts_it_on_its_own_node_alone() -> None:
    nominated = pod("rival", WEB, nominated_node="a1")
    assert Town(NODES, [nominated, pod("it", WEB, spread=(spread(WEB),))]).where("it") == {"a2", "b1"}


def test_counts_are_the_same_after_looking() -> None:
    nominated = pod("rival", WEB, nominated_node="a1")
    town = Town(NODES, [nominated, pod("it", WEB, spread=(spread(WEB),), pod_affinity=apart(term(DATABASE)))])
    assert [town.where("it") for _ in range(3)] == [{"a2", "b1"}] * 3
