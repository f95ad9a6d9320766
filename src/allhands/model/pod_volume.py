"""The volumes that a pod names itself, without a claim, as far as they decide where it may run.

Some may be on a node only once, some count against what a node can attach, under the driver that took over their kind.
Volumes that do neither (secrets, empty directories, host paths) are never kept.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import msgspec


class Attachment(NamedTuple):
    """What is attached to a node: equal ones count once."""

    driver: str
    handle: str


class InlineVolume(msgspec.Struct, frozen=True, gc=False):
    """`kind` is the API's field name; `source` tells which disk it is. `monitors` are those of a Ceph cluster."""

    kind: str
    source: tuple[str, ...]
    read_only: bool = False
    monitors: tuple[str, ...] = ()

    def conflicts_with(self, other: "InlineVolume") -> bool:
        """Whether two pods with these cannot be on one node."""
        if self.kind != other.kind or self.source != other.source:
            return False
        match self.kind:
            case "awsElasticBlockStore":
                return True
            case "gcePersistentDisk" | "iscsi":
                return not (self.read_only and other.read_only)
            case "rbd":
                return not (self.read_only and other.read_only) and not set(self.monitors).isdisjoint(other.monitors)
        return False

    @property
    def attachment(self) -> Attachment | None:
        """How it counts against the limit of attached volumes; None if it does not."""
        if (driver := DRIVER_BY_KIND.get(self.kind)) is None:
            return None
        return Attachment(driver, csi_handle(self.kind, self.source[0]))


DRIVER_BY_KIND: Final = {
    "awsElasticBlockStore": "ebs.csi.aws.com",
    "azureDisk": "disk.csi.azure.com",
    "cinder": "cinder.csi.openstack.org",
    "gcePersistentDisk": "pd.csi.storage.gke.io",
    "portworxVolume": "pxd.portworx.com",
}
"""The kinds that Kubernetes itself once attached, and who attaches and counts them now."""


def csi_handle(kind: str, source: str) -> str:
    """The driver's name for a disk that is named in the old way, without its zone."""
    if kind == "gcePersistentDisk":
        return f"projects/UNSPECIFIED/zones/UNSPECIFIED/disks/{source}"
    if kind == "awsElasticBlockStore":
        return source.rpartition("/")[2]
    return source


class ClaimSourceDocument(msgspec.Struct, frozen=True, rename="camel"):
    claim_name: str = ""


class EphemeralSourceDocument(msgspec.Struct, frozen=True):
    """A claim that is made for the pod; what it asks for is read from the claim."""


class ImageSourceDocument(msgspec.Struct, frozen=True):
    reference: str = ""


class DiskDocument(msgspec.Struct, frozen=True, rename="camel"):
    """Any of the kinds of disk that have one name; which field that is differs."""

    pd_name: str = ""
    volume_id: str = msgspec.field(default="", name="volumeID")
    disk_uri: str = msgspec.field(default="", name="diskURI")
    iqn: str = ""
    read_only: bool = False

    @property
    def source(self) -> str:
        return self.pd_name or self.volume_id or self.disk_uri or self.iqn


class CephDocument(msgspec.Struct, frozen=True, rename="camel"):
    monitors: tuple[str, ...] | None = None
    pool: str = "rbd"
    image: str = ""
    read_only: bool = False


class VolumeDocument(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    persistent_volume_claim: ClaimSourceDocument | None = None
    ephemeral: EphemeralSourceDocument | None = None
    image: ImageSourceDocument | None = None
    gce_persistent_disk: DiskDocument | None = None
    aws_elastic_block_store: DiskDocument | None = None
    azure_disk: DiskDocument | None = None
    cinder: DiskDocument | None = None
    portworx_volume: DiskDocument | None = None
    iscsi: DiskDocument | None = None
    rbd: CephDocument | None = None


def inline_volumes(documents: Iterable[VolumeDocument]) -> tuple[InlineVolume, ...]:
    """Those of a pod's volumes that decide where it may run, without claims; sorted, none twice."""
    found = {volume for document in documents for volume in _inline(document)}
    return tuple(sorted(found, key=lambda it: (it.kind, it.source, it.read_only, it.monitors)))


def _inline(document: VolumeDocument) -> Iterator[InlineVolume]:
    for kind, disk in (
        ("awsElasticBlockStore", document.aws_elastic_block_store),
        ("azureDisk", document.azure_disk),
        ("cinder", document.cinder),
        ("gcePersistentDisk", document.gce_persistent_disk),
        ("iscsi", document.iscsi),
        ("portworxVolume", document.portworx_volume),
    ):
        if disk is not None:
            yield InlineVolume(kind, (disk.source,), disk.read_only)
    if (ceph := document.rbd) is not None:
        yield InlineVolume("rbd", (ceph.pool, ceph.image), ceph.read_only, tuple(sorted(set(ceph.monitors or ()))))
