"""Fills the absent fields of a pod spec, for pods and for the templates of every workload kind.

What only a pod gets (requests taken from limits, service links, host ports) is in `pods`, never here: a template must
stay as its author wrote it, so that a rollout compares equal.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from allhands.api.builtin.resource_lists import round_to_milli

if TYPE_CHECKING:
    from allhands.api.document import Manifest

_PATH = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_LABEL = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_DOMAIN = rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_DIGEST = r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}"
_IMAGE = re.compile(
    rf"(?P<name>(?:{_DOMAIN}/)?{_PATH}(?:/{_PATH})*)(?::(?P<tag>\w[\w.-]{{0,127}}))?(?P<digest>@{_DIGEST})?", re.ASCII
)
_LONGEST_PATH = 255
"""Of an image's name, without its registry."""
_BARE_DIGEST = re.compile(r"[a-f0-9]{64}")

_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_FILE_MODE_DECIMAL = 0o644
_TOKEN_LIFETIME_SECONDS = 3600

_SIMPLE_VOLUME_DEFAULTS: dict[str, dict[str, Any]] = {
    "hostPath": {"type": ""},
    "secret": {"defaultMode": _FILE_MODE_DECIMAL},
    "configMap": {"defaultMode": _FILE_MODE_DECIMAL},
    "downwardAPI": {"defaultMode": _FILE_MODE_DECIMAL},
    "projected": {"defaultMode": _FILE_MODE_DECIMAL},
    "iscsi": {"iscsiInterface": "default"},
    "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "azureDisk": {"cachingMode": "ReadWrite", "fsType": "ext4", "readOnly": False, "kind": "Shared"},
    "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
}


def _image_path(name: str) -> str:
    """The name without its registry; what has none comes from the library of the default one."""
    first, slash, rest = name.partition("/")
    has_registry = "." in first or ":" in first or first == "localhost" or first.lower() != first
    if slash and has_registry:
        return rest
    return name if slash else f"library/{name}"


@lru_cache(maxsize=4096)
def pull_policy_for(image: str) -> str:
    """Always for the tag `latest`, which an image without tag and digest has; a name nobody can parse has no tag."""
    match = _IMAGE.fullmatch(image)
    if match is None or _BARE_DIGEST.fullmatch(image) or len(_image_path(match["name"])) > _LONGEST_PATH:
        return "IfNotPresent"
    tag = match["tag"] or ("" if match["digest"] else "latest")
    return "Always" if tag == "latest" else "IfNotPresent"


def default_pod_template(template: Manifest) -> None:
    default_pod_spec(template.setdefault("spec", {}))


def default_pod_spec(spec: Manifest) -> None:
    if "dnsPolicy" not in spec:
        spec["dnsPolicy"] = "ClusterFirst"
    if "restartPolicy" not in spec:
        spec["restartPolicy"] = "Always"
    if "securityContext" not in spec:
        spec["securityContext"] = {}
    if "terminationGracePeriodSeconds" not in spec:
        spec["terminationGracePeriodSeconds"] = 30
    if "schedulerName" not in spec:
        spec["schedulerName"] = "default-scheduler"
    copy_service_account(spec)
    for volume in spec.get("volumes", ()):
        _default_volume(volume)
    for container in spec.get("initContainers", ()):
        default_container(container)
    for container in spec.get("containers", ()):
        default_container(container)
    for container in spec.get("ephemeralContainers", ()):
        default_container(container)
    round_to_milli(spec.get("overhead"))
    resources = spec.get("resources")
    if resources:
        round_to_milli(resources.get("limits"))
        round_to_milli(resources.get("requests"))


def copy_service_account(spec: Manifest) -> None:
    """`serviceAccount` is the old name of `serviceAccountName`; a read always shows both."""
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account


def default_container(container: Manifest) -> None:
    if "imagePullPolicy" not in container:
        container["imagePullPolicy"] = pull_policy_for(container.get("image", ""))
    if "terminationMessagePath" not in container:
        container["terminationMessagePath"] = "/dev/termination-log"
    if "terminationMessagePolicy" not in container:
        container["terminationMessagePolicy"] = "File"
    for port in container.get("ports", ()):
        if "protocol" not in port:
            port["protocol"] = "TCP"
    for variable in container.get("env", ()):
        if "valueFrom" in variable:
            _default_value_source(variable["valueFrom"])
    resources = container.get("resources")
    if resources:
        round_to_milli(resources.get("limits"))
        round_to_milli(resources.get("requests"))
    for name in _PROBES:
        if name in container:
            _default_probe(container[name])
    lifecycle = container.get("lifecycle")
    if lifecycle:
        _drop_stop_signal(container, lifecycle)
        for name in ("postStart", "preStop"):
            if "httpGet" in lifecycle.get(name, ()):
                _default_http_get(lifecycle[name]["httpGet"])


def _drop_stop_signal(container: Manifest, lifecycle: Manifest) -> None:
    """The server forgets fields of features that are off, and `stopSignal` is one."""
    if lifecycle.pop("stopSignal", None) is not None and not lifecycle:
        del container["lifecycle"]


def _default_value_source(source: Manifest) -> None:
    if "fieldRef" in source:
        source["fieldRef"].setdefault("apiVersion", "v1")
    if "fileKeyRef" in source:
        source["fileKeyRef"].setdefault("optional", False)


def _default_probe(probe: Manifest) -> None:
    probe.setdefault("timeoutSeconds", 1)
    probe.setdefault("periodSeconds", 10)
    probe.setdefault("successThreshold", 1)
    probe.setdefault("failureThreshold", 3)
    if "httpGet" in probe:
        _default_http_get(probe["httpGet"])
    if "grpc" in probe:
        probe["grpc"].setdefault("service", "")


def _default_http_get(action: Manifest) -> None:
    action.setdefault("path", "/")
    action.setdefault("scheme", "HTTP")


def _default_volume(volume: Manifest) -> None:
    if volume.keys() <= {"name"}:
        volume["emptyDir"] = {}
        return
    for kind, source in volume.items():
        defaults = _SIMPLE_VOLUME_DEFAULTS.get(kind)
        if defaults is not None:
            for name, value in defaults.items():
                source.setdefault(name, value)
    if "downwardAPI" in volume:
        _default_downward_items(volume["downwardAPI"])
    if "projected" in volume:
        for source in volume["projected"].get("sources", ()):
            for feature_that_is_off in ("clusterTrustBundle", "podCertificate"):
                source.pop(feature_that_is_off, None)
            _default_downward_items(source.get("downwardAPI", {}))
            if "serviceAccountToken" in source:
                source["serviceAccountToken"].setdefault("expirationSeconds", _TOKEN_LIFETIME_SECONDS)
    if "image" in volume:
        volume["image"].setdefault("pullPolicy", pull_policy_for(volume["image"].get("reference", "")))
    if "ephemeral" in volume and "volumeClaimTemplate" in volume["ephemeral"]:
        default_claim_spec(volume["ephemeral"]["volumeClaimTemplate"].setdefault("spec", {}))


def _default_downward_items(source: Manifest) -> None:
    for item in source.get("items", ()):
        if "fieldRef" in item:
            item["fieldRef"].setdefault("apiVersion", "v1")


def default_claim_spec(spec: Manifest) -> None:
    """The spec of a persistent volume claim, alone or inside an ephemeral volume."""
    spec.setdefault("volumeMode", "Filesystem")
    resources = spec.get("resources")
    if resources:
        round_to_milli(resources.get("limits"))
        round_to_milli(resources.get("requests"))
