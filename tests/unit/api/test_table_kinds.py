"""The cells of nodes, storage, scheduling and small kinds: objects as a server stores them, cells as a real one has."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from allhands.api.tables.builtin import DEFAULT, PRINTERS, printer_for

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
AGO_90_SECONDS = "2026-03-01T11:58:30Z"
AGO_2_HOURS = "2026-03-01T10:00:00Z"
AGE = "3d2h"
CREATED = "2026-02-26T10:00:00Z"
POD_TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"app": "web", "a": "b"}},
    "spec": {
        "containers": [{"name": "c1", "image": "i1"}, {"name": "c2", "image": "i2:v2"}],
        "restartPolicy": "Always",
    },
}
Case = tuple[str, str, dict[str, Any], list[Any]]


def condition(type: str, status: str = "True", **more: Any) -> dict[str, Any]:
    return {"type": type, "status": status, **more}


CASES: dict[str, Case] = {
    "a node that never reported is Unknown": (
        "",
        "Node",
        {},
        ["x", "Unknown", "<none>", AGE, "", "<none>", "<none>", "<unknown>", "<unknown>", "<unknown>"],
    ),
    "a ready node shows its roles in order, versions and addresses": (
        "",
        "Node",
        {
            "metadata": {
                "labels": {
                    "node-role.kubernetes.io/worker": "",
                    "node-role.kubernetes.io/control-plane": "",
                    "kubernetes.io/role": "gpu",
                }
            },
            "status": {
                "conditions": [condition("MemoryPressure", "False"), condition("Ready")],
                "addresses": [
                    {"type": "Hostname", "address": "x"},
                    {"type": "InternalIP", "address": "10.0.0.1"},
                    {"type": "InternalIP", "address": "10.0.0.2"},
                    {"type": "ExternalIP", "address": "1.2.3.4"},
                ],
                "nodeInfo": {
                    "kubeletVersion": "v1.36.3",
                    "osImage": "Debian",
                    "kernelVersion": "6.1",
                    "architecture": "amd64",
                    "containerRuntimeVersion": "containerd://2",
                },
            },
        },
        [
            "x",
            "Ready",
            "control-plane,gpu,worker",
            AGE,
            "v1.36.3",
            "10.0.0.1",
            "1.2.3.4",
            "Debian",
            "6.1 (amd64)",
            "containerd://2",
        ],
    ),
    "a cordoned node that is down says both": (
        "",
        "Node",
        {"spec": {"unschedulable": True}, "status": {"conditions": [condition("Ready", "Unknown")]}},
        [
            "x",
            "NotReady,SchedulingDisabled",
            "<none>",
            AGE,
            "",
            "<none>",
            "<none>",
            "<unknown>",
            "<unknown>",
            "<unknown>",
        ],
    ),
    "a namespace shows its phase": ("", "Namespace", {"status": {"phase": "Active"}}, ["x", "Active", AGE]),
    "a config map counts text and binary entries": (
        "",
        "ConfigMap",
        {"data": {"a": "1", "b": "2"}, "binaryData": {"c": "AA=="}},
        ["x", 3, AGE],
    ),
    "a config map may be empty": ("", "ConfigMap", {}, ["x", 0, AGE]),
    "a secret shows its type and counts entries": (
        "",
        "Secret",
        {"type": "Opaque", "data": {"a": "AA=="}},
        ["x", "Opaque", 1, AGE],
    ),
    "a service account shows just its age": ("", "ServiceAccount", {}, ["x", AGE]),
    "a pod template shows containers, images and labels": (
        "",
        "PodTemplate",
        {"template": POD_TEMPLATE},
        ["x", "c1,c2", "i1,i2:v2", "a=b,app=web"],
    ),
    "a quota parts requests and limits, and counts what nobody uses as 0": (
        "",
        "ResourceQuota",
        {
            "spec": {"hard": {"pods": "10", "limits.cpu": "8", "requests.cpu": "4"}},
            "status": {
                "hard": {"pods": "10", "limits.cpu": "8", "requests.cpu": "4"},
                "used": {"pods": "3", "limits.cpu": "500m"},
            },
        },
        ["x", "pods: 3/10, requests.cpu: 0/4", "limits.cpu: 500m/8", AGE],
    ),
    "an event with a count": (
        "",
        "Event",
        {
            "type": "Warning",
            "reason": "BackOff",
            "message": " it failed \n",
            "involvedObject": {"kind": "Pod", "name": "p", "fieldPath": "spec.containers{c}", "namespace": "default"},
            "source": {"component": "kubelet", "host": "n1"},
            "firstTimestamp": AGO_2_HOURS,
            "lastTimestamp": AGO_90_SECONDS,
            "count": 7,
        },
        ["90s", "Warning", "BackOff", "pod/p", "spec.containers{c}", "kubelet, n1", "it failed", "120m", 7, "x"],
    ),
    "an event with neither count nor times is one event of unknown age": (
        "",
        "Event",
        {"involvedObject": {"kind": "Node", "namespace": "default"}},
        ["<unknown>", "", "", "node", "", "", "", "<unknown>", 1, "x"],
    ),
    "an event in a series shows when it was last observed": (
        "",
        "Event",
        {
            "type": "Normal",
            "reason": "Scheduled",
            "action": "Binding",
            "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
            "eventTime": "2026-03-01T11:50:00.000000Z",
            "reportingComponent": "scheduler",
            "reportingInstance": "s-0",
            "series": {"count": 12, "lastObservedTime": "2026-03-01T11:55:00.000000Z"},
        },
        ["5m", "Normal", "Scheduled", "pod/p", "", "scheduler, s-0", "", "10m", 12, "x"],
    ),
    "an event of the newer group is shown like an old one": (
        "events.k8s.io",
        "Event",
        {
            "type": "Normal",
            "reason": "Scheduled",
            "action": "Binding",
            "note": "placed",
            "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
            "eventTime": "2026-03-01T11:55:00.000000Z",
            "reportingController": "scheduler",
            "reportingInstance": "s-0",
        },
        ["5m", "Normal", "Scheduled", "pod/p", "", "scheduler, s-0", "placed", "5m", 1, "x"],
    ),
    "a volume shows who claims it": (
        "",
        "PersistentVolume",
        {
            "spec": {
                "capacity": {"storage": "10Gi"},
                "accessModes": ["ReadWriteMany", "ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain",
                "claimRef": {"namespace": "default", "name": "data"},
                "storageClassName": "fast",
                "volumeMode": "Filesystem",
                "hostPath": {"path": "/d"},
            },
            "status": {"phase": "Failed", "reason": "Broken"},
        },
        ["x", "10Gi", "RWO,RWX", "Retain", "Failed", "default/data", "fast", "<unset>", "Broken", AGE, "Filesystem"],
    ),
    "a bound claim shows what it got": (
        "",
        "PersistentVolumeClaim",
        {
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
                "volumeName": "pv1",
                "storageClassName": "fast",
                "volumeMode": "Block",
            },
            "status": {"phase": "Bound", "capacity": {"storage": "2Gi"}, "accessModes": ["ReadWriteOncePod"]},
        },
        ["x", "Bound", "pv1", "2Gi", "RWOP", "fast", "<unset>", AGE, "Block"],
    ),
    "a claim that waits shows neither size nor modes": (
        "",
        "PersistentVolumeClaim",
        {
            "metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": "old"}},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
                "volumeMode": "Filesystem",
            },
            "status": {"phase": "Pending"},
        },
        ["x", "Pending", "", "", "", "old", "<unset>", AGE, "Filesystem"],
    ),
    "a disruption budget with a number": (
        "policy",
        "PodDisruptionBudget",
        {"spec": {"minAvailable": 2}, "status": {"disruptionsAllowed": 1}},
        ["x", "2", "N/A", 1, AGE],
    ),
    "a disruption budget with a share": (
        "policy",
        "PodDisruptionBudget",
        {"spec": {"maxUnavailable": "50%"}},
        ["x", "N/A", "50%", 0, AGE],
    ),
    "a priority class": (
        "scheduling.k8s.io",
        "PriorityClass",
        {"value": 1000, "preemptionPolicy": "Never"},
        ["x", 1000, False, AGE, "Never"],
    ),
    "a workload shows just its age": (
        "scheduling.k8s.io",
        "Workload",
        {"spec": {"podGroupTemplates": [{"name": "t", "schedulingPolicy": {"basic": {}}}]}},
        ["x", AGE],
    ),
    "a pod-group of a workload that waits": (
        "scheduling.k8s.io",
        "PodGroup",
        {
            "spec": {
                "schedulingPolicy": {"gang": {"minCount": 4}},
                "podGroupTemplateRef": {"workload": {"workloadName": "w", "podGroupTemplateName": "t"}},
            }
        },
        ["x", "Gang", "w", "Pending", AGE],
    ),
    "a pod-group that is placed": (
        "scheduling.k8s.io",
        "PodGroup",
        {
            "spec": {"schedulingPolicy": {"basic": {}}},
            "status": {
                "conditions": [
                    condition("PodGroupScheduled", reason="Scheduled", message="", lastTransitionTime=AGO_2_HOURS)
                ]
            },
        },
        ["x", "Basic", "<none>", "Scheduled", AGE],
    ),
    "a pod-group that does not fit": (
        "scheduling.k8s.io",
        "PodGroup",
        {
            "spec": {"schedulingPolicy": {"gang": {"minCount": 1}}},
            "status": {
                "conditions": [
                    condition("PodGroupScheduled", "False", reason="No", message="", lastTransitionTime=AGO_2_HOURS)
                ]
            },
        },
        ["x", "Gang", "<none>", "Unschedulable", AGE],
    ),
    "a pod-group that must go says why": (
        "scheduling.k8s.io",
        "PodGroup",
        {
            "spec": {"schedulingPolicy": {"gang": {"minCount": 1}}},
            "status": {
                "conditions": [
                    condition("PodGroupScheduled", reason="Scheduled", message="", lastTransitionTime=AGO_2_HOURS),
                    condition("DisruptionTarget", reason="Preempted", message="", lastTransitionTime=AGO_2_HOURS),
                ]
            },
        },
        ["x", "Gang", "<none>", "Preempted", AGE],
    ),
    "a lease shows its holder": (
        "coordination.k8s.io",
        "Lease",
        {"spec": {"holderIdentity": "me"}},
        ["x", "me", AGE],
    ),
    "a lease of nobody": ("coordination.k8s.io", "Lease", {"spec": {}}, ["x", "", AGE]),
    "a runtime class": ("node.k8s.io", "RuntimeClass", {"handler": "runc"}, ["x", "runc", AGE]),
    "a default storage class": (
        "storage.k8s.io",
        "StorageClass",
        {
            "metadata": {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
            "provisioner": "p.io/d",
            "reclaimPolicy": "Retain",
            "volumeBindingMode": "WaitForFirstConsumer",
            "allowVolumeExpansion": True,
        },
        ["x (default)", "p.io/d", "Retain", "WaitForFirstConsumer", True, AGE],
    ),
    "a plain storage class": (
        "storage.k8s.io",
        "StorageClass",
        {"provisioner": "p.io/d", "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"},
        ["x", "p.io/d", "Delete", "Immediate", False, AGE],
    ),
    "a node with storage drivers": (
        "storage.k8s.io",
        "CSINode",
        {"spec": {"drivers": [{"name": "d", "nodeID": "n"}]}},
        ["x", 1, AGE],
    ),
    "a storage driver with every answer": (
        "storage.k8s.io",
        "CSIDriver",
        {
            "spec": {
                "attachRequired": False,
                "podInfoOnMount": True,
                "storageCapacity": True,
                "requiresRepublish": True,
                "tokenRequests": [{"audience": "a"}, {"audience": "b"}],
                "volumeLifecycleModes": ["Persistent", "Ephemeral"],
            }
        },
        ["x", False, True, True, "a,b", True, "Persistent,Ephemeral", AGE],
    ),
    "a storage driver as the server fills it in": (
        "storage.k8s.io",
        "CSIDriver",
        {
            "spec": {
                "attachRequired": True,
                "podInfoOnMount": False,
                "storageCapacity": False,
                "requiresRepublish": False,
                "volumeLifecycleModes": ["Persistent"],
            }
        },
        ["x", True, False, False, "<unset>", False, "Persistent", AGE],
    ),
    "a volume attachment": (
        "storage.k8s.io",
        "VolumeAttachment",
        {
            "spec": {"attacher": "p.io", "nodeName": "n1", "source": {"persistentVolumeName": "pv1"}},
            "status": {"attached": True},
        },
        ["x", "p.io", "pv1", "n1", True, AGE],
    ),
    "a storage capacity is shown by the default printer": (
        "storage.k8s.io",
        "CSIStorageCapacity",
        {"storageClassName": "fast", "capacity": "1Gi"},
        ["x", CREATED],
    ),
    "a limit range is shown by the default printer": ("", "LimitRange", {"spec": {"limits": []}}, ["x", CREATED]),
    "a role is shown by the default printer": ("rbac.authorization.k8s.io", "Role", {}, ["x", CREATED]),
    "a role binding sorts its subjects by kind": (
        "rbac.authorization.k8s.io",
        "RoleBinding",
        {
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
            "subjects": [
                {"kind": "User", "name": "u1", "apiGroup": "rbac.authorization.k8s.io"},
                {"kind": "ServiceAccount", "name": "s", "namespace": "n"},
                {"kind": "User", "name": "u2", "apiGroup": "rbac.authorization.k8s.io"},
                {"kind": "Group", "name": "g", "apiGroup": "rbac.authorization.k8s.io"},
            ],
        },
        ["x", "Role/r", AGE, "u1, u2", "g", "n/s"],
    ),
    "a device claim that waits": (
        "resource.k8s.io",
        "ResourceClaim",
        {"spec": {"devices": {}}},
        ["x", "pending", AGE],
    ),
    "a device claim in use": (
        "resource.k8s.io",
        "ResourceClaim",
        {
            "spec": {"devices": {}},
            "status": {"allocation": {}, "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]},
        },
        ["x", "allocated,reserved", AGE],
    ),
    "a slice of devices": (
        "resource.k8s.io",
        "ResourceSlice",
        {
            "spec": {
                "driver": "gpu.x.io",
                "nodeName": "n1",
                "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
            }
        },
        ["x", "n1", "gpu.x.io", "p", AGE],
    ),
}


def stored(document: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": "x", "creationTimestamp": CREATED, **document.get("metadata", {})}
    return {**document, "metadata": metadata}


@pytest.mark.parametrize(("group", "kind", "document", "expected"), CASES.values(), ids=CASES.keys())
def test_cells(group: str, kind: str, document: dict[str, Any], expected: list[Any]) -> None:
    assert printer_for(group, kind).row(stored(document), NOW) == expected


TERMINATING: list[Any] = [
    pytest.param("", "PersistentVolume", {"status": {"phase": "Bound"}}, 4, "Terminating", id="a volume"),
    pytest.param("", "PersistentVolumeClaim", {"status": {"phase": "Bound"}}, 1, "Terminating", id="a claim"),
    pytest.param("batch", "Job", {}, 1, "Terminating", id="a job"),
    pytest.param(
        "batch", "Job", {"status": {"conditions": [condition("Failed")]}}, 1, "Failed", id="a job that failed keeps it"
    ),
    pytest.param("resource.k8s.io", "ResourceClaim", {}, 1, "deleted", id="a device claim that waits"),
    pytest.param(
        "resource.k8s.io",
        "ResourceClaim",
        {"status": {"allocation": {}}},
        1,
        "deleted,allocated",
        id="a device claim in use",
    ),
]


@pytest.mark.parametrize(("group", "kind", "document", "cell", "expected"), TERMINATING)
def test_what_is_being_deleted_says_so(
    group: str, kind: str, document: dict[str, Any], cell: int, expected: str
) -> None:
    deleted = {**document, "metadata": {"name": "x", "deletionTimestamp": AGO_2_HOURS}}
    assert printer_for(group, kind).row(deleted, NOW)[cell] == expected


@pytest.mark.parametrize(
    ("used", "expected"),
    [
        pytest.param("1000m", "cpu: 1/8", id="a quantity is shown in canonical form"),
        pytest.param(2, "cpu: 2/8", id="a bare number is a quantity, too"),
        pytest.param(None, "cpu: 0/8", id="nothing used is zero"),
        pytest.param("much", "cpu: much/8", id="what is no quantity is shown as it is"),
    ],
)
def test_quantities_in_a_quota(used: str | int | None, expected: str) -> None:
    quota = {"metadata": {"name": "x"}, "status": {"hard": {"cpu": "8"}, "used": {"cpu": used}}}
    assert printer_for("", "ResourceQuota").row(quota, NOW)[1] == expected


@pytest.mark.parametrize(("group", "kind"), PRINTERS, ids=lambda value: value or "core")
def test_an_object_with_nothing_but_a_name_fills_every_column(group: str, kind: str) -> None:
    printer = printer_for(group, kind)
    cells = printer.row({"metadata": {"name": "x"}}, NOW)
    assert len(cells) == len(printer.columns)
    assert None not in cells
    assert "x" in cells


def test_a_kind_nobody_knows_gets_the_default_printer() -> None:
    assert printer_for("example.com", "Thing") is DEFAULT
    assert DEFAULT.row({"metadata": {"name": "x"}}, NOW) == ["x", "0001-01-01T00:00:00Z"]
    shifted = {"metadata": {"name": "x", "creationTimestamp": "2026-03-01T12:00:00+02:00"}}
    assert DEFAULT.row(shifted, NOW) == ["x", "2026-03-01T10:00:00Z"]
