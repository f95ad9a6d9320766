"""Who is made, adopted, let go and ended by a ReplicaSet, and what it says about it."""

from __future__ import annotations

from typing import Any

import msgspec

from allhands.lifecycle.instructions import Create, Delete, Outcome, Patch
from allhands.lifecycle.observed import Pod
from allhands.lifecycle.replica_set import BURST, Refusal, ReplicaSet, reconcile

NOW = 1_769_860_800.0
"""2026-01-31T12:00:00Z"""


def replicas(count: int, status: dict[str, Any] | None = None, **spec: Any) -> ReplicaSet:
    manifest = {
        "metadata": {"name": "web", "namespace": "ns", "uid": "rs", "generation": 2},
        "spec": {
            "replicas": count,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}, "annotations": {"a": "b"}},
                "spec": {"containers": [{"name": "c"}]},
            },
            **spec,
        },
        "status": status or {},
    }
    return msgspec.convert(manifest, ReplicaSet)


def pod(name: str, *, ready: str = "", owner: str | None = "rs", labels: str = "web", **more: Any) -> Pod:
    owners = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": owner, "controller": True}]
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": "ns",
        "uid": name,
        "labels": {"app": labels},
        "creationTimestamp": more.get("created", "2026-01-31T10:00:00Z"),
        "ownerReferences": owners if owner else None,
        "annotations": more.get("annotations"),
    }
    if more.get("going"):
        metadata["deletionTimestamp"] = "2026-01-31T11:00:00Z"
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": ready}] if ready else None
    status = {
        "phase": more.get("phase", "Running"),
        "conditions": conditions,
        "containerStatuses": [{"restartCount": more.get("restarts", 0)}],
    }
    return msgspec.convert({"metadata": metadata, "spec": {"nodeName": more.get("node", "n")}, "status": status}, Pod)


def ended(outcome: Outcome) -> list[str]:
    return [it.name for it in outcome.instructions if isinstance(it, Delete)]


def made(outcome: Outcome) -> list[dict[str, Any]]:
    return [it.manifest for it in outcome.instructions if isinstance(it, Create)]


def status_of(outcome: Outcome) -> dict[str, Any]:
    return next((it.patch["status"] for it in outcome.instructions if isinstance(it, Patch) and it.subresource), {})


def test_what_lacks_is_made_from_the_template_and_belongs_to_the_set() -> None:
    outcome = reconcile(replicas(3), [pod("a"), pod("b", phase="Failed"), pod("c", going=True)], NOW)
    assert len(made(outcome)) == 2
    manifest = made(outcome)[0]
    assert manifest["metadata"]["generateName"] == "web-"
    assert manifest["metadata"]["annotations"] == {"a": "b"}
    assert manifest["metadata"]["ownerReferences"][0]["uid"] == "rs"
    assert status_of(outcome)["replicas"] == 1
    assert status_of(outcome)["terminatingReplicas"] == 1


def test_a_huge_set_grows_in_steps() -> None:
    assert len(made(reconcile(replicas(2_000_000_000), [], NOW))) == BURST


def test_pods_that_do_the_least_good_go_first() -> None:
    long_ago, lately = "2026-01-31T08:00:00Z", "2026-01-31T11:59:00Z"
    pods = [
        pod("old", ready=long_ago),
        pod("precious", ready=lately, annotations={"controller.kubernetes.io/pod-deletion-cost": "100"}),
        pod("cheap", ready=long_ago, annotations={"controller.kubernetes.io/pod-deletion-cost": "-1"}),
        pod("fresh", ready=lately),
        pod("unready"),
        pod("pending", phase="Pending"),
        pod("unplaced", phase="Pending", node=""),
        pod("crowded", ready=long_ago, node="m"),
        pod("restarted", ready=long_ago, restarts=5),
    ]
    siblings = [pod(f"sibling{i}", owner="other", node="m") for i in range(12)]
    order = [set(ended(reconcile(replicas(left), pods, NOW, siblings))) for left in range(len(pods) - 1, -1, -1)]
    first_gone = [next(iter(now - before)) for before, now in zip([set(), *order], order, strict=False)]
    expected = ["unplaced", "pending", "unready", "cheap", "crowded", "fresh", "restarted", "old", "precious"]
    assert first_gone == expected


def test_nonsense_as_a_deletion_cost_counts_as_none() -> None:
    for text in ("", "+", "-", "ten", "9" * 40, "1.5"):
        noted = pod("a", annotations={"controller.kubernetes.io/pod-deletion-cost": text})
        assert ended(reconcile(replicas(0), [noted], NOW)) == ["a"]


def test_a_stray_that_fits_is_adopted_and_counts() -> None:
    outcome = reconcile(replicas(1), [pod("stray", owner=None)], NOW)
    (adoption,) = [it for it in outcome.instructions if isinstance(it, Patch) and not it.subresource]
    assert adoption.patch["metadata"]["uid"] == "stray"
    assert adoption.patch["metadata"]["ownerReferences"][0]["controller"] is True
    assert made(outcome) == []


def test_strangers_pods_and_ended_strays_are_left_alone() -> None:
    others = [pod("a", owner="else"), pod("b", owner=None, labels="x"), pod("c", owner=None, phase="Succeeded")]
    outcome = reconcile(replicas(0), others, NOW)
    assert [type(it) for it in outcome.instructions] == [Patch]
    assert status_of(outcome)["replicas"] == 0


def test_a_pod_whose_labels_were_changed_is_let_go_and_replaced() -> None:
    outcome = reconcile(replicas(1), [pod("looked-into", labels="debug")], NOW)
    (release,) = [it for it in outcome.instructions if isinstance(it, Patch) and not it.subresource]
    assert release.patch["metadata"]["ownerReferences"] is None
    assert len(made(outcome)) == 1


def test_a_set_that_is_being_deleted_makes_and_adopts_nothing() -> None:
    going = msgspec.convert(
        {"metadata": {"name": "web", "deletionTimestamp": "2026-01-31T11:00:00Z"}, "spec": {"replicas": 3}}, ReplicaSet
    )
    assert made(reconcile(going, [pod("stray", owner=None)], NOW)) == []


def test_an_empty_or_broken_selector_takes_over_nobody() -> None:
    for selector in ({}, None, {"matchExpressions": [{"key": "a", "operator": "Huh"}]}):
        outcome = reconcile(replicas(0, selector=selector), [pod("stray", owner=None)], NOW)
        assert all(isinstance(it, Patch) and it.subresource for it in outcome.instructions)


def test_ready_pods_become_available_when_their_time_has_come() -> None:
    ready = pod("a", ready="2026-01-31T11:59:30Z")
    before = reconcile(replicas(1, minReadySeconds=60), [ready], NOW)
    assert status_of(before)["readyReplicas"] == 1
    assert "availableReplicas" not in status_of(before)
    assert before.wake_at_seconds == NOW + 30
    after = reconcile(replicas(1, minReadySeconds=60), [ready], NOW + 30)
    assert status_of(after)["availableReplicas"] == 1
    assert after.wake_at_seconds is None


def test_a_refusal_is_told_before_the_next_try_and_taken_back_after_a_success() -> None:
    refused = reconcile(replicas(1), [], NOW, refusal=Refusal("exceeded quota"))
    assert isinstance(refused.instructions[0], Patch)
    (condition,) = status_of(refused)["conditions"]
    assert (condition["type"], condition["reason"], condition["message"]) == (
        "ReplicaFailure",
        "FailedCreate",
        "exceeded quota",
    )
    well = reconcile(replicas(1, {"conditions": [condition]}), [pod("a")], NOW)
    assert status_of(well)["conditions"] is None


def test_a_set_that_is_as_it_should_be_is_not_written() -> None:
    status = {"replicas": 1, "fullyLabeledReplicas": 1, "observedGeneration": 2}
    assert reconcile(replicas(1, status), [pod("a")], NOW) == Outcome()
