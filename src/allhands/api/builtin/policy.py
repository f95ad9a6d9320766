"""Rules of PodDisruptionBudget."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.api.builtin.fieldchecks import (
    at_most_100_percent,
    int_or_percent,
    negatives,
    shown_selector,
    validate_conditions,
)
from allhands.api.errors import FieldError, invalid, not_supported
from allhands.api.rules import Rules
from allhands.api.selectors import validate_label_selector

if TYPE_CHECKING:
    from allhands.api.document import Manifest

_EVICTION_POLICIES: Final = ("AlwaysAllow", "IfHealthyBudget")
_COUNTS: Final = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")


def validate_budget(budget: Manifest) -> list[FieldError]:
    spec = budget.get("spec", {})
    errors = []
    if "minAvailable" in spec and "maxUnavailable" in spec:
        shown = {
            "MinAvailable": spec["minAvailable"],
            "Selector": shown_selector(spec.get("selector")),
            "MaxUnavailable": spec["maxUnavailable"],
            "UnhealthyPodEvictionPolicy": spec.get("unhealthyPodEvictionPolicy"),
        }
        errors.append(invalid("spec", shown, "minAvailable and maxUnavailable cannot be both set"))
    for field in ("minAvailable", "maxUnavailable"):
        if field in spec:
            errors += int_or_percent(spec[field], f"spec.{field}")
            errors += at_most_100_percent(spec[field], f"spec.{field}")
    errors += validate_label_selector(spec.get("selector"), "spec.selector")
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None and policy not in _EVICTION_POLICIES:
        errors.append(not_supported("spec.unhealthyPodEvictionPolicy", policy, _EVICTION_POLICIES))
    return errors


def validate_budget_update(new: Manifest, _old: Manifest) -> list[FieldError]:
    return validate_budget(new)


def validate_budget_status(new: Manifest, _old: Manifest) -> list[FieldError]:
    status = new.get("status") or {}
    errors = validate_conditions(status.get("conditions") or [], "status.conditions")
    return errors + negatives(status, _COUNTS, "status")


RULES: Final = {
    "PodDisruptionBudget": Rules(
        validate_create=validate_budget,
        validate_update=validate_budget_update,
        validate_status=validate_budget_status,
    ),
}
