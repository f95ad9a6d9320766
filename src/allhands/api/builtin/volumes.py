"""Checks of a pod's volumes. Sources of clouds and storage systems that are served by CSI drivers today are only
counted (one source per volume), their own fields are not looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allhands.api import names
from allhands.api.builtin.claims import check_claim_spec
from allhands.api.builtin.containers import PULL_POLICIES
from allhands.api.builtin.environment import VOLUME_FIELDS, check_field_reference, check_resource_reference
from allhands.api.builtin.file_paths import (
    check_descending,
    check_file_mode,
    check_no_backsteps,
    check_not_reserved,
)
from allhands.api.builtin.quick_names import is_label
from allhands.api.builtin.resource_lists import nanos
from allhands.api.errors import duplicate, forbidden, go_quote, invalid, not_supported, required, too_long
from allhands.api.metadata import validate_annotations, validate_labels

if TYPE_CHECKING:
    from collections.abc import Callable

    from allhands.api.document import Manifest
    from allhands.api.errors import FieldError

_HOST_PATH_TYPES = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)
_ONE_SOURCE = "may not specify more than 1 volume type"
_MISSPELLED_BY_THE_SERVER = {"downwardAPI": "downwarAPI", "cephfs": "cephFS"}
_DRIVER_NAME_MAX_BYTES = 63
_TOKEN_MIN_SECONDS = 600
_TOKEN_MAX_SECONDS = 1 << 32


def check_volumes(
    volumes: list[Manifest], pod_name: str, is_pod: bool, path: str, errors: list[FieldError]
) -> dict[str, Manifest]:
    """Returns the volumes that are all right, by name: only those can be mounted."""
    usable: dict[str, Manifest] = {}
    made_claims: set[str] = set()
    if pod_name:
        made_claims = {f"{pod_name}-{volume.get('name', '')}" for volume in volumes if "ephemeral" in volume}
    for index, volume in enumerate(volumes):
        before = len(errors)
        where = f"{path}[{index}]"
        name = volume.get("name", "")
        _check_source(volume, name, pod_name, is_pod, where, errors)
        if not name:
            errors.append(required(f"{where}.name"))
        elif not is_label(name):
            errors += [invalid(f"{where}.name", name, text) for text in names.dns1123_label(name)]
        if name in usable:
            errors.append(duplicate(f"{where}.name", name))
        if len(errors) == before:
            usable[name] = volume
        claim = volume["persistentVolumeClaim"].get("claimName", "") if "persistentVolumeClaim" in volume else ""
        if claim and claim in made_claims:
            detail = "must not reference a PVC that gets created for an ephemeral volume"
            errors.append(invalid(f"{where}.persistentVolumeClaim.claimName", claim, detail))
    return usable


def _check_source(
    volume: Manifest, name: str, pod_name: str, is_pod: bool, path: str, errors: list[FieldError]
) -> None:
    if len(volume) == 2 and "name" in volume and volume.get("emptyDir") == {}:
        return
    kinds = [kind for kind in volume if kind != "name"]
    if len(kinds) > 1:
        kinds = [kind for kind in SOURCE_KINDS if kind in volume]
    if not kinds:
        errors.append(required(path, "must specify a volume type"))
        return
    kind = kinds[0]
    check = _CHECKS.get(kind)
    if kind == "image" and is_pod and not volume[kind].get("reference"):
        errors.append(required(f"{path}.image.reference"))
    if check is not None:
        check(volume[kind], f"{path}.{kind}", errors)
    if kind == "ephemeral" and pod_name and name:
        claim = f"{pod_name}-{name}"
        errors += [
            invalid(f"{path}.name", name, f"PVC name {go_quote(claim)}: {text}")
            for text in names.dns1123_subdomain(claim)
        ]
    errors += [forbidden(f"{path}.{_MISSPELLED_BY_THE_SERVER.get(other, other)}", _ONE_SOURCE) for other in kinds[1:]]


def _check_empty_dir(source: Manifest, path: str, errors: list[FieldError]) -> None:
    if "sizeLimit" in source and nanos(source["sizeLimit"]) < 0:
        errors.append(forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity"))


def check_host_path(source: Manifest, path: str, errors: list[FieldError]) -> None:
    target = source.get("path", "")
    if not target:
        errors.append(required(f"{path}.path"))
        return
    check_no_backsteps(target, f"{path}.path", errors)
    if source.get("type", "") not in _HOST_PATH_TYPES:
        errors.append(not_supported(f"{path}.type", source["type"], _HOST_PATH_TYPES))


def _check_git_repo(source: Manifest, path: str, errors: list[FieldError]) -> None:
    if not source.get("repository"):
        errors.append(required(f"{path}.repository"))
    check_descending(source.get("directory", ""), f"{path}.directory", errors)


def check_nfs(source: Manifest, path: str, errors: list[FieldError]) -> None:
    target = source.get("path", "")
    if not source.get("server"):
        errors.append(required(f"{path}.server"))
    if not target:
        errors.append(required(f"{path}.path"))
    if not target.startswith("/"):
        errors.append(invalid(f"{path}.path", target, "must be an absolute path"))


def _check_secret(source: Manifest, path: str, errors: list[FieldError]) -> None:
    if not source.get("secretName"):
        errors.append(required(f"{path}.secretName"))
    _check_files(source, path, errors)


def _check_config_map(source: Manifest, path: str, errors: list[FieldError]) -> None:
    if not source.get("name"):
        errors.append(required(f"{path}.name"))
    _check_files(source, path, errors)


def _check_files(source: Manifest, path: str, errors: list[FieldError]) -> None:
    check_file_mode(source.get("defaultMode"), f"{path}.defaultMode", errors)
    for index, item in enumerate(source.get("items", ())):
        _check_key_to_path(item, f"{path}.items[{index}]", errors)


def _check_key_to_path(item: Manifest, path: str, errors: list[FieldError]) -> None:
    if not item.get("key"):
        errors.append(required(f"{path}.key"))
    if not item.get("path"):
        errors.append(required(f"{path}.path"))
    check_not_reserved(item.get("path", ""), f"{path}.path", errors)
    check_file_mode(item.get("mode"), f"{path}.mode", errors)


def _check_claim_source(source: Manifest, path: str, errors: list[FieldError]) -> None:
    if not source.get("claimName"):
        errors.append(required(f"{path}.claimName"))


def _check_downward_api(source: Manifest, path: str, errors: list[FieldError]) -> None:
    check_file_mode(source.get("defaultMode"), f"{path}.defaultMode", errors)
    for item in source.get("items", ()):
        _check_downward_file(item, path, errors)


def _check_downward_file(item: Manifest, path: str, errors: list[FieldError]) -> None:
    if not item.get("path"):
        errors.append(required(f"{path}.path"))
    check_not_reserved(item.get("path", ""), f"{path}.path", errors)
    if "fieldRef" in item:
        check_field_reference(item["fieldRef"], VOLUME_FIELDS, f"{path}.fieldRef", errors)
        if "resourceFieldRef" in item:
            detail = "fieldRef and resourceFieldRef can not be specified simultaneously"
            errors.append(invalid(path, "resource", detail))
    elif "resourceFieldRef" in item:
        check_resource_reference(item["resourceFieldRef"], f"{path}.resourceFieldRef", errors, needs_container=True)
    else:
        errors.append(required(path, "one of fieldRef and resourceFieldRef is required"))
    check_file_mode(item.get("mode"), f"{path}.mode", errors)


def _check_projected(source: Manifest, path: str, errors: list[FieldError]) -> None:
    check_file_mode(source.get("defaultMode"), f"{path}.defaultMode", errors)
    taken: set[str] = set()
    for index, projection in enumerate(source.get("sources", ())):
        where = f"{path}.sources[{index}]"
        for kind in ("secret", "configMap"):
            if kind in projection:
                _check_projected_keys(projection[kind], taken, path, f"{where}.{kind}", errors)
        for item in projection.get("downwardAPI", {}).get("items", ()):
            _check_downward_file(item, f"{where}.downwardAPI", errors)
            _take(item.get("path", ""), item.get("path", ""), taken, path, errors)
        if "serviceAccountToken" in projection:
            _check_token(projection["serviceAccountToken"], path, f"{where}.serviceAccountToken", errors)
        if len(projection) > 1:
            errors.append(forbidden(where, "may not specify more than 1 volume type per source"))


def _check_projected_keys(
    source: Manifest, taken: set[str], volume_path: str, path: str, errors: list[FieldError]
) -> None:
    name = source.get("name", "")
    if not name:
        errors.append(required(f"{path}.name"))
    for index, item in enumerate(source.get("items", ())):
        _check_key_to_path(item, f"{path}.items[{index}]", errors)
        _take(item.get("path", ""), name, taken, volume_path, errors)


def _take(target: str, shown: str, taken: set[str], path: str, errors: list[FieldError]) -> None:
    if target and target in taken:
        errors.append(invalid(path, shown, "conflicting duplicate paths"))
    taken.add(target)


def _check_token(token: Manifest, volume_path: str, path: str, errors: list[FieldError]) -> None:
    seconds, target = token.get("expirationSeconds", 0), token.get("path", "")
    if seconds < _TOKEN_MIN_SECONDS:
        detail = "may not specify a duration less than 10 minutes"
        errors.append(invalid(f"{path}.expirationSeconds", seconds, detail))
    if seconds > _TOKEN_MAX_SECONDS:
        detail = "may not specify a duration larger than 2^32 seconds"
        errors.append(invalid(f"{path}.expirationSeconds", seconds, detail))
    if not target:
        errors.append(required(f"{volume_path}.path"))
    else:
        check_not_reserved(target, f"{volume_path}.path", errors)


def check_driver_name(driver: str, path: str, errors: list[FieldError]) -> None:
    if not driver:
        errors.append(required(path))
        return
    if names.bytes_of(driver) > _DRIVER_NAME_MAX_BYTES:
        errors.append(too_long(path, _DRIVER_NAME_MAX_BYTES))
    errors += [invalid(path, driver, text) for text in names.dns1123_subdomain(driver.lower())]


def _check_csi(source: Manifest, path: str, errors: list[FieldError]) -> None:
    check_driver_name(source.get("driver", ""), f"{path}.driver", errors)
    if "nodePublishSecretRef" in source:
        secret = source["nodePublishSecretRef"].get("name", "")
        if not secret:
            errors.append(required(f"{path}.nodePublishSecretRef.name"))
        else:
            errors += [invalid(f"{path}.name", secret, text) for text in names.dns1123_subdomain(secret)]


def _check_ephemeral(source: Manifest, path: str, errors: list[FieldError]) -> None:
    template = source.get("volumeClaimTemplate")
    where = f"{path}.volumeClaimTemplate"
    if template is None:
        errors.append(required(where))
        return
    metadata = template.get("metadata", {})
    errors += validate_annotations(metadata.get("annotations", {}), f"{where}.metadata.annotations")
    errors += validate_labels(metadata.get("labels", {}), f"{where}.metadata.labels")
    for field in metadata:
        if field not in ("annotations", "labels"):
            errors.append(forbidden(f"{where}.metadata.{field}", "cannot be set"))
    check_claim_spec(template.get("spec", {}), f"{where}.spec", errors)


def _check_image(source: Manifest, path: str, errors: list[FieldError]) -> None:
    policy = source.get("pullPolicy", "")
    if policy not in PULL_POLICIES:
        where = f"{path}.pullPolicy"
        errors.append(not_supported(where, policy, PULL_POLICIES) if policy else required(where))


_CHECKS: dict[str, Callable[[Manifest, str, list[FieldError]], None]] = {
    "emptyDir": _check_empty_dir,
    "hostPath": check_host_path,
    "gitRepo": _check_git_repo,
    "secret": _check_secret,
    "nfs": check_nfs,
    "persistentVolumeClaim": _check_claim_source,
    "downwardAPI": _check_downward_api,
    "configMap": _check_config_map,
    "projected": _check_projected,
    "csi": _check_csi,
    "ephemeral": _check_ephemeral,
    "image": _check_image,
}

SOURCE_KINDS = (
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
)
"""In the order in which the server looks: the first is checked, every other one is refused."""
