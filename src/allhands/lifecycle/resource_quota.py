"""How much of a ResourceQuota is used: sums that are kept up to date with every object that comes, changes or goes.

Only accounting: who may still create something is decided elsewhere. The sums are by namespace and kind of pod, so a
quota's numbers are read off without looking at any pod.
"""

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from allhands.api.document import Manifest
from allhands.api.kinds import Resource
from allhands.lifecycle.observed import Metadata
from allhands.lifecycle.quota_charges import Charged, Scopes, amount_of, amount_text

QUOTAS: Final = Resource("", "v1", "resourcequotas")
_ALWAYS_MEASURED: Final = frozenset(
    {
        *("pods", "cpu", "memory", "ephemeral-storage", "services", "services.loadbalancers", "services.nodeports"),
        *("persistentvolumeclaims", "configmaps", "secrets", "replicationcontrollers", "resourcequotas"),
    }
)
_MEASURED_PREFIXES: Final = ("requests.", "limits.", "hugepages-")


class ScopeExpression(msgspec.Struct, frozen=True, rename="camel"):
    scope_name: str = ""
    operator: str = ""
    values: tuple[str, ...] | None = None


class ScopeSelector(msgspec.Struct, frozen=True, rename="camel"):
    match_expressions: tuple[ScopeExpression, ...] | None = None


class QuotaSpec(msgspec.Struct, frozen=True, rename="camel"):
    hard: dict[str, str | int | float] | None = None
    scopes: tuple[str, ...] | None = None
    scope_selector: ScopeSelector | None = None


class Quota(msgspec.Struct, frozen=True):
    metadata: Metadata = Metadata()
    spec: QuotaSpec = QuotaSpec()
    status: Manifest = {}

    def expressions(self) -> tuple[ScopeExpression, ...]:
        """All conditions on pods, however they were written."""
        plain = tuple(ScopeExpression(name, "Exists") for name in self.spec.scopes or ())
        return plain + ((self.spec.scope_selector or ScopeSelector()).match_expressions or ())


class Ledger:
    """The sums of all charges."""

    def __init__(self) -> None:
        self._sums: dict[str, dict[Scopes | None, dict[str, int]]] = {}

    def change(self, old: Charged | None, new: Charged | None) -> None:
        if old is not None:
            self._add(old, -1)
        if new is not None:
            self._add(new, 1)

    def _add(self, charged: Charged, sign: int) -> None:
        sums = self._sums.setdefault(charged.namespace, {}).setdefault(charged.charge.scopes, {})
        for name, nanos in charged.charge.amounts:
            total = sums.get(name, 0) + sign * nanos
            if total:
                sums[name] = total
            else:
                sums.pop(name, None)

    def used(self, quota: Quota, names: Iterable[str]) -> dict[str, int]:
        """The sums of what the quota applies to."""
        used = dict.fromkeys(names, 0)
        expressions = quota.expressions()
        for scopes, sums in self._sums.get(quota.metadata.namespace, {}).items():
            if expressions and (scopes is None or not all(holds(it, scopes) for it in expressions)):
                continue
            for name in used:
                used[name] += sums.get(name, 0)
        return used


def holds(expression: ScopeExpression, scopes: Scopes) -> bool:
    match expression.scope_name:
        case "Terminating":
            return scopes.terminating
        case "NotTerminating":
            return not scopes.terminating
        case "BestEffort":
            return scopes.best_effort
        case "NotBestEffort":
            return not scopes.best_effort
        case "CrossNamespacePodAffinity":
            return scopes.cross_namespace
        case "PriorityClass":
            return _classholds(expression, scopes.priority_class)
    return False


def _classholds(expression: ScopeExpression, name: str) -> bool:
    match expression.operator:
        case "Exists" | "":
            return bool(name)
        case "DoesNotExist":
            return not name
        case "In":
            return bool(name) and name in (expression.values or ())
        case "NotIn":
            return name not in (expression.values or ())
    return False


def status_of(quota: Quota, ledger: Ledger, is_counted: Callable[[str], bool]) -> Manifest | None:
    """What the quota must say; None if it says so. `is_counted`: of which `count/…` names the ledger knows; of others
    nothing is said rather than something wrong."""
    hard = quota.spec.hard or {}
    names = [name for name in hard if _is_measured(name, is_counted)]
    used = ledger.used(quota, names)
    status: Manifest = {
        "hard": dict(hard),
        "used": {name: amount_text(name, nanos) for name, nanos in used.items()},
    }
    return None if _same(quota.status, status) else status


def _is_measured(name: str, is_counted: Callable[[str], bool]) -> bool:
    if name.startswith("count/"):
        return is_counted(name)
    return name in _ALWAYS_MEASURED or name.startswith(_MEASURED_PREFIXES) or ".storageclass.storage.k8s.io/" in name


def _same(told: Manifest, status: Manifest) -> bool:
    """Equal amounts are equal however they are written."""
    for field in ("hard", "used"):
        before, after = told.get(field) or {}, status[field]
        if before.keys() != after.keys():
            return False
        if any(amount_of(before[name]) != amount_of(after[name]) for name in after):
            return False
    return True
