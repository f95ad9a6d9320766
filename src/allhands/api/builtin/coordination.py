"""Rules of Lease. Coordinated leader election is off by default, so its two fields are dropped unless already there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.api.errors import FieldError, forbidden, invalid, not_supported
from allhands.api.names import qualified_name
from allhands.api.rules import Rules

if TYPE_CHECKING:
    from allhands.api.document import Manifest

_COORDINATED_FIELDS: Final = ("strategy", "preferredHolder")
_STRATEGIES: Final = ("OldestEmulationVersion",)


def prepare_lease(lease: Manifest) -> None:
    spec = lease.get("spec", {})
    for field in _COORDINATED_FIELDS:
        spec.pop(field, None)


def prepare_lease_update(new: Manifest, old: Manifest) -> None:
    spec, old_spec = new.get("spec", {}), old.get("spec", {})
    for field in _COORDINATED_FIELDS:
        if field in spec and field not in old_spec:
            del spec[field]


def validate_lease(lease: Manifest) -> list[FieldError]:
    spec = lease.get("spec", {})
    errors = []
    duration_seconds = spec.get("leaseDurationSeconds")
    if duration_seconds is not None and duration_seconds <= 0:
        errors.append(invalid("spec.leaseDurationSeconds", duration_seconds, "must be greater than 0"))
    transitions = spec.get("leaseTransitions", 0)
    if transitions < 0:
        errors.append(invalid("spec.leaseTransitions", transitions, "must be greater than or equal to 0"))
    strategy = spec.get("strategy")
    if strategy is not None:
        # The doubled name is what the real server writes.
        path = "spec.strategy.strategy"
        if "/" in strategy:
            errors += [invalid(path, strategy, text) for text in qualified_name(strategy)]
        elif strategy not in _STRATEGIES:
            errors.append(not_supported(path, strategy, _STRATEGIES))
    if spec.get("preferredHolder") and not strategy:
        errors.append(forbidden("spec.preferredHolder", "may only be specified if `strategy` is defined"))
    return errors


def validate_lease_update(new: Manifest, _old: Manifest) -> list[FieldError]:
    return validate_lease(new)


RULES: Final = {
    "Lease": Rules(
        prepare_create=prepare_lease,
        validate_create=validate_lease,
        prepare_update=prepare_lease_update,
        validate_update=validate_lease_update,
    ),
}
