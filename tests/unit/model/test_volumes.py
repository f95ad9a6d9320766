"""Storage objects out of their JSON, and what they say about nodes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from allhands.model.affinity import NodeSelectorTerm
from allhands.model.pod_volume import Attachment
from allhands.model.quantity import QuantityError
from allhands.model.selector import EVERYTHING, LabelSelector, Requirement
from allhands.model.volume import (
    ClaimReference,
    CSIDriver,
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageCapacity,
    StorageClass,
    VolumeAttachment,
    VolumeFacts,
)
from allhands.model.volume_document import (
    CSIDriverDocument,
    CSINodeDocument,
    PersistentVolumeClaimDocument,
    PersistentVolumeDocument,
    StorageCapacityDocument,
    StorageClassDocument,
    VolumeAttachmentDocument,
)

IN_ZONE_A = Requirement("zone", "In", ("a",))
ZONE = "topology.kubernetes.io/zone"


def volume(spec: dict[str, Any], **metadata: Any) -> PersistentVolume:
    document = {"metadata": {"name": "pv", **metadata}, "spec": spec, "status": {"phase": "Available"}}
    return PersistentVolume.from_document(msgspec.convert(document, PersistentVolumeDocument))


def test_a_volume_is_read_from_its_json() -> None:
    expression = {"key": "zone", "operator": "In", "values": ["a"]}
    read = volume(
        {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "fast",
            "claimRef": {"namespace": "ns", "name": "c", "uid": "u"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
            "volumeMode": "Block",
            "volumeAttributesClassName": "gold",
            "csi": {"driver": "d", "volumeHandle": "h"},
        },
        labels={"l": "1"},
        deletionTimestamp="2026-01-01T00:00:00Z",
    )
    assert read == PersistentVolume(
        name="pv",
        labels={"l": "1"},
        node_affinity=(NodeSelectorTerm((IN_ZONE_A,)),),
        claim=ClaimReference("ns", "c", "u"),
        access_modes=("ReadWriteOnce",),
        class_name="fast",
        capacity_bytes=1 << 30,
        attachment=Attachment("d", "h"),
        volume_mode="Block",
        attributes_class="gold",
        phase="Available",
        deleting=True,
    )
    assert read.allows({"zone": "a"})
    assert not read.allows({"zone": "b"})


def test_a_volume_that_says_almost_nothing_allows_every_node() -> None:
    read = volume({})
    assert read == PersistentVolume("pv", phase="Available")
    assert read.allows({})
    assert not volume({"nodeAffinity": {"required": {"nodeSelectorTerms": []}}}).allows({})


def test_a_disk_of_an_old_kind_counts_for_the_driver_that_took_it_over() -> None:
    assert volume({"awsElasticBlockStore": {"volumeID": "vol-1"}}).attachment == Attachment("ebs.csi.aws.com", "vol-1")
    assert volume({"hostPath": {"path": "/x"}}).attachment is None


def test_the_zones_of_a_volume_are_lists_in_its_labels() -> None:
    read = volume({}, labels={ZONE: "a__b", "topology.kubernetes.io/region": "r__", "other": "x"})
    assert read.zones == ((ZONE, frozenset("ab")),)


@pytest.mark.parametrize(
    ("reference", "wanted"),
    [
        (None, False),
        (ClaimReference("ns", "c"), True),
        (ClaimReference("ns", "c", "u"), True),
        (ClaimReference("ns", "c", "of another life"), False),
        (ClaimReference("other", "c"), False),
    ],
    ids=["nobody", "the name", "the name and uid", "another uid", "another namespace"],
)
def test_whom_a_volume_is_for(reference: ClaimReference | None, wanted: bool) -> None:
    assert PersistentVolume("pv", claim=reference).is_for(PersistentVolumeClaim("ns", "c", "u")) is wanted


def claim(spec: dict[str, Any], **metadata: Any) -> PersistentVolumeClaim:
    document = {"metadata": {"namespace": "ns", "name": "c", **metadata}, "spec": spec}
    return PersistentVolumeClaim.from_document(msgspec.convert(document, PersistentVolumeClaimDocument))


def test_a_claim_is_read_from_its_json() -> None:
    read = claim(
        {
            "volumeName": "pv",
            "storageClassName": "fast",
            "accessModes": ["ReadWriteOncePod"],
            "resources": {"requests": {"storage": "2Ki"}},
            "selector": {"matchLabels": {"a": "1"}},
        },
        uid="u",
        annotations={
            "pv.kubernetes.io/bind-completed": "yes",
            "volume.kubernetes.io/selected-node": "n1",
            "volume.beta.kubernetes.io/storage-class": "older",
        },
        ownerReferences=[{"kind": "Pod", "name": "p", "uid": "pod-uid", "controller": True}],
    )
    assert read == PersistentVolumeClaim(
        namespace="ns",
        name="c",
        uid="u",
        volume_name="pv",
        class_name="older",
        access_modes=("ReadWriteOncePod",),
        request_bytes=2048,
        selector=LabelSelector.of({"a": "1"}),
        selected_node="n1",
        bind_completed=True,
        owner_uid="pod-uid",
    )
    assert (read.key, read.is_bound, read.is_for_one_pod) == ("ns/c", True, True)


def test_a_claim_that_only_names_its_volume_is_not_bound() -> None:
    read = claim({"volumeName": "pv"})
    assert not read.is_bound
    assert (read.request_bytes, read.selector, read.selected_node) == (None, None, None)


def test_a_malformed_size_is_refused() -> None:
    with pytest.raises(QuantityError):
        claim({"resources": {"requests": {"storage": "much"}}})


def storage_class(**fields: Any) -> StorageClass:
    return StorageClass.from_document(msgspec.convert({"metadata": {"name": "fast"}, **fields}, StorageClassDocument))


@pytest.mark.parametrize(
    ("topologies", "wanted"),
    [
        (None, True),
        ([], True),
        ([{}], False),
        ([{"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]}]}], True),
        ([{"matchLabelExpressions": [{"key": "zone", "values": ["b"]}]}], False),
        ([{}, {"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}], True),
        ([{"matchLabelExpressions": [{"key": "zone", "values": []}]}], False),
    ],
    ids=["absent", "none", "an empty term", "a value", "another value", "any term", "no values"],
)
def test_where_a_class_can_make_volumes(topologies: Any, wanted: bool) -> None:
    assert storage_class(provisioner="d", allowedTopologies=topologies).allows({"zone": "a"}) is wanted


def test_how_a_class_binds_and_provisions() -> None:
    lazy = storage_class(provisioner="d", volumeBindingMode="WaitForFirstConsumer")
    local = storage_class(provisioner="kubernetes.io/no-provisioner", volumeBindingMode="Immediate")
    assert (lazy.waits_for_consumer, lazy.provisions) == (True, True)
    assert (local.waits_for_consumer, local.provisions) == (False, False)
    assert storage_class().binding_mode == ""


def test_the_limits_of_a_node_are_read() -> None:
    drivers = [{"name": "b", "allocatable": {"count": 3}}, {"name": "a"}, {"name": "c", "allocatable": {}}]
    node = CSINode.from_document(
        msgspec.convert({"metadata": {"name": "n"}, "spec": {"drivers": drivers}}, CSINodeDocument)
    )
    assert node == CSINode("n", (("a", None), ("b", 3), ("c", None)))
    assert (node.limit("a"), node.limit("b"), node.limit("stranger")) == (None, 3, None)


def test_capacity_is_where_and_how_large() -> None:
    document = {
        "metadata": {"name": "s", "namespace": "ns"},
        "storageClassName": "fast",
        "nodeTopology": {"matchLabels": {"zone": "a"}},
        "capacity": "10Gi",
        "maximumVolumeSize": "1Gi",
    }
    found = StorageCapacity.from_document(msgspec.convert(document, StorageCapacityDocument))
    assert found == StorageCapacity("ns", "s", "fast", LabelSelector.of({"zone": "a"}), 1 << 30)
    assert found.serves({"zone": "a"}, 1 << 30)
    assert not found.serves({"zone": "a"}, (1 << 30) + 1)
    assert not found.serves({"zone": "b"}, 1)
    assert not StorageCapacity("ns", "s", "fast", None, 5).serves({}, 1)
    assert not StorageCapacity("ns", "s", "fast", EVERYTHING, None).serves({}, 1)


def test_drivers_and_attachments_are_read() -> None:
    driver = msgspec.convert({"metadata": {"name": "d"}, "spec": {"storageCapacity": True}}, CSIDriverDocument)
    assert CSIDriver.from_document(driver) == CSIDriver("d", tracks_capacity=True)
    attachment = {
        "metadata": {"name": "a"},
        "spec": {"attacher": "d", "nodeName": "n", "source": {"persistentVolumeName": "pv"}},
    }
    assert VolumeAttachment.from_document(msgspec.convert(attachment, VolumeAttachmentDocument)) == VolumeAttachment(
        "a", "n", "d", "pv"
    )


def test_all_facts_about_storage_survive_a_dump() -> None:
    facts = VolumeFacts(
        volumes={"pv": PersistentVolume("pv", attachment=Attachment("d", "h"), node_affinity=())},
        claims={"ns/c": PersistentVolumeClaim("ns", "c", selector=EVERYTHING)},
        classes={"fast": StorageClass("fast", allowed_topologies=((IN_ZONE_A,),))},
        nodes={"n": CSINode("n", (("d", 3),))},
        drivers={"d": CSIDriver("d", tracks_capacity=True)},
        capacities=(StorageCapacity("ns", "s", "fast"),),
        attachments=(VolumeAttachment("a", "n"),),
    )
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(facts), type=VolumeFacts) == facts
