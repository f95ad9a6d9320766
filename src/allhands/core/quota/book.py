"""The quota book: what every account uses, and whether a group may start, at every level of every tree it charges.

The rules are the table in `limits.py`. Asking, taking and giving back touch a few whole numbers each; giving back is
the exact inverse of taking, so a Statement can roll back bit for bit. The book decides about quota only: whether the
cluster has the room, and in which order groups come, is decided elsewhere. It never raises because of an account.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.core.quota.entitlement import Entitlements
from allhands.core.quota.layout import Layout
from allhands.core.quota.pools import (
    chains_overflow,
    empty_pools,
    give_back_to_chains,
    overflows,
    shift_steps,
    take_from_chains,
)
from allhands.core.quota.refusals import explain_headroom, explain_overflow
from allhands.core.quota.shares import dominant_share
from allhands.model.queue import ANY_FLAVOR

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from allhands.core.quota.bill import Bill, Demand
    from allhands.model.queue import Account, Queue
    from allhands.model.reason import Explanation
    from allhands.model.resources import ResourceVector

_MOST_LOWERED: Final = 1 << 14


class QuotaBook:
    """Build it, get bills from it, and charge them. `copy` is cheap; copies share all but the use.

    For those who rank queues: `versions[row]` counts the changes of an account's use, `lowered` lists the rows whose
    use went down, and `epoch` changes when everything must be looked at again.
    """

    __slots__ = ("_pools", "_shares", "entitlements", "epoch", "layout", "lowered", "used", "versions")

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.used = [0] * layout.size
        self.versions = [0] * layout.stride
        self.lowered: list[tuple[int, ...]] = []
        self.epoch = 0
        self.entitlements = Entitlements(layout)
        self._pools = empty_pools(layout)
        self._shares: dict[int, tuple[int, int]] = {}

    @staticmethod
    def build(accounts: Iterable[Account | Queue], capacity: Mapping[str, ResourceVector]) -> QuotaBook:
        """`capacity` is what there is, by flavor; `*` is the whole cluster, and by default the sum of the others."""
        return QuotaBook(Layout(accounts, capacity))

    def copy(self) -> QuotaBook:
        """Another book with the same use; the two part ways from here."""
        twin = QuotaBook.__new__(QuotaBook)
        twin.layout = self.layout
        twin.used = self.used.copy()
        twin.versions = self.versions.copy()
        twin.lowered = []
        twin.epoch = self.epoch
        twin.entitlements = self.entitlements
        twin._pools = self._pools.copy()
        twin._shares = self._shares.copy()
        return twin

    @property
    def set_aside(self) -> Mapping[str, Explanation]:
        """Accounts that cannot be used, each with the reason; nothing of theirs starts."""
        return self.layout.set_aside

    @property
    def warnings(self) -> Mapping[str, tuple[Explanation, ...]]:
        """What was read differently from how it is written, by account."""
        return self.layout.warnings

    def bill(self, accounts: tuple[str, ...], demand: Demand) -> Bill:
        """What a group that charges these accounts would charge. Equal questions get the same bill."""
        return self.layout.bill(accounts, demand)

    def refusal(self, bill: Bill) -> Explanation | None:
        """Why a group must not start now, or None if its accounts allow it at every level."""
        if bill.refused is not None:
            return bill.refused
        used = self.used
        if bill.size > len(used):
            self._grow(bill.size)
        for cell, headroom in bill.headrooms:
            if used[cell] > headroom:
                return explain_headroom(self, bill, cell)
        if bill.chains:
            return self._overflow(bill) if chains_overflow(self._pools, bill.chains) else None
        return self._overflow(bill) if bill.steps else None

    def _overflow(self, bill: Bill) -> Explanation | None:
        for pool, ceiling, after in overflows(self._pools, bill):
            reason = explain_overflow(self, self._pools, bill, pool, ceiling, after)
            if reason is not None:
                return reason
        return None

    def take(self, bill: Bill) -> None:
        """Charges it, whether or not it is allowed: what runs is counted."""
        used = self.used
        if bill.size > len(used):
            self._grow(bill.size)
        for cell, units in bill.charges:
            used[cell] += units
        if bill.chains:
            take_from_chains(self._pools, bill.chains)
        elif bill.steps:
            shift_steps(self._pools, bill, 1)
        versions = self.versions
        for row in bill.rows:
            versions[row] += 1

    def give_back(self, bill: Bill) -> None:
        """The exact inverse of `take`."""
        used = self.used
        if bill.size > len(used):
            self._grow(bill.size)
        for cell, units in bill.charges:
            used[cell] -= units
        if bill.chains:
            give_back_to_chains(self._pools, bill.chains)
        elif bill.steps:
            shift_steps(self._pools, bill, -1)
        versions = self.versions
        for row in bill.rows:
            versions[row] += 1
        if len(self.lowered) >= _MOST_LOWERED:
            self.lowered = []
            self.epoch += 1
        self.lowered.append(bill.rows)

    def state(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """All use and all pools. Two books with one layout are in the same state exactly if these are equal."""
        self._grow(self.layout.size)
        return tuple(self.used), tuple(self._pools)

    def _grow(self, size: int) -> None:
        self.used.extend([0] * (size - len(self.used)))

    def use(self, account: str, resource: str, flavor: str = ANY_FLAVOR) -> int:
        """What the account and all below it use; "" is the whole cluster, charged to an account or not."""
        row = self.layout.cluster_row if account == "" else self.layout.row_by_name.get(account)
        dimension = self.layout.dimensions.get((flavor, resource))
        if row is None or dimension is None:
            return 0
        cell = dimension * self.layout.stride + row
        return self.used[cell] if cell < len(self.used) else 0

    def deserved(self, account: str, resource: str, flavor: str = ANY_FLAVOR) -> int | None:
        """What the account deserves, as written or by weight; None where nothing is shared out between siblings."""
        row = self.layout.row_by_name.get(account)
        dimension = self.layout.dimensions.get((flavor, resource))
        return None if row is None or dimension is None else self.entitlements.of(dimension, row)

    def entitle(self, deserved: Mapping[tuple[str, str, str], int]) -> None:
        """From here, accounts deserve these amounts, by (account, flavor, resource); see `shares.proportion`."""
        self.entitlements = self.entitlements.replaced(deserved)
        self.epoch += 1

    def share(self, account: str) -> int:
        """Its dominant share by weight, in millionths of the cluster; 0 for one that is not there."""
        row = self.layout.row_by_name.get(account)
        return 0 if row is None else self.share_of_row(row)

    def share_of_row(self, row: int) -> int:
        version = self.versions[row]
        known = self._shares.get(row)
        if known is None or known[0] != version:
            known = self._shares[row] = (version, dominant_share(self, row))
        return known[1]
