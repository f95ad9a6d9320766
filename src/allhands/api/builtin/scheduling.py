"""Rules of PriorityClass (v1), and of the native PodGroup and Workload (scheduling.k8s.io/v1alpha2).

Topology constraints, resource claims, disruption mode and priority of a group belong to features that are off by
default: the server drops these fields from what a client sends, so nothing here looks into them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.api.builtin.fieldchecks import immutable, validate_conditions
from allhands.api.errors import FieldError, duplicate, forbidden, invalid, not_supported, required, too_many
from allhands.api.names import dns1123_label, dns1123_subdomain, path_segment_name
from allhands.api.rules import Rules

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from allhands.api.document import Manifest

HIGHEST_USER_PRIORITY: Final = 1_000_000_000
SYSTEM_PRIORITIES: Final = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}

_MAX_TEMPLATES: Final = 8
_SWITCHED_OFF: Final = ("schedulingConstraints", "resourceClaims", "disruptionMode", "priorityClassName", "priority")
_POLICIES: Final = ("basic", "gang")
_PREEMPTION_POLICIES: Final = ("PreemptLowerPriority", "Never")


def default_priority_class(priority_class: Manifest) -> None:
    priority_class.setdefault("preemptionPolicy", "PreemptLowerPriority")


def validate_priority_class(priority_class: Manifest) -> list[FieldError]:
    errors = []
    name, value = priority_class["metadata"].get("name", ""), priority_class.get("value", 0)
    if name.startswith("system-"):
        why = _unknown_system_class(name, value, priority_class.get("globalDefault", False))
        if why:
            words = "priority class names with 'system-' prefix are reserved for system use only. error: "
            errors.append(forbidden("metadata.name", words + why))
    elif value > HIGHEST_USER_PRIORITY:
        why = f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}"
        errors.append(forbidden("value", why))
    policy = priority_class.get("preemptionPolicy", "Never")
    if not policy:
        errors.append(required("preemptionPolicy"))
    elif policy not in _PREEMPTION_POLICIES:
        errors.append(not_supported("preemptionPolicy", policy, _PREEMPTION_POLICIES))
    return errors


def _unknown_system_class(name: str, value: int, is_global_default: bool) -> str:
    if name not in SYSTEM_PRIORITIES:
        return f"{name} is not a known system priority class"
    if value != SYSTEM_PRIORITIES[name]:
        return f"value of {name} PriorityClass must be {SYSTEM_PRIORITIES[name]}"
    return f"globalDefault of {name} PriorityClass must be false" if is_global_default else ""


def validate_priority_class_update(new: Manifest, old: Manifest) -> list[FieldError]:
    errors = []
    if new.get("value", 0) != old.get("value", 0):
        errors.append(forbidden("value", "may not be changed in an update."))
    return errors + immutable(new, old, "preemptionPolicy", "")


def _drop_switched_off(new: Manifest, old: Manifest) -> None:
    for field in _SWITCHED_OFF:
        if field in new and not old.get(field):
            del new[field]


def default_pod_group(pod_group: Manifest) -> None:
    pod_group.setdefault("spec", {}).setdefault("disruptionMode", "Pod")


def prepare_pod_group(pod_group: Manifest) -> None:
    """Drops what the client may not choose. The mode is then what the default makes of its absence on every read."""
    _drop_switched_off(pod_group.get("spec", {}), {})
    default_pod_group(pod_group)


def prepare_pod_group_update(new: Manifest, old: Manifest) -> None:
    _drop_switched_off(new.get("spec", {}), old.get("spec", {}))


_NOT_BY_STATUS: Final = ("labels", "annotations", "finalizers", "ownerReferences")


def prepare_pod_group_status(new: Manifest, old: Manifest) -> None:
    """Its metadata stays as it is, unlike that of most kinds."""
    for name in _NOT_BY_STATUS:
        new["metadata"].pop(name, None)
        if name in old["metadata"]:
            new["metadata"][name] = old["metadata"][name]
    if not old.get("spec", {}).get("resourceClaims"):
        (new.get("status") or {}).pop("resourceClaimStatuses", None)


def validate_pod_group(pod_group: Manifest) -> list[FieldError]:
    spec = pod_group.get("spec", {})
    errors = []
    reference = spec.get("podGroupTemplateRef")
    if reference is not None:
        errors += _template_reference_errors(reference, "spec.podGroupTemplateRef")
    return errors + _policy_errors(spec.get("schedulingPolicy", {}), "spec.schedulingPolicy")


def validate_pod_group_update(new: Manifest, old: Manifest) -> list[FieldError]:
    errors = _changed(new, old, ("podGroupTemplateRef", "schedulingPolicy"))
    if new["spec"].get("disruptionMode") != old["spec"].get("disruptionMode"):
        errors.append(forbidden("spec.disruptionMode", ""))
    return errors


def _changed(new: Manifest, old: Manifest, fields: Sequence[str]) -> list[FieldError]:
    spec, old_spec = new.get("spec", {}), old.get("spec", {})
    return [
        invalid(f"spec.{field}", None, "field is immutable")
        for field in fields
        if spec.get(field) != old_spec.get(field)
    ]


def validate_pod_group_status(new: Manifest, _old: Manifest) -> list[FieldError]:
    status = new.get("status") or {}
    errors = validate_conditions(status.get("conditions") or [], "status.conditions")
    claims = {claim.get("name", "") for claim in new.get("spec", {}).get("resourceClaims") or ()}
    for index, claim_status in enumerate(status.get("resourceClaimStatuses") or ()):
        name = claim_status.get("name", "")
        if name not in claims:
            path = f"status.resourceClaimStatuses[{index}].name"
            errors.append(invalid(path, name, "must match the name of an entry in `spec.resourceClaims`"))
    return errors


def _named(value: str, path: str, grammar: Callable[[str], list[str]]) -> list[FieldError]:
    """A name that must be there and follow a grammar."""
    return [invalid(path, value, text) for text in grammar(value)] if value else [required(path)]


def _template_reference_errors(reference: Manifest, path: str) -> list[FieldError]:
    workload = reference.get("workload")
    if workload is None:
        return [invalid(path, "", "must specify one of: `workload`")]
    errors = _named(workload.get("workloadName", ""), f"{path}.workload.workloadName", dns1123_subdomain)
    name = workload.get("podGroupTemplateName", "")
    return errors + _named(name, f"{path}.workload.podGroupTemplateName", dns1123_label)


def _policy_errors(policy: Manifest, path: str) -> list[FieldError]:
    chosen = [name for name in _POLICIES if policy.get(name) is not None]
    errors = []
    if not chosen:
        errors.append(invalid(path, "", "must specify one of: `basic`, `gang`"))
    if len(chosen) > 1:
        shown = f"{{{', '.join(chosen)}}}"
        errors.append(invalid(path, shown, "must specify exactly one of: `basic`, `gang`"))
    gang = policy.get("gang")
    if gang is not None:
        count = gang.get("minCount", 0)
        if count == 0:
            errors.append(required(f"{path}.gang.minCount"))
        elif count < 1:
            errors.append(invalid(f"{path}.gang.minCount", count, "must be greater than or equal to 1"))
    return errors


def prepare_workload(workload: Manifest) -> None:
    for template in workload.get("spec", {}).get("podGroupTemplates") or ():
        _drop_switched_off(template, {})


def prepare_workload_update(new: Manifest, old: Manifest) -> None:
    before = old.get("spec", {}).get("podGroupTemplates") or ()
    for index, template in enumerate(new.get("spec", {}).get("podGroupTemplates") or ()):
        _drop_switched_off(template, before[index] if index < len(before) else {})


def validate_workload(workload: Manifest) -> list[FieldError]:
    spec = workload.get("spec", {})
    errors = []
    controller = spec.get("controllerRef")
    if controller is not None:
        errors += _controller_errors(controller, "spec.controllerRef")
    templates: list[Manifest] = spec.get("podGroupTemplates") or []
    if amount := _template_amount_errors(templates):
        return errors + amount
    path = "spec.podGroupTemplates"
    names: set[str] = set()
    for index, template in enumerate(templates):
        if template.get("name", "") in names:
            errors.append(duplicate(f"{path}[{index}]", _shown_template(template)))
        names.add(template.get("name", ""))
    for index, template in enumerate(templates):
        errors += _named(template.get("name", ""), f"{path}[{index}].name", dns1123_label)
        errors += _policy_errors(template.get("schedulingPolicy", {}), f"{path}[{index}].schedulingPolicy")
    return errors


def _template_amount_errors(templates: list[Manifest]) -> list[FieldError]:
    if not templates:
        return [required("spec.podGroupTemplates")]
    if len(templates) > _MAX_TEMPLATES:
        return [too_many("spec.podGroupTemplates", len(templates), _MAX_TEMPLATES)]
    return []


def _shown_template(template: Manifest) -> Manifest:
    shown = {"name": template.get("name", ""), "schedulingPolicy": template.get("schedulingPolicy", {})}
    return {**shown, "schedulingConstraints": template.get("schedulingConstraints")}


def _controller_errors(controller: Manifest, path: str) -> list[FieldError]:
    group = controller.get("apiGroup", "")
    errors = [invalid(f"{path}.apiGroup", group, text) for text in dns1123_subdomain(group)] if group else []
    errors += _named(controller.get("kind", ""), f"{path}.kind", path_segment_name)
    return errors + _named(controller.get("name", ""), f"{path}.name", path_segment_name)


def validate_workload_update(new: Manifest, old: Manifest) -> list[FieldError]:
    errors = _changed(new, old, ("controllerRef", "podGroupTemplates"))
    return errors + _template_amount_errors(new["spec"].get("podGroupTemplates") or [])


RULES: Final = {
    "PriorityClass": Rules(
        default=default_priority_class,
        validate_create=validate_priority_class,
        validate_update=validate_priority_class_update,
    ),
    "PodGroup": Rules(
        default=default_pod_group,
        prepare_create=prepare_pod_group,
        validate_create=validate_pod_group,
        prepare_update=prepare_pod_group_update,
        validate_update=validate_pod_group_update,
        prepare_status=prepare_pod_group_status,
        validate_status=validate_pod_group_status,
    ),
    "Workload": Rules(
        prepare_create=prepare_workload,
        validate_create=validate_workload,
        prepare_update=prepare_workload_update,
        validate_update=validate_workload_update,
    ),
}
