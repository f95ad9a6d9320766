"""Checks of a container's environment variables and of the references (to fields, resources, keys) they are read from.

The same references appear in downward-API volumes, which use the functions here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allhands.api import names
from allhands.api.builtin.file_paths import check_no_backsteps
from allhands.api.builtin.quick_names import is_variable
from allhands.api.builtin.resource_lists import nanos
from allhands.api.errors import invalid, not_found, not_supported, required

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allhands.api.document import Manifest
    from allhands.api.errors import FieldError

ENV_FIELDS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
VOLUME_FIELDS = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")
_KNOWN_FIELDS = frozenset(
    {*ENV_FIELDS, *VOLUME_FIELDS, "spec.host", "spec.restartPolicy", "spec.schedulerName", "status.phase"}
)
_RESOURCE_FIELDS = (
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
)
_HUGE_PAGES_FIELDS = ("requests.hugepages-", "limits.hugepages-")
_BYTE_DIVISORS: tuple[str, ...] = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")
_DIVISORS: dict[str, tuple[tuple[str, ...], str, str]] = {
    "cpu": (("1m", "1"), "1m and 1", "cpu"),
    "memory": (_BYTE_DIVISORS, ", ".join(_BYTE_DIVISORS), "memory"),
    "ephemeral-storage": (_BYTE_DIVISORS, ", ".join(_BYTE_DIVISORS), "local ephemeral storage"),
}
_NO_SOURCE = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"


def check_env(variables: list[Manifest], path: str, errors: list[FieldError]) -> None:
    for index, variable in enumerate(variables):
        name = variable.get("name", "")
        if not name:
            errors.append(required(f"{path}[{index}].name"))
        elif not is_variable(name):
            errors += [invalid(f"{path}[{index}].name", name, text) for text in names.env_var_name(name)]
        source = variable.get("valueFrom")
        if source is not None:
            _check_value_source(source, bool(variable.get("value")), f"{path}[{index}].valueFrom", errors)


def _check_value_source(source: Manifest, has_value: bool, path: str, errors: list[FieldError]) -> None:
    if "fieldRef" in source:
        check_field_reference(source["fieldRef"], ENV_FIELDS, f"{path}.fieldRef", errors)
    if "resourceFieldRef" in source:
        check_resource_reference(source["resourceFieldRef"], f"{path}.resourceFieldRef", errors)
    if "configMapKeyRef" in source:
        _check_key_reference(source["configMapKeyRef"], f"{path}.configMapKeyRef", errors)
    if "secretKeyRef" in source:
        _check_key_reference(source["secretKeyRef"], f"{path}.secretKeyRef", errors)
    if "fileKeyRef" in source:
        _check_file_reference(source["fileKeyRef"], f"{path}.fileKeyRef", errors)
    if not source:
        errors.append(invalid(path, "", _NO_SOURCE))
    elif has_value:
        errors.append(invalid(path, "", "may not be specified when `value` is not empty"))
    elif len(source) > 1:
        errors.append(invalid(path, "", "may not have more than one field specified at a time"))


def check_field_reference(reference: Manifest, supported: Sequence[str], path: str, errors: list[FieldError]) -> None:
    version, field = reference.get("apiVersion", ""), reference.get("fieldPath", "")
    if not version:
        errors.append(required(f"{path}.apiVersion"))
        return
    if not field:
        errors.append(required(f"{path}.fieldPath"))
        return
    base, subscript = _split_subscript(field)
    refusal = ""
    if version != "v1":
        refusal = f"unsupported pod version: {version}"
    elif subscript is not None and base not in ("metadata.annotations", "metadata.labels"):
        refusal = f"field label does not support subscript: {field}"
    elif subscript is None and field not in _KNOWN_FIELDS:
        refusal = f"field label not supported: {field}"
    if refusal:
        errors.append(invalid(f"{path}.fieldPath", field, f"error converting fieldPath: {refusal}"))
        return
    if subscript is not None:
        key = subscript.lower() if base == "metadata.annotations" else subscript
        errors += [invalid(path, key, text) for text in names.qualified_name(key)]
        return
    base = "spec.nodeName" if base == "spec.host" else base
    if base not in supported:
        errors.append(not_supported(f"{path}.fieldPath", base, supported))


def _split_subscript(field: str) -> tuple[str, str | None]:
    """`metadata.labels['a']` is the field `metadata.labels` with the subscript `a`."""
    if field.endswith("']"):
        base, bracket, subscript = field[:-2].partition("['")
        if bracket and base:
            return base, subscript
    return field, None


def check_resource_reference(
    reference: Manifest, path: str, errors: list[FieldError], *, needs_container: bool = False
) -> None:
    resource = reference.get("resource", "")
    if needs_container and not reference.get("containerName"):
        errors.append(required(f"{path}.containerName"))
    elif not resource:
        errors.append(required(f"{path}.resource"))
    elif resource not in _RESOURCE_FIELDS and not resource.startswith(_HUGE_PAGES_FIELDS):
        errors.append(not_supported(f"{path}.resource", resource, _RESOURCE_FIELDS))
    divisor = reference.get("divisor", "0")
    if divisor != "0" and nanos(divisor):
        _check_divisor(resource, divisor, path, errors)


def _check_divisor(resource: str, divisor: str, path: str, errors: list[FieldError]) -> None:
    _, _, name = resource.partition(".")
    if resource.startswith(_HUGE_PAGES_FIELDS):
        allowed, listing, words = _BYTE_DIVISORS, ", ".join(_BYTE_DIVISORS), "hugepages"
    elif resource in _RESOURCE_FIELDS:
        allowed, listing, words = _DIVISORS[name]
    else:
        return
    if divisor not in allowed:
        detail = f"only divisor's values {listing} are supported with the {words} resource"
        errors.append(invalid(f"{path}.divisor", resource, detail))


def _check_key_reference(reference: Manifest, path: str, errors: list[FieldError]) -> None:
    name, key = reference.get("name", ""), reference.get("key", "")
    errors += [invalid(f"{path}.name", name, text) for text in names.dns1123_subdomain(name)]
    if not key:
        errors.append(required(f"{path}.key"))
    else:
        errors += [invalid(f"{path}.key", key, text) for text in names.config_map_key(key)]


def _check_file_reference(reference: Manifest, path: str, errors: list[FieldError]) -> None:
    key, volume, target = (reference.get(field, "") for field in ("key", "volumeName", "path"))
    if not key:
        errors.append(required(f"{path}.key"))
    else:
        errors += [invalid(f"{path}.key", key, text) for text in names.env_var_name(key)]
    if not volume:
        errors.append(required(f"{path}.volumeName"))
    else:
        errors += [invalid(f"{path}.volumeName", volume, text) for text in names.dns1123_label(volume)]
    if not target:
        errors.append(required(f"{path}.path"))
    else:
        check_no_backsteps(target, f"{path}.path", errors)


def check_env_from(sources: list[Manifest], path: str, errors: list[FieldError]) -> None:
    for index, source in enumerate(sources):
        prefix = source.get("prefix", "")
        if prefix:
            errors += [invalid(f"{path}[{index}].prefix", prefix, text) for text in names.env_var_name(prefix)]
        count = 0
        for kind in ("configMapRef", "secretRef"):
            if kind in source:
                count += 1
                name = source[kind].get("name", "")
                if not name:
                    errors.append(required(f"{path}[{index}].{kind}.name"))
                    continue
                errors += [
                    invalid(f"{path}[{index}].{kind}.name", name, text)
                    for text in names.dns1123_subdomain(_as_prefix(name))
                ]
        if count == 0:
            errors.append(invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif count > 1:
            errors.append(invalid(path, "", "may not have more than one field specified at a time"))


def _as_prefix(name: str) -> str:
    """The server checks these names like beginnings of names: a dash may come last."""
    return name[:-2] + "a" if len(name) > 1 and name.endswith("-") else name


def check_file_key_volumes(spec: Manifest, path: str, errors: list[FieldError]) -> None:
    """A variable that is read from a file needs an emptyDir to read it from."""
    volumes = None
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(kind, ())):
            for position, variable in enumerate(container.get("env", ())):
                if "valueFrom" not in variable or "fileKeyRef" not in variable["valueFrom"]:
                    continue
                reference = variable["valueFrom"]["fileKeyRef"]
                if volumes is None:
                    volumes = {volume.get("name"): volume for volume in spec.get("volumes", ())}
                name = reference.get("volumeName", "")
                where = f"{path}.{kind}[{index}].env[{position}].valueFrom.fileKeyRef.volumeName"
                if name not in volumes:
                    errors.append(not_found(where, name))
                elif "emptyDir" not in volumes[name]:
                    errors.append(invalid(where, name, "referenced volume must be of type emptyDir"))
