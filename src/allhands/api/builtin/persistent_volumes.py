"""Rules of PersistentVolume. Of the sources, those that batch clusters use are looked into (csi, nfs, hostPath, local);
others are only counted."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from allhands.api import names
from allhands.api.builtin.affinity import check_node_selector
from allhands.api.builtin.claims import VOLUME_MODES, check_access_modes, check_basic_amount
from allhands.api.builtin.differences import unified
from allhands.api.builtin.file_paths import check_no_backsteps
from allhands.api.builtin.resource_lists import nanos, round_to_milli
from allhands.api.builtin.volumes import check_driver_name, check_host_path, check_nfs
from allhands.api.errors import forbidden, invalid, not_supported, required
from allhands.api.rules import Rules

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.api.errors import FieldError

_RECLAIM_POLICIES = ("Delete", "Recycle", "Retain")
_SOURCES = (
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
)
_CSI_SECRETS = (
    "controllerPublishSecretRef",
    "controllerExpandSecretRef",
    "nodePublishSecretRef",
    "nodeExpandSecretRef",
)


def _default(volume: Manifest) -> None:
    spec = volume.setdefault("spec", {})
    volume.setdefault("status", {}).setdefault("phase", "Pending")
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
    spec.setdefault("volumeMode", "Filesystem")
    round_to_milli(spec.get("capacity"))
    if "hostPath" in spec:
        spec["hostPath"].setdefault("type", "")


def _prepare_create(volume: Manifest) -> None:
    volume["status"] = {"phase": "Pending"}
    if "creationTimestamp" in volume["metadata"]:
        volume["status"]["lastPhaseTransitionTime"] = volume["metadata"]["creationTimestamp"]


def _prepare_status(new: Manifest, old: Manifest) -> None:
    status, before = new.setdefault("status", {}), old.get("status", {})
    same_phase = status.get("phase") == before.get("phase")
    if same_phase and "lastPhaseTransitionTime" in before:
        status.setdefault("lastPhaseTransitionTime", before["lastPhaseTransitionTime"])


def _validate(volume: Manifest) -> list[FieldError]:
    errors: list[FieldError] = []
    spec = volume.get("spec", {})
    if not spec.get("accessModes"):
        errors.append(required("spec.accessModes"))
    check_access_modes(spec.get("accessModes", []), "spec.accessModes", errors)
    _check_capacity(spec.get("capacity", {}), errors)
    policy = spec.get("persistentVolumeReclaimPolicy", "")
    if policy and policy not in _RECLAIM_POLICIES:
        errors.append(not_supported("spec.persistentVolumeReclaimPolicy", policy, _RECLAIM_POLICIES))
    if "nodeAffinity" in spec:
        where = "spec.nodeAffinity.required"
        if "required" in spec["nodeAffinity"]:
            check_node_selector(spec["nodeAffinity"]["required"], where, errors)
        else:
            errors.append(required(where, "must specify required node constraints"))
    _check_source(spec, errors)
    if "hostPath" in spec and policy == "Recycle" and posixpath.normpath(spec["hostPath"].get("path", "")) == "/":
        detail = "may not be 'recycle' for a hostPath mount of '/'"
        errors.append(forbidden("spec.persistentVolumeReclaimPolicy", detail))
    _check_classes(spec, errors)
    return errors


def _check_capacity(capacity: dict[str, str], errors: list[FieldError]) -> None:
    if not capacity:
        errors.append(required("spec.capacity"))
    if set(capacity) != {"storage"}:
        errors.append(not_supported("spec.capacity", capacity or None, ("storage",)))
    for name, text in capacity.items():
        where = f"spec.capacity[{name}]"
        check_basic_amount(text, where, errors)
        if nanos(text) <= 0:
            errors.append(invalid(where, text, "must be greater than zero"))


def _check_source(spec: Manifest, errors: list[FieldError]) -> None:
    kinds = [kind for kind in _SOURCES if kind in spec]
    if not kinds:
        errors.append(required("spec", "must specify a volume type"))
        return
    kind = kinds[0]
    source, path = spec[kind], f"spec.{kind}"
    if kind == "hostPath":
        check_host_path(source, path, errors)
    elif kind == "nfs":
        check_nfs(source, path, errors)
    elif kind == "csi":
        _check_csi(source, path, errors)
    elif kind == "local":
        if not source.get("path"):
            errors.append(required(f"{path}.path"))
        check_no_backsteps(source.get("path", ""), f"{path}.path", errors)
        if "nodeAffinity" not in spec:
            errors.append(required("spec.nodeAffinity", "Local volume requires node affinity"))
    errors += [forbidden(f"spec.{other}", "may not specify more than 1 volume type") for other in kinds[1:]]


def _check_csi(source: Manifest, path: str, errors: list[FieldError]) -> None:
    check_driver_name(source.get("driver", ""), f"{path}.driver", errors)
    if not source.get("volumeHandle"):
        errors.append(required(f"{path}.volumeHandle"))
    for field in _CSI_SECRETS:
        if field in source:
            errors += [
                required(f"{path}.{field}.{part}") for part in ("name", "namespace") if not source[field].get(part)
            ]


def _check_classes(spec: Manifest, errors: list[FieldError]) -> None:
    name = spec.get("storageClassName")
    if name:
        errors += [invalid("spec.storageClassName", name, text) for text in names.dns1123_subdomain(name)]
    mode = spec.get("volumeMode")
    if mode is not None and mode not in VOLUME_MODES:
        errors.append(not_supported("spec.volumeMode", mode, VOLUME_MODES))
    attributes = spec.get("volumeAttributesClassName")
    if attributes is None:
        return
    where = "spec.volumeAttributesClassName"
    if not attributes:
        errors.append(required(where, "an empty string is disallowed"))
    else:
        errors += [invalid(where, attributes, text) for text in names.dns1123_subdomain(attributes)]
    if "csi" not in spec:
        errors.append(required("spec.csi", "has to be specified when using volumeAttributesClassName"))


def _validate_update(new: Manifest, old: Manifest) -> list[FieldError]:
    # The server's strategy checks the volume, and then its update check does so once more.
    errors = _validate(new) * 2
    spec, before = new.get("spec", {}), old.get("spec", {})
    sources, former = ({kind: each[kind] for kind in _SOURCES if kind in each} for each in (spec, before))
    if "csi" in sources and "csi" in former and "controllerExpandSecretRef" not in former["csi"]:
        kept = {field: value for field, value in sources["csi"].items() if field != "controllerExpandSecretRef"}
        sources["csi"] = kept
    if sources != former:
        lines = unified(former, sources)
        detail = f"spec.persistentvolumesource is immutable after creation\n{lines}"
        errors.append(forbidden("spec.persistentvolumesource", detail))
    if spec.get("volumeMode") != before.get("volumeMode"):
        errors.append(invalid("volumeMode", spec.get("volumeMode"), "field is immutable"))
    if "nodeAffinity" in before and spec.get("nodeAffinity") != before["nodeAffinity"]:
        detail = "field is immutable, except for updating from beta label to GA"
        errors.append(invalid("nodeAffinity", spec.get("nodeAffinity"), detail))
    if "volumeAttributesClassName" in before and "volumeAttributesClassName" not in spec:
        detail = "update from non-nil value to nil is forbidden"
        errors.append(forbidden("spec.volumeAttributesClassName", detail))
    return errors


RULES: dict[str, Rules] = {
    "PersistentVolume": Rules(
        default=_default,
        prepare_create=_prepare_create,
        prepare_status=_prepare_status,
        validate_create=_validate,
        validate_update=_validate_update,
    )
}
