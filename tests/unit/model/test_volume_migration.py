"""Old kinds of disks as the drivers that took them over see them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from allhands.model.affinity import NodeSelectorTerm
from allhands.model.pod_volume import Attachment
from allhands.model.selector import Requirement
from allhands.model.volume import CSINode, PersistentVolume
from allhands.model.volume_document import CSINodeDocument, PersistentVolumeDocument
from allhands.model.volume_migration import driver_of_provisioner, migrated_affinity

ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
OLD_REGION = "failure-domain.beta.kubernetes.io/region"
EBS, EBS_ZONE = "awsElasticBlockStore", "topology.ebs.csi.aws.com/zone"
GCE = "gcePersistentDisk"


def read(spec: dict[str, Any], **labels: str) -> PersistentVolume:
    document = {"metadata": {"name": "pv", "labels": labels}, "spec": spec}
    return PersistentVolume.from_document(msgspec.convert(document, PersistentVolumeDocument))


@pytest.mark.parametrize(
    ("volume_id", "handle"),
    [
        ("vol-1", "vol-1"),
        ("odd/vol-1", "odd/vol-1"),
        ("aws://us-east-1a/vol-1", "vol-1"),
        ("aws:///vol-1", "vol-1"),
        ("aws://us-east-1a/disk-1", None),
        ("aws://us-east-1a/a/vol-1", None),
    ],
    ids=["bare", "bare with a slash", "with its zone", "without a zone", "not a volume", "too long"],
)
def test_the_name_of_a_disk_of_amazon(volume_id: str, handle: str | None) -> None:
    wanted = None if handle is None else Attachment("ebs.csi.aws.com", handle)
    assert read({EBS: {"volumeID": volume_id}}).attachment == wanted


@pytest.mark.parametrize(
    ("labels", "place"),
    [
        ({}, "zones/UNSPECIFIED"),
        ({ZONE: "us-east1-a"}, "zones/us-east1-a"),
        ({OLD_ZONE: "us-east1-b", ZONE: "us-east1-a"}, "zones/us-east1-b"),
        ({ZONE: "us-east1-a__us-east1-b"}, "regions/us-east1"),
        ({ZONE: "us-east1-a__us-west1-b"}, None),
        ({ZONE: "somewhere__else"}, None),
    ],
    ids=["no zone", "a zone", "the old label first", "a region", "two regions", "no region"],
)
def test_the_name_of_a_disk_of_google_holds_its_place(labels: dict[str, str], place: str | None) -> None:
    found = read({GCE: {"pdName": "d"}}, **labels)
    assert (found.old_kind, found.plugin) == (GCE, "kubernetes.io/gce-pd")
    name = f"projects/UNSPECIFIED/{place}/disks/d"
    assert found.attachment == (None if place is None else Attachment("pd.csi.storage.gke.io", name))


def test_only_managed_disks_of_azure_were_taken_over() -> None:
    disk = {"diskName": "d", "diskURI": "uri"}
    assert read({"azureDisk": {**disk, "kind": "Managed"}}).attachment == Attachment("disk.csi.azure.com", "uri")
    assert read({"azureDisk": {**disk, "kind": "Shared"}}).attachment is None


def test_a_volume_of_a_driver_has_no_old_kind() -> None:
    found = read({"csi": {"driver": "d", "volumeHandle": "h"}})
    assert (found.old_kind, found.plugin, found.migrated_affinity) == ("", "", None)


def within(*requirements: tuple[str, str]) -> NodeSelectorTerm:
    return NodeSelectorTerm(tuple(Requirement(key, "In", (value,)) for key, value in requirements))


@pytest.mark.parametrize(
    ("labels", "terms", "wanted"),
    [
        ({}, None, None),
        ({}, (within((ZONE, "z")),), (within((EBS_ZONE, "z")),)),
        ({}, (within((OLD_ZONE, "z")),), (within((EBS_ZONE, "z")),)),
        ({}, (within((OLD_ZONE, "z"), (OLD_REGION, "r")),), (within((EBS_ZONE, "z"), (REGION, "r")),)),
        ({}, (within((ZONE, "z"), (OLD_REGION, "r")),), (within((EBS_ZONE, "z"), (OLD_REGION, "r")),)),
        ({ZONE: "z"}, None, (within((EBS_ZONE, "z")),)),
        ({ZONE: "z"}, (within(("a", "b")),), (within(("a", "b"), (EBS_ZONE, "z")),)),
        ({ZONE: "other"}, (within((ZONE, "z")),), (within((EBS_ZONE, "z")),)),
        ({OLD_ZONE: "z", REGION: "r"}, None, (within((EBS_ZONE, "z")),)),
        ({ZONE: "__"}, None, None),
        ({ZONE: "b__a"}, None, (NodeSelectorTerm((Requirement(EBS_ZONE, "In", ("a", "b")),)),)),
    ],
    ids=[
        "nothing is said",
        "the zone is renamed",
        "and its old name",
        "with the old name of the region",
        "but not beside the new name of the zone",
        "a label becomes a term",
        "a label is added to every term",
        "the affinity goes before the label",
        "an old label too",
        "a label without zones adds nothing",
        "a label of several zones",
    ],
)
def test_zones_become_those_of_the_driver(
    labels: dict[str, str], terms: tuple[NodeSelectorTerm, ...] | None, wanted: tuple[NodeSelectorTerm, ...] | None
) -> None:
    assert migrated_affinity(EBS, labels, terms) == wanted


def test_a_driver_without_zones_changes_nothing() -> None:
    terms = (within((ZONE, "z")),)
    assert migrated_affinity("portworxVolume", {ZONE: "z"}, terms) == terms


def test_a_node_says_whose_disks_its_drivers_have_taken_over() -> None:
    annotations = {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/gce-pd,kubernetes.io/aws-ebs"}
    document = msgspec.convert({"metadata": {"name": "n", "annotations": annotations}}, CSINodeDocument)
    assert CSINode.from_document(document).migrated_plugins == ("kubernetes.io/aws-ebs", "kubernetes.io/gce-pd")


def test_who_makes_volumes_of_an_old_provisioner() -> None:
    assert driver_of_provisioner("kubernetes.io/cinder") == "cinder.csi.openstack.org"
    assert driver_of_provisioner("kubernetes.io/vsphere-volume") == ""
    assert driver_of_provisioner("disks.example.com") == "disks.example.com"
