"""The fixed part of a quota book: rows of accounts, dimensions, their limits, and the bills compiled against them.

A dimension is a resource in a flavor; a cell is an account's place in one dimension, as an index into flat lists. The
row after the last account is the cluster itself. Dimensions that nobody has a quota for appear as bills bring them.
Copies of a book share one layout; it never holds usage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.core.quota.bill import Bill, compile_bill
from allhands.core.quota.forest import NO_PARENT, plant
from allhands.core.quota.lending import Lending
from allhands.core.quota.limits import ANY_RESOURCE, Limits
from allhands.model.queue import ANY_FLAVOR, Account, Queue, QueueState
from allhands.model.reason import Explanation, Reason, explain

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from allhands.core.quota.bill import Demand
    from allhands.model.resources import ResourceVector

_STATE_REASONS: Final = {
    QueueState.CLOSED: Reason.QUEUE_CLOSED,
    QueueState.HOLD: Reason.QUEUE_HELD,
    QueueState.DRAIN: Reason.QUEUE_DRAINING,
}

_MOST_BILLS: Final = 1 << 16
"""A book may live long, and meet ever new demands."""


class Layout:
    def __init__(self, accounts: Iterable[Account | Queue], capacity: Mapping[str, ResourceVector]) -> None:
        forest = plant(accounts)
        self.accounts = forest.accounts
        self.parents = forest.parents
        self.set_aside = forest.set_aside
        self.row_by_name = {account.name: row for row, account in enumerate(self.accounts)}
        self.cluster_row = len(self.accounts)
        self.stride = self.cluster_row + 1
        self.children: dict[int, list[int]] = {}
        self.tops: list[int] = []
        for row, parent in enumerate(self.parents):
            self.children.setdefault(parent, []).append(row)
            self.tops.append(row if parent == NO_PARENT else self.tops[parent])
        self.totals = _totals(capacity)
        self.flavors = frozenset(capacity)
        named = {(it.flavor, it.resource) for account in self.accounts for it in account.quotas}
        quotas = sorted(over for over in named if over[1] != ANY_RESOURCE)
        self.dimensions: dict[tuple[str, str], int] = {}
        self.dimension_names: list[tuple[str, str]] = []
        self.whole_cluster: list[tuple[int, int]] = []
        for over in quotas:
            self.dimension(over)
        self.limits = [self._limits_of(dimension) for dimension in quotas]
        for over in sorted(self.totals):
            if over[0] == ANY_FLAVOR:
                self.dimension(over)
        self.lending = Lending(self)
        self.warnings = self._collect_warnings()
        self._bills: dict[tuple[tuple[str, ...], Demand], Bill] = {}

    def _limits_of(self, dimension: tuple[str, str]) -> Limits:
        return Limits(self.accounts, self.parents, self.tops, dimension, self.totals.get(dimension))

    @property
    def size(self) -> int:
        """How many cells there are by now."""
        return len(self.dimension_names) * self.stride

    def dimension(self, over: tuple[str, str]) -> int:
        """The number of a dimension; one that is new comes after all others."""
        known = self.dimensions.get(over)
        if known is None:
            known = self.dimensions[over] = len(self.dimension_names)
            self.dimension_names.append(over)
            if over[0] == ANY_FLAVOR:
                self.whole_cluster.append((known * self.stride, self.totals.get(over, 0)))
        return known

    def total_of(self, dimension: int) -> int | None:
        return self.totals.get(self.dimension_names[dimension])

    def flavor_of(self, dimension: int) -> str:
        return self.dimension_names[dimension][0]

    def capability(self, dimension: int, row: int) -> int | None:
        """The cap of an account, as a quota for just this says, or one for all resources that it does not name."""
        flavor, resource = self.dimension_names[dimension]
        account = self.accounts[row]
        if flavor == ANY_FLAVOR and all(quota.resource != resource for quota in account.quotas):
            others = account.quota(ANY_RESOURCE)
            return None if others is None else others.capability
        return self.limits[dimension].capability[row] if dimension < len(self.limits) else None

    def path(self, row: int) -> list[int]:
        """The account and all above it, the top last."""
        rows = []
        while row != NO_PARENT:
            rows.append(row)
            row = self.parents[row]
        return rows

    def standing(self, names: tuple[str, ...]) -> Explanation | None:
        """Why nothing of these accounts may start, whatever it asks for."""
        if not names:
            return explain(Reason.QUEUE_NOT_FOUND, queue="")
        for name in names:
            if name in self.set_aside:
                return self.set_aside[name]
            if name not in self.row_by_name:
                return explain(Reason.QUEUE_NOT_FOUND, queue=name)
            for row in self.path(self.row_by_name[name]):
                account = self.accounts[row]
                if isinstance(account, Queue) and not account.state.starts_groups:
                    return explain(_STATE_REASONS[account.state], queue=account.name)
        return None

    def bill(self, names: tuple[str, ...], demand: Demand) -> Bill:
        key = (names, demand)
        found = self._bills.get(key)
        if found is None:
            if len(self._bills) >= _MOST_BILLS:
                self._bills.clear()
            found = self._bills[key] = compile_bill(self, names, demand)
        return found

    def _collect_warnings(self) -> dict[str, tuple[Explanation, ...]]:
        texts: dict[str, list[str]] = {}
        for limits in self.limits:
            for row, text in limits.warnings.items():
                texts.setdefault(self.accounts[row].name, []).append(text)
        if self.flavors:
            for account in self.accounts:
                unknown = sorted({it.flavor for it in account.quotas} - self.flavors - {ANY_FLAVOR})
                texts.setdefault(account.name, []).extend(
                    f'flavor "{flavor}" is not known; its quotas hold, but nothing has it' for flavor in unknown
                )
        return {
            name: tuple(explain(Reason.INVALID, problem=f'account "{name}": {text}') for text in texts[name])
            for name in sorted(texts)
            if texts[name]
        }


def _totals(capacity: Mapping[str, ResourceVector]) -> dict[tuple[str, str], int]:
    """What there is in each dimension. Without a word about the whole cluster, it is the sum of its flavors."""
    totals: dict[tuple[str, str], int] = {}
    for flavor in sorted(capacity):
        for resource, units in capacity[flavor].entries:
            totals[flavor, resource] = max(units, 0)
            if ANY_FLAVOR not in capacity:
                totals[ANY_FLAVOR, resource] = totals.get((ANY_FLAVOR, resource), 0) + max(units, 0)
    return totals
