"""Rules of Deployment, ReplicaSet, StatefulSet, DaemonSet and ControllerRevision.

They share a selector that must select the template's own labels and pods that always restart. Update strategies are
in `rollout`, statuses in `replica_status`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from allhands.api.builtin.claims import check_claim_spec
from allhands.api.builtin.fieldchecks import IMMUTABLE, negatives, selector_matches, shown_selector, sorted_labels
from allhands.api.builtin.podspec import default_pod_template, validate_pod_template
from allhands.api.builtin.replica_status import (
    validate_daemon_set_status,
    validate_deployment_status,
    validate_replica_set_status,
    validate_stateful_set_status,
)
from allhands.api.builtin.rollout import (
    daemon_set_strategy_errors,
    default_daemon_set_strategy,
    default_deployment_strategy,
    default_stateful_set_strategy,
    deployment_strategy_errors,
    stateful_set_strategy_errors,
)
from allhands.api.errors import FieldError, forbidden, invalid, not_supported, required
from allhands.api.metadata import validate_annotations, validate_labels
from allhands.api.names import dns1123_label
from allhands.api.rules import Rules
from allhands.api.selectors import validate_label_selector

if TYPE_CHECKING:
    from allhands.api.document import Manifest

TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"
"""Where apps/v1 shows how often the template of a DaemonSet has changed."""

_INTEGER_RE: Final = re.compile("[+-]?[0-9]{1,18}")
_TEMPLATE_LABELS: Final = "spec.template.metadata.labels"
_MISMATCH: Final = "`selector` does not match template `labels`"
_MUTABLE_STATEFUL_FIELDS: Final = frozenset(
    {
        "replicas",
        "template",
        "updateStrategy",
        "minReadySeconds",
        "ordinals",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
    }
)
_STATEFUL_FORBIDDEN: Final = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)


def default_deployment(deployment: Manifest) -> None:
    spec = deployment.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    default_deployment_strategy(spec.setdefault("strategy", {}))
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)
    default_pod_template(spec.setdefault("template", {}))


def default_replica_set(replica_set: Manifest) -> None:
    spec = replica_set.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    default_pod_template(spec.setdefault("template", {}))


def default_daemon_set(daemon_set: Manifest) -> None:
    _set_template_generation(daemon_set, _template_generation(daemon_set))
    spec = daemon_set.setdefault("spec", {})
    default_daemon_set_strategy(spec.setdefault("updateStrategy", {}))
    spec.setdefault("revisionHistoryLimit", 10)
    default_pod_template(spec.setdefault("template", {}))


def default_stateful_set(stateful_set: Manifest) -> None:
    spec = stateful_set.setdefault("spec", {})
    if not spec.get("podManagementPolicy"):
        spec["podManagementPolicy"] = "OrderedReady"
    default_stateful_set_strategy(spec.setdefault("updateStrategy", {}))
    retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    for event in ("whenDeleted", "whenScaled"):
        if not retention.get(event):
            retention[event] = "Retain"
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", 10)
    default_pod_template(spec.setdefault("template", {}))
    for claim in spec.get("volumeClaimTemplates") or ():
        claim.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
        claim.setdefault("status", {}).setdefault("phase", "Pending")
        # Claim templates are whole objects, so the server writes their kind.
        claim["apiVersion"], claim["kind"] = "v1", "PersistentVolumeClaim"


def prepare_stateful_set(stateful_set: Manifest) -> None:
    """Drops what only a switched-off feature could use."""
    rolling = stateful_set["spec"].get("updateStrategy", {}).get("rollingUpdate")
    if rolling is not None:
        rolling.pop("maxUnavailable", None)


def prepare_stateful_set_update(new: Manifest, old: Manifest) -> None:
    if "maxUnavailable" not in old["spec"].get("updateStrategy", {}).get("rollingUpdate", {}):
        prepare_stateful_set(new)


def _template_generation(daemon_set: Manifest) -> int:
    text = (daemon_set["metadata"].get("annotations") or {}).get(TEMPLATE_GENERATION, "")
    return int(text) if _INTEGER_RE.fullmatch(text) else 0


def _set_template_generation(daemon_set: Manifest, generation: int) -> None:
    daemon_set["metadata"].setdefault("annotations", {})[TEMPLATE_GENERATION] = str(generation)


def prepare_daemon_set(daemon_set: Manifest) -> None:
    _set_template_generation(daemon_set, max(_template_generation(daemon_set), 1))


def prepare_daemon_set_update(new: Manifest, old: Manifest) -> None:
    changed = new["spec"].get("template") != old["spec"].get("template")
    _set_template_generation(new, _template_generation(old) + changed)


def _selector_errors(spec: Manifest, empty_for: str, unusable: str) -> tuple[list[FieldError], bool]:
    """Errors of a required selector, and whether the template can still be judged by it."""
    selector = spec.get("selector")
    if selector is None:
        return [required("spec.selector")], True
    errors = validate_label_selector(selector, "spec.selector")
    if errors:
        return [*errors, invalid("spec.selector", shown_selector(selector), unusable)], False
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        return [invalid("spec.selector", {}, f"empty selector is invalid for {empty_for}")], True
    return [], True


def _mismatch_errors(spec: Manifest) -> list[FieldError]:
    labels = spec["template"].get("metadata", {}).get("labels")
    if selector_matches(spec.get("selector"), labels):
        return []
    return [invalid(_TEMPLATE_LABELS, sorted_labels(labels), _MISMATCH)]


def _restart_errors(spec: Manifest, kind: str) -> list[FieldError]:
    pod_spec = spec["template"].get("spec", {})
    errors = []
    policy = pod_spec.get("restartPolicy", "")
    if policy != "Always":
        errors.append(not_supported("spec.template.spec.restartPolicy", policy, ("Always",)))
    if "activeDeadlineSeconds" in pod_spec:
        why = f"activeDeadlineSeconds in {kind} is not Supported"
        errors.append(forbidden("spec.template.spec.activeDeadlineSeconds", why))
    return errors


def _selected_template_errors(spec: Manifest) -> list[FieldError]:
    errors, usable = _selector_errors(spec, "deployment", "invalid label selector")
    if usable:
        errors += _mismatch_errors(spec)
        errors += validate_pod_template(spec["template"], "spec.template")
        errors += _restart_errors(spec, "ReplicaSet")
    return errors


def _immutable_selector(new: Manifest, old: Manifest) -> list[FieldError]:
    selector = new["spec"].get("selector")
    if selector == old["spec"].get("selector"):
        return []
    return [invalid("spec.selector", shown_selector(selector), IMMUTABLE)]


def validate_deployment(deployment: Manifest) -> list[FieldError]:
    spec = deployment["spec"]
    errors = negatives(spec, ("replicas",), "spec")
    errors += _selected_template_errors(spec)
    errors += deployment_strategy_errors(spec.get("strategy", {}), "spec.strategy")
    errors += negatives(spec, ("minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"), "spec")
    deadline_seconds = spec.get("progressDeadlineSeconds")
    if deadline_seconds is not None and deadline_seconds <= spec.get("minReadySeconds", 0):
        why = "must be greater than minReadySeconds"
        errors.append(invalid("spec.progressDeadlineSeconds", deadline_seconds, why))
    return errors


def prepare_deployment_status(new: Manifest, old: Manifest) -> None:
    """Labels stay what they were; of these kinds only Deployment has that."""
    new["metadata"].pop("labels", None)
    if "labels" in old["metadata"]:
        new["metadata"]["labels"] = old["metadata"]["labels"]


def validate_deployment_update(new: Manifest, old: Manifest) -> list[FieldError]:
    return validate_deployment(new) + _immutable_selector(new, old)


def validate_replica_set(replica_set: Manifest) -> list[FieldError]:
    spec = replica_set["spec"]
    return negatives(spec, ("replicas", "minReadySeconds"), "spec") + _selected_template_errors(spec)


def validate_replica_set_update(new: Manifest, old: Manifest) -> list[FieldError]:
    return validate_replica_set(new) + _immutable_selector(new, old)


def validate_daemon_set(daemon_set: Manifest) -> list[FieldError]:
    spec = daemon_set["spec"]
    selector = spec.get("selector")
    errors = validate_label_selector(selector, "spec.selector")
    if not errors:
        errors += _mismatch_errors(spec)
    if selector is not None and not selector.get("matchLabels") and not selector.get("matchExpressions"):
        errors.append(invalid("spec.selector", {}, "empty selector is invalid for daemonset"))
    errors += validate_pod_template(spec["template"], "spec.template")
    errors += _restart_errors(spec, "DaemonSet")
    errors += negatives(spec, ("minReadySeconds",), "spec")
    errors += daemon_set_strategy_errors(spec.get("updateStrategy", {}), "spec.updateStrategy")
    return errors + negatives(spec, ("revisionHistoryLimit",), "spec")


def validate_daemon_set_update(new: Manifest, old: Manifest) -> list[FieldError]:
    return _immutable_selector(new, old) + validate_daemon_set(new)


def validate_stateful_set(stateful_set: Manifest) -> list[FieldError]:
    return _stateful_errors(stateful_set["spec"], is_new=True)


def validate_stateful_set_update(new: Manifest, old: Manifest) -> list[FieldError]:
    spec, old_spec = new["spec"], old["spec"]
    errors = _stateful_errors(spec, is_new=False)
    if spec != old_spec and any(
        spec.get(field) != old_spec.get(field)
        for field in spec.keys() | old_spec.keys()
        if field not in _MUTABLE_STATEFUL_FIELDS
    ):
        errors.append(forbidden("spec", _STATEFUL_FORBIDDEN))
    return errors


def _stateful_errors(spec: Manifest, *, is_new: bool) -> list[FieldError]:
    errors = []
    management = spec.get("podManagementPolicy", "")
    if management not in ("OrderedReady", "Parallel"):
        why = "must be 'OrderedReady' or 'Parallel'"
        errors.append(invalid("spec.podManagementPolicy", management, why))
    errors += stateful_set_strategy_errors(spec.get("updateStrategy", {}), "spec.updateStrategy")
    retention = spec.get("persistentVolumeClaimRetentionPolicy", {})
    errors += [
        not_supported(f"spec.persistentVolumeClaimRetentionPolicy.{event}", retention[event], ("Retain", "Delete"))
        for event in ("whenDeleted", "whenScaled")
        if retention.get(event, "Retain") not in ("Retain", "Delete")
    ]
    if is_new:
        for index, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
            check_claim_spec(claim.get("spec", {}), f"spec.volumeClaimTemplates[{index}].spec", errors)
    errors += negatives(spec, ("replicas", "minReadySeconds"), "spec")
    if "ordinals" in spec:
        errors += negatives(spec["ordinals"], ("start",), "spec.ordinals")
    service = spec.get("serviceName", "")
    if is_new and service:
        errors += [invalid("spec.serviceName", service, text) for text in dns1123_label(service)]
    selector_errors, usable = _selector_errors(spec, "statefulset", "")
    errors += selector_errors
    if usable:
        errors += _mismatch_errors(spec)
        errors += _stateful_template_errors(spec)
    return errors + _restart_errors(spec, "StatefulSet")


def _stateful_template_errors(spec: Manifest) -> list[FieldError]:
    """The template as the controller will use it: with the claims as volumes, without names of its own."""
    template = spec["template"]
    pod_spec, metadata = template.get("spec", {}), template.get("metadata", {})
    claims = {claim.get("metadata", {}).get("name", "") for claim in spec.get("volumeClaimTemplates") or ()}
    if claims or "hostname" in pod_spec or "subdomain" in pod_spec:
        pod_spec = {field: value for field, value in pod_spec.items() if field not in ("hostname", "subdomain")}
        volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in sorted(claims)]
        volumes += [volume for volume in pod_spec.get("volumes") or () if volume.get("name") not in claims]
        pod_spec["volumes"] = volumes
        template = {**template, "spec": pod_spec}
    errors = validate_pod_template(template, "spec.template")
    errors += validate_labels(metadata.get("labels") or {}, "spec.template.labels")
    return errors + validate_annotations(metadata.get("annotations") or {}, "spec.template.annotations")


def validate_controller_revision(revision: Manifest) -> list[FieldError]:
    errors = _revision_errors(revision)
    data = revision.get("data")
    if data is None:
        errors.append(required("data", "data is mandatory"))
    elif not isinstance(data, dict):
        errors.append(required("data", "data must be a valid JSON object"))
    return errors


def validate_controller_revision_update(new: Manifest, old: Manifest) -> list[FieldError]:
    errors = _revision_errors(new)
    if new.get("data") != old.get("data"):
        errors.append(invalid("data", new.get("data"), IMMUTABLE))
    return errors


def _revision_errors(revision: Manifest) -> list[FieldError]:
    number = revision.get("revision", 0)
    return [invalid("revision", number, "must be greater than or equal to 0")] if number < 0 else []


RULES: Final = {
    "Deployment": Rules(
        default=default_deployment,
        validate_create=validate_deployment,
        validate_update=validate_deployment_update,
        prepare_status=prepare_deployment_status,
        validate_status=validate_deployment_status,
    ),
    "ReplicaSet": Rules(
        default=default_replica_set,
        validate_create=validate_replica_set,
        validate_update=validate_replica_set_update,
        validate_status=validate_replica_set_status,
    ),
    "StatefulSet": Rules(
        default=default_stateful_set,
        prepare_create=prepare_stateful_set,
        validate_create=validate_stateful_set,
        prepare_update=prepare_stateful_set_update,
        validate_update=validate_stateful_set_update,
        validate_status=validate_stateful_set_status,
    ),
    "DaemonSet": Rules(
        default=default_daemon_set,
        prepare_create=prepare_daemon_set,
        validate_create=validate_daemon_set,
        prepare_update=prepare_daemon_set_update,
        validate_update=validate_daemon_set_update,
        validate_status=validate_daemon_set_status,
    ),
    "ControllerRevision": Rules(
        validate_create=validate_controller_revision,
        validate_update=validate_controller_revision_update,
    ),
}
