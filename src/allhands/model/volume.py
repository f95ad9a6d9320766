"""Storage as scheduling sees it: volumes, claims, classes, and what each node can attach.

Just what kube-scheduler's four volume filters read, and none of their decisions. Sizes are whole bytes.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from allhands.model.affinity import NodeSelectorTerm
from allhands.model.pod import NO_LABELS
from allhands.model.pod_volume import Attachment
from allhands.model.quantity import Quantity
from allhands.model.resources import units_of_quantity
from allhands.model.selector import LabelSelector, Requirement, selector_of
from allhands.model.volume_document import (
    AzureDiskDocument,
    CSIDriverDocument,
    CSINodeDocument,
    PersistentVolumeClaimDocument,
    PersistentVolumeDocument,
    PersistentVolumeSpec,
    StorageCapacityDocument,
    StorageClassDocument,
    StorageMetadata,
    TopologyTermDocument,
    VolumeAttachmentDocument,
)
from allhands.model.volume_migration import MIGRATED_PLUGINS, PLUGIN_BY_KIND, migrated_affinity, migrated_attachment

STORAGE: Final = "storage"
READ_WRITE_ONCE_POD: Final = "ReadWriteOncePod"
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"

_CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
_FILESYSTEM: Final = "Filesystem"
_ZONE_DELIMITER: Final = "__"

ZONE_LABELS: Final = (
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
)
"""Labels of a volume that its node must share, if the node has any of them."""


class ClaimReference(msgspec.Struct, frozen=True):
    """Whom a volume is bound to or kept for; without a uid, any claim of that name."""

    namespace: str
    name: str
    uid: str = ""


class PersistentVolume(msgspec.Struct, frozen=True):
    """`node_affinity` None: any node; empty: no node. `attachment` None: it counts against no limit.

    `old_kind` is the API's field name of a disk that Kubernetes itself once attached, "" for all others.
    """

    name: str
    labels: Mapping[str, str] = msgspec.field(default_factory=lambda: NO_LABELS)
    node_affinity: tuple[NodeSelectorTerm, ...] | None = None
    claim: ClaimReference | None = None
    access_modes: tuple[str, ...] = ()
    class_name: str = ""
    capacity_bytes: int = 0
    attachment: Attachment | None = None
    volume_mode: str = _FILESYSTEM
    attributes_class: str = ""
    phase: str = ""
    deleting: bool = False
    old_kind: str = ""

    @property
    def plugin(self) -> str:
        """The part of Kubernetes that once attached it; "" for a volume that a driver has had from the start."""
        return PLUGIN_BY_KIND.get(self.old_kind, "")

    @property
    def migrated_affinity(self) -> tuple[NodeSelectorTerm, ...] | None:
        """Its node affinity on nodes where a driver has taken over from `plugin`."""
        return migrated_affinity(self.old_kind, self.labels, self.node_affinity)

    @property
    def zones(self) -> tuple[tuple[str, frozenset[str]], ...]:
        """Zone label -> the values that a node may have there. A label that cannot be read says nothing."""
        read = ((key, self.labels[key].split(_ZONE_DELIMITER)) for key in ZONE_LABELS if key in self.labels)
        named = ((key, frozenset(value.strip() for value in values)) for key, values in read)
        return tuple((key, values) for key, values in named if "" not in values)

    def allows(self, node_labels: Mapping[str, str]) -> bool:
        """Whether a node can reach it. The name of the node is not looked at, as in kube-scheduler."""
        return self.node_affinity is None or any(term.matches(node_labels, "") for term in self.node_affinity)

    def is_for(self, claim: "PersistentVolumeClaim") -> bool:
        """Whether it is bound to this claim or kept for it."""
        if self.claim is None or (self.claim.namespace, self.claim.name) != (claim.namespace, claim.name):
            return False
        return self.claim.uid in ("", claim.uid)

    @staticmethod
    def from_document(document: PersistentVolumeDocument) -> "PersistentVolume":
        metadata, spec = document.metadata, document.spec
        required = spec.node_affinity.required if spec.node_affinity else None
        reference = spec.claim_ref
        old_kind, attachment = _source(spec, metadata.labels or NO_LABELS)
        return PersistentVolume(
            name=metadata.name,
            labels=metadata.labels or NO_LABELS,
            node_affinity=None if required is None else required.terms(),
            claim=None if reference is None else ClaimReference(reference.namespace, reference.name, reference.uid),
            access_modes=spec.access_modes or (),
            class_name=_class_name(metadata, spec.storage_class_name),
            capacity_bytes=_bytes((spec.capacity or {}).get(STORAGE, 0)),
            attachment=attachment,
            volume_mode=spec.volume_mode or _FILESYSTEM,
            attributes_class=spec.volume_attributes_class_name or "",
            phase=document.status.phase,
            deleting=metadata.deletion_timestamp is not None,
            old_kind=old_kind,
        )


class PersistentVolumeClaim(msgspec.Struct, frozen=True):
    """`request_bytes` and `selected_node` None: not said. `owner_uid` is that of its controller, "" for none."""

    namespace: str
    name: str
    uid: str = ""
    volume_name: str = ""
    class_name: str = ""
    access_modes: tuple[str, ...] = ()
    request_bytes: int | None = None
    selector: LabelSelector | None = None
    volume_mode: str = _FILESYSTEM
    attributes_class: str = ""
    selected_node: str | None = None
    bind_completed: bool = False
    lost: bool = False
    deleting: bool = False
    owner_uid: str = ""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def is_bound(self) -> bool:
        """Whether nothing is left to do; a claim that only names its volume is not bound yet."""
        return self.volume_name != "" and self.bind_completed

    @property
    def is_for_one_pod(self) -> bool:
        return READ_WRITE_ONCE_POD in self.access_modes

    @staticmethod
    def from_document(document: PersistentVolumeClaimDocument) -> "PersistentVolumeClaim":
        metadata, spec = document.metadata, document.spec
        annotations = metadata.annotations or {}
        requests = (spec.resources.requests if spec.resources else None) or {}
        return PersistentVolumeClaim(
            namespace=metadata.namespace,
            name=metadata.name,
            uid=metadata.uid,
            volume_name=spec.volume_name,
            class_name=_class_name(metadata, spec.storage_class_name or ""),
            access_modes=spec.access_modes or (),
            request_bytes=_bytes(requests[STORAGE]) if STORAGE in requests else None,
            selector=selector_of(spec.selector),
            volume_mode=spec.volume_mode or _FILESYSTEM,
            attributes_class=spec.volume_attributes_class_name or "",
            selected_node=annotations.get(SELECTED_NODE),
            bind_completed=BIND_COMPLETED in annotations,
            lost=document.status.phase == "Lost",
            deleting=metadata.deletion_timestamp is not None,
            owner_uid=next((it.uid for it in metadata.owner_references or () if it.controller), ""),
        )


class StorageClass(msgspec.Struct, frozen=True):
    """`binding_mode` "" was never defaulted: kube-scheduler places no pod that has an unbound claim of such a class."""

    name: str
    provisioner: str = ""
    binding_mode: str = ""
    allowed_topologies: tuple[tuple[Requirement, ...], ...] = ()

    @property
    def waits_for_consumer(self) -> bool:
        return self.binding_mode == "WaitForFirstConsumer"

    @property
    def provisions(self) -> bool:
        return self.provisioner not in ("", NO_PROVISIONER)

    def allows(self, node_labels: Mapping[str, str]) -> bool:
        """Whether a volume can be made for a node: no terms allow every node, an empty term allows none."""
        if not self.allowed_topologies:
            return True
        return any(
            term and all(it.is_valid and it.matches(node_labels) for it in term) for term in self.allowed_topologies
        )

    @staticmethod
    def from_document(document: StorageClassDocument) -> "StorageClass":
        return StorageClass(
            name=document.metadata.name,
            provisioner=document.provisioner,
            binding_mode=document.volume_binding_mode or "",
            allowed_topologies=tuple(_topology(term) for term in document.allowed_topologies or ()),
        )


class CSINode(msgspec.Struct, frozen=True):
    """The drivers on a node, each with the number of volumes that it can attach; None is not limited.

    `migrated_plugins` are those whose disks a driver has taken over there, sorted.
    """

    name: str
    drivers: tuple[tuple[str, int | None], ...] = ()
    migrated_plugins: tuple[str, ...] = ()

    def limit(self, driver: str) -> int | None:
        return dict(self.drivers).get(driver)

    @staticmethod
    def from_document(document: CSINodeDocument) -> "CSINode":
        drivers = {it.name: it.allocatable.count if it.allocatable else None for it in document.spec.drivers or ()}
        migrated = (document.metadata.annotations or {}).get(MIGRATED_PLUGINS, "")
        return CSINode(
            name=document.metadata.name,
            drivers=tuple(sorted(drivers.items(), key=lambda item: item[0])),
            migrated_plugins=tuple(sorted(set(migrated.split(",")) - {""})),
        )


class CSIDriver(msgspec.Struct, frozen=True):
    """`tracks_capacity`: a volume is made only where a `StorageCapacity` has room for it."""

    name: str
    tracks_capacity: bool = False

    @staticmethod
    def from_document(document: CSIDriverDocument) -> "CSIDriver":
        return CSIDriver(document.metadata.name, bool(document.spec.storage_capacity))


class StorageCapacity(msgspec.Struct, frozen=True):
    """How large a volume of a class can be on the nodes that `node_topology` matches; None: on none, or of no size."""

    namespace: str
    name: str
    class_name: str
    node_topology: LabelSelector | None = None
    limit_bytes: int | None = None

    def serves(self, node_labels: Mapping[str, str], request_bytes: int) -> bool:
        if self.node_topology is None or self.limit_bytes is None or self.limit_bytes < request_bytes:
            return False
        return self.node_topology.matches(node_labels)

    @staticmethod
    def from_document(document: StorageCapacityDocument) -> "StorageCapacity":
        limit = document.capacity if document.maximum_volume_size is None else document.maximum_volume_size
        return StorageCapacity(
            namespace=document.metadata.namespace,
            name=document.metadata.name,
            class_name=document.storage_class_name,
            node_topology=selector_of(document.node_topology),
            limit_bytes=None if limit is None else _bytes(limit),
        )


class VolumeAttachment(msgspec.Struct, frozen=True):
    """A volume that is attached to a node, or about to be, whether or not a pod there still uses it."""

    name: str
    node_name: str
    driver: str = ""
    volume_name: str = ""

    @staticmethod
    def from_document(document: VolumeAttachmentDocument) -> "VolumeAttachment":
        spec = document.spec
        return VolumeAttachment(
            document.metadata.name, spec.node_name, spec.attacher, spec.source.persistent_volume_name or ""
        )


class VolumeFacts(msgspec.Struct, frozen=True):
    """All that is known about storage: claims by "namespace/name", all else by name; capacities in any order."""

    volumes: Mapping[str, PersistentVolume] = msgspec.field(default_factory=dict)
    claims: Mapping[str, PersistentVolumeClaim] = msgspec.field(default_factory=dict)
    classes: Mapping[str, StorageClass] = msgspec.field(default_factory=dict)
    nodes: Mapping[str, CSINode] = msgspec.field(default_factory=dict)
    drivers: Mapping[str, CSIDriver] = msgspec.field(default_factory=dict)
    capacities: tuple[StorageCapacity, ...] = ()
    attachments: tuple[VolumeAttachment, ...] = ()


def _class_name(metadata: StorageMetadata, named: str) -> str:
    return (metadata.annotations or {}).get(_CLASS_ANNOTATION, named)


def _bytes(text: str | int | float) -> int:
    return units_of_quantity(STORAGE, Quantity.parse(text))


def _topology(term: TopologyTermDocument) -> tuple[Requirement, ...]:
    return tuple(Requirement(it.key, "In", it.values or ()) for it in term.match_label_expressions or ())


def _source(spec: PersistentVolumeSpec, labels: Mapping[str, str]) -> tuple[str, Attachment | None]:
    if spec.csi is not None:
        return "", Attachment(spec.csi.driver, spec.csi.volume_handle)
    for kind, disk in (
        ("awsElasticBlockStore", spec.aws_elastic_block_store),
        ("azureDisk", spec.azure_disk),
        ("cinder", spec.cinder),
        ("gcePersistentDisk", spec.gce_persistent_disk),
        ("portworxVolume", spec.portworx_volume),
    ):
        if disk is not None:
            is_named = not isinstance(disk, AzureDiskDocument) or disk.is_managed
            return kind, migrated_attachment(kind, disk.source, labels) if is_named else None
    return "", None
