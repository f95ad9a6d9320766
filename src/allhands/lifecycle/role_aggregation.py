"""What becomes of a ClusterRole that gathers others: its rules are theirs, all of them and nothing else.

It gathers by labels, also roles that gather themselves; so whoever comes later finds rules in place after a few rounds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from allhands.api.kinds import Resource
from allhands.lifecycle.instructions import NOTHING_TO_DO, Outcome, Patch
from allhands.lifecycle.observed import NO_LABELS, Metadata
from allhands.lifecycle.selection import selector_of

if TYPE_CHECKING:
    from collections.abc import Iterable

CLUSTER_ROLES: Final = Resource("rbac.authorization.k8s.io", "v1", "clusterroles")


class AggregationRule(msgspec.Struct, frozen=True, rename="camel"):
    cluster_role_selectors: tuple[Any, ...] | None = None


class ClusterRole(msgspec.Struct, frozen=True, rename="camel"):
    metadata: Metadata = Metadata()
    aggregation_rule: AggregationRule | None = None
    rules: list[Any] | None = None

    @property
    def gathers(self) -> bool:
        return self.aggregation_rule is not None


def reconcile(role: ClusterRole, others: Iterable[ClusterRole]) -> Outcome:
    """Its rules, written anew if they are not those of the roles it selects, in the order of their names."""
    if role.aggregation_rule is None or role.metadata.is_going:
        return NOTHING_TO_DO
    by_name = sorted((it for it in others if it.metadata.name != role.metadata.name), key=lambda it: it.metadata.name)
    rules: list[Any] = []
    for selector in role.aggregation_rule.cluster_role_selectors or ():
        selected = selector_of(selector)
        for other in by_name:
            if selected.matches(other.metadata.labels or NO_LABELS):
                rules += [rule for rule in other.rules or () if rule not in rules]
    if rules == (role.rules or []):
        return NOTHING_TO_DO
    version = role.metadata.resource_version
    return Outcome((Patch(CLUSTER_ROLES, "", role.metadata.name, {"rules": rules}, version=version),))
