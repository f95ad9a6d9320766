"""Nodes that fall silent, are ill, return or are gone, and what becomes of their pods."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from allhands.lifecycle.instructions import Delete, Outcome, Patch, Record
from allhands.lifecycle.node import GONE_SECONDS, reconcile, reconcile_gone
from allhands.lifecycle.observed import Node, Pod

NOW = 1_769_860_800.0
NOW_TEXT = "2026-01-31T12:00:00Z"
NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"


def node(ready: str = "True", taints: list[dict[str, Any]] | None = None, **more: Any) -> Node:
    conditions = [{"type": "Ready", "status": ready, "lastHeartbeatTime": "2026-01-31T11:00:00Z"}] if ready else []
    if ready == "Unknown":
        conditions += [{"type": f"{it}Pressure", "status": "Unknown"} for it in ("Memory", "Disk", "PID")]
    conditions += [{"type": it, "status": "True"} for it in more.get("pressures", ())]
    metadata = {"name": "n", "uid": "n", "resourceVersion": "3", "creationTimestamp": "2026-01-31T10:00:00Z"}
    spec = {"taints": taints, "unschedulable": more.get("unschedulable", False)}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": {"conditions": conditions}}, Node)


def pod(name: str = "p", seconds: int | str | None = "none", **more: Any) -> Pod:
    """`seconds` "none": it tolerates nothing; None: it bears it for ever."""
    tolerations = []
    if seconds != "none":
        tolerations = [
            {"key": it, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}
            for it in (NOT_READY, UNREACHABLE)
        ]
    metadata: dict[str, Any] = {"name": name, "namespace": "ns", "uid": name, "resourceVersion": "9"}
    if more.get("going"):
        metadata["deletionTimestamp"] = NOW_TEXT
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-31T11:00:00Z", "message": "kept"}
    status = {"phase": more.get("phase", "Running"), "conditions": [ready]}
    return msgspec.convert({"metadata": metadata, "spec": {"tolerations": tolerations}, "status": status}, Pod)


def taint(key: str, effect: str, added: str | None = None) -> dict[str, Any]:
    return {"key": key, "effect": effect} | ({"timeAdded": added} if added else {})


LOST = [taint(UNREACHABLE, "NoSchedule"), taint(UNREACHABLE, "NoExecute", NOW_TEXT)]


def taints_of(outcome: Outcome) -> list[tuple[str, str]]:
    (patch,) = [it for it in outcome.instructions if isinstance(it, Patch)]
    assert patch.version == "3"
    return [(it["key"], it["effect"]) for it in patch.patch["spec"]["taints"] or ()]


def test_a_node_that_is_heard_from_is_only_looked_at_again_when_its_time_is_up() -> None:
    assert reconcile(node(), [pod()], 15.0, NOW) == Outcome((), NOW + 25)


def test_a_lease_that_lasts_longer_gives_more_time() -> None:
    assert reconcile(node(), [], 50.0, NOW, lease_duration_seconds=120) == Outcome((), NOW + 70)
    assert reconcile(node(), [], 50.0, NOW, lease_duration_seconds=10).instructions


def test_a_look_that_is_a_hair_too_early_is_followed_by_another() -> None:
    """So little is lost beside the seconds of a calendar; a node must not be forgotten for it."""
    outcome = reconcile(node(), [], 40.0 - 1e-9, NOW)
    assert outcome.instructions == ()
    assert outcome.wake_at_seconds is not None
    assert NOW < outcome.wake_at_seconds < NOW + 0.01


def test_a_silent_node_is_unknown_first_then_tainted_then_its_pods_are_not_ready() -> None:
    first = reconcile(node(), [pod()], 40.0, NOW)
    patch, event = first.instructions
    assert isinstance(patch, Patch)
    assert isinstance(event, Record)
    told = {it["type"]: (it["status"], it["reason"]) for it in patch.patch["status"]["conditions"]}
    assert told["Ready"] == ("Unknown", "NodeStatusUnknown")
    assert told["PIDPressure"] == ("Unknown", "NodeStatusNeverUpdated")
    assert patch.patch["status"]["conditions"][0]["lastHeartbeatTime"] == "2026-01-31T11:00:00Z"
    second = reconcile(node("Unknown"), [pod()], 41.0, NOW)
    assert taints_of(second) == [(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")]
    third = reconcile(node("Unknown", LOST), [pod(seconds=300)], 41.0, NOW)
    (not_ready,) = third.instructions
    assert isinstance(not_ready, Patch)
    (condition,) = not_ready.patch["status"]["conditions"]
    assert condition == {"type": "Ready", "status": "False", "message": "kept", "lastTransitionTime": NOW_TEXT}
    assert third.wake_at_seconds == NOW + 300


def test_a_node_that_never_said_anything_gets_the_time_to_start() -> None:
    new = node("", [taint(NOT_READY, "NoSchedule")])
    assert reconcile(new, [], 59.0, NOW) == Outcome((), NOW + 1)
    patch = reconcile(new, [], 60.0, NOW).instructions[0]
    assert isinstance(patch, Patch)
    assert {it["reason"] for it in patch.patch["status"]["conditions"]} == {"NodeStatusNeverUpdated"}


def test_a_node_that_returns_loses_our_taints_and_keeps_those_of_others() -> None:
    theirs = taint("dedicated", "NoSchedule")
    assert taints_of(reconcile(node("True", [*LOST, theirs]), [], 0.0, NOW)) == [("dedicated", "NoSchedule")]


def test_an_ill_node_has_the_taints_of_its_illness() -> None:
    ill = node("False", pressures=["DiskPressure", "NetworkUnavailable"], unschedulable=True)
    assert taints_of(reconcile(ill, [], 0.0, NOW)) == [
        (NOT_READY, "NoSchedule"),
        (NOT_READY, "NoExecute"),
        ("node.kubernetes.io/disk-pressure", "NoSchedule"),
        ("node.kubernetes.io/network-unavailable", "NoSchedule"),
        ("node.kubernetes.io/unschedulable", "NoSchedule"),
    ]


@pytest.mark.parametrize(
    ("seconds", "age", "goes"),
    [("none", 0, True), (0, 0, True), (300, 299, False), (300, 300, True), (None, 10**6, False), (-5, 0, True)],
)
def test_a_pod_bears_a_taint_for_as_long_as_it_asked(seconds: Any, age: float, goes: bool) -> None:
    outcome = reconcile(node("Unknown", LOST), [pod(seconds=seconds)], 50.0, NOW + age)
    assert [it.name for it in outcome.instructions if isinstance(it, Delete)] == (["p"] if goes else [])


def test_an_evicted_pod_is_told_why_before_it_goes_and_only_once() -> None:
    outcome = reconcile(node("Unknown", LOST), [pod()], 50.0, NOW)
    patch, deletion, event = outcome.instructions
    assert isinstance(patch, Patch)
    assert patch.patch["status"]["conditions"][-1]["reason"] == "DeletionByTaintManager"
    assert isinstance(deletion, Delete)
    assert deletion.uid == "p"
    assert isinstance(event, Record)
    again = msgspec.convert(
        {
            "metadata": {"name": "p", "namespace": "ns", "uid": "p"},
            "status": {"phase": "Running", "conditions": patch.patch["status"]["conditions"]},
        },
        Pod,
    )
    kinds = [type(it) for it in reconcile(node("Unknown", LOST), [again], 50.0, NOW).instructions]
    assert kinds == [Delete, Record]


def test_a_taint_of_somebody_else_without_a_time_gets_one_so_that_patience_has_a_beginning() -> None:
    theirs = taint("maintenance", "NoExecute")
    outcome = reconcile(node("True", [theirs]), [pod()], 0.0, NOW)
    (patch,) = outcome.instructions
    assert isinstance(patch, Patch)
    assert patch.patch["spec"]["taints"] == [{**theirs, "timeAdded": NOW_TEXT}]


def test_nonsense_in_a_taints_time_evicts_rather_than_fails() -> None:
    broken = [taint(UNREACHABLE, "NoSchedule"), taint(UNREACHABLE, "NoExecute", "yesterday")]
    outcome = reconcile(node("Unknown", broken), [pod(seconds=300)], 50.0, NOW)
    assert any(isinstance(it, Delete) for it in outcome.instructions)


def test_ended_and_going_pods_are_left_alone() -> None:
    pods = [pod("over", phase="Succeeded"), pod("going", going=True)]
    assert reconcile(node("Unknown", LOST), pods, 50.0, NOW).instructions == ()


def test_pods_that_cannot_end_on_a_node_out_of_service_are_given_up() -> None:
    out = [*LOST, taint("node.kubernetes.io/out-of-service", "NoExecute", NOW_TEXT)]
    outcome = reconcile(node("Unknown", out), [pod("going", None, going=True)], 50.0, NOW)
    patch, deletion = outcome.instructions
    assert isinstance(patch, Patch)
    assert patch.patch == {"status": {"phase": "Failed"}}
    assert isinstance(deletion, Delete)
    assert deletion.grace_seconds == 0


def test_pods_on_a_node_that_is_gone_are_given_up_after_a_while() -> None:
    assert reconcile_gone([pod()], 1.0, NOW) == Outcome((), NOW + GONE_SECONDS - 1)
    patch, deletion = reconcile_gone([pod()], GONE_SECONDS, NOW).instructions
    assert isinstance(patch, Patch)
    assert patch.patch["status"]["phase"] == "Failed"
    assert patch.patch["status"]["conditions"][-1]["reason"] == "DeletionByPodGC"
    assert isinstance(deletion, Delete)
    (only,) = reconcile_gone([pod(phase="Succeeded")], GONE_SECONDS, NOW).instructions
    assert isinstance(only, Delete)


def test_where_nobody_is_well_nobody_is_driven_away() -> None:
    outcome = reconcile(node("Unknown", LOST), [pod()], 50.0, NOW, nobody_is_well=True)
    assert taints_of(outcome) == [(UNREACHABLE, "NoSchedule")]
    kept = reconcile(node("Unknown", LOST[:1]), [pod()], 50.0, NOW, nobody_is_well=True)
    assert not any(isinstance(it, Delete) for it in kept.instructions)


def test_thousands_of_pods_on_a_node_that_is_gone_are_given_up_in_steps() -> None:
    outcome = reconcile_gone([pod(f"p{i}") for i in range(1000)], GONE_SECONDS, NOW)
    assert len(outcome.instructions) == 400
    assert outcome.wake_at_seconds == NOW
