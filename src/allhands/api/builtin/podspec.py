"""Defaults and checks of a pod spec, for pods and for the templates of every workload kind.

The checks come in the order of the real server, because clients show the first refusals first.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from allhands.api import names
from allhands.api.builtin.addresses import ip_address
from allhands.api.builtin.affinity import check_affinity, check_topology_spread
from allhands.api.builtin.containers import (
    PodScope,
    check_containers,
    check_ephemeral_containers,
    check_init_containers,
)
from allhands.api.builtin.environment import check_file_key_volumes
from allhands.api.builtin.gostructs import go_struct
from allhands.api.builtin.pod_defaults import default_pod_spec, default_pod_template
from allhands.api.builtin.quick_names import is_subdomain
from allhands.api.builtin.requirements import check_pod_resources, check_requirements
from allhands.api.builtin.security import check_pod_security
from allhands.api.builtin.tolerations import check_tolerations
from allhands.api.builtin.volumes import check_volumes
from allhands.api.errors import (
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
)
from allhands.api.metadata import validate_annotations, validate_labels

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.api.errors import FieldError

__all__ = ["default_pod_spec", "default_pod_template", "validate_pod_spec", "validate_pod_template"]

RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")
_MAX_INT32 = (1 << 31) - 1
_MAX_NAMESERVERS = 3
_MAX_SEARCHES = 32
_MAX_SEARCH_CHARACTERS = 2048
_HOSTNAME_MAX_BYTES = 64
_MIRROR = "kubernetes.io/config.mirror"
_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_TOLERATIONS = "scheduler.alpha.kubernetes.io/tolerations"
_is_int32_text = re.compile("0|-?[1-9][0-9]{0,9}").fullmatch
_SEARCH_LABEL = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SEARCH = rf"{_SEARCH_LABEL}(\.{_SEARCH_LABEL})*"
_is_search = re.compile(_SEARCH).fullmatch
_SEARCH_TEXT = names.regex_text(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', "
    "and must start and end with an alphanumeric character",
    _SEARCH,
    "example.com",
)


def validate_pod_template(template: Manifest, path: str) -> list[FieldError]:
    metadata, spec = template.get("metadata", {}), template.get("spec", {})
    errors = validate_labels(metadata["labels"], f"{path}.labels") if "labels" in metadata else []
    annotations = metadata.get("annotations")
    if annotations:
        errors += validate_annotations(annotations, f"{path}.annotations")
        check_pod_annotations(annotations, spec, f"{path}.annotations", errors)
    errors += validate_pod_spec(spec, f"{path}.spec", {})
    if "ephemeralContainers" in spec:
        detail = "ephemeral containers not allowed in pod template"
        errors.append(forbidden(f"{path}.spec.ephemeralContainers", detail))
    return errors


def check_pod_annotations(annotations: dict[str, str], spec: Manifest, path: str, errors: list[FieldError]) -> None:
    """Annotations that the server itself reads."""
    if _MIRROR in annotations and not spec.get("nodeName"):
        detail = "must set spec.nodeName if mirror pod annotation is set"
        errors.append(invalid(f"{path}[{_MIRROR}]", annotations[_MIRROR], detail))
    if annotations.get(_TOLERATIONS):
        _check_annotated_tolerations(annotations[_TOLERATIONS], path, errors)
    cost = annotations.get(_DELETION_COST)
    if cost is not None and not (_is_int32_text(cost) and -_MAX_INT32 - 1 <= int(cost) <= _MAX_INT32):
        errors.append(invalid(f"{path}[{_DELETION_COST}]", cost, "must be a 32bit integer"))


def _check_annotated_tolerations(text: str, path: str, errors: list[FieldError]) -> None:
    try:
        tolerations = json.loads(text)
    except ValueError as problem:
        errors.append(invalid(path, _TOLERATIONS, str(problem)))
        return
    if isinstance(tolerations, list) and all(isinstance(toleration, dict) for toleration in tolerations):
        check_tolerations(tolerations, f"{path}.{_TOLERATIONS}", errors)


def validate_pod_spec(spec: Manifest, path: str, metadata: Manifest, *, is_pod: bool = False) -> list[FieldError]:
    """`metadata` is that of a real pod (its name decides names of claims), or empty for a template."""
    errors: list[FieldError] = []
    grace_seconds = spec.get("terminationGracePeriodSeconds")
    if grace_seconds is None:
        errors.append(required(f"{path}.terminationGracePeriodSeconds"))
    volumes: dict[str, Manifest] = {}
    if "volumes" in spec:
        volumes = check_volumes(spec["volumes"], metadata.get("name", ""), is_pod, f"{path}.volumes", errors)
    claim_names: frozenset[str] = frozenset()
    if "resourceClaims" in spec:
        claim_names = _check_resource_claims(spec["resourceClaims"], metadata, f"{path}.resourceClaims", errors)
    restart_policy = spec.get("restartPolicy", "")
    scope = PodScope(volumes, claim_names, restart_policy, spec.get("hostUsers") is not False, grace_seconds)
    check_containers(spec, scope, f"{path}.containers", errors)
    if "initContainers" in spec:
        check_init_containers(spec, scope, f"{path}.initContainers", errors)
    if "ephemeralContainers" in spec:
        check_ephemeral_containers(spec, scope, f"{path}.ephemeralContainers", errors)
    if "resources" in spec:
        check_pod_resources(spec, path, claim_names, errors)
    if spec.get("hostNetwork"):
        _check_host_network_ports(spec, is_pod, path, errors)
    _check_policies(spec, restart_policy, path, errors)
    if "nodeSelector" in spec:
        errors += validate_labels(spec["nodeSelector"], f"{path}.nodeSelector")
    check_pod_security(spec, f"{path}.securityContext", errors)
    _check_placement(spec, path, errors)
    _check_identity(spec, path, errors)
    _check_rest(spec, path, errors)
    check_file_key_volumes(spec, path, errors)
    return errors


def _check_policies(spec: Manifest, restart_policy: str, path: str, errors: list[FieldError]) -> None:
    if restart_policy not in RESTART_POLICIES:
        where = f"{path}.restartPolicy"
        errors.append(not_supported(where, restart_policy, RESTART_POLICIES) if restart_policy else required(where))
    policy = spec.get("dnsPolicy", "")
    if policy not in _DNS_POLICIES:
        where = f"{path}.dnsPolicy"
        errors.append(not_supported(where, policy, _DNS_POLICIES) if policy else required(where))


def _check_placement(spec: Manifest, path: str, errors: list[FieldError]) -> None:
    if "affinity" in spec:
        check_affinity(spec["affinity"], f"{path}.affinity", errors)
    if "dnsConfig" in spec or spec.get("dnsPolicy") == "None":
        _check_dns(spec.get("dnsConfig"), spec.get("dnsPolicy", ""), f"{path}.dnsConfig", errors)
    for index, gate in enumerate(spec.get("readinessGates", ())):
        kind = gate.get("conditionType", "")
        errors += [
            invalid(f"{path}.readinessGates[{index}].conditionType", kind, text) for text in names.qualified_name(kind)
        ]
    if "schedulingGates" in spec:
        _check_scheduling_gates(spec["schedulingGates"], f"{path}.schedulingGates", errors)
    if "topologySpreadConstraints" in spec:
        check_topology_spread(spec["topologySpreadConstraints"], f"{path}.topologySpreadConstraints", errors)
    if spec.get("hostUsers") is False:
        _check_user_namespace(spec, path, errors)
    if "hostnameOverride" in spec:
        _check_hostname_override(spec, f"{path}.hostnameOverride", errors)


def _check_identity(spec: Manifest, path: str, errors: list[FieldError]) -> None:
    for field in ("serviceAccountName", "nodeName"):
        name = spec.get(field)
        if name and not is_subdomain(name):
            errors += [invalid(f"{path}.{field}", name, text) for text in names.dns1123_subdomain(name)]
    if "activeDeadlineSeconds" in spec:
        seconds = spec["activeDeadlineSeconds"]
        texts = names.in_range(seconds, 1, _MAX_INT32)
        errors += [invalid(f"{path}.activeDeadlineSeconds", seconds, text) for text in texts]
    for field in ("hostname", "subdomain"):
        name = spec.get(field)
        if name and (texts := names.dns1123_label(name)):
            errors += [invalid(f"{path}.{field}", name, text) for text in texts]


def _check_rest(spec: Manifest, path: str, errors: list[FieldError]) -> None:
    if "tolerations" in spec:
        check_tolerations(spec["tolerations"], f"{path}.tolerations", errors)
    if "hostAliases" in spec:
        for index, alias in enumerate(spec["hostAliases"]):
            _check_host_alias(alias, f"{path}.hostAliases[{index}]", errors)
    if spec.get("priorityClassName"):
        errors += [
            invalid(f"{path}.priorityClassName", spec["priorityClassName"], text)
            for text in names.dns1123_subdomain(spec["priorityClassName"])
        ]
    if "runtimeClassName" in spec:
        errors += [
            invalid(f"{path}.runtimeClassName", spec["runtimeClassName"], text)
            for text in names.dns1123_subdomain(spec["runtimeClassName"])
        ]
    preemption = spec.get("preemptionPolicy")
    if preemption is not None and preemption not in _PREEMPTION_POLICIES:
        where = f"{path}.preemptionPolicy"
        errors.append(not_supported(where, preemption, _PREEMPTION_POLICIES) if preemption else required(where))
    if "overhead" in spec:
        check_requirements({"limits": spec["overhead"]}, f"{path}.overhead", (), errors)
    if "os" in spec:
        _check_os(spec, f"{path}.os", errors)
    if "schedulingGroup" in spec:
        _check_scheduling_group(spec["schedulingGroup"], f"{path}.schedulingGroup", errors)


def _check_resource_claims(
    claims: list[Manifest], metadata: Manifest, path: str, errors: list[FieldError]
) -> frozenset[str]:
    if _MIRROR in metadata.get("annotations", ()):
        errors.extend(forbidden("[]", "static pods do not support resource claims") for _ in claims)
        return frozenset(claim["name"] for claim in claims if claim.get("name"))
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        where, name = f"{path}[{index}]", claim.get("name", "")
        if not name:
            errors.append(required(f"{where}.name"))
        elif name in seen:
            errors.append(duplicate(f"{where}.name", name))
        else:
            errors += [invalid(f"{where}.name", name, text) for text in names.dns1123_label(name)]
            seen.add(name)
        _check_claim_origin(claim, where, errors)
    return frozenset(seen)


def _check_claim_origin(claim: Manifest, path: str, errors: list[FieldError]) -> None:
    fields = ("resourceClaimName", "resourceClaimTemplateName")
    given = [field for field in fields if field in claim]
    if len(given) != 1:
        shown = go_struct(
            Name=claim.get("name", ""),
            ResourceClaimName=claim.get("resourceClaimName"),
            ResourceClaimTemplateName=claim.get("resourceClaimTemplateName"),
        )
        detail = (
            "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            if given
            else "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
        )
        errors.append(invalid(path, shown, detail))
    for field in given:
        errors += [invalid(f"{path}.{field}", claim[field], text) for text in names.dns1123_subdomain(claim[field])]


def _check_host_network_ports(spec: Manifest, is_pod: bool, path: str, errors: list[FieldError]) -> None:
    for index, container in enumerate(spec.get("containers", ())):
        for position, port in enumerate(container.get("ports", ())):
            on_host = port.get("hostPort", 0)
            if (is_pod or on_host) and on_host != port.get("containerPort", 0):
                detail = "must match `containerPort` when `hostNetwork` is true"
                errors.append(invalid(f"{path}.containers[{index}].ports[{position}].hostPort", on_host, detail))


def _check_dns(config: Manifest | None, policy: str, path: str, errors: list[FieldError]) -> None:
    servers = (config or {}).get("nameservers", [])
    if policy == "None" and config is None:
        errors.append(required(path, "must provide `dnsConfig` when `dnsPolicy` is None"))
        return
    if policy == "None" and not servers:
        detail = "must provide at least one DNS nameserver when `dnsPolicy` is None"
        errors.append(required(f"{path}.nameservers", detail))
        return
    config = config or {}
    if len(servers) > _MAX_NAMESERVERS:
        detail = f"must not have more than {_MAX_NAMESERVERS} nameservers"
        errors.append(invalid(f"{path}.nameservers", servers, detail))
    for index, server in enumerate(servers):
        errors += [invalid(f"{path}.nameservers[{index}]", server, text) for text in ip_address(server)]
    _check_searches(config.get("searches", []), f"{path}.searches", errors)
    for index, option in enumerate(config.get("options", ())):
        if not option.get("name"):
            errors.append(required(f"{path}.options[{index}]", "must not be empty"))


def _check_searches(searches: list[str], path: str, errors: list[FieldError]) -> None:
    if len(searches) > _MAX_SEARCHES:
        errors.append(invalid(path, searches, f"must not have more than {_MAX_SEARCHES} search paths"))
    if names.bytes_of(" ".join(searches)) > _MAX_SEARCH_CHARACTERS:
        detail = f"must not have more than {_MAX_SEARCH_CHARACTERS} characters (including spaces) in the search list"
        errors.append(invalid(path, searches, detail))
    for index, search in enumerate(searches):
        if search == ".":
            continue
        domain = search.removesuffix(".")
        if names.bytes_of(domain) > names.SUBDOMAIN_MAX_BYTES:
            errors.append(invalid(f"{path}[{index}]", domain, names.max_characters(names.SUBDOMAIN_MAX_BYTES)))
        if not _is_search(domain):
            errors.append(invalid(f"{path}[{index}]", domain, _SEARCH_TEXT))


def _check_scheduling_gates(gates: list[Manifest], path: str, errors: list[FieldError]) -> None:
    seen: set[str] = set()
    for index, gate in enumerate(gates):
        name = gate.get("name", "")
        errors += [invalid(f"{path}[{index}]", name, text) for text in names.qualified_name(name)]
        if name in seen:
            errors.append(duplicate(f"{path}[{index}]", name))
        seen.add(name)


def _check_user_namespace(spec: Manifest, path: str, errors: list[FieldError]) -> None:
    for field, shown in (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")):
        if spec.get(field):
            errors.append(forbidden(f"{path}.{shown}", "when `hostUsers` is false"))
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(kind, ())):
            if "volumeDevices" in container:
                errors.append(forbidden(f"{path}.{kind}[{index}].volumeDevices", "when `hostUsers` is false"))


def _check_hostname_override(spec: Manifest, path: str, errors: list[FieldError]) -> None:
    name = spec["hostnameOverride"]
    errors += [
        forbidden(path, f"may not be specified when {field} is true")
        for field in ("setHostnameAsFQDN", "hostNetwork")
        if spec.get(field)
    ]
    if names.bytes_of(name) > _HOSTNAME_MAX_BYTES:
        errors.append(too_long(path, _HOSTNAME_MAX_BYTES))
    errors += [invalid(path, name, text) for text in names.dns1123_subdomain(name)]


def _check_host_alias(alias: Manifest, path: str, errors: list[FieldError]) -> None:
    errors += [invalid(f"{path}.ip", alias.get("ip", ""), text) for text in ip_address(alias.get("ip", ""))]
    for index, name in enumerate(alias.get("hostnames", ())):
        errors += [invalid(f"{path}.hostnames[{index}]", name, text) for text in names.dns1123_subdomain(name)]


def _check_os(spec: Manifest, path: str, errors: list[FieldError]) -> None:
    name = spec["os"].get("name", "")
    if not name:
        errors.append(required(f"{path}.name"))
    elif name not in ("linux", "windows"):
        errors.append(not_supported(path, name, ("linux", "windows")))


def _check_scheduling_group(group: Manifest, path: str, errors: list[FieldError]) -> None:
    name = group.get("podGroupName")
    if name is None:
        errors.append(invalid(f"{path}.podGroupName", None, "must specify one of: `podGroupName`"))
        return
    errors += [invalid(f"{path}.podGroupName", name, text) for text in names.dns1123_subdomain(name)]
