"""Required affinity, with kube-scheduler's rule for the first pod of a kind."""

from __future__ import annotations

from tests.unit.core.feasibility.town import DATABASE, HOST, WEB, ZONE, Town, node, pod, term, together

NODES = [node("a1", "a"), node("a2", "a"), node("b1", "b"), node("nowhere")]


def test_a_pod_goes_only_where_the_pods_are_that_it_wants() -> None:
    town = Town(NODES, [pod("db", DATABASE, "a1"), pod("it", pod_affinity=together(term(DATABASE)))])
    assert town.where("it") == {"a1", "a2"}


def test_without_such_pods_it_goes_nowhere() -> None:
    assert Town(NODES, [pod("it", pod_affinity=together(term(DATABASE)))]).where("it") == set()


def test_the_first_of_its_kind_may_go_wherever_the_topology_key_is() -> None:
    assert Town(NODES, [pod("it", WEB, pod_affinity=together(term(WEB)))]).where("it") == {"a1", "a2", "b1"}


def test_the_second_of_its_kind_must_follow_the_first() -> None:
    town = Town(NODES, [pod("web", WEB, "b1"), pod("it", WEB, pod_affinity=together(term(WEB)))])
    assert town.where("it") == {"b1"}


def test_a_pod_like_it_that_is_in_no_domain_does_not_make_it_the_second() -> None:
    town = Town(NODES, [pod("web", WEB, "nowhere"), pod("it", WEB, pod_affinity=together(term(WEB)))])
    assert town.where("it") == {"a1", "a2", "b1"}


def test_all_terms_must_mean_one_and_the_same_pod() -> None:
    both = together(term({"app": "web"}), term({"tier": "back"}, HOST))
    apart_from_each_other = [pod("web", {"app": "web"}, "a1"), pod("back", {"tier": "back"}, "a1")]
    assert Town(NODES, [*apart_from_each_other, pod("it", pod_affinity=both)]).where("it") == set()
    one = pod("one", {"app": "web", "tier": "back"}, "a2")
    assert Town(NODES, [one, pod("it", pod_affinity=both)]).where("it") == {"a2"}


def test_each_topology_key_may_be_met_by_another_pod_that_all_terms_mean() -> None:
    both = together(term(WEB, HOST), term(WEB))
    town = Town(NODES, [pod("web", WEB, "a1"), pod("web2", WEB, "nowhere"), pod("it", pod_affinity=both)])
    assert town.where("it") == {"a1"}


def test_the_first_of_its_kind_must_be_meant_by_all_of_its_terms() -> None:
    both = together(term(WEB), term(DATABASE))
    assert Town(NODES, [pod("it", WEB, pod_affinity=both)]).where("it") == set()


def test_a_pod_of_another_namespace_is_not_the_first_of_its_kind() -> None:
    wants = pod("it", WEB, pod_affinity=together(term(WEB, ZONE, "away")))
    assert Town(NODES, [wants]).where("it") == set()


def test_an_absent_selector_is_never_satisfied() -> None:
    assert Town(NODES, [pod("web", WEB, "a1"), pod("it", WEB, pod_affinity=together(term(None)))]).where("it") == set()


def test_pods_that_are_being_deleted_still_attract() -> None:
    town = Town(NODES, [pod("db", DATABASE, "a1", deleting=True), pod("it", pod_affinity=together(term(DATABASE)))])
    assert town.where("it") == {"a1", "a2"}


def test_a_gang_follows_its_first_member() -> None:
    town = Town(NODES, [pod("it", WEB, pod_affinity=together(term(WEB)))])
    town.move("it", "b1")
    assert town.where("it") == {"b1"}
    town.move("it", "b1", -1)
    assert town.where("it") == {"a1", "a2", "b1"}
