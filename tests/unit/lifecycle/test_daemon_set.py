"""On which nodes a DaemonSet has its pods, who goes, how it rolls out, and what it says about it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from allhands.lifecycle.controller_revision import REVISIONS, Revision
from allhands.lifecycle.daemon_set.kinds import DaemonNode, DaemonPod, DaemonSet
from allhands.lifecycle.daemon_set.machine import BURST, reconcile
from allhands.lifecycle.daemon_set.patience import LONGEST_SECONDS, Patience
from allhands.lifecycle.daemon_set.reading import read_node, target_of
from allhands.lifecycle.instructions import Create, Delete, Outcome, Patch, Record
from allhands.lifecycle.replica_set import PODS, Refusal
from allhands.model.node import Taint

NOW = 1_769_860_800.0
"""2026-01-31T12:00:00Z"""
LONG_AGO = "2026-01-31T08:00:00Z"
LATELY = "2026-01-31T11:59:59Z"


def daemon(
    image: str = "a", status: dict[str, Any] | None = None, pod: dict[str, Any] | None = None, **spec: Any
) -> DaemonSet:
    template = {
        "metadata": {"labels": {"app": "agent"}, "annotations": {"note": "x"}},
        "spec": {"containers": [{"name": "c", "image": image}], **(pod or {})},
    }
    metadata: dict[str, Any] = {
        "name": "agent",
        "namespace": "ns",
        "uid": "ds",
        "generation": 2,
        "annotations": {"deprecated.daemonset.template.generation": "7"},
    }
    if spec.pop("going", False):
        metadata["deletionTimestamp"] = LONG_AGO
    manifest = {
        "metadata": metadata,
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "revisionHistoryLimit": 1,
            "template": template,
            "updateStrategy": rolling(1, 0),
            **spec,
        },
        "status": status or {},
    }
    return msgspec.convert(manifest, DaemonSet)


def rolling(unavailable: int | str, surge: int | str) -> dict[str, Any]:
    return {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": unavailable, "maxSurge": surge}}


def revision(digest: str, image: str, number: int) -> Revision:
    owners = [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "ds", "controller": True}]
    metadata = {
        "name": f"agent-{digest}",
        "namespace": "ns",
        "uid": digest,
        "labels": {"app": "agent", "controller-revision-hash": digest},
        "ownerReferences": owners,
    }
    template = {
        "$patch": "replace",
        "metadata": {"labels": {"app": "agent"}, "annotations": {"note": "x"}},
        "spec": {"containers": [{"name": "c", "image": image}]},
    }
    data = {"spec": {"template": template}}
    return msgspec.convert({"metadata": metadata, "data": data, "revision": number}, Revision)


OLD, NEW = revision("old", "old", 1), revision("a", "a", 2)


def node(name: str, *taints: str, **labels: str) -> DaemonNode:
    found = tuple(Taint(key, effect) for key, _, effect in (it.partition(":") for it in taints))
    return DaemonNode(name, labels, found)


NODES = [node("n0"), node("n1"), node("n2")]


def pod(target: str, of: str = "a", *, ready: str = LONG_AGO, **more: Any) -> DaemonPod:
    owner = more.get("owner", "ds")
    owners = [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": owner, "controller": True}]
    name = more.get("name", f"agent-{target}")
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": "ns",
        "uid": name,
        "labels": {"app": more.get("app", "agent"), "controller-revision-hash": of},
        "creationTimestamp": more.get("created", LONG_AGO),
        "ownerReferences": owners if owner else None,
    }
    if more.get("going"):
        metadata["deletionTimestamp"] = LONG_AGO
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": ready}] if ready else None
    spec = {"nodeName": target if more.get("bound", True) else ""}
    status = {"phase": more.get("phase", "Running"), "conditions": conditions}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status, "target": target}, DaemonPod)


def look(
    daemon: DaemonSet,
    pods: list[DaemonPod] | None = None,
    nodes: list[DaemonNode] = NODES,
    revisions: list[Revision] | None = None,
    **more: Any,
) -> Outcome:
    return reconcile(daemon, pods or [], nodes, [NEW] if revisions is None else revisions, NOW, **more)[0]


def made(outcome: Outcome) -> list[str]:
    """The nodes that new pods are for."""
    return [
        target_of(msgspec.json.encode(it.manifest))
        for it in outcome.instructions
        if isinstance(it, Create) and it.resource == PODS
    ]


def ended(outcome: Outcome) -> list[str]:
    return [it.name for it in outcome.instructions if isinstance(it, Delete) and it.resource == PODS]


def told(outcome: Outcome) -> dict[str, Any]:
    return next((it.patch["status"] for it in outcome.instructions if isinstance(it, Patch) and it.subresource), {})


def events(outcome: Outcome) -> list[tuple[str, str]]:
    return [(it.reason, it.message) for it in outcome.instructions if isinstance(it, Record)]


# -- where


def test_every_node_gets_a_pod_that_names_it() -> None:
    outcome = look(daemon(pod={"affinity": {"podAntiAffinity": {"x": []}, "nodeAffinity": {"p": []}}}), revisions=[])
    assert made(outcome) == ["n0", "n1", "n2"]
    revision_made, first = [it.manifest for it in outcome.instructions if isinstance(it, Create)][:2]
    digest = revision_made["metadata"]["labels"]["controller-revision-hash"]
    assert revision_made["metadata"]["name"] == f"agent-{digest}"
    metadata, spec = first["metadata"], first["spec"]
    assert metadata["generateName"] == "agent-"
    assert metadata["labels"] == {
        "app": "agent",
        "controller-revision-hash": digest,
        "pod-template-generation": "7",
    }
    assert metadata["annotations"] == {"note": "x"}
    assert spec["affinity"] == {
        "podAntiAffinity": {"x": []},
        "nodeAffinity": {
            "p": [],
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n0"]}]}]
            },
        },
    }
    assert {(it["key"].partition("/")[2], it["effect"]) for it in spec["tolerations"]} == {
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    }
    assert told(outcome)["desiredNumberScheduled"] == 3


def _required(**term: Any) -> dict[str, Any]:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {"affinity": {"nodeAffinity": required}}


WHERE: list[tuple[str, dict[str, Any], DaemonNode, bool]] = [
    ("a node selector that fits", {"nodeSelector": {"gpu": "yes"}}, node("n", gpu="yes"), True),
    ("a node selector that does not", {"nodeSelector": {"gpu": "yes"}}, node("n", gpu="no"), False),
    ("affinity that fits", _required(matchExpressions=[{"key": "gpu", "operator": "Exists"}]), node("n", gpu=""), True),
    ("affinity that does not", _required(matchExpressions=[{"key": "gpu", "operator": "Exists"}]), node("n"), False),
    ("the name of another node", {"nodeName": "m"}, node("n"), False),
    ("its own name", {"nodeName": "n"}, node("n"), True),
    ("a taint", {}, node("n", "a:NoSchedule"), False),
    ("a taint that is only a wish", {}, node("n", "a:PreferNoSchedule"), True),
    ("a taint that is borne", {"tolerations": [{"key": "a", "operator": "Exists"}]}, node("n", "a:NoSchedule"), True),
    ("being cordoned", {}, node("n", "node.kubernetes.io/unschedulable:NoSchedule"), True),
    ("being unreachable", {}, node("n", "node.kubernetes.io/unreachable:NoExecute"), True),
    ("a node that is only starting", {}, node("n", "node.kubernetes.io/not-ready:NoSchedule"), False),
    ("a network that is missing", {}, node("n", "node.kubernetes.io/network-unavailable:NoSchedule"), False),
    (
        "a network that is missing and not needed",
        {"hostNetwork": True},
        node("n", "node.kubernetes.io/network-unavailable:NoSchedule"),
        True,
    ),
]


@pytest.mark.parametrize(("pod_spec", "there", "runs"), [it[1:] for it in WHERE], ids=[it[0] for it in WHERE])
def test_a_node_is_asked_for_all_that_keeps_pods_away(pod_spec: dict[str, Any], there: DaemonNode, runs: bool) -> None:
    outcome = look(daemon(pod=pod_spec), nodes=[there], revisions=[])
    assert bool(made(outcome)) == runs
    assert told(outcome)["desiredNumberScheduled"] == int(runs)


def test_a_toleration_of_the_template_for_a_while_becomes_one_for_good() -> None:
    short = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
    outcome = look(daemon(pod={"tolerations": [{**short, "tolerationSeconds": 9}]}), revisions=[])
    spec = next(it.manifest for it in outcome.instructions if isinstance(it, Create) and it.resource == PODS)["spec"]
    assert spec["tolerations"][0] == short
    assert len(spec["tolerations"]) == 6


def test_a_pod_on_a_node_that_does_not_want_it_goes_unless_it_may_stay() -> None:
    nodes = [node("n0", "a:NoExecute"), node("n1", "a:NoSchedule"), node("n2")]
    outcome = look(daemon(), [pod("n0"), pod("n1"), pod("n2")], nodes)
    assert ended(outcome) == ["agent-n0"]
    assert told(outcome)["numberMisscheduled"] == 2
    assert told(outcome)["currentNumberScheduled"] == 1


def test_a_pod_that_waits_for_a_node_that_is_gone_goes_and_one_that_ran_there_is_left_to_others() -> None:
    outcome = look(daemon(), [pod("gone", bound=False, phase="Pending"), pod("lost")], [])
    assert ended(outcome) == ["agent-gone"]


def test_of_two_on_a_node_the_oldest_that_is_bound_stays() -> None:
    crowd = [
        pod("n0", name="waits", bound=False, created="2020-01-01T00:00:00Z"),
        pod("n0", name="older"),
        pod("n0", name="younger", created=LATELY),
    ]
    assert ended(look(daemon(), crowd, [node("n0")])) == ["younger", "waits"]


def test_while_a_pod_goes_its_node_waits_without_surge_and_does_not_with_it() -> None:
    going = [pod("n0", going=True)]
    assert made(look(daemon(), going, [node("n0")])) == []
    assert made(look(daemon(updateStrategy=rolling(0, 1)), going, [node("n0")])) == ["n0"]


def test_many_nodes_are_served_in_steps() -> None:
    nodes = [node(f"n{number}") for number in range(BURST + 50)]
    assert len(made(look(daemon(), nodes=nodes))) == BURST


def test_strays_that_fit_are_adopted_and_those_whose_labels_changed_let_go() -> None:
    outcome = look(daemon(), [pod("n0", owner=None), pod("n1", app="debug")], NODES[:2])
    adoption, release = [it for it in outcome.instructions if isinstance(it, Patch) and it.resource == PODS]
    assert adoption.patch["metadata"]["ownerReferences"][0]["uid"] == "ds"
    assert release.patch["metadata"]["ownerReferences"] is None
    assert made(outcome) == ["n1"]


def test_a_set_that_is_being_deleted_or_selects_all_does_nothing() -> None:
    assert look(daemon(going=True)) == Outcome()
    nothing: list[dict[str, Any] | None] = [{}, None]
    for selector in nothing:
        assert [type(it) for it in look(daemon(selector=selector)).instructions] == [Record]


# -- pods that end


def test_a_failed_pod_goes_at_once_the_first_time_and_then_after_longer_and_longer_pauses() -> None:
    failed = [pod("n0", phase="Failed")]
    outcome, patience = reconcile(daemon(), failed, NODES[:1], [NEW], NOW)
    assert ended(outcome) == ["agent-n0"]
    assert events(outcome)[0][0] == "FailedDaemonPod"
    now, pauses = NOW, []
    for _ in range(12):
        outcome, patience = reconcile(daemon(), failed, NODES[:1], [NEW], now, patience=patience)
        assert ended(outcome) == []
        assert outcome.wake_at_seconds is not None
        pauses.append(outcome.wake_at_seconds - now)
        now = outcome.wake_at_seconds
        outcome, patience = reconcile(daemon(), failed, NODES[:1], [NEW], now, patience=patience)
        assert ended(outcome) == ["agent-n0"]
    assert pauses[:4] == [1, 2, 4, 8]
    assert pauses[-1] == LONGEST_SECONDS


def test_patience_is_forgotten_with_a_new_template_and_after_a_long_time() -> None:
    patience = Patience(2, {"n0": (8.0, NOW)})
    failed = [pod("n0", phase="Failed")]
    assert ended(look(daemon(), failed, NODES[:1], patience=patience)) == []
    assert ended(look(daemon(), failed, NODES[:1], patience=Patience(1, {"n0": (8.0, NOW)}))) == ["agent-n0"]
    later = patience.after_failures(["n0"], NOW + 2 * LONGEST_SECONDS + 1)
    assert later.pauses["n0"][0] == 1.0


def test_a_pod_that_succeeded_goes_without_a_pause() -> None:
    outcome = look(daemon(), [pod("n0", phase="Succeeded")], NODES[:1], patience=Patience(2, {"n0": (9.0, NOW)}))
    assert ended(outcome) == ["agent-n0"]
    assert events(outcome)[0][0] == "SucceededDaemonPod"


# -- the rollout


def test_old_pods_go_as_many_at_a_time_as_may_be_missing() -> None:
    old = [pod(it.name, "old") for it in NODES]
    assert ended(look(daemon(), old, revisions=[OLD, NEW])) == ["agent-n0"]
    two = look(daemon(updateStrategy=rolling(2, 0)), old, revisions=[OLD, NEW])
    assert ended(two) == ["agent-n0", "agent-n1"]
    assert ended(look(daemon(updateStrategy=rolling("34%", 0)), old, revisions=[OLD, NEW])) == ["agent-n0", "agent-n1"]


def test_the_rollout_waits_for_new_pods_that_are_not_available_and_for_old_ones_that_go() -> None:
    rest = [pod("n1", "old"), pod("n2", "old")]
    for first in (pod("n0", ready=""), pod("n0", "old", going=True), pod("n0", ready=LATELY)):
        assert ended(look(daemon(minReadySeconds=5), [first, *rest], revisions=[OLD, NEW])) == []
    assert ended(look(daemon(), [pod("n0"), *rest], revisions=[OLD, NEW])) == ["agent-n1"]


def test_an_old_pod_that_does_no_good_goes_in_any_case() -> None:
    pods = [pod("n0", ready=""), pod("n1", "old", ready=""), pod("n2", "old")]
    assert ended(look(daemon(), pods, revisions=[OLD, NEW])) == ["agent-n1"]


def test_with_surge_the_new_pod_comes_first_and_the_old_one_goes_when_it_is_available() -> None:
    surging = daemon(updateStrategy=rolling(0, 1))
    old = [pod(it.name, "old") for it in NODES]
    begun = look(surging, old, revisions=[OLD, NEW])
    assert (made(begun), ended(begun)) == (["n0"], [])
    waiting = look(surging, [*old, pod("n0", name="new", ready="")], revisions=[OLD, NEW])
    assert (made(waiting), ended(waiting)) == ([], [])
    moved = look(surging, [*old, pod("n0", name="new")], revisions=[OLD, NEW])
    assert (made(moved), ended(moved)) == ([], ["agent-n0"])


def test_with_surge_an_old_pod_that_does_no_good_is_replaced_beyond_the_bound() -> None:
    old = [pod("n0", "old"), pod("n1", "old", ready=""), pod("n2", "old", ready="")]
    outcome = look(daemon(updateStrategy=rolling(0, 1)), old, revisions=[OLD, NEW])
    assert made(outcome) == ["n1", "n2", "n0"]


def test_with_surge_a_pod_in_the_wrong_place_stays_until_it_is_not_needed() -> None:
    tainted = [node("n0", "a:NoSchedule"), node("n1")]
    surging = daemon(updateStrategy=rolling(0, 1))
    needed = look(surging, [pod("n0", "old"), pod("n1", ready="")], tainted, [OLD, NEW])
    assert ended(needed) == []
    spare = look(surging, [pod("n0", "old"), pod("n1")], tainted, [OLD, NEW])
    assert ended(spare) == ["agent-n0"]


def test_on_delete_nobody_is_exchanged() -> None:
    old = [pod(it.name, "old") for it in NODES]
    outcome = look(daemon(updateStrategy={"type": "OnDelete"}), old, revisions=[OLD, NEW])
    assert ended(outcome) == made(outcome) == []
    assert told(outcome).get("updatedNumberScheduled") is None


def test_revisions_beyond_the_history_go_but_none_that_is_lived_by() -> None:
    past = [revision(str(number), str(number), number) for number in range(1, 5)]
    outcome = look(
        daemon(updateStrategy={"type": "OnDelete"}), [pod("n0", "1")], NODES[:1], [*past, revision("a", "a", 9)]
    )
    gone = [it.name for it in outcome.instructions if isinstance(it, Delete) and it.resource == REVISIONS]
    assert gone == ["agent-2", "agent-3", "agent-4"]


def test_a_name_that_another_revision_has_is_counted() -> None:
    outcome = look(daemon(), revisions=[], find_revision=lambda _name: OLD)
    assert made(outcome) == []
    assert told(outcome)["collisionCount"] == 1


# -- telling


def test_a_refusal_is_told_with_the_status_before_the_next_try() -> None:
    outcome = look(daemon(), refusal=Refusal("exceeded quota"))
    assert isinstance(outcome.instructions[0], Patch)
    assert events(outcome)[0] == ("FailedCreate", "Error creating: exceeded quota")
    assert made(outcome) == ["n0", "n1", "n2"]


def test_ready_pods_become_available_when_their_time_has_come() -> None:
    outcome = look(daemon(minReadySeconds=5), [pod("n0", ready=LATELY)], NODES[:1])
    status = told(outcome)
    assert (status["numberReady"], status["numberUnavailable"]) == (1, 1)
    assert outcome.wake_at_seconds == NOW + 4


def test_of_many_pods_at_once_their_number_is_told() -> None:
    nodes = [node(f"n{number}", "a:NoExecute") for number in range(30)]
    outcome = look(daemon(), [pod(it.name) for it in nodes], nodes)
    assert events(outcome) == [("SuccessfulDelete", "Deleted 30 pods")]


def test_a_set_that_is_as_it_should_be_is_not_written() -> None:
    status = {
        "desiredNumberScheduled": 1,
        "currentNumberScheduled": 1,
        "numberMisscheduled": 0,
        "numberReady": 1,
        "numberAvailable": 1,
        "updatedNumberScheduled": 1,
        "observedGeneration": 2,
    }
    assert look(daemon(status=status), [pod("n0")], NODES[:1]) == Outcome()


# -- reading


def test_of_a_node_its_labels_and_taints_are_read() -> None:
    raw = {"metadata": {"name": "n"}, "spec": {"taints": [{"key": "a", "effect": "NoSchedule", "timeAdded": None}]}}
    assert read_node(msgspec.json.encode(raw)) == node("n", "a:NoSchedule")


@pytest.mark.parametrize(
    "fields",
    [
        [],
        [{"key": "metadata.name", "operator": "NotIn", "values": ["n"]}],
        [{"key": "metadata.name", "operator": "In", "values": ["n", "m"]}],
    ],
)
def test_a_pod_that_does_not_say_its_node_is_for_none(fields: list[dict[str, Any]]) -> None:
    assert target_of(msgspec.json.encode({"spec": _required(matchFields=fields)})) == ""
