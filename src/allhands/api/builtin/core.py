"""Rules of the core group, except Pod and Node: its smaller kinds here, the larger ones gathered from their modules."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

from allhands.api import names
from allhands.api.builtin import claims, endpoints, persistent_volumes, quotas, services
from allhands.api.builtin.podspec import default_pod_template, validate_pod_template
from allhands.api.errors import forbidden, invalid, not_supported, required, too_long
from allhands.api.rules import Rules

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.api.errors import FieldError

_MAX_DATA_BYTES = 1 << 20
_NAME_LABEL = "kubernetes.io/metadata.name"
_STANDARD_FINALIZERS = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
_FROZEN = "field is immutable when `immutable` is set"
_EVENT_TEXT_MAX_BYTES = 128
_EVENT_MESSAGE_MAX_BYTES = 1024
_SECRET_KEYS: dict[str, tuple[str, ...]] = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
_STATUS_COUNTS = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")


def _label_with_name(namespace: Manifest) -> None:
    metadata = namespace["metadata"]
    if metadata.get("name"):
        metadata.setdefault("labels", {})[_NAME_LABEL] = metadata["name"]


def _default_namespace(namespace: Manifest) -> None:
    _label_with_name(namespace)
    namespace.setdefault("status", {}).setdefault("phase", "Active")


def _prepare_namespace(namespace: Manifest) -> None:
    _label_with_name(namespace)
    namespace["status"] = {"phase": "Active"}
    finalizers = namespace.setdefault("spec", {}).setdefault("finalizers", [])
    if "kubernetes" not in finalizers:
        finalizers.append("kubernetes")


def _keep_finalizers(new: Manifest, old: Manifest) -> None:
    finalizers = old.get("spec", {}).get("finalizers")
    spec = new.setdefault("spec", {})
    if finalizers is None:
        spec.pop("finalizers", None)
    else:
        spec["finalizers"] = finalizers


def _validate_namespace(namespace: Manifest) -> list[FieldError]:
    errors: list[FieldError] = []
    for name in namespace.get("spec", {}).get("finalizers", ()):
        errors += [invalid("spec.finalizers", name, text) for text in names.qualified_name(name)]
        if "/" not in name and name not in _STANDARD_FINALIZERS:
            detail = "name is neither a standard finalizer name nor is it fully qualified"
            errors.append(invalid("spec.finalizers", name, detail))
    return errors


def _validate_namespace_status(new: Manifest, _old: Manifest) -> list[FieldError]:
    ending = "deletionTimestamp" in new["metadata"]
    phase, wanted = new.get("status", {}).get("phase", ""), "Terminating" if ending else "Active"
    if phase == wanted:
        return []
    detail = f"may only be '{wanted}' if `deletionTimestamp` is {'not ' if ending else ''}empty"
    return [invalid("status.Phase", phase, detail)]


def _decoded_bytes(text: str) -> int:
    """How many bytes a base64 text stands for."""
    return len(text) // 4 * 3 - text[-2:].count("=")


def _validate_config_map(config: Manifest) -> list[FieldError]:
    errors: list[FieldError] = []
    data, binary = config.get("data", {}), config.get("binaryData", {})
    size_bytes = 0
    for key, value in data.items():
        errors += [invalid(f"data[{key}]", key, text) for text in names.config_map_key(key)]
        if key in binary:
            errors.append(invalid(f"data[{key}]", key, "duplicate of key present in binaryData"))
        size_bytes += names.bytes_of(value)
    for key, value in binary.items():
        errors += [invalid(f"binaryData[{key}]", key, text) for text in names.config_map_key(key)]
        size_bytes += _decoded_bytes(value)
    if size_bytes > _MAX_DATA_BYTES:
        errors.append(too_long("[]", _MAX_DATA_BYTES))  # how the server writes the path of the whole
    return errors


def _frozen_errors(new: Manifest, old: Manifest, fields: tuple[str, ...]) -> list[FieldError]:
    if not old.get("immutable"):
        return []
    errors = [] if new.get("immutable") else [forbidden("immutable", _FROZEN)]
    return errors + [forbidden(field, _FROZEN) for field in fields if new.get(field, {}) != old.get(field, {})]


def _validate_config_map_update(new: Manifest, old: Manifest) -> list[FieldError]:
    return _frozen_errors(new, old, ("data", "binaryData")) + _validate_config_map(new)


def _default_secret(secret: Manifest) -> None:
    secret.setdefault("type", "Opaque")
    plain = secret.pop("stringData", None)
    if plain:
        data = secret.setdefault("data", {})
        for key, value in plain.items():
            data[key] = base64.b64encode(value.encode()).decode()


def _validate_secret(secret: Manifest) -> list[FieldError]:
    errors: list[FieldError] = []
    data, kind = secret.get("data", {}), secret.get("type", "")
    size_bytes = 0
    for key, value in data.items():
        errors += [invalid(f"data[{key}]", key, text) for text in names.config_map_key(key)]
        size_bytes += _decoded_bytes(value)
    if size_bytes > _MAX_DATA_BYTES:
        errors.append(too_long("data", _MAX_DATA_BYTES))
    if kind == "kubernetes.io/service-account-token":
        name = "kubernetes.io/service-account.name"
        if not secret["metadata"].get("annotations", {}).get(name):
            errors.append(required(f"metadata.annotations[{name}]"))
    elif kind == "kubernetes.io/basic-auth":
        if "username" not in data and "password" not in data:
            errors += [required("data[username]"), required("data[password]")]
    elif kind in _SECRET_KEYS:
        _check_typed_secret(data, kind, errors)
    return errors


def _check_typed_secret(data: dict[str, str], kind: str, errors: list[FieldError]) -> None:
    for key in _SECRET_KEYS[kind]:
        present = bool(data.get(key)) if kind == "kubernetes.io/ssh-auth" else key in data
        if not present:
            errors.append(required(f"data[{key}]"))
        elif "docker" in kind:
            try:
                readable = isinstance(json.loads(base64.b64decode(data[key])), dict | None)
            except ValueError:
                readable = False
            if not readable:
                errors.append(invalid(f"data[{key}]", "<secret contents redacted>", "must be a JSON object"))


def _keep_type(new: Manifest, old: Manifest) -> None:
    if not new.get("type"):
        new["type"] = old.get("type", "")


def _validate_secret_update(new: Manifest, old: Manifest) -> list[FieldError]:
    errors: list[FieldError] = []
    if new.get("type", "") != old.get("type", ""):
        errors.append(invalid("type", new.get("type", ""), "field is immutable"))
    return errors + _frozen_errors(new, old, ("data",)) + _validate_secret(new)


def _keep_only_secret_names(account: Manifest) -> None:
    if "secrets" in account:
        account["secrets"] = [{"name": secret.get("name", "")} for secret in account["secrets"]]


def _validate_event(event: Manifest) -> list[FieldError]:
    errors: list[FieldError] = []
    namespace = event["metadata"].get("namespace", "")
    subject = event.get("involvedObject", {}).get("namespace", "")
    foreign = "does not match event.namespace"
    if not event.get("eventTime"):
        if namespace != subject and not (not subject and namespace == "default"):
            errors.append(invalid("involvedObject.namespace", subject, foreign))
    else:
        if not subject and namespace not in ("default", "kube-system"):
            errors.append(invalid("involvedObject.namespace", subject, foreign))
        _check_new_event(event, errors)
    errors += [invalid("namespace", namespace, text) for text in names.dns1123_subdomain(namespace)]
    return errors


def _check_new_event(event: Manifest, errors: list[FieldError]) -> None:
    """An event that states its exact time must also say who reports what, in so many words."""
    reporter = event.get("reportingComponent", "")
    if not reporter:
        errors.append(required("reportingComponent"))
    errors += [invalid("reportingComponent", reporter, text) for text in names.qualified_name(reporter)]
    for field in ("reportingInstance", "action", "reason"):
        text = event.get(field, "")
        if not text:
            errors.append(required(field))
        if names.bytes_of(text) > _EVENT_TEXT_MAX_BYTES:
            errors.append(invalid(field, "", f"can have at most {_EVENT_TEXT_MAX_BYTES} characters"))
    if names.bytes_of(event.get("message", "")) > _EVENT_MESSAGE_MAX_BYTES:
        errors.append(invalid("message", "", f"can have at most {_EVENT_MESSAGE_MAX_BYTES} characters"))


def _default_template(template: Manifest) -> None:
    default_pod_template(template.setdefault("template", {}))


def _validate_template(template: Manifest) -> list[FieldError]:
    return validate_pod_template(template.get("template", {}), "template")


def _default_controller(controller: Manifest) -> None:
    spec = controller.setdefault("spec", {})
    template = spec.get("template")
    if template is not None:
        labels = template.get("metadata", {}).get("labels")
        if labels:
            if not spec.get("selector"):
                spec["selector"] = dict(labels)
            if not controller["metadata"].get("labels"):
                controller["metadata"]["labels"] = dict(labels)
        default_pod_template(template)
    spec.setdefault("replicas", 1)


def _validate_controller(controller: Manifest) -> list[FieldError]:
    errors: list[FieldError] = []
    spec = controller.get("spec", {})
    selector, template = spec.get("selector", {}), spec.get("template")
    if spec.get("minReadySeconds", 0) < 0:
        errors.append(invalid("spec.minReadySeconds", spec["minReadySeconds"], "must be greater than or equal to 0"))
    if not selector:
        errors.append(required("spec.selector"))
    if spec.get("replicas", 0) < 0:
        errors.append(invalid("spec.replicas", spec["replicas"], "must be greater than or equal to 0"))
    if template is None:
        errors.append(required("spec.template"))
        return errors
    labels = template.get("metadata", {}).get("labels", {})
    if not selector.items() <= labels.items():
        detail = "`selector` does not match template `labels`"
        errors.append(invalid("spec.template.metadata.labels", labels or None, detail))
    errors += validate_pod_template(template, "spec.template")
    pod = template.get("spec", {})
    if pod.get("restartPolicy") != "Always":
        errors.append(not_supported("spec.template.spec.restartPolicy", pod.get("restartPolicy", ""), ("Always",)))
    if "activeDeadlineSeconds" in pod:
        detail = "activeDeadlineSeconds in ReplicationController is not Supported"
        errors.append(forbidden("spec.template.spec.activeDeadlineSeconds", detail))
    return errors


def _validate_controller_status(new: Manifest, _old: Manifest) -> list[FieldError]:
    status = new.get("status", {})
    replicas, ready = status.get("replicas", 0), status.get("readyReplicas", 0)
    errors = [
        invalid(f"status.{field}", status[field], "must be greater than or equal to 0")
        for field in ("replicas", *_STATUS_COUNTS, "observedGeneration")
        if status.get(field, 0) < 0
    ]
    errors += [
        invalid(f"status.{field}", status[field], "cannot be greater than status.replicas")
        for field in _STATUS_COUNTS
        if status.get(field, 0) > replicas
    ]
    if status.get("availableReplicas", 0) > ready:
        detail = "cannot be greater than readyReplicas"
        errors.append(invalid("status.availableReplicas", status["availableReplicas"], detail))
    return errors


RULES: dict[str, Rules] = {
    "Namespace": Rules(
        default=_default_namespace,
        prepare_create=_prepare_namespace,
        prepare_update=_keep_finalizers,
        validate_create=_validate_namespace,
        validate_update=lambda new, _old: _validate_namespace(new),
        validate_status=_validate_namespace_status,
    ),
    "ConfigMap": Rules(validate_create=_validate_config_map, validate_update=_validate_config_map_update),
    "Secret": Rules(
        default=_default_secret,
        prepare_update=_keep_type,
        validate_create=_validate_secret,
        validate_update=_validate_secret_update,
    ),
    "ServiceAccount": Rules(
        prepare_create=_keep_only_secret_names,
        prepare_update=lambda new, _old: _keep_only_secret_names(new),
    ),
    "Event": Rules(validate_create=_validate_event, validate_update=lambda new, _old: _validate_event(new)),
    "PodTemplate": Rules(
        default=_default_template,
        validate_create=_validate_template,
        validate_update=lambda new, _old: _validate_template(new),
    ),
    "ReplicationController": Rules(
        default=_default_controller,
        validate_create=_validate_controller,
        validate_update=lambda new, _old: _validate_controller(new),
        validate_status=_validate_controller_status,
    ),
    **services.RULES,
    **endpoints.RULES,
    **quotas.RULES,
    **claims.RULES,
    **persistent_volumes.RULES,
}
