"""How volumes, claims and the kinds of storage drivers are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.api.tables.cells import (
    NONE,
    UNSET,
    age_of,
    at,
    is_terminating,
    list_at,
    mapping_at,
    name_of,
    or_default,
    quantity_text,
    text_at,
)
from allhands.api.tables.column import (
    AGE,
    CORE,
    NAME,
    STORAGE,
    Column,
    FieldDoc,
    Printers,
    TablePrinter,
    described,
    documented,
)

if TYPE_CHECKING:
    from datetime import datetime

    from allhands.api.document import Json, Manifest

_ACCESS_MODES: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
_CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
_DEFAULT_CLASS_ANNOTATIONS: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


def _access_modes(modes: list[Json]) -> str:
    return ",".join(short for mode, short in _ACCESS_MODES.items() if mode in modes)


def _storage_class(document: Manifest) -> str:
    annotations = mapping_at(document, "metadata", "annotations")
    return str(annotations.get(_CLASS_ANNOTATION, text_at(document, "spec", "storageClassName")))


def _phase(document: Manifest) -> str:
    return "Terminating" if is_terminating(document) else text_at(document, "status", "phase") or "Pending"


def persistent_volume_row(volume: Manifest, now: datetime) -> list[Json]:
    spec = mapping_at(volume, "spec")
    claim = at(spec, "claimRef")
    return [
        name_of(volume),
        quantity_text(at(spec, "capacity", "storage")),
        _access_modes(list_at(spec, "accessModes")),
        text_at(spec, "persistentVolumeReclaimPolicy") or "Retain",
        _phase(volume),
        "" if claim is None else f"{text_at(claim, 'namespace')}/{text_at(claim, 'name')}",
        _storage_class(volume),
        or_default(at(spec, "volumeAttributesClassName"), UNSET),
        text_at(volume, "status", "reason"),
        age_of(volume, now),
        or_default(at(spec, "volumeMode"), UNSET),
    ]


def persistent_volume_claim_row(claim: Manifest, now: datetime) -> list[Json]:
    spec, status = mapping_at(claim, "spec"), mapping_at(claim, "status")
    bound = bool(text_at(spec, "volumeName"))
    return [
        name_of(claim),
        _phase(claim),
        text_at(spec, "volumeName"),
        quantity_text(at(status, "capacity", "storage")) if bound else "",
        _access_modes(list_at(status, "accessModes")) if bound else "",
        _storage_class(claim),
        or_default(at(spec, "volumeAttributesClassName"), UNSET),
        age_of(claim, now),
        or_default(at(spec, "volumeMode"), UNSET),
    ]


def storage_class_row(storage_class: Manifest, now: datetime) -> list[Json]:
    annotations = mapping_at(storage_class, "metadata", "annotations")
    default = any(annotations.get(annotation) == "true" for annotation in _DEFAULT_CLASS_ANNOTATIONS)
    return [
        name_of(storage_class) + (" (default)" if default else ""),
        text_at(storage_class, "provisioner"),
        or_default(at(storage_class, "reclaimPolicy"), "Delete"),
        or_default(at(storage_class, "volumeBindingMode"), "Immediate"),
        bool(at(storage_class, "allowVolumeExpansion")),
        age_of(storage_class, now),
    ]


def volume_attributes_class_row(attributes_class: Manifest, now: datetime) -> list[Json]:
    return [name_of(attributes_class), text_at(attributes_class, "driverName"), age_of(attributes_class, now)]


def volume_attachment_row(attachment: Manifest, now: datetime) -> list[Json]:
    return [
        name_of(attachment),
        text_at(attachment, "spec", "attacher"),
        text_at(attachment, "spec", "source", "persistentVolumeName"),
        text_at(attachment, "spec", "nodeName"),
        bool(at(attachment, "status", "attached")),
        age_of(attachment, now),
    ]


def csi_node_row(csi_node: Manifest, now: datetime) -> list[Json]:
    return [name_of(csi_node), len(list_at(csi_node, "spec", "drivers")), age_of(csi_node, now)]


def csi_driver_row(driver: Manifest, now: datetime) -> list[Json]:
    spec = mapping_at(driver, "spec")
    tokens = at(spec, "tokenRequests")
    return [
        name_of(driver),
        bool(or_default(at(spec, "attachRequired"), True)),
        bool(at(spec, "podInfoOnMount")),
        bool(at(spec, "storageCapacity")),
        UNSET if tokens is None else ",".join(text_at(token, "audience") for token in tokens),
        bool(at(spec, "requiresRepublish")),
        ",".join(list_at(spec, "volumeLifecycleModes")) or NONE,
        age_of(driver, now),
    ]


_VOLUME: Final = CORE + "PersistentVolumeSpec"
_CLAIM: Final = CORE + "PersistentVolumeClaim"
_CLASS: Final = STORAGE + "StorageClass"
_DRIVER: Final = STORAGE + "CSIDriverSpec"
_ATTACHMENT: Final = STORAGE + "VolumeAttachment"

# CSIStorageCapacity is missing on purpose: the real server shows it with the default printer.
PRINTERS: Final[Printers] = {
    ("", "PersistentVolume"): TablePrinter(
        (
            NAME,
            documented("Capacity", _VOLUME, "capacity"),
            documented("Access Modes", _VOLUME, "accessModes"),
            documented("Reclaim Policy", _VOLUME, "persistentVolumeReclaimPolicy"),
            documented("Status", CORE + "PersistentVolumeStatus", "phase"),
            documented("Claim", _VOLUME, "claimRef"),
            described("StorageClass", "StorageClass of the pv"),
            described("VolumeAttributesClass", "VolumeAttributesClass of the pv"),
            documented("Reason", CORE + "PersistentVolumeStatus", "reason"),
            AGE,
            documented("VolumeMode", _VOLUME, "volumeMode", priority=1),
        ),
        persistent_volume_row,
    ),
    ("", "PersistentVolumeClaim"): TablePrinter(
        (
            NAME,
            documented("Status", _CLAIM + "Status", "phase"),
            documented("Volume", _CLAIM + "Spec", "volumeName"),
            documented("Capacity", _CLAIM + "Status", "capacity"),
            documented("Access Modes", _CLAIM + "Status", "accessModes"),
            described("StorageClass", "StorageClass of the pvc"),
            described("VolumeAttributesClass", "VolumeAttributesClass of the pvc"),
            AGE,
            documented("VolumeMode", _CLAIM + "Spec", "volumeMode", priority=1),
        ),
        persistent_volume_claim_row,
    ),
    ("storage.k8s.io", "StorageClass"): TablePrinter(
        (
            NAME,
            documented("Provisioner", _CLASS, "provisioner"),
            documented("ReclaimPolicy", _CLASS, "reclaimPolicy"),
            documented("VolumeBindingMode", _CLASS, "volumeBindingMode"),
            documented("AllowVolumeExpansion", _CLASS, "allowVolumeExpansion"),
            AGE,
        ),
        storage_class_row,
    ),
    ("storage.k8s.io", "VolumeAttributesClass"): TablePrinter(
        (NAME, documented("DriverName", STORAGE + "VolumeAttributesClass", "driverName"), AGE),
        volume_attributes_class_row,
    ),
    ("storage.k8s.io", "VolumeAttachment"): TablePrinter(
        (
            NAME,
            # The real server gives this column the format of a name, too.
            Column("Attacher", format="name", description=FieldDoc(_ATTACHMENT + "Spec", "attacher")),
            documented("PV", _ATTACHMENT + "Source", "persistentVolumeName"),
            documented("Node", _ATTACHMENT + "Spec", "nodeName"),
            documented("Attached", _ATTACHMENT + "Status", "attached", type="boolean"),
            AGE,
        ),
        volume_attachment_row,
    ),
    ("storage.k8s.io", "CSINode"): TablePrinter(
        (
            NAME,
            described("Drivers", "Drivers indicates the number of CSI drivers registered on the node", type="integer"),
            AGE,
        ),
        csi_node_row,
    ),
    ("storage.k8s.io", "CSIDriver"): TablePrinter(
        (
            NAME,
            documented("AttachRequired", _DRIVER, "attachRequired", type="boolean"),
            documented("PodInfoOnMount", _DRIVER, "podInfoOnMount", type="boolean"),
            documented("StorageCapacity", _DRIVER, "storageCapacity", type="boolean"),
            documented("TokenRequests", _DRIVER, "tokenRequests"),
            documented("RequiresRepublish", _DRIVER, "requiresRepublish", type="boolean"),
            documented("Modes", _DRIVER, "volumeLifecycleModes"),
            AGE,
        ),
        csi_driver_row,
    ),
}
