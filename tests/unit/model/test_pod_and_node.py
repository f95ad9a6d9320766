"""Pods and nodes out of their JSON, and taints against tolerations."""

from __future__ import annotations

import msgspec
import pytest

from allhands.model.node import UNSCHEDULABLE_TAINT, Node, NodeDocument, Taint, Toleration
from allhands.model.pod import Pod, PodPhase
from allhands.model.pod_document import PodDocument
from allhands.model.resources import ResourceVector

POD_JSON = b"""{
  "apiVersion": "v1", "kind": "Pod",
  "metadata": {"name": "w-0", "namespace": "ml", "uid": "u1", "labels": {"app": "w"}, "creationTimestamp": null},
  "spec": {
    "schedulerName": "allhands", "priority": 7, "nodeName": "n1", "schedulingGates": [{"name": "g"}],
    "nodeSelector": {"zone": "a"}, "tolerations": [{"key": "k", "operator": "Exists", "tolerationSeconds": 5}],
    "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}]
  },
  "status": {"phase": "Running", "qosClass": "Burstable"}
}"""

NODE_JSON = b"""{
  "metadata": {"name": "n1", "uid": "u2", "labels": {"zone": "a"}},
  "spec": {"unschedulable": true, "taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule", "timeAdded": "x"}]},
  "status": {
    "capacity": {"cpu": "8", "memory": "32Gi", "pods": "110"},
    "allocatable": {"cpu": "7500m", "memory": "30Gi", "pods": "110"},
    "conditions": [{"type": "DiskPressure", "status": "False"}, {"type": "Ready", "status": "True"}]
  }
}"""


def pod(**fields: object) -> Pod:
    return msgspec.structs.replace(Pod("ns", "p"), **fields)


def test_a_pod_is_read_from_its_json() -> None:
    read = Pod.from_document(msgspec.json.decode(POD_JSON, type=PodDocument))
    assert read == Pod(
        namespace="ml",
        name="w-0",
        uid="u1",
        labels={"app": "w"},
        node_name="n1",
        scheduler_name="allhands",
        priority=7,
        phase=PodPhase.RUNNING,
        scheduling_gates=("g",),
        node_selector={"zone": "a"},
        tolerations=(Toleration(key="k", operator="Exists", toleration_seconds=5),),
        requests=ResourceVector.of({"cpu": 500, "memory": 1 << 30}),
        images=("i:latest",),
        container_count=1,
    )
    assert read.key == "ml/w-0"


def test_a_pod_that_says_almost_nothing_has_the_defaults_of_the_api() -> None:
    read = Pod.from_document(msgspec.json.decode(b'{"metadata":{"name":"a"},"spec":{}}', type=PodDocument))
    assert read == Pod("default", "a", scheduler_name="default-scheduler", phase=PodPhase.PENDING)


def test_a_phase_that_nobody_knows_is_unknown() -> None:
    document = msgspec.convert({"status": {"phase": "Dreaming"}}, PodDocument)
    assert Pod.from_document(document).phase is PodPhase.UNKNOWN
    assert Pod.from_document(msgspec.convert({"status": {"phase": ""}}, PodDocument)).phase is PodPhase.PENDING


@pytest.mark.parametrize(
    ("state", "holds", "awaits"),
    [
        (pod(), False, True),
        (pod(scheduling_gates=("g",)), False, False),
        (pod(deleting=True), False, False),
        (pod(node_name="n"), True, False),
        (pod(node_name="n", deleting=True), True, False),
        (pod(node_name="n", phase=PodPhase.SUCCEEDED), False, False),
        (pod(phase=PodPhase.FAILED), False, False),
        (pod(node_name="n", phase=PodPhase.UNKNOWN), True, False),
    ],
    ids=["new", "gated", "deleted before it ran", "bound", "leaving", "done", "failed unbound", "node lost"],
)
def test_what_a_pod_holds_and_awaits(state: Pod, holds: bool, awaits: bool) -> None:
    assert (state.holds_resources, state.awaits_placement) == (holds, awaits)


def test_a_node_is_read_from_its_json() -> None:
    assert Node.from_document(msgspec.json.decode(NODE_JSON, type=NodeDocument)) == Node(
        name="n1",
        uid="u2",
        labels={"zone": "a"},
        taints=(Taint("gpu", "NoSchedule", "yes"),),
        unschedulable=True,
        ready=True,
        allocatable=ResourceVector.of({"cpu": 7500, "memory": 30 << 30, "pods": 110}),
        capacity=ResourceVector.of({"cpu": 8000, "memory": 32 << 30, "pods": 110}),
    )


def test_a_node_without_allocatable_gives_its_capacity_and_without_conditions_is_not_ready() -> None:
    document = msgspec.convert({"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "1"}}}, NodeDocument)
    node = Node.from_document(document)
    assert node.allocatable == ResourceVector.of({"cpu": 1000})
    assert not node.ready
    emptied = msgspec.convert(
        {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "1"}, "allocatable": {}}}, NodeDocument
    )
    assert len(Node.from_document(emptied).allocatable) == 0


TAINT = Taint("k", "NoSchedule", "v")


@pytest.mark.parametrize(
    ("toleration", "wanted"),
    [
        (Toleration("k", "Equal", "v", "NoSchedule"), True),
        (Toleration("k", "", "v"), True),
        (Toleration("k", "Equal", "w"), False),
        (Toleration("k", "Equal", "v", "NoExecute"), False),
        (Toleration("other", "Exists"), False),
        (Toleration("k", "Exists"), True),
        (Toleration("", "Exists"), True),
        (Toleration("", "Exists", effect="NoExecute"), False),
        (Toleration("", "Equal", "v"), True),
        (Toleration("k", "Matches", "v"), False),
        (Toleration("k", "Gt", "1"), False),
    ],
    ids=[
        "all equal",
        "an empty operator means Equal",
        "another value",
        "another effect",
        "another key",
        "Exists takes any value",
        "an empty key takes any key",
        "but not any effect",
        "an empty key with Equal compares values only",
        "an unknown operator never matches",
        "a numeric operator is off unless asked for",
    ],
)
def test_a_toleration_against_a_taint(toleration: Toleration, wanted: bool) -> None:
    assert toleration.tolerates(TAINT) is wanted


@pytest.mark.parametrize(
    ("operator", "bound", "value", "wanted"),
    [
        ("Gt", "950", "951", True),
        ("Gt", "950", "950", False),
        ("Lt", "-1", "-2", True),
        ("Lt", "0", "0", False),
        ("Gt", "01", "5", False),
        ("Gt", "-0", "5", False),
        ("Gt", "1", "9223372036854775807", True),
        ("Gt", "1", "9223372036854775808", False),
        ("Gt", "1", "x", False),
        ("Ge", "1", "2", False),
    ],
)
def test_numeric_operators_compare_canonical_64_bit_integers(
    operator: str, bound: str, value: str, wanted: bool
) -> None:
    toleration = Toleration("k", operator, bound)
    assert toleration.tolerates(Taint("k", "NoSchedule", value), numeric_operators=True) is wanted


def test_the_first_untolerated_hard_taint_repels() -> None:
    soft, hard = Taint("a", "PreferNoSchedule"), Taint("b", "NoExecute")
    node = Node("n", taints=(soft, hard))
    assert node.repelling_taint([]) == hard
    assert node.repelling_taint([Toleration("b", "Exists")]) is None
    assert str(hard) == "b:NoExecute"
    assert str(TAINT) == "k=v:NoSchedule"


def test_a_cordoned_node_repels_all_that_do_not_tolerate_it() -> None:
    node = Node("n", unschedulable=True)
    assert node.repelling_taint(iter([Toleration("x", "Exists")])) == UNSCHEDULABLE_TAINT
    assert node.repelling_taint([Toleration(UNSCHEDULABLE_TAINT.key, "Exists")]) is None


@pytest.mark.parametrize(
    "document",
    [b'{"spec": {"containers": 3}}', b'{"spec": {"priority": "high"}}', b'{"metadata": {"labels": {"a": 1}}}', b"[]"],
)
def test_a_pod_of_the_wrong_shape_is_refused_with_the_path(document: bytes) -> None:
    with pytest.raises(msgspec.ValidationError, match=r"\$|Expected `object`"):
        msgspec.json.decode(document, type=PodDocument)
