"""Rules of roles and bindings (rbac.authorization.k8s.io/v1).

Who may write which of them is not looked at here: that depends on the writer and on other roles (`access.escalation`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.api.errors import FieldError, invalid, not_supported, required
from allhands.api.names import dns1123_subdomain, path_segment_name
from allhands.api.rules import Rules
from allhands.api.selectors import validate_label_selector

if TYPE_CHECKING:
    from allhands.api.document import Manifest

_GROUP: Final = "rbac.authorization.k8s.io"
_SUBJECTS: Final = ("ServiceAccount", "User", "Group")


def role_name(name: str) -> list[str]:
    """Anything that can stand in a path: `system:basic-user` too."""
    return path_segment_name(name)


def _rule_errors(rule: Manifest, path: str, *, namespaced: bool) -> list[FieldError]:
    errors = [] if rule.get("verbs") else [required(f"{path}.verbs", "verbs must contain at least one value")]
    urls = rule.get("nonResourceURLs")
    if urls:
        where = f"{path}.nonResourceURLs"
        if namespaced:
            errors.append(invalid(where, urls, "namespaced rules cannot apply to non-resource URLs"))
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            errors.append(invalid(where, urls, "rules cannot apply to both regular resources and non-resource URLs"))
        return errors
    if not rule.get("apiGroups"):
        errors.append(required(f"{path}.apiGroups", "resource rules must supply at least one api group"))
    if not rule.get("resources"):
        errors.append(required(f"{path}.resources", "resource rules must supply at least one resource"))
    return errors


def _rules_errors(role: Manifest, *, namespaced: bool) -> list[FieldError]:
    rules = enumerate(role.get("rules") or ())
    return [error for index, rule in rules for error in _rule_errors(rule, f"rules[{index}]", namespaced=namespaced)]


def validate_role(role: Manifest) -> list[FieldError]:
    return _rules_errors(role, namespaced=True)


def validate_cluster_role(role: Manifest) -> list[FieldError]:
    errors = _rules_errors(role, namespaced=False)
    gathering = role.get("aggregationRule")
    if gathering is None:
        return errors
    path = "aggregationRule.clusterRoleSelectors"
    selectors = gathering.get("clusterRoleSelectors") or []
    if not selectors:
        errors.append(required(path, "at least one clusterRoleSelector required if aggregationRule is non-nil"))
    for index, selector in enumerate(selectors):
        found = validate_label_selector(selector, f"{path}[{index}]")
        errors += [*found, invalid(f"{path}[{index}]", None, "invalid label selector.")] if found else []
    return errors


def default_binding(binding: Manifest) -> None:
    reference = binding.setdefault("roleRef", {})
    if not reference.get("apiGroup"):
        reference["apiGroup"] = _GROUP
    for subject in binding.get("subjects") or ():
        if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
            subject["apiGroup"] = _GROUP


def _subject_errors(subject: Manifest, path: str, *, namespaced: bool) -> list[FieldError]:
    kind, name, group = (subject.get(field) or "" for field in ("kind", "name", "apiGroup"))
    errors = [] if name else [required(f"{path}.name")]
    if kind == "ServiceAccount":
        errors += [invalid(f"{path}.name", name, text) for text in (dns1123_subdomain(name) if name else ())]
        if group:
            errors.append(not_supported(f"{path}.apiGroup", group, ("",)))
        if not namespaced and not subject.get("namespace"):
            errors.append(required(f"{path}.namespace"))
    elif kind in _SUBJECTS:
        if group != _GROUP:
            errors.append(not_supported(f"{path}.apiGroup", group, (_GROUP,)))
    else:
        errors.append(not_supported(f"{path}.kind", kind, _SUBJECTS))
    return errors


def _binding_errors(binding: Manifest, role_kinds: tuple[str, ...], *, namespaced: bool) -> list[FieldError]:
    reference = binding.get("roleRef") or {}
    group, kind, name = (reference.get(field) or "" for field in ("apiGroup", "kind", "name"))
    errors = [] if group == _GROUP else [not_supported("roleRef.apiGroup", group, (_GROUP,))]
    if kind not in role_kinds:
        errors.append(not_supported("roleRef.kind", kind, role_kinds))
    errors += [invalid("roleRef.name", name, text) for text in role_name(name)] if name else [required("roleRef.name")]
    for index, subject in enumerate(binding.get("subjects") or ()):
        errors += _subject_errors(subject, f"subjects[{index}]", namespaced=namespaced)
    return errors


def _role_change(new: Manifest, old: Manifest) -> list[FieldError]:
    """Whoever has another role in mind makes another binding: who was trusted to bind one was not with the other."""
    fields = {"APIGroup": "apiGroup", "Kind": "kind", "Name": "name"}
    now, before = ({name: it["roleRef"].get(field, "") for name, field in fields.items()} for it in (new, old))
    return [] if now == before else [invalid("roleRef", now, "cannot change roleRef")]


def validate_role_binding(binding: Manifest) -> list[FieldError]:
    return _binding_errors(binding, ("Role", "ClusterRole"), namespaced=True)


def validate_cluster_role_binding(binding: Manifest) -> list[FieldError]:
    return _binding_errors(binding, ("ClusterRole",), namespaced=False)


RULES: Final = {
    "Role": Rules(validate_create=validate_role, validate_update=lambda new, _old: validate_role(new)),
    "ClusterRole": Rules(
        validate_create=validate_cluster_role, validate_update=lambda new, _old: validate_cluster_role(new)
    ),
    "RoleBinding": Rules(
        default=default_binding,
        validate_create=validate_role_binding,
        validate_update=lambda new, old: validate_role_binding(new) + _role_change(new, old),
    ),
    "ClusterRoleBinding": Rules(
        default=default_binding,
        validate_create=validate_cluster_role_binding,
        validate_update=lambda new, old: validate_cluster_role_binding(new) + _role_change(new, old),
    ),
}
