"""Rules of Job: defaults, the selector and labels the server gives it, and what may change when.

Its two policies are in `job_policies` and its status in `job_status`; the spec is also the template of a CronJob.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from allhands.api.builtin.fieldchecks import (
    IMMUTABLE,
    immutable,
    negatives,
    selector_matches,
    shown_selector,
    sorted_labels,
)
from allhands.api.builtin.job_policies import (
    default_pod_failure_policy,
    pod_failure_policy_errors,
    success_policy_errors,
)
from allhands.api.builtin.job_status import has_condition
from allhands.api.builtin.podspec import default_pod_template, validate_pod_template
from allhands.api.errors import FieldError, invalid, not_supported, required, too_long
from allhands.api.names import dns1123_label, dns1123_subdomain, regex_text
from allhands.api.selectors import validate_label_selector

if TYPE_CHECKING:
    from allhands.api.document import Json, Manifest

UID_LABEL: Final = "batch.kubernetes.io/controller-uid"
NAME_LABEL: Final = "batch.kubernetes.io/job-name"
LEGACY_UID_LABEL: Final = "controller-uid"
LEGACY_NAME_LABEL: Final = "job-name"

_INT32_MAX: Final = 2**31 - 1
_MAX_INDEXED_PARALLELISM: Final = 100_000
_MAX_FAILED_INDEXES: Final = 100_000
_MANY_COMPLETIONS: Final = 100_000
_MAX_PARALLELISM_OF_MANY: Final = 10_000
_MAX_FAILED_INDEXES_OF_MANY: Final = 10_000
_MAX_MANAGED_BY_BYTES: Final = 63
_HTTP_PATH: Final = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_HTTP_PATH_RE: Final = re.compile(_HTTP_PATH)
_COUNTS: Final = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
)
_SCHEDULING_DIRECTIVES: Final = frozenset({"nodeSelector", "tolerations", "schedulingGates"})


def default_job(job: Manifest) -> None:
    spec = job.setdefault("spec", {})
    if "parallelism" not in spec:
        spec["parallelism"] = 1
        spec.setdefault("completions", 1)
    if "backoffLimit" not in spec:
        spec["backoffLimit"] = _INT32_MAX if "backoffLimitPerIndex" in spec else 6
    template = spec.setdefault("template", {})
    labels = template.get("metadata", {}).get("labels")
    if labels and not job["metadata"].get("labels"):
        # The same map on purpose: what prepare_create adds to the template then shows on the Job, as on a real server.
        job["metadata"]["labels"] = labels
    if "completionMode" not in spec:
        spec["completionMode"] = "NonIndexed"
    if "suspend" not in spec:
        spec["suspend"] = False
    if "podReplacementPolicy" not in spec:
        spec["podReplacementPolicy"] = "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed"
    if "manualSelector" not in spec:
        spec["manualSelector"] = False
    if "podFailurePolicy" in spec:
        default_pod_failure_policy(spec["podFailurePolicy"])
    default_pod_template(template)


def prepare_job(job: Manifest) -> None:
    """Gives the Job the selector by its uid and the labels that make its pods recognisable."""
    spec, metadata = job["spec"], job["metadata"]
    template_metadata = spec["template"].setdefault("metadata", {})
    if not spec["manualSelector"]:
        labels = template_metadata.setdefault("labels", {})
        labels.setdefault(LEGACY_NAME_LABEL, metadata.get("name", ""))
        labels.setdefault(NAME_LABEL, metadata.get("name", ""))
        labels.setdefault(LEGACY_UID_LABEL, metadata["uid"])
        labels.setdefault(UID_LABEL, metadata["uid"])
        spec.setdefault("selector", {}).setdefault("matchLabels", {}).setdefault(UID_LABEL, metadata["uid"])
    own, templates = metadata.get("labels"), template_metadata.get("labels")
    if templates and (not own or own is templates):
        metadata["labels"] = dict(templates)


def prepare_job_update(new: Manifest, _old: Manifest) -> None:
    templates = new["spec"]["template"].get("metadata", {}).get("labels")
    if templates and new["metadata"].get("labels") is templates:
        new["metadata"]["labels"] = dict(templates)


def validate_job(job: Manifest) -> list[FieldError]:
    return _job_errors(job, prefixed_labels=True)


def _job_errors(job: Manifest, *, prefixed_labels: bool) -> list[FieldError]:
    errors = _generated_selector_errors(job, prefixed_labels)
    errors += _spec_errors(job["spec"])
    return errors + _hostname_errors(job)


def _hostname_errors(job: Manifest) -> list[FieldError]:
    spec = job["spec"]
    completions = spec.get("completions", 0)
    if spec.get("completionMode") != "Indexed" or completions <= 0:
        return []
    name = job["metadata"].get("name", "")
    hostname = f"{name}-{completions - 1}"
    if not dns1123_label(hostname):
        return []
    return [invalid("metadata.name", name, f"will not able to create pod with invalid DNS label: {hostname}")]


def _generated_selector_errors(job: Manifest, prefixed_labels: bool) -> list[FieldError]:
    spec, metadata = job["spec"], job["metadata"]
    selector = spec.get("selector")
    if spec.get("manualSelector") or selector is None:
        return []
    name, uid = metadata.get("name", ""), metadata.get("uid", "")
    labels = spec["template"].get("metadata", {}).get("labels") or {}
    wanted = {LEGACY_UID_LABEL: uid, LEGACY_NAME_LABEL: name}
    if prefixed_labels:
        wanted |= {UID_LABEL: uid, NAME_LABEL: name}
    errors = [] if uid else [required("metadata.uid")]
    for key, value in wanted.items():
        if key not in labels:
            errors.append(required(f"spec.template.metadata.labels[{key}]", f"must be '{value}'"))
        elif labels[key] != value:
            shown = sorted_labels(labels)
            errors.append(invalid(f"spec.template.metadata.labels[{key}]", shown, f"must be '{value}'"))
    if not _selects(selector, wanted):
        errors.append(invalid("spec.selector", shown_selector(selector), "`selector` not auto-generated"))
    return errors


def _selects(selector: Manifest, labels: dict[str, str]) -> bool:
    """Whether it selects the labels. A malformed selector, refused elsewhere, is given the benefit of the doubt."""
    if "matchExpressions" not in selector and selector_matches(selector, labels):
        return True
    return bool(validate_label_selector(selector, "")) or selector_matches(selector, labels)


def _spec_errors(spec: Manifest) -> list[FieldError]:
    """The spec of a Job; that of a CronJob's template has no selector and is checked by job_spec_errors alone."""
    errors = job_spec_errors(spec, "spec")
    selector = spec.get("selector")
    malformed = [required("spec.selector")] if selector is None else validate_label_selector(selector, "spec.selector")
    labels = spec["template"].get("metadata", {}).get("labels")
    if (selector is None or not malformed) and not selector_matches(selector, labels):
        why = "`selector` does not match template `labels`"
        return [*errors, *malformed, invalid("spec.template.metadata.labels", sorted_labels(labels), why)]
    return errors + malformed


def job_spec_errors(spec: Manifest, path: str) -> list[FieldError]:
    errors = negatives(spec, _COUNTS, path)
    if "maxFailedIndexes" in spec:
        errors += negatives(spec, ("maxFailedIndexes",), path)
        if "backoffLimitPerIndex" not in spec:
            errors.append(required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified"))
    if "managedBy" in spec:
        errors += _managed_by_errors(spec["managedBy"], f"{path}.managedBy")
    errors += _completion_mode_errors(spec, path)
    if "podFailurePolicy" in spec:
        errors += pod_failure_policy_errors(spec, f"{path}.podFailurePolicy")
    if "successPolicy" in spec:
        if spec.get("completionMode") != "Indexed":
            shown = _shown_success_policy(spec["successPolicy"])
            errors.append(invalid(f"{path}.successPolicy", shown, "requires indexed completion mode"))
        else:
            errors += success_policy_errors(spec, f"{path}.successPolicy")
    errors += _replacement_errors(spec, path)
    errors += validate_pod_template(spec["template"], f"{path}.template")
    return errors + _restart_policy_errors(spec, path)


def _managed_by_errors(managed_by: str, path: str) -> list[FieldError]:
    errors = []
    host, _, rest = managed_by.partition("/")
    if not managed_by:
        errors.append(required(path))
    elif not host or not rest:
        errors.append(invalid(path, managed_by, 'must be a domain-prefixed path (such as "acme.io/foo")'))
    else:
        errors += [invalid(path, host, text) for text in dns1123_subdomain(host)]
        if not _HTTP_PATH_RE.fullmatch(rest):
            errors.append(invalid(path, rest, regex_text("Invalid path", _HTTP_PATH)))
    if len(managed_by.encode()) > _MAX_MANAGED_BY_BYTES:
        errors.append(too_long(path, _MAX_MANAGED_BY_BYTES))
    return errors


def _completion_mode_errors(spec: Manifest, path: str) -> list[FieldError]:
    mode = spec.get("completionMode", "NonIndexed")
    if mode == "Indexed":
        return _indexed_errors(spec, path)
    if mode != "NonIndexed":
        return [not_supported(f"{path}.completionMode", mode, ("NonIndexed", "Indexed"))]
    return [
        invalid(f"{path}.{field}", spec[field], "requires indexed completion mode")
        for field in ("backoffLimitPerIndex", "maxFailedIndexes")
        if field in spec
    ]


def _indexed_errors(spec: Manifest, path: str) -> list[FieldError]:
    errors = []
    completions: int | None = spec.get("completions")
    parallelism: int = spec.get("parallelism", 0)
    max_failed: int | None = spec.get("maxFailedIndexes")

    def at_most(field: str, limit: int, when: str = "") -> None:
        value = spec.get(field)
        if value is not None and value > limit:
            errors.append(invalid(f"{path}.{field}", value, f"must be less than or equal to {limit}{when}"))

    if completions is None:
        errors.append(required(f"{path}.completions", "when completion mode is Indexed"))
    if parallelism > _MAX_INDEXED_PARALLELISM:
        at_most("parallelism", _MAX_INDEXED_PARALLELISM, " when completion mode is Indexed")
    if completions is not None and max_failed is not None and max_failed > completions:
        errors.append(invalid(f"{path}.maxFailedIndexes", max_failed, "must be less than or equal to completions"))
    at_most("maxFailedIndexes", _MAX_FAILED_INDEXES)
    if completions is not None and completions > _MANY_COMPLETIONS and "backoffLimitPerIndex" in spec:
        if max_failed is None:
            why = f"must be specified when completions is above {_MANY_COMPLETIONS}"
            errors.append(required(f"{path}.maxFailedIndexes", why))
        when = f" when completions are above {_MANY_COMPLETIONS} and used with backoff limit per index"
        at_most("parallelism", _MAX_PARALLELISM_OF_MANY, when)
        at_most("maxFailedIndexes", _MAX_FAILED_INDEXES_OF_MANY, when)
    return errors


def _replacement_errors(spec: Manifest, path: str) -> list[FieldError]:
    policy = spec.get("podReplacementPolicy", "Failed")
    allowed = ("Failed",) if "podFailurePolicy" in spec else ("Failed", "TerminatingOrFailed")
    return [] if policy in allowed else [not_supported(f"{path}.podReplacementPolicy", policy, allowed)]


def _restart_policy_errors(spec: Manifest, path: str) -> list[FieldError]:
    policy = spec["template"].get("spec", {}).get("restartPolicy", "")
    if policy == "Never" or (policy == "OnFailure" and "podFailurePolicy" not in spec):
        return []
    path = f"{path}.template.spec.restartPolicy"
    if policy in ("", "Always"):
        return [required(path, 'valid values: "OnFailure", "Never"')]
    if policy != "OnFailure":
        return [not_supported(path, policy, ("OnFailure", "Never"))]
    return [invalid(path, policy, 'only "Never" is supported when podFailurePolicy is specified')]


def validate_job_update(new: Manifest, old: Manifest) -> list[FieldError]:
    old_labels = old["spec"]["template"].get("metadata", {}).get("labels") or {}
    prefixed = UID_LABEL in old_labels and NAME_LABEL in old_labels
    spec, old_spec = new["spec"], old["spec"]
    # The real server checks the spec twice on an update, and its list of causes shows it.
    spec_errors = _spec_errors(spec)
    errors = _generated_selector_errors(new, prefixed) + spec_errors + _hostname_errors(new) + spec_errors
    if spec == old_spec:
        return errors
    errors += _completions_update_errors(spec, old_spec)
    if spec.get("selector") != old_spec.get("selector"):
        errors.append(invalid("spec.selector", shown_selector(spec.get("selector")), IMMUTABLE))
    errors += _template_update_errors(spec, old)
    errors += immutable(spec, old_spec, "completionMode", "spec")
    if spec.get("podFailurePolicy") != old_spec.get("podFailurePolicy"):
        shown = _shown_failure_policy(spec.get("podFailurePolicy"))
        errors.append(invalid("spec.podFailurePolicy", shown, IMMUTABLE))
    errors += immutable(spec, old_spec, "backoffLimitPerIndex", "spec")
    errors += immutable(spec, old_spec, "managedBy", "spec")
    if spec.get("successPolicy") != old_spec.get("successPolicy"):
        shown = _shown_success_policy(spec.get("successPolicy"))
        errors.append(invalid("spec.successPolicy", shown, IMMUTABLE))
    return errors


def _completions_update_errors(spec: Manifest, old_spec: Manifest) -> list[FieldError]:
    if spec.get("completionMode") != "Indexed":
        return immutable(spec, old_spec, "completions", "spec")
    completions = spec.get("completions")
    if completions in (None, old_spec.get("completions"), spec.get("parallelism")):
        return []
    return [invalid("spec.completions", completions, "can only be modified in tandem with spec.parallelism")]


def _template_update_errors(spec: Manifest, old: Manifest) -> list[FieldError]:
    template, old_template = spec["template"], old["spec"]["template"]
    if template == old_template:
        return []
    if not _template_is_mutable(old):
        return [invalid("spec.template", template, IMMUTABLE)]
    pod_spec, old_pod_spec = template.get("spec", {}), old_template.get("spec", {})
    if _without_placement(pod_spec) == _without_placement(old_pod_spec):
        return []
    return [invalid("spec.template.spec", pod_spec, IMMUTABLE)]


def _template_is_mutable(job: Manifest) -> bool:
    """A suspended Job without running pods may still be given another place, other labels and other resources."""
    status = job.get("status") or {}
    if not job["spec"].get("suspend") or status.get("active", 0) != 0:
        return False
    return not status.get("startTime") or has_condition(status, "Suspended")


def _without_placement(pod_spec: Manifest) -> Manifest:
    rest = {field: value for field, value in pod_spec.items() if field not in _SCHEDULING_DIRECTIVES}
    affinity = {kind: value for kind, value in rest.pop("affinity", {}).items() if kind != "nodeAffinity"}
    if affinity:
        rest["affinity"] = affinity
    for group in ("containers", "initContainers"):
        if group in rest:
            rest[group] = [
                {field: value for field, value in container.items() if field != "resources"}
                for container in rest[group]
            ]
    return rest


def _shown_success_policy(policy: Manifest | None) -> Json:
    """The policy with the field names that the real server shows in an error."""
    if policy is None:
        return None
    rules = policy.get("rules")
    fields = ("SucceededIndexes", "SucceededCount")
    return {"Rules": rules and [{f: rule.get(f[0].lower() + f[1:]) for f in fields} for rule in rules]}


def _shown_failure_policy(policy: Manifest | None) -> Json:
    if policy is None:
        return None
    rules = policy.get("rules")
    return {"Rules": rules and [_shown_failure_rule(rule) for rule in rules]}


def _shown_failure_rule(rule: Manifest) -> Json:
    codes, patterns = rule.get("onExitCodes"), rule.get("onPodConditions")
    return {
        "Action": rule.get("action", ""),
        "OnExitCodes": codes
        and {
            "ContainerName": codes.get("containerName"),
            "Operator": codes.get("operator", ""),
            "Values": codes.get("values"),
        },
        "OnPodConditions": patterns
        and [{"Type": pattern.get("type", ""), "Status": pattern.get("status", "")} for pattern in patterns],
    }
