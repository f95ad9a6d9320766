"""The parts of storage objects that scheduling reads, as types for one-pass decoding of JSON; all else is skipped.

Field names are the API's, lists and maps may be null, and anything of the wrong type fails with the path of the field.
"""

import msgspec

from allhands.model.affinity_document import Int32, NodeSelectorDocument
from allhands.model.pod_document import OwnerReference, QuantityMap
from allhands.model.pod_volume import DiskDocument
from allhands.model.selector import LabelSelectorDocument


class StorageMetadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    deletion_timestamp: str | None = None
    owner_references: tuple[OwnerReference, ...] | None = None


class ClaimReferenceDocument(msgspec.Struct, frozen=True):
    namespace: str = ""
    name: str = ""
    uid: str = ""


class CSISourceDocument(msgspec.Struct, frozen=True, rename="camel"):
    driver: str = ""
    volume_handle: str = ""


class AzureDiskDocument(DiskDocument, frozen=True, rename="camel"):
    """Only managed disks were taken over by a driver; a disk that does not say is managed here."""

    kind: str | None = None

    @property
    def is_managed(self) -> bool:
        return self.kind is None or self.kind.lower() == "managed"


class VolumeNodeAffinityDocument(msgspec.Struct, frozen=True):
    required: NodeSelectorDocument | None = None


class PersistentVolumeSpec(msgspec.Struct, frozen=True, rename="camel"):
    capacity: QuantityMap | None = None
    access_modes: tuple[str, ...] | None = None
    storage_class_name: str = ""
    claim_ref: ClaimReferenceDocument | None = None
    node_affinity: VolumeNodeAffinityDocument | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    csi: CSISourceDocument | None = None
    gce_persistent_disk: DiskDocument | None = None
    aws_elastic_block_store: DiskDocument | None = None
    azure_disk: AzureDiskDocument | None = None
    cinder: DiskDocument | None = None
    portworx_volume: DiskDocument | None = None


class PhaseDocument(msgspec.Struct, frozen=True):
    phase: str = ""


class PersistentVolumeDocument(msgspec.Struct, frozen=True):
    metadata: StorageMetadata = StorageMetadata()
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PhaseDocument = PhaseDocument()


class ClaimResources(msgspec.Struct, frozen=True):
    requests: QuantityMap | None = None


class PersistentVolumeClaimSpec(msgspec.Struct, frozen=True, rename="camel"):
    volume_name: str = ""
    storage_class_name: str | None = None
    access_modes: tuple[str, ...] | None = None
    resources: ClaimResources | None = None
    selector: LabelSelectorDocument | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeClaimDocument(msgspec.Struct, frozen=True):
    metadata: StorageMetadata = StorageMetadata()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PhaseDocument = PhaseDocument()


class TopologyExpressionDocument(msgspec.Struct, frozen=True):
    key: str = ""
    values: tuple[str, ...] | None = None


class TopologyTermDocument(msgspec.Struct, frozen=True, rename="camel"):
    match_label_expressions: tuple[TopologyExpressionDocument, ...] | None = None


class StorageClassDocument(msgspec.Struct, frozen=True, rename="camel"):
    metadata: StorageMetadata = StorageMetadata()
    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[TopologyTermDocument, ...] | None = None


class DriverAllocatableDocument(msgspec.Struct, frozen=True):
    count: Int32 | None = None


class NodeDriverDocument(msgspec.Struct, frozen=True):
    name: str = ""
    allocatable: DriverAllocatableDocument | None = None


class CSINodeSpec(msgspec.Struct, frozen=True):
    drivers: tuple[NodeDriverDocument, ...] | None = None


class CSINodeDocument(msgspec.Struct, frozen=True):
    metadata: StorageMetadata = StorageMetadata()
    spec: CSINodeSpec = CSINodeSpec()


class CSIDriverSpec(msgspec.Struct, frozen=True, rename="camel"):
    storage_capacity: bool | None = None


class CSIDriverDocument(msgspec.Struct, frozen=True):
    metadata: StorageMetadata = StorageMetadata()
    spec: CSIDriverSpec = CSIDriverSpec()


class StorageCapacityDocument(msgspec.Struct, frozen=True, rename="camel"):
    metadata: StorageMetadata = StorageMetadata()
    storage_class_name: str = ""
    node_topology: LabelSelectorDocument | None = None
    capacity: str | int | float | None = None
    maximum_volume_size: str | int | float | None = None


class AttachmentSourceDocument(msgspec.Struct, frozen=True, rename="camel"):
    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(msgspec.Struct, frozen=True, rename="camel"):
    attacher: str = ""
    node_name: str = ""
    source: AttachmentSourceDocument = AttachmentSourceDocument()


class VolumeAttachmentDocument(msgspec.Struct, frozen=True):
    metadata: StorageMetadata = StorageMetadata()
    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()
