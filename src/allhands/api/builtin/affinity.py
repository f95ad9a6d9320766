"""Checks of where a pod may run relative to nodes and other pods: node selectors, affinity, topology spread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allhands.api import names
from allhands.api.errors import duplicate, forbidden, invalid, not_supported, required
from allhands.api.selectors import validate_label_selector

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.api.errors import FieldError

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_UNSATISFIABLE = ("DoNotSchedule", "ScheduleAnyway")
_INCLUSION = ("Honor", "Ignore")
_WEIGHT = "must be in the range 1-100"


def check_affinity(affinity: Manifest, path: str, errors: list[FieldError]) -> None:
    if "nodeAffinity" in affinity:
        _check_node_affinity(affinity["nodeAffinity"], f"{path}.nodeAffinity", errors)
    for kind in ("podAffinity", "podAntiAffinity"):
        if kind in affinity:
            _check_pod_affinity(affinity[kind], f"{path}.{kind}", errors)


def _check_node_affinity(affinity: Manifest, path: str, errors: list[FieldError]) -> None:
    if REQUIRED in affinity:
        check_node_selector(affinity[REQUIRED], f"{path}.{REQUIRED}", errors)
    for index, term in enumerate(affinity.get(PREFERRED, ())):
        where = f"{path}.{PREFERRED}[{index}]"
        if not 1 <= term.get("weight", 0) <= 100:
            errors.append(invalid(f"{where}.weight", term.get("weight", 0), _WEIGHT))
        # Label values are not looked at in preferences: they always could be nonsense.
        _check_node_term(term.get("preference", {}), f"{where}.preference", errors, check_values=False)


def check_node_selector(selector: Manifest, path: str, errors: list[FieldError]) -> None:
    terms = selector.get("nodeSelectorTerms")
    if not terms:
        errors.append(required(f"{path}.nodeSelectorTerms", "must have at least one node selector term"))
        return
    for index, term in enumerate(terms):
        _check_node_term(term, f"{path}.nodeSelectorTerms[{index}]", errors, check_values=True)


def _check_node_term(term: Manifest, path: str, errors: list[FieldError], *, check_values: bool) -> None:
    for index, requirement in enumerate(term.get("matchExpressions", ())):
        _check_node_requirement(requirement, f"{path}.matchExpressions[{index}]", errors, check_values=check_values)
    for index, requirement in enumerate(term.get("matchFields", ())):
        _check_node_field(requirement, f"{path}.matchFields[{index}]", errors)


def _check_node_requirement(requirement: Manifest, path: str, errors: list[FieldError], *, check_values: bool) -> None:
    operator, values = requirement.get("operator", ""), requirement.get("values", ())
    if operator in ("In", "NotIn"):
        if not values:
            errors.append(required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            errors.append(forbidden(f"{path}.values", detail))
    elif operator in ("Gt", "Lt"):
        if len(values) != 1:
            detail = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            errors.append(required(f"{path}.values", detail))
    else:
        errors.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    _check_label_key(requirement.get("key", ""), f"{path}.key", errors)
    for index, value in enumerate(values if check_values else ()):
        errors += [invalid(f"{path}.values[{index}]", value, text) for text in names.label_value(value)]


def _check_node_field(requirement: Manifest, path: str, errors: list[FieldError]) -> None:
    operator, key, values = (requirement.get(name, "") for name in ("operator", "key", "values"))
    if operator in ("In", "NotIn"):
        if len(values) != 1:
            detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            errors.append(required(f"{path}.values", detail))
    else:
        errors.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    if key != "metadata.name":
        errors.append(invalid(f"{path}.key", key, "not a valid field selector key"))
        return
    for index, value in enumerate(values):
        errors += [invalid(f"{path}.values[{index}]", value, text) for text in names.dns1123_subdomain(value)]


def _check_label_key(key: str, path: str, errors: list[FieldError]) -> None:
    if not names.is_qualified_name(key):
        errors += [invalid(path, key, text) for text in names.qualified_name(key)]


def _check_pod_affinity(affinity: Manifest, path: str, errors: list[FieldError]) -> None:
    for index, term in enumerate(affinity.get(REQUIRED, ())):
        _check_pod_term(term, f"{path}.{REQUIRED}[{index}]", errors)
    for index, weighted in enumerate(affinity.get(PREFERRED, ())):
        where = f"{path}.{PREFERRED}[{index}]"
        if not 1 <= weighted.get("weight", 0) <= 100:
            errors.append(invalid(f"{where}.weight", weighted.get("weight", 0), _WEIGHT))
        _check_pod_term(weighted.get("podAffinityTerm", {}), f"{where}.podAffinityTerm", errors)


def _check_pod_term(term: Manifest, path: str, errors: list[FieldError]) -> None:
    for name in ("labelSelector", "namespaceSelector"):
        if name in term:
            errors += validate_label_selector(term[name], f"{path}.{name}")
    for namespace in term.get("namespaces", ()):
        errors += [invalid(f"{path}.namespace", namespace, text) for text in names.dns1123_label(namespace)]
    _check_label_keys(term, path, errors)
    key = term.get("topologyKey", "")
    if not key:
        errors.append(required(f"{path}.topologyKey", "can not be empty"))
    _check_label_key(key, f"{path}.topologyKey", errors)


def _check_label_keys(term: Manifest, path: str, errors: list[FieldError]) -> None:
    """`matchLabelKeys` and `mismatchLabelKeys`, whose values the server has already merged into the selector."""
    match, mismatch = term.get("matchLabelKeys", ()), term.get("mismatchLabelKeys", ())
    selector = term.get("labelSelector")
    if not match and not mismatch:
        return
    for name, keys in (("matchLabelKeys", match), ("mismatchLabelKeys", mismatch)):
        if keys and selector is None:
            errors.append(forbidden(f"{path}.{name}", "must not be specified when labelSelector is not set"))
            continue
        for index, key in enumerate(keys):
            _check_label_key(key, f"{path}.{name}[{index}]", errors)
    if selector is not None:
        positions = {key: index for index, key in enumerate(match)}
        seen = set(selector.get("matchLabels", ()))
        for expression in selector.get("matchExpressions", ()):
            key = expression.get("key", "")
            if key in positions and key in seen:
                detail = "exists in both matchLabelKeys and labelSelector"
                errors.append(invalid(f"{path}[{positions[key]}]", key, detail))
            seen.add(key)
    for index, key in enumerate(match):
        if key in mismatch:
            detail = "exists in both matchLabelKeys and mismatchLabelKeys"
            errors.append(invalid(f"{path}.matchLabelKeys[{index}]", key, detail))


def check_topology_spread(constraints: list[Manifest], path: str, errors: list[FieldError]) -> None:
    last = {(each.get("topologyKey", ""), each.get("whenUnsatisfiable", "")): at for at, each in enumerate(constraints)}
    for index, constraint in enumerate(constraints):
        where = f"{path}[{index}]"
        skew, key = constraint.get("maxSkew", 0), constraint.get("topologyKey", "")
        action = constraint.get("whenUnsatisfiable", "")
        if skew <= 0:
            errors.append(invalid(f"{where}.maxSkew", skew, "must be greater than zero"))
        if not key:
            errors.append(required(f"{where}.topologyKey", "can not be empty"))
        if action not in _UNSATISFIABLE:
            errors.append(not_supported(f"{where}.whenUnsatisfiable", action, _UNSATISFIABLE))
        if last[key, action] > index:
            errors.append(duplicate(f"{where}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}"))
        _check_spread_options(constraint, action, where, errors)


def _check_spread_options(constraint: Manifest, action: str, path: str, errors: list[FieldError]) -> None:
    domains = constraint.get("minDomains")
    if domains is not None:
        if domains <= 0:
            errors.append(invalid(f"{path}.minDomains", domains, "must be greater than zero"))
        if action != "DoNotSchedule":
            detail = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
            errors.append(invalid(f"{path}.minDomains", domains, detail))
    errors += [
        not_supported(f"{path}.{name}", constraint[name], _INCLUSION)
        for name in ("nodeAffinityPolicy", "nodeTaintsPolicy")
        if constraint.get(name, "Honor") not in _INCLUSION
    ]
    _check_label_keys(constraint, path, errors)
    if "labelSelector" in constraint:
        errors += validate_label_selector(constraint["labelSelector"], f"{path}.labelSelector")
