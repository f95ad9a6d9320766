"""Checks of the containers of a pod: regular, init (also those that keep running, the sidecars) and ephemeral."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from allhands.api import names
from allhands.api.builtin.environment import check_env, check_env_from
from allhands.api.builtin.mounts import check_devices, check_mounts
from allhands.api.builtin.probes import check_probes
from allhands.api.builtin.quick_names import is_label
from allhands.api.builtin.requirements import check_requirements
from allhands.api.builtin.security import check_container_security
from allhands.api.errors import (
    duplicate,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required,
    too_many,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from allhands.api.document import Manifest
    from allhands.api.errors import FieldError

PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_RESIZE_POLICIES = ("NotRequired", "RestartContainer")
_RESTART_POLICIES = ("Always", "Never", "OnFailure")
_RULE_ACTIONS = ("Restart", "RestartAllContainers")
_RULE_OPERATORS = ("In", "NotIn")
_MAX_RULES = 20
_MAX_EXIT_CODES = 255
_ONLY_WHILE_RUNNING = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
_NOT_FOR_EPHEMERAL = (
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
)


class PodScope(msgspec.Struct, frozen=True):
    """What a container's fields are checked against."""

    volumes: dict[str, Manifest]
    claim_names: frozenset[str]
    restart_policy: str
    host_users: bool
    grace_seconds: int | None


def check_containers(spec: Manifest, scope: PodScope, path: str, errors: list[FieldError]) -> None:
    containers = spec.get("containers")
    if not containers:
        errors.append(required(path))
        return
    seen: set[str] = set()
    for index, container in enumerate(containers):
        where = f"{path}[{index}]"
        _check_container(container, scope, where, errors)
        name = container.get("name", "")
        if name in seen:
            errors.append(duplicate(f"{where}.name", name))
        seen.add(name)
        check_probes(container, where, scope.grace_seconds, errors)
        if "restartPolicy" in container or "restartPolicyRules" in container:
            _check_restart(container, where, errors)
    _check_host_ports(containers, path, errors)


def check_init_containers(spec: Manifest, scope: PodScope, path: str, errors: list[FieldError]) -> None:
    seen = {container.get("name", "") for container in spec.get("containers", ())}
    for index, container in enumerate(spec["initContainers"]):
        where = f"{path}[{index}]"
        _check_container(container, scope, where, errors)
        if "restartPolicy" in container:
            _check_restart(container, where, errors)
        elif "restartPolicyRules" in container:
            detail = "must specify restartPolicy when restart rules are used"
            errors.append(required(f"{where}.restartPolicy", detail))
        name = container.get("name", "")
        if name in seen:
            errors.append(duplicate(f"{where}.name", name))
        elif name:
            seen.add(name)
        _check_host_ports([container], path, errors)
        if container.get("restartPolicy") == "Always":
            check_probes(container, where, scope.grace_seconds, errors)
            continue
        for field in _ONLY_WHILE_RUNNING:
            if field in container:
                detail = "may not be set for init containers without restartPolicy=Always"
                errors.append(forbidden(f"{where}.{field}", detail))
        for position, policy in enumerate(container.get("resizePolicy", ())):
            if policy.get("restartPolicy") == "RestartContainer":
                detail = "must not be set to 'RestartContainer' for non-sidecar initContainers"
                errors.append(invalid(f"{where}.resizePolicy[{position}].restartPolicy", "RestartContainer", detail))


def check_ephemeral_containers(spec: Manifest, scope: PodScope, path: str, errors: list[FieldError]) -> None:
    others = {
        container.get("name", "") for kind in ("containers", "initContainers") for container in spec.get(kind, ())
    }
    seen = set(others)
    for index, container in enumerate(spec["ephemeralContainers"]):
        where = f"{path}[{index}]"
        _check_container(container, scope, where, errors)
        image = container.get("image", "")
        if image != image.strip():
            refuse_image_edges(image, where, errors)
        name, target = container.get("name", ""), container.get("targetContainerName")
        if name in seen:
            errors.append(duplicate(f"{where}.name", name))
        seen.add(name)
        if target and target not in others:
            errors.append(not_found(f"{where}.targetContainerName", target))
        errors += [
            forbidden(f"{where}.{field}", "cannot be set for an Ephemeral Container")
            for field in _NOT_FOR_EPHEMERAL
            if container.get(field)
        ]
        for position, mount in enumerate(container.get("volumeMounts", ())):
            for field in ("subPath", "subPathExpr"):
                if mount.get(field):
                    detail = "cannot be set for an Ephemeral Container"
                    errors.append(forbidden(f"{where}.volumeMounts[{position}].{field}", detail))


def refuse_image_edges(image: str, path: str, errors: list[FieldError]) -> None:
    """Only pods are held to this: templates with such images exist."""
    errors.append(invalid(f"{path}.image", image, "must not have leading or trailing whitespace"))


def _check_container(container: Manifest, scope: PodScope, path: str, errors: list[FieldError]) -> None:
    """What holds for containers of every sort."""
    name = container.get("name", "")
    if not name:
        errors.append(required(f"{path}.name"))
    elif not is_label(name):
        errors += [invalid(f"{path}.name", name, text) for text in names.dns1123_label(name)]
    if not container.get("image"):
        errors.append(required(f"{path}.image"))
    if container.get("terminationMessagePolicy") not in _MESSAGE_POLICIES:
        _refuse_choice(container, "terminationMessagePolicy", _MESSAGE_POLICIES, path, errors)
    if "ports" in container:
        _check_ports(container["ports"], f"{path}.ports", errors)
    if "env" in container:
        check_env(container["env"], f"{path}.env", errors)
    if "envFrom" in container:
        check_env_from(container["envFrom"], f"{path}.envFrom", errors)
    if "volumeMounts" in container:
        check_mounts(container, scope.volumes, f"{path}.volumeMounts", errors)
    if "volumeDevices" in container:
        check_devices(container, scope.volumes, f"{path}.volumeDevices", errors)
    if container.get("imagePullPolicy") not in PULL_POLICIES:
        _refuse_choice(container, "imagePullPolicy", PULL_POLICIES, path, errors)
    if container.get("resources"):
        check_requirements(container["resources"], f"{path}.resources", scope.claim_names, errors)
    if "resizePolicy" in container:
        _check_resize(container["resizePolicy"], scope.restart_policy, f"{path}.resizePolicy", errors)
    if "securityContext" in container:
        check_container_security(container["securityContext"], f"{path}.securityContext", scope.host_users, errors)


def _refuse_choice(
    container: Manifest, field: str, choices: tuple[str, ...], path: str, errors: list[FieldError]
) -> None:
    value = container.get(field)
    errors.append(not_supported(f"{path}.{field}", value, choices) if value else required(f"{path}.{field}"))


def _check_ports(ports: list[Manifest], path: str, errors: list[FieldError]) -> None:
    seen: set[str] = set()
    for index, port in enumerate(ports):
        name, number, on_host = port.get("name"), port.get("containerPort", 0), port.get("hostPort", 0)
        if name:
            texts = names.port_name(name)
            errors += [invalid(f"{path}[{index}].name", name, text) for text in texts]
            if not texts and name in seen:
                errors.append(duplicate(f"{path}[{index}].name", name))
            elif not texts:
                seen.add(name)
        if not number:
            errors.append(required(f"{path}[{index}].containerPort"))
        else:
            errors += [invalid(f"{path}[{index}].containerPort", number, text) for text in names.port_number(number)]
        if on_host:
            errors += [invalid(f"{path}[{index}].hostPort", on_host, text) for text in names.port_number(on_host)]
        protocol = port.get("protocol")
        if not protocol:
            errors.append(required(f"{path}[{index}].protocol"))
        elif protocol not in _PROTOCOLS:
            errors.append(not_supported(f"{path}[{index}].protocol", protocol, _PROTOCOLS))


def _check_host_ports(containers: Iterable[Manifest], path: str, errors: list[FieldError]) -> None:
    seen: set[str] = set()
    for index, container in enumerate(containers):
        for position, port in enumerate(container.get("ports", ())):
            if port.get("hostPort"):
                key = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{port['hostPort']}"
                if key in seen:
                    errors.append(duplicate(f"{path}[{index}].ports[{position}].hostPort", key))
                seen.add(key)


def _check_resize(policies: list[Manifest], restart_policy: str, path: str, errors: list[FieldError]) -> None:
    seen: set[str] = set()
    for index, policy in enumerate(policies):
        name, restart = policy.get("resourceName", ""), policy.get("restartPolicy", "")
        if name in seen:
            errors.append(duplicate(f"{path}[{index}]", name))
        seen.add(name)
        if name not in ("cpu", "memory"):
            errors.append(not_supported(path, name, ("cpu", "memory")) if name else required(path))
        if restart not in _RESIZE_POLICIES:
            errors.append(not_supported(path, restart, _RESIZE_POLICIES) if restart else required(path))
        if restart_policy == "Never" and restart != "NotRequired":
            detail = "must be 'NotRequired' when pod `restartPolicy` is 'Never'"
            errors.append(invalid(path, restart, detail))


def _check_restart(container: Manifest, path: str, errors: list[FieldError]) -> None:
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules", ())
    if policy is None:
        detail = "must specify restartPolicy when restart rules are used"
        errors.append(required(f"{path}.restartPolicy", detail))
    elif policy not in _RESTART_POLICIES:
        errors.append(not_supported(f"{path}.restartPolicy", policy, _RESTART_POLICIES))
    if len(rules) > _MAX_RULES:
        errors.append(too_many(f"{path}.restartPolicyRules", len(rules), _MAX_RULES))
    for index, rule in enumerate(rules):
        where = f"{path}.restartPolicyRules[{index}]"
        if rule.get("action") not in _RULE_ACTIONS:
            errors.append(not_supported(f"{where}.action", rule.get("action", ""), _RULE_ACTIONS))
        codes = rule.get("exitCodes")
        if codes is None:
            errors.append(required(f"{where}.exitCodes", "must be specified"))
            continue
        if codes.get("operator") not in _RULE_OPERATORS:
            errors.append(not_supported(f"{where}.exitCodes.operator", codes.get("operator", ""), _RULE_OPERATORS))
        if len(codes.get("values", ())) > _MAX_EXIT_CODES:
            errors.append(too_many(f"{where}.exitCodes.values", len(codes["values"]), _MAX_EXIT_CODES))
