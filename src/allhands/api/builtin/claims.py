"""Rules of PersistentVolumeClaim, whose spec also stands inside ephemeral volumes and StatefulSets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allhands.api import names
from allhands.api.builtin.differences import unified
from allhands.api.builtin.pod_defaults import default_claim_spec
from allhands.api.builtin.resource_lists import check_amount, is_native, nanos, round_to_milli
from allhands.api.errors import forbidden, invalid, not_supported, required
from allhands.api.rules import Rules
from allhands.api.selectors import validate_label_selector
from allhands.model.quantity import Quantity

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.api.errors import FieldError

ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
VOLUME_MODES = ("Block", "Filesystem")
_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
_RESIZE_STATES = (
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
)
_IMMUTABLE = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"


def _default(claim: Manifest) -> None:
    default_claim_spec(claim.setdefault("spec", {}))
    status = claim.setdefault("status", {})
    status.setdefault("phase", "Pending")
    round_to_milli(status.get("capacity"))
    round_to_milli(status.get("allocatedResources"))


def _prepare_create(claim: Manifest) -> None:
    claim["status"] = {"phase": "Pending"}
    _drop_unknown_source(claim["spec"])
    _copy_data_source(claim["spec"])


def _prepare_update(new: Manifest, old: Manifest) -> None:
    if "dataSource" not in old["spec"] and "dataSourceRef" not in old["spec"]:
        _drop_unknown_source(new["spec"])
    _copy_data_source(new["spec"])


def _drop_unknown_source(spec: Manifest) -> None:
    """The older field was always read as a wish that only claims and snapshots can fulfil; others are forgotten."""
    source = spec.get("dataSource")
    if source is None or "dataSourceRef" in spec:
        return
    wanted = (source.get("apiGroup", ""), source.get("kind", ""))
    if wanted not in (("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot")):
        del spec["dataSource"]


def _copy_data_source(spec: Manifest) -> None:
    """`dataSource` and `dataSourceRef` say the same, unless the source is in another namespace."""
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None and reference is None:
        spec["dataSourceRef"] = dict(source)
    elif source is None and reference is not None and not reference.get("namespace"):
        spec["dataSource"] = {key: value for key, value in reference.items() if key != "namespace"}


def check_access_modes(modes: list[str], path: str, errors: list[FieldError]) -> None:
    errors += [not_supported(path, mode, ACCESS_MODES) for mode in modes if mode not in ACCESS_MODES]
    if "ReadWriteOncePod" in modes and any(mode in ACCESS_MODES[:3] for mode in modes):
        errors.append(forbidden(path, "may not use ReadWriteOncePod with other access modes"))


def check_claim_spec(spec: Manifest, path: str, errors: list[FieldError]) -> None:
    if not spec.get("accessModes"):
        errors.append(required(f"{path}.accessModes", "at least 1 access mode is required"))
    errors += validate_label_selector(spec.get("selector"), f"{path}.selector")
    check_access_modes(spec.get("accessModes", []), f"{path}.accessModes", errors)
    size = spec.get("resources", {}).get("requests", {}).get("storage")
    if size is None:
        errors.append(required(f"{path}.resources[storage]"))
    elif nanos(size) <= 0:
        errors.append(invalid(f"{path}.resources[storage]", size, "must be greater than zero"))
    _check_class(spec.get("storageClassName"), f"{path}.storageClassName", errors)
    if spec.get("volumeMode", "Block") not in VOLUME_MODES:
        errors.append(not_supported(f"{path}.volumeMode", spec["volumeMode"], VOLUME_MODES))
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None:
        _check_source(source, f"{path}.dataSource", errors)
    if reference is not None:
        _check_source(reference, f"{path}.dataSourceRef", errors)
        namespace = reference.get("namespace")
        if namespace:
            where = f"{path}.dataSourceRef.namespace"
            errors += [invalid(where, namespace, text) for text in names.dns1123_label(namespace)]
    if source is not None and reference is not None:
        # The server prints its own path object, which has no public fields, as the bad value.
        if reference.get("namespace"):
            errors.append(invalid(path, {}, "may not be specified when dataSourceRef.namespace is specified"))
        elif any(source.get(field) != reference.get(field) for field in ("apiGroup", "kind", "name")):
            errors.append(invalid(path, {}, "must match dataSourceRef"))
    _check_class(spec.get("volumeAttributesClassName"), f"{path}.volumeAttributesClassName", errors)


def _check_class(name: str | None, path: str, errors: list[FieldError]) -> None:
    if name:
        errors += [invalid(path, name, text) for text in names.dns1123_subdomain(name)]


def _check_source(source: Manifest, path: str, errors: list[FieldError]) -> None:
    errors += [required(f"{path}.{field}") for field in ("name", "kind") if not source.get(field)]
    group, kind = source.get("apiGroup", ""), source.get("kind", "")
    if not group:
        if kind != "PersistentVolumeClaim":
            detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
            errors.append(invalid(path, kind, detail))
        return
    errors += [invalid(f"{path}.apiGroup", group, text) for text in names.dns1123_subdomain(group)]


def _validate(claim: Manifest) -> list[FieldError]:
    errors: list[FieldError] = []
    check_claim_spec(claim.get("spec", {}), "spec", errors)
    return errors


def _validate_update(new: Manifest, old: Manifest) -> list[FieldError]:
    errors = _validate(new)
    after, before = dict(new.get("spec", {})), dict(old.get("spec", {}))
    annotation = new["metadata"].get("annotations", {}).get(_CLASS_ANNOTATION, "")
    if annotation != old["metadata"].get("annotations", {}).get(_CLASS_ANNOTATION, ""):
        errors.append(invalid(f"metadata.annotations.{_CLASS_ANNOTATION}", annotation, "field is immutable"))
    if not before.get("volumeName"):
        _take_over(before, after, "volumeName")
    if "storageClassName" not in before:
        after.pop("storageClassName", None)
    if new.get("status", {}).get("phase") == "Bound":
        _take_over(after, before, "volumeAttributesClassName")
        _take_over_size(after, before)
    if after != before:
        errors.append(forbidden("spec", f"{_IMMUTABLE}\n{unified(before, after)}"))
    _check_shrinking(new, old, errors)
    if after.get("volumeMode") != before.get("volumeMode"):
        errors.append(invalid("volumeMode", after.get("volumeMode"), "field is immutable"))
    wanted = new["spec"].get("volumeAttributesClassName")
    changed = wanted != old["spec"].get("volumeAttributesClassName")
    if changed and not wanted and "currentVolumeAttributesClassName" in old.get("status", {}):
        what = "nil" if wanted is None else "empty string"
        detail = f"update to {what} is forbidden when status.currentVolumeAttributesClassName is not nil"
        errors.append(forbidden("spec.volumeAttributesClassName", detail))
    return errors


def _take_over(spec: Manifest, other: Manifest, field: str) -> None:
    """Makes `spec` agree with `other` in a field that may change."""
    if field in other:
        spec[field] = other[field]
    else:
        spec.pop(field, None)


def _take_over_size(spec: Manifest, other: Manifest) -> None:
    size = other.get("resources", {}).get("requests", {}).get("storage")
    requests = spec.get("resources", {}).get("requests")
    if requests and size is not None:
        spec["resources"] = {**spec["resources"], "requests": {**requests, "storage": size}}


def _check_shrinking(new: Manifest, old: Manifest, errors: list[FieldError]) -> None:
    size, before = (each["spec"].get("resources", {}).get("requests", {}).get("storage", "0") for each in (new, old))
    if nanos(size) < nanos(before):
        held = old.get("status", {}).get("capacity", {}).get("storage", "0")
        if nanos(size) <= nanos(held):
            detail = "field can not be less than status.capacity"
            errors.append(forbidden("spec.resources.requests.storage", detail))


def _validate_status(new: Manifest, _old: Manifest) -> list[FieldError]:
    errors: list[FieldError] = []
    status = new.get("status", {})
    if not new["spec"].get("accessModes"):
        errors.append(required("Spec.accessModes"))
    for name, text in status.get("capacity", {}).items():
        check_basic_amount(text, f"status.capacity[{name}]", errors)
    path = "status.allocatedResourceStatuses"
    for name, state in status.get("allocatedResourceStatuses", {}).items():
        _check_resource_key(name, path, errors)
        if state not in _RESIZE_STATES:
            errors.append(not_supported(path, name, _RESIZE_STATES))
    for name, text in status.get("allocatedResources", {}).items():
        if _check_resource_key(name, "status.allocatedResources", errors):
            where = f"status.allocatedResources[{name}]"
            if check_basic_amount(text, where, errors):
                check_amount("storage", text, where, errors)
    return errors


def check_basic_amount(text: str, path: str, errors: list[FieldError]) -> bool:
    units = Quantity.parse(text).value()
    if units < 0:
        errors.append(invalid(path, units, "must be a valid resource quantity"))
    return units >= 0


def _check_resource_key(name: str, path: str, errors: list[FieldError]) -> bool:
    texts = names.qualified_name(name)
    errors += [invalid(path, name, text) for text in texts]
    if not texts and is_native(name) and name != "storage":
        errors.append(not_supported(path, name, ("storage",)))
        return False
    return not texts


RULES: dict[str, Rules] = {
    "PersistentVolumeClaim": Rules(
        default=_default,
        prepare_create=_prepare_create,
        prepare_update=_prepare_update,
        validate_create=_validate,
        validate_update=_validate_update,
        validate_status=_validate_status,
    )
}
