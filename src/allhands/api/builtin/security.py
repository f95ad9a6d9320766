"""Checks of the security contexts of pods and containers. Whether a cluster allows privileged pods is not asked here:
every cluster that runs batch work does."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allhands.api import names
from allhands.api.builtin.file_paths import check_descending
from allhands.api.builtin.gostructs import go_struct
from allhands.api.errors import duplicate, invalid, not_supported, required, too_long

if TYPE_CHECKING:
    from msgspec import Struct

    from allhands.api.document import Json, Manifest
    from allhands.api.errors import FieldError

_PROFILE_TYPES = ("Localhost", "RuntimeDefault", "Unconfined")
_PROFILE_MAX_BYTES = 4095
_SYSCTL_MAX_BYTES = 253
_SYSCTL = r"^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"
_is_sysctl = re.compile(_SYSCTL.strip("^$")).fullmatch
_IPC_SYSCTLS = frozenset(
    f"kernel.{name}"
    for name in ("sem", "shmall", "shmmax", "shmmni", "shm_rmid_forced", "shm", "msgmax", "msgmnb", "msgmni", "msg")
)
_CONTEXT_FIELDS = (
    "privileged",
    "seLinuxOptions",
    "windowsOptions",
    "runAsUser",
    "runAsGroup",
    "runAsNonRoot",
    "readOnlyRootFilesystem",
    "allowPrivilegeEscalation",
    "procMount",
    "seccompProfile",
    "appArmorProfile",
)
_CHOICES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("fsGroupChangePolicy", ("Always", "OnRootMismatch")),
    ("supplementalGroupsPolicy", ("Merge", "Strict")),
    ("seLinuxChangePolicy", ("Recursive",)),
)


def check_container_security(context: Manifest, path: str, host_users: bool, errors: list[FieldError]) -> None:
    _check_ids(context, ("runAsUser", "runAsGroup"), path, errors)
    proc_mount = context.get("procMount")
    if proc_mount is not None:
        if proc_mount not in ("Default", "Unmasked"):
            errors.append(not_supported(f"{path}.procMount", proc_mount, ("Default", "Unmasked")))
        if host_users and proc_mount == "Unmasked":
            detail = "`hostUsers` must be false to use `Unmasked`"
            errors.append(invalid(f"{path}.procMount", proc_mount, detail))
    if "seccompProfile" in context:
        _check_seccomp(context["seccompProfile"], f"{path}.seccompProfile", errors)
    if context.get("allowPrivilegeEscalation") is False:
        _check_escalation(context, path, errors)
    if "appArmorProfile" in context:
        _check_app_armor(context["appArmorProfile"], f"{path}.appArmorProfile", errors)


def _check_escalation(context: Manifest, path: str, errors: list[FieldError]) -> None:
    if context.get("privileged"):
        detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
        errors.append(invalid(path, _shown(context), detail))
    for capability in context.get("capabilities", {}).get("add", ()):
        if capability == "CAP_SYS_ADMIN":
            detail = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
            errors.append(invalid(path, _shown(context), detail))


def _shown(context: Manifest) -> Struct:
    """The whole context as the server's internal type prints it."""
    added = context.get("capabilities")
    fields: dict[str, Json] = {
        "Capabilities": None if added is None else go_struct(Add=added.get("add"), Drop=added.get("drop"))
    }
    for name in _CONTEXT_FIELDS:
        fields["SELinuxOptions" if name == "seLinuxOptions" else name[0].upper() + name[1:]] = context.get(name)
    return go_struct(**fields)


def check_pod_security(spec: Manifest, path: str, errors: list[FieldError]) -> None:
    context = spec.get("securityContext")
    if not context and not spec.get("shareProcessNamespace"):
        return
    context = context or {}
    _check_ids(context, ("fsGroup", "runAsUser", "runAsGroup"), path, errors)
    for index, group in enumerate(context.get("supplementalGroups", ())):
        errors += [
            invalid(f"{path}.supplementalGroups[{index}]", group, text) for text in names.user_or_group_id(group)
        ]
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        errors.append(invalid(f"{path}.shareProcessNamespace", True, detail))
    if "sysctls" in context:
        _check_sysctls(context["sysctls"], spec, f"{path}.sysctls", errors)
    for name, choices in _CHOICES[:1]:
        _check_choice(context, name, choices, path, errors)
    if "seccompProfile" in context:
        _check_seccomp(context["seccompProfile"], f"{path}.seccompProfile", errors)
    if "appArmorProfile" in context:
        _check_app_armor(context["appArmorProfile"], f"{path}.appArmorProfile", errors)
    for name, choices in _CHOICES[1:]:
        _check_choice(context, name, choices, path, errors)


def _check_choice(context: Manifest, name: str, choices: tuple[str, ...], path: str, errors: list[FieldError]) -> None:
    if context.get(name, choices[0]) not in choices:
        errors.append(not_supported(f"{path}.{name}", context[name], choices))


def _check_ids(context: Manifest, fields: tuple[str, ...], path: str, errors: list[FieldError]) -> None:
    for name in fields:
        if name in context:
            errors += [invalid(f"{path}.{name}", context[name], text) for text in names.user_or_group_id(context[name])]


def _check_sysctls(sysctls: list[Manifest], spec: Manifest, path: str, errors: list[FieldError]) -> None:
    seen: set[str] = set()
    for index, sysctl in enumerate(sysctls):
        name, where = sysctl.get("name", ""), f"{path}[{index}].name"
        if not name:
            errors.append(required(where))
        elif names.bytes_of(name) > _SYSCTL_MAX_BYTES or not _is_sysctl(name):
            detail = f"must have at most {_SYSCTL_MAX_BYTES} characters and match regex {_SYSCTL}"
            errors.append(invalid(where, name, detail))
        elif name in seen:
            errors.append(duplicate(where, name))
        dotted = name.replace("/", ".")
        if spec.get("hostNetwork") and dotted.startswith("net."):
            errors.append(invalid(where, name, "may not be specified when 'hostNetwork' is true"))
        elif spec.get("hostIPC") and (dotted in _IPC_SYSCTLS or dotted.startswith("fs.mqueue.")):
            errors.append(invalid(where, name, "may not be specified when 'hostIPC' is true"))
        seen.add(name)


def _check_seccomp(profile: Manifest, path: str, errors: list[FieldError]) -> None:
    kind, local = profile.get("type", ""), profile.get("localhostProfile")
    if not kind:
        errors.append(required(f"{path}.type", "type is required when seccompProfile is set"))
    elif kind not in _PROFILE_TYPES:
        errors.append(not_supported(f"{path}.type", kind, _PROFILE_TYPES))
    if kind == "Localhost":
        if local is None:
            errors.append(required(f"{path}.localhostProfile", "must be set when seccomp type is Localhost"))
        else:
            check_descending(local, f"{path}.localhostProfile", errors)
    elif local is not None:
        shown = go_struct(Type=kind, LocalhostProfile=local)
        errors.append(invalid(f"{path}.localhostProfile", shown, "can only be set when seccomp type is Localhost"))


def _check_app_armor(profile: Manifest, path: str, errors: list[FieldError]) -> None:
    kind, local = profile.get("type", ""), profile.get("localhostProfile")
    where = f"{path}.localhostProfile"
    if not kind:
        errors.append(required(f"{path}.type", "type is required when appArmorProfile is set"))
    elif kind not in _PROFILE_TYPES:
        errors.append(not_supported(f"{path}.type", kind, _PROFILE_TYPES))
    elif kind != "Localhost":
        if local is not None:
            errors.append(invalid(where, local, "can only be set when AppArmor type is Localhost"))
    elif not local:
        errors.append(required(where, "must be set when AppArmor type is Localhost"))
    else:
        if local.strip() != local:
            errors.append(invalid(where, local, "must not be padded with whitespace"))
        if names.bytes_of(local) > _PROFILE_MAX_BYTES:
            errors.append(too_long(where, _PROFILE_MAX_BYTES))
