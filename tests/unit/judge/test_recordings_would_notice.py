"""The recorded cases are sharp: a core that overlooked a part of the objects would differ from them somewhere."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest

from tests.judge.ours import differing
from tests.judge.recorded import load, recorded_files

Manifest = dict[str, Any]

PENDING = "the unbound pods"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
SPREAD = "spec.topologySpreadConstraints"
OVERLOOKED = (
    ("Node", "spec.taints"),
    ("Node", "spec.unschedulable"),
    ("Namespace", "metadata.labels"),
    ("PersistentVolume", "spec.nodeAffinity"),
    ("PersistentVolume", "metadata.labels"),
    ("PersistentVolume", "status.phase"),
    ("PersistentVolumeClaim", "spec.selector"),
    ("PersistentVolumeClaim", "metadata.deletionTimestamp"),
    ("StorageClass", "allowedTopologies"),
    ("CSINode", "spec.drivers"),
    ("CSIDriver", "spec.storageCapacity"),
    ("VolumeAttachment", "spec.source"),
    ("Pod", "metadata.deletionTimestamp"),
    ("Pod", "status.nominatedNodeName"),
    ("Pod", "status.phase"),
    ("Pod", "status.containerStatuses"),
    ("Pod", "spec.affinity"),
    ("Pod", "spec.volumes"),
    ("Pod", "spec.initContainers"),
    ("Pod", "spec.overhead"),
    ("Pod", "spec.containers.ports"),
    ("Pod", f"spec.affinity.podAntiAffinity.{REQUIRED}.namespaceSelector"),
    (PENDING, "spec.priority"),
    (PENDING, "spec.resources"),
    (PENDING, "spec.schedulingGates"),
    (PENDING, "spec.containers.ports.hostIP"),
    (PENDING, f"{SPREAD}.minDomains"),
    (PENDING, f"{SPREAD}.nodeAffinityPolicy"),
    (PENDING, f"{SPREAD}.nodeTaintsPolicy"),
    (PENDING, f"spec.affinity.podAffinity.{REQUIRED}.namespaces"),
    (PENDING, f"spec.affinity.podAntiAffinity.{REQUIRED}.namespaceSelector"),
)


def _overlook(value: Any, path: list[str]) -> None:
    """Takes the field away, in every entry of the lists on its way."""
    if isinstance(value, list):
        for each in value:
            _overlook(each, path)
    elif len(path) == 1:
        value.pop(path[0], None)
    elif path[0] in value:
        _overlook(value[path[0]], path[1:])


@pytest.mark.parametrize(("kind", "field"), OVERLOOKED, ids=[f"{field} of {kind}" for kind, field in OVERLOOKED])
def test_a_core_that_overlooks_this_field_differs_from_the_real_scheduler(kind: str, field: str) -> None:
    for path in recorded_files():
        kept = load(path)
        world, pods = copy.deepcopy(kept.world), copy.deepcopy(kept.pods)
        _overlook(pods if kind == PENDING else world.get(kind, []), field.split("."))
        if differing(msgspec.structs.replace(kept, world=world, pods=pods)):
            return
    pytest.fail(f"no recorded verdict depends on {field} of {kind}")
