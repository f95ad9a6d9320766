"""Claims, volumes and their classes as binding sees them, and whether a volume is good for a claim."""

from collections.abc import Mapping
from typing import Final

import msgspec

from allhands.api.document import Manifest
from allhands.api.kinds import Resource
from allhands.lifecycle.observed import NO_LABELS, Metadata
from allhands.model.pod_document import QuantityMap, ResourceRequirements
from allhands.model.quantity import Quantity, QuantityError
from allhands.model.selector import LabelSelectorDocument, selector_of
from allhands.model.volume import BIND_COMPLETED, SELECTED_NODE, STORAGE
from allhands.model.volume_document import ClaimReferenceDocument, VolumeNodeAffinityDocument

CLAIMS: Final = Resource("", "v1", "persistentvolumeclaims")
VOLUMES: Final = Resource("", "v1", "persistentvolumes")
CLASSES: Final = Resource("storage.k8s.io", "v1", "storageclasses")
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
_BETA_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
_FILESYSTEM: Final = "Filesystem"


def _bytes(amounts: QuantityMap | None) -> int:
    try:
        return Quantity.parse((amounts or {}).get(STORAGE, 0)).value()
    except QuantityError:
        return 0


class ClaimSpec(msgspec.Struct, frozen=True, rename="camel"):
    volume_name: str = ""
    storage_class_name: str | None = None
    access_modes: tuple[str, ...] | None = None
    resources: ResourceRequirements | None = None
    selector: LabelSelectorDocument | None = None
    volume_mode: str | None = None


class Claim(msgspec.Struct, frozen=True):
    metadata: Metadata = Metadata()
    spec: ClaimSpec = ClaimSpec()
    status: Manifest = {}

    @property
    def class_name(self) -> str:
        return self.metadata.annotation(_BETA_CLASS) or self.spec.storage_class_name or ""

    @property
    def request_bytes(self) -> int:
        return _bytes(self.spec.resources.requests if self.spec.resources else None)

    @property
    def selected_node(self) -> str:
        return self.metadata.annotation(SELECTED_NODE)

    @property
    def is_complete(self) -> bool:
        """Bound once and for all."""
        return BIND_COMPLETED in (self.metadata.annotations or NO_LABELS)


class VolumeSpec(msgspec.Struct, frozen=True, rename="camel"):
    capacity: QuantityMap | None = None
    access_modes: tuple[str, ...] | None = None
    storage_class_name: str = ""
    claim_ref: ClaimReferenceDocument | None = None
    node_affinity: VolumeNodeAffinityDocument | None = None
    volume_mode: str | None = None
    persistent_volume_reclaim_policy: str = "Retain"


class Volume(msgspec.Struct, frozen=True):
    metadata: Metadata = Metadata()
    spec: VolumeSpec = VolumeSpec()
    status: Manifest = {}

    @property
    def class_name(self) -> str:
        return self.metadata.annotation(_BETA_CLASS) or self.spec.storage_class_name

    @property
    def capacity_bytes(self) -> int:
        return _bytes(self.spec.capacity)

    @property
    def phase(self) -> str:
        return str(self.status.get("phase") or "")

    def is_kept_for(self, claim: Claim) -> bool:
        """Whether it is bound to this claim or reserved for it by name."""
        reference, metadata = self.spec.claim_ref, claim.metadata
        if reference is None or (reference.namespace, reference.name) != (metadata.namespace, metadata.name):
            return False
        return reference.uid in ("", metadata.uid)

    def suits(self, claim: Claim, node_labels: Mapping[str, str] | None) -> bool:
        """Whether the claim could have it, on that node if one was chosen. Whose it is now is not looked at."""
        selector = selector_of(claim.spec.selector)
        return (
            not self.metadata.is_going
            and self.class_name == claim.class_name
            and (self.spec.volume_mode or _FILESYSTEM) == (claim.spec.volume_mode or _FILESYSTEM)
            and self.capacity_bytes >= claim.request_bytes
            and set(claim.spec.access_modes or ()) <= set(self.spec.access_modes or ())
            and (selector is None or selector.matches(self.metadata.labels or NO_LABELS))
            and (node_labels is None or self._reaches(node_labels))
        )

    def _reaches(self, node_labels: Mapping[str, str]) -> bool:
        required = self.spec.node_affinity.required if self.spec.node_affinity else None
        return required is None or any(term.matches(node_labels, "") for term in required.terms())


class StorageClass(msgspec.Struct, frozen=True, rename="camel"):
    metadata: Metadata = Metadata()
    provisioner: str = ""
    volume_binding_mode: str | None = None
    reclaim_policy: str | None = None
    mount_options: tuple[str, ...] | None = None

    @property
    def waits_for_consumer(self) -> bool:
        return self.volume_binding_mode == "WaitForFirstConsumer"
