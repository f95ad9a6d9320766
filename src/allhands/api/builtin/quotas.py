"""Rules of ResourceQuota and LimitRange: what a namespace may use, and what one pod, container or claim in it may."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allhands.api import names
from allhands.api.builtin.gostructs import go_struct
from allhands.api.builtin.requirements import check_container_resource_name, check_resource_name
from allhands.api.builtin.resource_lists import check_amount, is_overcommit_allowed, nanos, round_to_milli
from allhands.api.errors import duplicate, forbidden, invalid, required
from allhands.api.rules import Rules
from allhands.model.quantity import Quantity

if TYPE_CHECKING:
    from msgspec import Struct

    from allhands.api.document import Manifest
    from allhands.api.errors import FieldError

_COMPUTE = frozenset({"cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"})
_QUOTA_RESOURCES = _COMPUTE | {
    "ephemeral-storage",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "persistentvolumeclaims",
    "configmaps",
    "services.nodeports",
    "services.loadbalancers",
}
_HUGE_PAGES = ("hugepages-", "requests.hugepages-")
_POD_SCOPE = _COMPUTE | {"pods"}
_SCOPES: dict[str, frozenset[str]] = {
    "Terminating": _POD_SCOPE,
    "NotTerminating": _POD_SCOPE,
    "BestEffort": frozenset({"pods"}),
    "NotBestEffort": _POD_SCOPE,
    "PriorityClass": _POD_SCOPE,
    "CrossNamespacePodAffinity": _POD_SCOPE,
    "VolumeAttributesClass": frozenset({"persistentvolumeclaims", "requests.storage"}),
}
_ONLY_EXISTS = ("BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity")
_OPPOSITES = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_LIMIT_TYPES = ("Pod", "Container", "PersistentVolumeClaim")


def _default_quota(quota: Manifest) -> None:
    round_to_milli(quota.get("spec", {}).get("hard"))
    round_to_milli(quota.get("status", {}).get("hard"))
    round_to_milli(quota.get("status", {}).get("used"))


def _is_quota_resource(name: str) -> bool:
    return name in _QUOTA_RESOURCES or name.startswith(_HUGE_PAGES)


def _check_hard(amounts: dict[str, str], path: str, errors: list[FieldError]) -> None:
    for name, text in amounts.items():
        where = f"{path}[{name}]"
        check_resource_name(name, where, errors)
        if "/" not in name and not _is_quota_resource(name):
            errors.append(invalid(where, name, "must be a standard resource for quota"))
        check_amount(name, text, where, errors)


def _validate_quota(quota: Manifest) -> list[FieldError]:
    errors: list[FieldError] = []
    spec = quota.get("spec", {})
    hard = spec.get("hard", {})
    _check_hard(hard, "spec.hard", errors)
    counted = sorted(name for name in hard if _is_quota_resource(name))
    scopes = spec.get("scopes", [])
    for scope in scopes:
        if scope not in _SCOPES:
            errors.append(invalid("spec.scopes", scopes, "unsupported scope"))
        wrong = _out_of_scope(scope, counted)
        errors += [invalid("spec.scopes", scopes, "unsupported scope applied to resource") for _ in wrong]
    errors += [invalid("spec.scopes", scopes, "conflicting scopes") for pair in _OPPOSITES if pair <= set(scopes)]
    if "scopeSelector" in spec:
        _check_scope_selector(spec["scopeSelector"], scopes, counted, errors)
    return errors


def _out_of_scope(scope: str, resources: list[str]) -> list[str]:
    allowed = _SCOPES.get(scope)
    return [] if allowed is None else [name for name in resources if name not in allowed]


def _check_scope_selector(selector: Manifest, scopes: list[str], counted: list[str], errors: list[FieldError]) -> None:
    path = "spec.scopeSelector.matchExpressions"
    expressions = selector.get("matchExpressions", [])
    for expression in expressions:
        scope, operator = expression.get("scopeName", ""), expression.get("operator", "")
        values = expression.get("values", [])
        if scope not in _SCOPES:
            errors.append(invalid(f"{path}.scopeName", scope, "unsupported scope"))
        shown = _shown_selector(expressions)
        detail = "unsupported scope applied to resource"
        errors += [invalid(path, shown, detail) for _ in _out_of_scope(scope, counted)]
        if scope in _ONLY_EXISTS and operator != "Exists":
            detail = (
                "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, "
                "ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort "
                "or ResourceQuotaScopeCrossNamespacePodAffinity"
            )
            errors.append(invalid(f"{path}.operator", operator, detail))
        if operator in ("In", "NotIn"):
            if not values:
                detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
                errors.append(required(f"{path}.values", detail))
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
                errors.append(invalid(f"{path}.values", values, detail))
        else:
            errors.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    used = {expression.get("scopeName", "") for expression in expressions}
    errors += [invalid(path, scopes or None, "conflicting scopes") for pair in _OPPOSITES if pair <= used]


def _shown_selector(expressions: list[Manifest]) -> Struct:
    """The selector as the server's internal type prints it."""
    shown = [
        go_struct(ScopeName=each.get("scopeName", ""), Operator=each.get("operator", ""), Values=each.get("values"))
        for each in expressions
    ]
    return go_struct(MatchExpressions=shown)


def _validate_quota_update(new: Manifest, old: Manifest) -> list[FieldError]:
    errors = _validate_quota(new)
    scopes, before = (quota.get("spec", {}).get("scopes", []) for quota in (new, old))
    if set(scopes) != set(before):
        errors.append(invalid("spec.scopes", scopes or None, "field is immutable"))
    return errors


def _validate_quota_status(new: Manifest, _old: Manifest) -> list[FieldError]:
    errors: list[FieldError] = []
    for field in ("hard", "used"):
        _check_hard(new.get("status", {}).get(field, {}), f"status.{field}", errors)
    return errors


def _default_limits(limit_range: Manifest) -> None:
    for item in limit_range.get("spec", {}).get("limits", ()):
        if item.get("type") == "Container":
            limits = {**item.get("max", {}), **item.get("default", {})}
            requests = {**item.get("min", {}), **limits, **item.get("defaultRequest", {})}
            if limits:
                item["default"] = limits
            if requests:
                item["defaultRequest"] = requests
        for field in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio"):
            round_to_milli(item.get(field))


def _validate_limits(limit_range: Manifest) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, item in enumerate(limit_range.get("spec", {}).get("limits", ())):
        path, kind = f"spec.limits[{index}]", item.get("type", "")
        texts = names.qualified_name(kind)
        errors += [invalid(f"{path}.type", kind, text) for text in texts]
        if not texts and "/" not in kind and kind not in _LIMIT_TYPES:
            errors.append(invalid(f"{path}.type", kind, "must be a standard limit type or fully qualified"))
        if kind in seen:
            errors.append(duplicate(f"{path}.type", kind))
        seen.add(kind)
        _check_limit_names(item, kind, path, errors)
        for name in _names_in(item, kind):
            _check_limit_amounts(item, name, path, errors)
    return errors


def _fields_of(kind: str) -> tuple[str, ...]:
    return ("max", "min") if kind == "Pod" else ("max", "min", "default", "defaultRequest")


def _names_in(item: Manifest, kind: str) -> list[str]:
    fields = (*_fields_of(kind), "maxLimitRequestRatio")
    return sorted({name for field in fields for name in item.get(field, ())})


def _check_limit_names(item: Manifest, kind: str, path: str, errors: list[FieldError]) -> None:
    check_name = check_container_resource_name if kind in ("Pod", "Container") else check_resource_name
    for field in _fields_of(kind):
        for name in item.get(field, ()):
            check_name(name, f"{path}.{field}[{name}]", errors)
    if kind == "Pod":
        errors += [
            forbidden(f"{path}.{field}", "may not be specified when `type` is 'Pod'")
            for field in ("default", "defaultRequest")
            if item.get(field)
        ]
    if kind == "PersistentVolumeClaim" and not any("storage" in item.get(field, ()) for field in ("min", "max")):
        detail = "either minimum or maximum storage value is required, but neither was provided"
        errors.append(required(f"{path}.limits", detail))
    for name in item.get("maxLimitRequestRatio", ()):
        check_name(name, f"{path}.maxLimitRequestRatio[{name}]", errors)


_ORDERS = (
    ("min", "max", "min", "min", "min value {0} is greater than max value {1}"),
    (
        "min",
        "defaultRequest",
        "defaultRequest",
        "defaultRequest",
        "min value {0} is greater than default request value {1}",
    ),
    (
        "defaultRequest",
        "max",
        "defaultRequest",
        "defaultRequest",
        "default request value {0} is greater than max value {1}",
    ),
    (
        "defaultRequest",
        "default",
        "defaultRequest",
        "defaultRequest",
        "default request value {0} is greater than default limit value {1}",
    ),
    ("min", "default", "default", "min", "min value {0} is greater than default value {1}"),
    ("default", "max", "default", "max", "default value {0} is greater than max value {1}"),
)
"""(smaller, larger, field in the path, field whose value is shown, text), in the order of the checks."""


def _check_limit_amounts(item: Manifest, name: str, path: str, errors: list[FieldError]) -> None:
    fields = _fields_of(item.get("type", ""))
    amounts = {field: item[field][name] for field in fields if name in item.get(field, ())}
    for smaller, larger, place, shown, text in _ORDERS:
        if smaller in amounts and larger in amounts and nanos(amounts[smaller]) > nanos(amounts[larger]):
            detail = text.format(amounts[smaller], amounts[larger])
            errors.append(invalid(f"{path}.{place}[{name}]", amounts[shown], detail))
    _check_ratio(
        item.get("maxLimitRequestRatio", {}).get(name), amounts, f"{path}.maxLimitRequestRatio[{name}]", errors
    )
    default, request = amounts.get("default"), amounts.get("defaultRequest")
    if default is None or request is None or is_overcommit_allowed(name):
        return
    if nanos(default) != nanos(request):
        detail = f"default value {default} must equal to defaultRequest value {request} in {name}"
        errors.append(invalid(f"{path}.defaultRequest[{name}]", request, detail))


def _check_ratio(ratio: str | None, amounts: dict[str, str], path: str, errors: list[FieldError]) -> None:
    if ratio is None:
        return
    if nanos(ratio) < nanos("1"):
        errors.append(invalid(path, ratio, f"ratio {ratio} is less than 1"))
    if "min" not in amounts or "max" not in amounts or not nanos(amounts["min"]):
        return
    most, least = (Quantity.parse(amounts[field]).milli_value() for field in ("max", "min"))
    largest = most / least
    if Quantity.parse(ratio).milli_value() / 1000 > largest:
        errors.append(invalid(path, ratio, f"ratio {ratio} is greater than max/min = {largest:f}"))


RULES: dict[str, Rules] = {
    "ResourceQuota": Rules(
        default=_default_quota,
        validate_create=_validate_quota,
        validate_update=_validate_quota_update,
        validate_status=_validate_quota_status,
    ),
    "LimitRange": Rules(
        default=_default_limits,
        validate_create=_validate_limits,
        validate_update=lambda new, _old: _validate_limits(new),
    ),
}
