"""Rules of StorageClass, CSINode, CSIDriver, VolumeAttachment and CSIStorageCapacity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.api.builtin.fieldchecks import (
    IMMUTABLE,
    NEGATIVE,
    immutable,
    negatives,
    shown_selector,
    sorted_labels,
)
from allhands.api.builtin.volumes import check_driver_name
from allhands.api.errors import FieldError, duplicate, forbidden, invalid, not_supported, required, too_long
from allhands.api.names import dns1123_subdomain, in_range, qualified_name
from allhands.api.rules import Rules
from allhands.api.selectors import validate_label_selector

if TYPE_CHECKING:
    from allhands.api.document import Json, Manifest

_MAX_PARAMETERS: Final = 512
_MAX_PARAMETER_BYTES: Final = 256 * 1024
_MAX_ATTACHMENT_METADATA_BYTES: Final = 256 * 1024
_MAX_VOLUME_ERROR_BYTES: Final = 1024
_MAX_NODE_ID_BYTES: Final = 256
_MIN_ALLOCATABLE_PERIOD_SECONDS: Final = 10
_MIN_TOKEN_SECONDS: Final = 600
_INT32_MAX: Final = 2**31 - 1
_RECLAIM_POLICIES: Final = ("Delete", "Retain")
_BINDING_MODES: Final = ("Immediate", "WaitForFirstConsumer")
_FS_GROUP_POLICIES: Final = ("File", "None", "ReadWriteOnceWithFSType")
_LIFECYCLE_MODES: Final = ("Persistent", "Ephemeral")
_ONE_SOURCE: Final = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"


def default_storage_class(storage_class: Manifest) -> None:
    storage_class.setdefault("reclaimPolicy", "Delete")
    storage_class.setdefault("volumeBindingMode", "Immediate")


def validate_storage_class(storage_class: Manifest) -> list[FieldError]:
    errors = []
    provisioner = storage_class.get("provisioner", "")
    if not provisioner:
        errors.append(required("provisioner"))
    else:
        lowered = provisioner.lower()
        errors += [invalid("provisioner", lowered, text) for text in qualified_name(lowered)]
    errors += _parameter_errors(storage_class.get("parameters") or {})
    reclaim = storage_class.get("reclaimPolicy", "")
    if reclaim and reclaim not in _RECLAIM_POLICIES:
        errors.append(not_supported("reclaimPolicy", reclaim, _RECLAIM_POLICIES))
    mode = storage_class.get("volumeBindingMode")
    if mode is None:
        errors.append(required("volumeBindingMode"))
    elif mode not in _BINDING_MODES:
        errors.append(not_supported("volumeBindingMode", mode, _BINDING_MODES))
    return errors + _topology_errors(storage_class.get("allowedTopologies") or [])


def _parameter_errors(parameters: dict[str, str]) -> list[FieldError]:
    if len(parameters) > _MAX_PARAMETERS:
        return [too_long("parameters", _MAX_PARAMETERS)]
    errors = [invalid("parameters", "", "field can not be empty.")] if "" in parameters else []
    if sum(len(key.encode()) + len(value.encode()) for key, value in parameters.items()) > _MAX_PARAMETER_BYTES:
        errors.append(too_long("parameters", _MAX_PARAMETER_BYTES))
    return errors


def _topology_errors(terms: list[Manifest]) -> list[FieldError]:
    errors: list[FieldError] = []
    earlier: list[dict[str, set[str]]] = []
    for index, term in enumerate(terms):
        path = f"allowedTopologies[{index}].matchLabelExpressions"
        values_of: dict[str, set[str]] = {}
        for position, requirement in enumerate(term.get("matchLabelExpressions") or ()):
            errors += _topology_requirement_errors(requirement, f"{path}[{position}]", values_of)
        errors += [duplicate(path, "") for other in earlier if other == values_of]
        earlier.append(values_of)
    return errors


def _topology_requirement_errors(requirement: Manifest, path: str, values_of: dict[str, set[str]]) -> list[FieldError]:
    key, values = requirement.get("key", ""), requirement.get("values") or ()
    errors = [] if values else [required(f"{path}.values")]
    seen: set[str] = set()
    for index, value in enumerate(values):
        if value in seen:
            errors.append(duplicate(f"{path}.values[{index}]", value))
        seen.add(value)
    errors += [invalid(f"{path}.key", key, text) for text in qualified_name(key)]
    if key in values_of:
        errors.append(duplicate(f"{path}.key", key))
    values_of[key] = seen
    return errors


def validate_storage_class_update(new: Manifest, old: Manifest) -> list[FieldError]:
    errors = validate_storage_class(new)
    if new.get("parameters") != old.get("parameters"):
        errors.append(invalid("parameters", sorted_labels(new.get("parameters")), IMMUTABLE))
    errors += immutable(new, old, "provisioner", "", absent="")
    errors += immutable(new, old, "reclaimPolicy", "")
    return errors + immutable(new, old, "volumeBindingMode", "")


def validate_csi_node(csi_node: Manifest) -> list[FieldError]:
    errors: list[FieldError] = []
    names: set[str] = set()
    for index, driver in enumerate(csi_node.get("spec", {}).get("drivers") or ()):
        errors += _csi_node_driver_errors(driver, f"spec.drivers[{index}]", names)
    return errors


def _csi_node_driver_errors(driver: Manifest, path: str, names: set[str]) -> list[FieldError]:
    name, node_id = driver.get("name", ""), driver.get("nodeID", "")
    errors: list[FieldError] = []
    check_driver_name(name, f"{path}.name", errors)
    if not node_id:
        errors.append(required(f"{path}.nodeID"))
    if len(node_id.encode()) > _MAX_NODE_ID_BYTES:
        errors.append(invalid(f"{path}.nodeID", node_id, f"must be {_MAX_NODE_ID_BYTES} characters or less"))
    errors += negatives(driver.get("allocatable") or {}, ("count",), f"{path}.allocatable")
    if name in names:
        errors.append(duplicate(f"{path}.name", name))
    names.add(name)
    keys: set[str] = set()
    for key in driver.get("topologyKeys") or ():
        if not key:
            errors.append(required(path))
        if key in keys:
            errors.append(duplicate(path, key))
        keys.add(key)
        errors += [invalid(path, key, text) for text in qualified_name(key)]
    return errors


def validate_csi_node_update(new: Manifest, old: Manifest) -> list[FieldError]:
    errors = validate_csi_node(new)
    drivers: list[Manifest] = new.get("spec", {}).get("drivers") or []
    for before in old.get("spec", {}).get("drivers") or ():
        errors += [
            invalid("spec.drivers", _shown_driver(driver), IMMUTABLE)
            for driver in drivers
            if driver.get("name") == before.get("name") and _shown_driver(driver) != _shown_driver(before)
        ]
    return errors


def _shown_driver(driver: Manifest) -> Json:
    """A driver with the field names the real server shows, without the part that may change."""
    return {
        "Name": driver.get("name", ""),
        "NodeID": driver.get("nodeID", ""),
        "TopologyKeys": driver.get("topologyKeys"),
        "Allocatable": None,
    }


def default_csi_driver(csi_driver: Manifest) -> None:
    spec = csi_driver.setdefault("spec", {})
    spec.setdefault("attachRequired", True)
    spec.setdefault("podInfoOnMount", False)
    spec.setdefault("storageCapacity", False)
    spec.setdefault("fsGroupPolicy", "ReadWriteOnceWithFSType")
    if not spec.get("volumeLifecycleModes"):
        spec["volumeLifecycleModes"] = ["Persistent"]
    spec.setdefault("requiresRepublish", False)
    spec.setdefault("seLinuxMount", False)


def prepare_csi_driver(csi_driver: Manifest) -> None:
    csi_driver["spec"].pop("preventPodSchedulingIfMissing", None)


def prepare_csi_driver_update(new: Manifest, old: Manifest) -> None:
    if "preventPodSchedulingIfMissing" not in old["spec"]:
        prepare_csi_driver(new)


def validate_csi_driver(csi_driver: Manifest) -> list[FieldError]:
    spec = csi_driver["spec"]
    errors = []
    policy = spec.get("fsGroupPolicy")
    if policy is not None and policy not in _FS_GROUP_POLICIES:
        errors.append(not_supported("spec.fsGroupPolicy", policy, _FS_GROUP_POLICIES))
    requests = spec.get("tokenRequests") or []
    errors += _token_request_errors(requests)
    errors += [
        not_supported("spec.volumeLifecycleModes", mode, _LIFECYCLE_MODES)
        for mode in spec.get("volumeLifecycleModes") or ()
        if mode not in _LIFECYCLE_MODES
    ]
    period_seconds = spec.get("nodeAllocatableUpdatePeriodSeconds")
    if period_seconds is not None and period_seconds < _MIN_ALLOCATABLE_PERIOD_SECONDS:
        why = f"must be greater than or equal to {_MIN_ALLOCATABLE_PERIOD_SECONDS} seconds"
        errors.append(invalid("spec.nodeAllocatableUpdatePeriodSeconds", period_seconds, why))
    in_secrets = spec.get("serviceAccountTokenInSecrets")
    if in_secrets is not None and not requests:
        why = "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
        errors.append(invalid("spec.serviceAccountTokenInSecrets", in_secrets, why))
    return errors


def _token_request_errors(requests: list[Manifest]) -> list[FieldError]:
    errors = []
    audiences: set[str] = set()
    for index, request in enumerate(requests):
        path = f"spec.tokenRequests[{index}]"
        audience = request.get("audience", "")
        if audience in audiences:
            errors.append(duplicate(f"{path}.audience", audience))
            continue
        audiences.add(audience)
        seconds = request.get("expirationSeconds")
        if seconds is not None and seconds < _MIN_TOKEN_SECONDS:
            why = "may not specify a duration less than 10 minutes"
            errors.append(invalid(f"{path}.expirationSeconds", seconds, why))
        if seconds is not None and seconds > 2**32:
            why = "may not specify a duration larger than 2^32 seconds"
            errors.append(invalid(f"{path}.expirationSeconds", seconds, why))
    return errors


def validate_csi_driver_update(new: Manifest, old: Manifest) -> list[FieldError]:
    errors = validate_csi_driver(new)
    spec, old_spec = new["spec"], old["spec"]
    if spec.get("attachRequired") != old_spec.get("attachRequired"):
        # The path is misspelt by the real server.
        errors.append(invalid("spec.attachedRequired", spec.get("attachRequired"), IMMUTABLE))
    return errors + immutable(spec, old_spec, "volumeLifecycleModes", "spec")


def validate_attachment(attachment: Manifest) -> list[FieldError]:
    spec, status = attachment.get("spec", {}), attachment.get("status") or {}
    source = spec.get("source", {})
    volume = source.get("persistentVolumeName")
    errors: list[FieldError] = []
    check_driver_name(spec.get("attacher", ""), "spec.attacher", errors)
    if volume is None and "inlineVolumeSpec" not in source:
        errors.append(required("spec.source", _ONE_SOURCE))
    elif volume is not None and "inlineVolumeSpec" in source:
        errors.append(forbidden("spec.source", _ONE_SOURCE))
    elif volume == "":
        errors.append(required("spec.source.persistentVolumeName", "must specify non empty persistentVolumeName"))
    node = spec.get("nodeName", "")
    errors += [invalid("spec.nodeName", node, text) for text in dns1123_subdomain(node)]
    metadata = status.get("attachmentMetadata") or {}
    if sum(len(key.encode()) + len(value.encode()) for key, value in metadata.items()) > _MAX_ATTACHMENT_METADATA_BYTES:
        errors.append(too_long("status.attachmentMetadata", _MAX_ATTACHMENT_METADATA_BYTES))
    for field in ("attachError", "detachError"):
        errors += _volume_error_errors(status.get(field) or {}, f"status.{field}")
    if volume is not None:
        errors += [invalid("spec.source.persistentVolumeName", volume, text) for text in dns1123_subdomain(volume)]
    return errors


def _volume_error_errors(error: Manifest, path: str) -> list[FieldError]:
    errors = []
    if len(error.get("message", "").encode()) > _MAX_VOLUME_ERROR_BYTES:
        # The limit named is not the limit applied; so says the real server.
        errors.append(too_long(f"{path}.message", _MAX_ATTACHMENT_METADATA_BYTES))
    code = error.get("errorCode", 0)
    if code < 0:
        errors += [invalid(f"{path}.errorCode", code, text) for text in in_range(code, 0, _INT32_MAX)]
    return errors


def validate_attachment_update(new: Manifest, old: Manifest) -> list[FieldError]:
    errors = validate_attachment(new)
    spec = new.get("spec", {})
    if spec != old.get("spec", {}):
        source = spec.get("source", {})
        shown = {
            "Attacher": spec.get("attacher", ""),
            "Source": {
                "PersistentVolumeName": source.get("persistentVolumeName"),
                "InlineVolumeSpec": source.get("inlineVolumeSpec"),
            },
            "NodeName": spec.get("nodeName", ""),
        }
        errors.append(invalid("spec", shown, IMMUTABLE))
    return errors


def validate_capacity(capacity: Manifest) -> list[FieldError]:
    errors = validate_label_selector(capacity.get("nodeTopology"), "nodeTopology")
    name = capacity.get("storageClassName", "")
    errors += [invalid("storageClassName", name, text) for text in dns1123_subdomain(name)]
    quantity = capacity.get("capacity", "")
    if quantity.startswith("-"):
        errors.append(invalid("capacity", quantity, NEGATIVE))
    return errors


def validate_capacity_update(new: Manifest, old: Manifest) -> list[FieldError]:
    errors = validate_capacity(new)
    if new.get("nodeTopology") != old.get("nodeTopology"):
        errors.append(invalid("nodeTopology", shown_selector(new.get("nodeTopology")), IMMUTABLE))
    return errors + immutable(new, old, "storageClassName", "", absent="")


RULES: Final = {
    "StorageClass": Rules(
        default=default_storage_class,
        validate_create=validate_storage_class,
        validate_update=validate_storage_class_update,
    ),
    "CSINode": Rules(validate_create=validate_csi_node, validate_update=validate_csi_node_update),
    "CSIDriver": Rules(
        default=default_csi_driver,
        prepare_create=prepare_csi_driver,
        validate_create=validate_csi_driver,
        prepare_update=prepare_csi_driver_update,
        validate_update=validate_csi_driver_update,
    ),
    "VolumeAttachment": Rules(
        validate_create=validate_attachment,
        validate_update=validate_attachment_update,
        validate_status=validate_attachment_update,
    ),
    "CSIStorageCapacity": Rules(validate_create=validate_capacity, validate_update=validate_capacity_update),
}
