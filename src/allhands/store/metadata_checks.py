"""What is said against the metadata of an object of a kind: when it is new, and when it changes.

The rules themselves are in `api.metadata`; here is only which of them a kind asks for, and through which door. The real
server's kinds differ in that for no reason, and clients see it, so there is a list.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.api.metadata import (
    validate_metadata,
    validate_metadata_update,
    validate_prefix,
    validate_standard_finalizers,
)

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.api.errors import FieldError
    from allhands.api.kinds import Kind

_PREFIX_CHECKED_AGAIN: Final = frozenset(
    (name, "")
    for name in (
        "ConfigMap",
        "ControllerRevision",
        "CSINode",
        "EndpointSlice",
        "Endpoints",
        "Job",
        "LimitRange",
        "Namespace",
        "Node",
        "PersistentVolume",
        "PersistentVolumeClaim",
        "Pod",
        "RuntimeClass",
        "Secret",
        "ServiceAccount",
        "StorageClass",
        "VolumeAttachment",
    )
) | {("VolumeAttachment", "status")}
"""Kinds that look at `generateName` in a change too, and the sub-resource of the change."""
_ANY_FINALIZER_THROUGH_STATUS: Final = frozenset({"CronJob", "PodGroup", "VolumeAttachment"})


def errors_of_new(kind: Kind, document: Manifest) -> list[FieldError]:
    errors = validate_metadata(document, namespaced=kind.namespaced, name_check=kind.name_check)
    return errors + _finalizer_errors(kind, document)


def errors_of_change(kind: Kind, new: Manifest, old: Manifest, subresource: str = "") -> list[FieldError]:
    errors = validate_metadata_update(new, old)
    if kind.custom:
        return errors
    if not subresource or kind.kind not in _ANY_FINALIZER_THROUGH_STATUS:
        errors += _finalizer_errors(kind, new)
    if "generateName" in new["metadata"] and (kind.kind, subresource) in _PREFIX_CHECKED_AGAIN:
        errors += validate_prefix(new["metadata"]["generateName"], kind.name_check)
    return errors


def _finalizer_errors(kind: Kind, document: Manifest) -> list[FieldError]:
    finalizers = document["metadata"].get("finalizers")
    if not finalizers or kind.custom or kind.any_finalizer:
        return []
    return validate_standard_finalizers(finalizers, "metadata.finalizers")
