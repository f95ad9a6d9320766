"""What every object's `metadata` must satisfy, whatever its kind, when it is created and when it changes.

The checks look at objects that passed the schema, after the server filled in what it owns (name, namespace, uid,
times). They never fill in or repair anything, and cost next to nothing for ordinary metadata: every write runs them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from allhands.api.errors import FieldError, forbidden, go_quote, invalid, required, too_long
from allhands.api.names import (
    bytes_of,
    dns1123_label,
    is_label_value,
    is_qualified_name,
    label_value,
    path_segment_name,
    path_segment_prefix,
    qualified_name,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from allhands.api.document import Manifest

ANNOTATIONS_MAX_BYTES: Final = 256 * 1024
FIELD_MANAGER_MAX_BYTES: Final = 128
_SUBRESOURCE_MAX_BYTES: Final = 256
_ORPHAN: Final = "orphan"
_FOREGROUND: Final = "foregroundDeletion"
_STANDARD_FINALIZERS: Final = frozenset({"kubernetes", _ORPHAN, _FOREGROUND})

_IMMUTABLE_TEXTS: Final = ("name", "namespace", "uid")
_IMMUTABLE_VALUES: Final = ("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")


def validate_metadata(
    object: Manifest, *, namespaced: bool, name_check: Callable[[str], list[str]]
) -> list[FieldError]:
    """All that is wrong with the metadata of a new object, after its name was generated."""
    metadata = object.get("metadata") or {}
    errors: list[FieldError] = []
    if prefix := metadata.get("generateName"):
        errors += validate_prefix(prefix, name_check)
    name = metadata.get("name")
    if not name:
        errors.append(required("metadata.name", "name or generateName is required"))
    elif texts := name_check(name):
        errors += [invalid("metadata.name", name, text) for text in texts]
    namespace = metadata.get("namespace")
    if namespaced:
        if not namespace:
            errors.append(required("metadata.namespace"))
        elif texts := dns1123_label(namespace):
            errors += [invalid("metadata.namespace", namespace, text) for text in texts]
    elif namespace:
        errors.append(forbidden("metadata.namespace", "not allowed on this type"))
    return errors + _shared_errors(metadata)


def validate_prefix(prefix: str, name_check: Callable[[str], list[str]]) -> list[FieldError]:
    """What is wrong with a `generateName`."""
    return [invalid("metadata.generateName", prefix, text) for text in _check_prefix(prefix, name_check)]


def validate_metadata_update(new: Manifest, old: Manifest) -> list[FieldError]:
    """All that is wrong with changed metadata, after what a client may leave out was taken over from `old`."""
    metadata, before = new.get("metadata") or {}, old.get("metadata") or {}
    errors = _shared_errors(metadata)
    if before.get("deletionTimestamp"):
        added = set(metadata.get("finalizers") or ()).difference(before.get("finalizers") or ())
        if added:
            listing = ", ".join(go_quote(finalizer) for finalizer in sorted(added))
            text = "no new finalizers can be added if the object is being deleted, found new finalizers []string{%s}"
            errors.append(forbidden("metadata.finalizers", text % listing))
    if not metadata.get("resourceVersion"):
        errors.append(invalid("metadata.resourceVersion", "", "must be specified for an update"))
    generation = metadata.get("generation") or 0
    if generation < (before.get("generation") or 0):
        errors.append(invalid("metadata.generation", generation, "must not be decremented"))
    for field in _IMMUTABLE_TEXTS:
        text = metadata.get(field) or ""
        if text != (before.get(field) or ""):
            errors.append(invalid(f"metadata.{field}", text, "field is immutable"))
    for field in _IMMUTABLE_VALUES:
        value = metadata.get(field)
        if value != before.get(field):
            errors.append(invalid(f"metadata.{field}", value, "field is immutable"))
    return errors


def validate_labels(labels: Mapping[str, str], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for key, value in labels.items():
        if not is_qualified_name(key):
            errors += [invalid(path, key, text) for text in qualified_name(key)]
        if not is_label_value(value):
            errors += [invalid(path, value, text) for text in label_value(value)]
    return errors


def validate_annotations(annotations: Mapping[str, str], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    size_characters = 0
    for key, value in annotations.items():
        # The case of an annotation's key does not matter; only then is it worth a second look.
        if not is_qualified_name(key):
            errors += [invalid(path, key, text) for text in qualified_name(key.lower())]
        size_characters += len(key) + len(value)
    if size_characters * 4 > ANNOTATIONS_MAX_BYTES:  # four bytes is the most that a character takes
        size_bytes = sum(bytes_of(key) + bytes_of(value) for key, value in annotations.items())
        if size_bytes > ANNOTATIONS_MAX_BYTES:
            errors.append(too_long(path, ANNOTATIONS_MAX_BYTES))
    return errors


def validate_standard_finalizers(finalizers: Sequence[str], path: str) -> list[FieldError]:
    """What the built-in kinds ask on top: a finalizer without a domain is one that Kubernetes itself knows."""
    text = "name is neither a standard finalizer name nor is it fully qualified"
    return [
        invalid(f"{path}[{index}]", finalizer, text)
        for index, finalizer in enumerate(finalizers)
        if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS
    ]


def _check_prefix(prefix: str, name_check: Callable[[str], list[str]]) -> list[str]:
    if name_check is path_segment_name:
        return path_segment_prefix(prefix)
    # A dash at the end is fine where more will follow. The server cuts two characters for it, and so do we.
    masked = f"{prefix[:-2]}a" if len(prefix) > 1 and prefix.endswith("-") else prefix
    return name_check(masked)


def _shared_errors(metadata: Manifest) -> list[FieldError]:
    errors: list[FieldError] = []
    generation = metadata.get("generation")
    if generation is not None and generation < 0:
        errors.append(invalid("metadata.generation", generation, "must be greater than or equal to 0"))
    if labels := metadata.get("labels"):
        errors += validate_labels(labels, "metadata.labels")
    if annotations := metadata.get("annotations"):
        errors += validate_annotations(annotations, "metadata.annotations")
    if owners := metadata.get("ownerReferences"):
        errors += _owner_errors(owners, "metadata.ownerReferences")
    if finalizers := metadata.get("finalizers"):
        errors += _finalizer_errors(finalizers, "metadata.finalizers")
    if entries := metadata.get("managedFields"):
        errors += _managed_fields_errors(entries, "metadata.managedFields")
    return errors


def _owner_errors(owners: Sequence[Manifest], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    controller: Manifest | None = None
    for owner in owners:
        get = owner.get
        if not (get("name") and get("uid") and _may_own(get("apiVersion") or "", get("kind") or "")):
            errors += _reference_errors(owner, path)
        if get("controller"):
            if controller is None:
                controller = owner
                continue
            text = (
                'Only one reference can have Controller set to true. Found "true" in references for '
                f"{_kind_and_name(controller)} and {_kind_and_name(owner)}"
            )
            errors.append(invalid(path, [_shown_owner(each) for each in owners], text))
    return errors


@lru_cache(maxsize=1024)
def _may_own(api_version: str, kind: str) -> bool:
    return bool(kind) and _has_version(api_version) and not _is_event(api_version, kind)


def _has_version(api_version: str) -> bool:
    return bool(api_version) and api_version.count("/") <= 1 and not api_version.endswith("/")


def _is_event(api_version: str, kind: str) -> bool:
    return kind == "Event" and api_version in ("v1", "/v1")


def _reference_errors(owner: Manifest, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    api_version = owner.get("apiVersion") or ""
    if not _has_version(api_version):
        errors.append(invalid(f"{path}.apiVersion", api_version, "version must not be empty"))
    missing = [field for field in ("kind", "name", "uid") if not owner.get(field)]
    errors += [invalid(f"{path}.{field}", "", "must not be empty") for field in missing]
    if _is_event(api_version, owner.get("kind") or ""):
        text = "/v1, Kind=Event is disallowed from being an owner"
        errors.append(invalid(path, _shown_owner(owner), text))
    return errors


def _kind_and_name(owner: Manifest) -> str:
    return f"{owner.get('kind') or ''}/{owner.get('name') or ''}"


def _shown_owner(owner: Manifest) -> Manifest:
    """The reference as the server writes it: required fields always, in the order of the type."""
    shown: Manifest = {field: owner.get(field) or "" for field in ("apiVersion", "kind", "name", "uid")}
    return shown | {field: owner[field] for field in ("controller", "blockOwnerDeletion") if field in owner}


def _finalizer_errors(finalizers: Sequence[str], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for finalizer in finalizers:
        if not is_qualified_name(finalizer):
            errors += [invalid(path, finalizer, text) for text in qualified_name(finalizer)]
    if _ORPHAN in finalizers and _FOREGROUND in finalizers:
        text = f"finalizer {_ORPHAN} and {_FOREGROUND} cannot be both set"
        errors.append(invalid(path, list(finalizers), text))
    return errors


def validate_field_manager(manager: str, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if bytes_of(manager) > FIELD_MANAGER_MAX_BYTES:
        errors.append(too_long(path, FIELD_MANAGER_MAX_BYTES))
    if not manager.isprintable():
        for index, char in enumerate(manager):
            if not char.isprintable():
                position = bytes_of(manager[:index])
                text = f"invalid character U+{ord(char):04X} (at position {position})"
                errors.append(invalid(path, manager, text))
    return errors


def _managed_fields_errors(entries: Sequence[Manifest], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, entry in enumerate(entries):
        place = f"{path}[{index}]"
        operation = entry.get("operation") or ""
        if operation not in ("Apply", "Update"):
            errors.append(invalid(f"{place}.operation", operation, "must be `Apply` or `Update`"))
        fields_type = entry.get("fieldsType")
        if fields_type and fields_type != "FieldsV1":
            errors.append(invalid(f"{place}.fieldsType", fields_type, "must be `FieldsV1`"))
        errors += validate_field_manager(entry.get("manager") or "", f"{place}.manager")
        if bytes_of(entry.get("subresource") or "") > _SUBRESOURCE_MAX_BYTES:
            errors.append(too_long(f"{place}.subresource", _SUBRESOURCE_MAX_BYTES))
    return errors
