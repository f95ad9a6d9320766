"""What the ResourceQuotas of a namespace leave for groups whose pods are not made yet.

A gang of which half the pods are refused is no use to anybody: so who asks for more than a quota leaves waits before
its first pod, and is told which quota, and how much is used. Only what a group says that it needs is looked at, and
only quotas for all pods; those for some of them (scopes) are met when pods are made, as in Volcano.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from allhands.lifecycle.quota_charges import ONE, amount_of, amount_text
from allhands.model.reason import NEVER_ALLOWED, Explanation, Reason, explain
from allhands.model.resources import CPU, EPHEMERAL_STORAGE, HUGE_PAGES_PREFIX, MEMORY, quantity_of_units

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from allhands.lifecycle.resource_quota import Quota
    from allhands.model.resources import ResourceVector

_BY_TWO_NAMES: Final = (CPU, MEMORY, EPHEMERAL_STORAGE)


class QuotaLeft(msgspec.Struct, frozen=True):
    """One quota: name in it -> billionths of a unit."""

    namespace: str
    name: str
    hard: Mapping[str, int]
    used: Mapping[str, int]


def quota_left(quota: Quota) -> QuotaLeft | None:
    """None of one that is not about all pods. What nobody has counted yet is taken for unused."""
    if quota.expressions():
        return None
    status = quota.status if isinstance(quota.status, dict) else {}
    hard, used = quota.spec.hard or status.get("hard"), status.get("used")
    return QuotaLeft(quota.metadata.namespace, quota.metadata.name, _amounts(hard), _amounts(used))


def _amounts(texts: object) -> dict[str, int]:
    if not isinstance(texts, dict):
        return {}
    return {str(name): amount_of(text) for name, text in texts.items() if isinstance(text, str | int | float)}


class Charge(msgspec.Struct, frozen=True):
    """What pods would take from quotas."""

    namespace: str
    amounts: Mapping[str, int]


def charge_of(namespace: str, asks: ResourceVector, pods: int, limits: Iterable[tuple[str, str]] = ()) -> Charge:
    """`limits`: names of a quota, such as limits.cpu, and amounts."""
    amounts = {"pods": pods * ONE, "count/pods": pods * ONE} | {name: amount_of(text) for name, text in limits}
    for name, units in asks.entries:
        if name == "pods" or units <= 0:
            continue
        nanos = quantity_of_units(name, units).nanos
        amounts[f"requests.{name}"] = nanos
        if name in _BY_TWO_NAMES or name.startswith(HUGE_PAGES_PREFIX):
            amounts[name] = nanos
    return Charge(namespace, amounts)


class NamespaceRoom:
    """`promised`: for pods that may be made and are not there yet."""

    def __init__(self, quotas: Iterable[QuotaLeft], promised: Iterable[Charge] = ()) -> None:
        self._quotas: dict[str, list[QuotaLeft]] = {}
        for quota in quotas:
            self._quotas.setdefault(quota.namespace, []).append(quota)
        self._promised: dict[str, dict[str, int]] = {}
        for it in promised:
            self.take(it)

    def why_not(self, charge: Charge) -> Explanation | None:
        """Why its pods would be refused: by the first quota that always would, else by the first that would now."""
        promised = self._promised.get(charge.namespace, {})
        found: Explanation | None = None
        for quota in sorted(self._quotas.get(charge.namespace, ()), key=lambda it: it.name):
            for name in sorted(quota.hard):
                asked, limit = charge.amounts.get(name, 0), quota.hard[name]
                used = quota.used.get(name, 0) + promised.get(name, 0)
                if asked and used + asked > limit:
                    why = explain(
                        Reason.NAMESPACE_QUOTA,
                        quota=quota.name,
                        used=amount_text(name, used),
                        limit=amount_text(name, limit),
                        resource=name,
                        request=amount_text(name, asked),
                    )
                    if asked > limit:
                        return why.with_more(NEVER_ALLOWED, never=1)
                    found = found or why
        return found

    def take(self, charge: Charge) -> None:
        if charge.namespace not in self._quotas:
            return
        sums = self._promised.setdefault(charge.namespace, {})
        for name, nanos in charge.amounts.items():
            sums[name] = sums.get(name, 0) + nanos
