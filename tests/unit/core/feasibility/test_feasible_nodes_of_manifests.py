"""From Kubernetes objects to feasible nodes: what is judged against the real kube-scheduler, in small."""

from __future__ import annotations

from typing import Any

from allhands.core.feasibility.judge import feasible_nodes

Manifest = dict[str, Any]


def _node(name: str, **room: str) -> Manifest:
    return {"metadata": {"name": name}, "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "3", **room}}}


def _pod(name: str, requests: dict[str, str] | None = None, on: str = "", **spec: Any) -> Manifest:
    status = spec.pop("status", {})
    priority = spec.pop("priority", 0)
    metadata = {"name": name, "namespace": "home", "uid": f"uid-{name}", **spec.pop("metadata", {})}
    containers = [{"name": "main", "image": "train", "resources": {"requests": requests or {}}}]
    more = {"nodeName": on} if on else {}
    body = {"containers": containers, "priority": priority, **more, **spec}
    return {"metadata": metadata, "spec": body, "status": status}


def where(pods: list[Manifest], it: Manifest, *nodes: Manifest) -> set[str]:
    world = {"Node": list(nodes) or [_node("one"), _node("two")], "Pod": pods}
    (found,) = feasible_nodes(world, [it])
    return set(found)


def test_a_pod_fits_where_enough_is_free() -> None:
    assert where([_pod("there", {"cpu": "3"}, "one")], _pod("it", {"cpu": "2"})) == {"two"}


def test_a_pod_that_asks_for_nothing_fits_on_an_overcommitted_node() -> None:
    assert where([_pod("there", {"cpu": "9"}, "one")], _pod("it")) == {"one", "two"}
    assert where([_pod("there", {"cpu": "9"}, "one")], _pod("it", {"cpu": "0", "memory": "1"})) == {"one", "two"}


def test_a_node_takes_no_more_pods_than_it_says() -> None:
    pods = [_pod(f"there-{number}", None, "one") for number in range(3)]
    assert where(pods, _pod("it")) == {"two"}


def test_finished_pods_hold_nothing_and_leaving_ones_all() -> None:
    finished = _pod("done", {"cpu": "4"}, "one", status={"phase": "Succeeded"})
    leaving = _pod("leaving", {"cpu": "4"}, "two", metadata={"deletionTimestamp": "2020-01-01T00:00:00Z"})
    assert where([finished, leaving], _pod("it", {"cpu": "1"})) == {"one"}


def test_what_no_node_lists_no_node_has() -> None:
    assert where([], _pod("it", {"example.com/gpu": "1"})) == set()
    assert where([], _pod("it", {"example.com/gpu": "0"})) == {"one", "two"}
    assert where(
        [], _pod("it", {"ephemeral-storage": "1"}), _node("bare"), _node("disk", **{"ephemeral-storage": "1Gi"})
    ) == {"disk"}


def test_a_gated_pod_and_one_with_resource_claims_go_nowhere() -> None:
    assert where([], _pod("it", schedulingGates=[{"name": "wait"}])) == set()
    assert where([], _pod("it", resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}])) == set()


def test_a_pod_nominated_by_others_counts_for_those_of_no_higher_priority() -> None:
    rival = _pod("rival", {"cpu": "4"}, priority=100, status={"nominatedNodeName": "one"})
    assert where([rival], _pod("it", {"cpu": "1"}, priority=100)) == {"two"}
    assert where([rival], _pod("it", {"cpu": "1"}, priority=101)) == {"one", "two"}


def test_pods_do_not_see_each_other() -> None:
    pods = [_pod("first", {"cpu": "4"}), _pod("second", {"cpu": "4"})]
    assert feasible_nodes({"Node": [_node("one")]}, pods) == [frozenset({"one"})] * 2


def test_without_nodes_there_is_no_place() -> None:
    assert feasible_nodes({}, [_pod("it")]) == [frozenset()]
