"""What belongs to the shape of a pod, what does not, and that its digest never changes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from allhands.model.affinity import NodeAffinity, NodeSelectorTerm, PodAffinity, PodTerm, SpreadConstraint
from allhands.model.node import Toleration
from allhands.model.pod import HostPort, Pod, PodPhase
from allhands.model.pod_volume import InlineVolume
from allhands.model.resources import ResourceVector
from allhands.model.selector import EVERYTHING, LabelSelector, Requirement
from allhands.model.shape import PodShape

PLAIN = Pod(
    "ml",
    "w-0",
    labels={"app": "w", "index": "0"},
    node_selector={"zone": "a"},
    tolerations=(Toleration("k", "Exists", toleration_seconds=300),),
    requests=ResourceVector.of({"cpu": 500}),
    images=("i:1",),
    container_count=1,
)
APP = frozenset({"app"})
NEAR_WEB = PodAffinity(required_together=(PodTerm(LabelSelector.of({"app": "web"}), "zone", ("ml",)),))


def changed(**fields: Any) -> Pod:
    return msgspec.structs.replace(PLAIN, **fields)


def test_the_digest_is_the_same_in_every_run_on_every_machine() -> None:
    assert PodShape.of(PLAIN, None).digest == "ef7f2b77dde8bd7f6d6b884889db316e"
    assert PodShape.of(PLAIN, APP).digest == "bf768520bd149263e5e295d0d02016ed"


def test_pods_of_equal_shape_have_the_same_object() -> None:
    other = changed(name="w-1", uid="u", labels={"index": "1", "app": "w"})
    assert PodShape.of(other, APP) is PodShape.of(PLAIN, APP)
    assert PodShape.of(other, None) is PodShape.of(PLAIN, None)


def test_without_selecting_pods_the_namespace_and_labels_do_not_matter() -> None:
    shape = PodShape.of(PLAIN, None)
    assert (shape.namespace, shape.labels) == ("", ())
    assert PodShape.of(changed(namespace="other", labels={}), None) is shape


def test_labels_are_restricted_to_those_that_somebody_looks_at() -> None:
    shape = PodShape.of(PLAIN, frozenset({"app", "absent"}))
    assert (shape.namespace, shape.labels) == ("ml", (("app", "w"),))
    assert PodShape.of(PLAIN, frozenset()).labels == ()
    assert PodShape.of(PLAIN, frozenset()).namespace == "ml"


def test_a_pod_with_claims_keeps_its_namespace() -> None:
    assert PodShape.of(changed(claims=("c",)), None).namespace == "ml"


def test_a_pod_with_claims_of_its_own_is_like_no_other_and_has_none_before_it_exists() -> None:
    own: dict[str, Any] = {"claims": ("c", "p-scratch"), "ephemeral_claims": ("p-scratch",)}
    one, other = (PodShape.of(changed(uid=uid, **own), None) for uid in ("u", "v"))
    assert (one.pod_uid, other.pod_uid) == ("u", "v")
    assert one.digest != other.digest
    to_come = PodShape.of(changed(uid="", **own), None)
    assert to_come is PodShape.of(changed(claims=("c",)), None)


def test_what_the_pod_itself_looks_at_is_kept_in_any_case() -> None:
    pod = changed(pod_affinity=NEAR_WEB)
    assert PodShape.of(pod, None).labels == (("app", "w"),)
    assert PodShape.of(pod, frozenset({"index"})).labels == (("app", "w"), ("index", "0"))
    assert PodShape.of(pod, None).namespace == "ml"


def test_the_keys_that_a_shape_looks_at() -> None:
    assert PodShape.of(PLAIN, APP).selecting_keys is None
    assert not PodShape.of(PLAIN, APP).selects_pods
    shape = PodShape.of(changed(pod_affinity=NEAR_WEB), None)
    assert shape.selecting_keys == APP
    assert shape.selects_pods
    spread = changed(spread=(SpreadConstraint(1, "zone", True, EVERYTHING),))
    assert PodShape.of(spread, None).selecting_keys == frozenset()


def test_tolerations_are_sorted_distinct_and_without_their_seconds() -> None:
    mixed = changed(
        tolerations=(
            Toleration("b", "Exists"),
            Toleration("a", "", "v", toleration_seconds=1),
            Toleration("a", "Equal", "v", toleration_seconds=2),
        )
    )
    assert PodShape.of(mixed, None).tolerations == (Toleration("a", "Equal", "v"), Toleration("b", "Exists"))


def test_the_node_of_a_bound_pod_may_be_left_out() -> None:
    bound = changed(node_name="n1")
    assert PodShape.of(bound, None).node_name == "n1"
    assert PodShape.of(bound, None, pinned=False) is PodShape.of(PLAIN, None)


@pytest.mark.parametrize(
    "fields",
    [
        {"requests": ResourceVector.of({"cpu": 501})},
        {"node_selector": {"zone": "b"}},
        {"node_affinity": NodeAffinity(())},
        {"node_affinity": NodeAffinity((NodeSelectorTerm((Requirement("a", "Exists"),)),))},
        {"tolerations": ()},
        {"host_ports": (HostPort(port=80),)},
        {"pod_affinity": NEAR_WEB},
        {"spread": (SpreadConstraint(1, "zone", False),)},
        {"claims": ("c",)},
        {"claims": ("c",), "ephemeral_claims": ("c",), "uid": "u"},
        {"volumes": (InlineVolume("cinder", ("v",)),)},
        {"images": ("i:2",)},
        {"container_count": 2},
        {"resource_claims": ("r",)},
        {"node_name": "n"},
    ],
    ids=", ".join,
)
def test_a_field_that_placement_depends_on_changes_the_digest(fields: dict[str, Any]) -> None:
    assert PodShape.of(changed(**fields), None).digest != PodShape.of(PLAIN, None).digest


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "x"},
        {"uid": "x"},
        {"priority": 9},
        {"phase": PodPhase.RUNNING},
        {"deleting": True},
        {"scheduling_gates": ("g",)},
        {"scheduler_name": "other"},
        {"nominated_node": "n"},
        {"created_at_seconds": 5},
        {"started_at_seconds": 5},
        {"bound_at_seconds": 5},
        {"owner": "Job/j"},
        {"preemption_policy_never": True},
        {"rank": 3},
    ],
    ids=", ".join,
)
def test_a_field_that_placement_does_not_depend_on_leaves_the_shape(fields: dict[str, Any]) -> None:
    assert PodShape.of(changed(**fields), APP) is PodShape.of(PLAIN, APP)


def test_every_field_of_a_pod_is_known_to_matter_or_not_to() -> None:
    in_the_shape = {it.name for it in msgspec.structs.fields(PodShape)} - {"digest", "pod_uid"}
    without = {
        *("name", "uid", "priority", "phase", "deleting", "scheduling_gates", "scheduler_name", "nominated_node"),
        *("created_at_seconds", "started_at_seconds", "bound_at_seconds", "owner", "preemption_policy_never", "rank"),
    }
    assert {it.name for it in msgspec.structs.fields(Pod)} == in_the_shape | without


def test_a_shape_survives_a_dump() -> None:
    shape = PodShape.of(changed(pod_affinity=NEAR_WEB), APP)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(shape), type=PodShape) == shape
