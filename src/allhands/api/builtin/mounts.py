"""Checks of a container's volume mounts and raw block devices against the pod's volumes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allhands.api.builtin.file_paths import check_descending, has_backsteps
from allhands.api.errors import forbidden, invalid, not_found, not_supported, required

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allhands.api.document import Manifest
    from allhands.api.errors import FieldError

_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
_RECURSIVE_READ_ONLY = ("Disabled", "Enabled", "IfPossible")


def check_mounts(container: Manifest, volumes: Mapping[str, Manifest], path: str, errors: list[FieldError]) -> None:
    devices: dict[str, str] = {}
    if "volumeDevices" in container:
        devices = {device.get("name", ""): device.get("devicePath", "") for device in container["volumeDevices"]}
    seen: set[str] = set()
    for index, mount in enumerate(container["volumeMounts"]):
        name, target = mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            errors.append(required(f"{path}[{index}].name"))
        if name not in volumes:
            errors.append(not_found(f"{path}[{index}].name", name))
        if not target:
            errors.append(required(f"{path}[{index}].mountPath"))
        if target in seen:
            errors.append(invalid(f"{path}[{index}].mountPath", target, "must be unique"))
        seen.add(target)
        if name in devices:
            errors.append(invalid(f"{path}[{index}].name", name, "must not already exist in volumeDevices"))
        if devices and target in devices.values():
            detail = "must not already exist as a path in volumeDevices"
            errors.append(invalid(f"{path}[{index}].mountPath", target, detail))
        if len(mount) > 2 or not name or not target:
            _check_mount_options(mount, container, path, index, errors)


def _check_mount_options(mount: Manifest, container: Manifest, path: str, index: int, errors: list[FieldError]) -> None:
    # Most paths below lack the index of the mount: so do the server's.
    sub_path, expression = mount.get("subPath"), mount.get("subPathExpr")
    if sub_path:
        check_descending(sub_path, f"{path}.subPath", errors)
    if expression:
        if sub_path:
            detail = "subPathExpr and subPath are mutually exclusive"
            errors.append(invalid(f"{path}[{index}].subPathExpr", expression, detail))
        check_descending(expression, f"{path}.subPathExpr", errors)
    propagation = mount.get("mountPropagation")
    if propagation is not None:
        where = f"{path}.mountPropagation"
        if propagation not in _PROPAGATIONS:
            errors.append(not_supported(where, propagation, _PROPAGATIONS))
        if propagation == "Bidirectional" and not container.get("securityContext", {}).get("privileged"):
            detail = "Bidirectional mount propagation is available only to privileged containers"
            errors.append(forbidden(where, detail))
    recursive = mount.get("recursiveReadOnly")
    if recursive in ("Enabled", "IfPossible"):
        where = f"{path}.recursiveReadOnly"
        if not mount.get("readOnly"):
            errors.append(forbidden(where, "may only be specified when readOnly is true"))
        if propagation not in (None, "None"):
            detail = "may only be specified when mountPropagation is None or not specified"
            errors.append(forbidden(where, detail))
    elif recursive not in (None, "Disabled"):
        errors.append(not_supported(f"{path}.recursiveReadOnly", recursive, _RECURSIVE_READ_ONLY))


def check_devices(container: Manifest, volumes: Mapping[str, Manifest], path: str, errors: list[FieldError]) -> None:
    mounts = {mount.get("name", ""): mount.get("mountPath", "") for mount in container.get("volumeMounts", ())}
    seen_names: set[str] = set()
    seen_paths: set[str] = set()
    for index, device in enumerate(container["volumeDevices"]):
        name, target = device.get("name", ""), device.get("devicePath", "")
        name_path, target_path = f"{path}[{index}].name", f"{path}[{index}].devicePath"
        volume = volumes.get(name)
        if not name:
            errors.append(required(name_path))
        if name in seen_names:
            errors.append(invalid(name_path, name, "must be unique"))
        if volume is None:
            errors.append(not_found(name_path, name))
        elif "persistentVolumeClaim" not in volume and "ephemeral" not in volume:
            detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            errors.append(invalid(name_path, name, detail))
        if not target:
            errors.append(required(target_path))
        if target in seen_paths:
            errors.append(invalid(target_path, target, "must be unique"))
        if has_backsteps(target):
            errors.append(invalid(target_path, target, "can not contain backsteps ('..')"))
        else:
            seen_paths.add(target)
        if name in mounts:
            errors.append(invalid(name_path, name, "must not already exist in volumeMounts"))
        if target in mounts.values():
            errors.append(invalid(target_path, target, "must not already exist as a path in volumeMounts"))
        if name:
            seen_names.add(name)
