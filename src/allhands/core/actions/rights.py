"""Whom a group may have evicted, and how far: by priority within its queue, by what it is owed across queues.

Rights are used up: what was taken changes what may still be taken, of a queue above its part as of a disruption
budget. So a scenario keeps one `Rights`, takes from it unit by unit, and gives back what it does not need. It never
touches the cycle's own charges.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, NamedTuple

from allhands.core.actions.pool import SURPLUS
from allhands.core.charges import Charge, accounts_of
from allhands.core.quota.reclaim import may_take_from

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from allhands.core.actions.pool import Pool
    from allhands.core.actions.victims import VictimTable
    from allhands.core.charges import Charges
    from allhands.core.guards.disruptionbudget import Allowance
    from allhands.core.quota.bill import Bill
    from allhands.core.quota.tenants import Ticket
    from allhands.core.snapshot import GroupEntry


class Ground(enum.Enum):
    """On what ground victims are taken: in this order, each only if those before lead nowhere."""

    OWED = "owed"
    """From other queues that use more than they deserve, leaving them all that they deserve."""
    PRIORITY = "priority"
    """From groups of lower priority in its own queue."""
    OWED_AT_ANY_SIZE = "owed at any size"
    """From other queues that use more than they deserve, also where a gang is larger than what is too much."""
    BOTH = "both"
    """From its own queue until it is owed the rest by others."""


class Claim(NamedTuple):
    """A group that wants room, and what it would be charged."""

    entry: GroupEntry
    bill: Bill
    ticket: Ticket | None
    is_asked: bool
    """Whether its queues are asked; those that have begun were allowed already."""


class Rights:
    def __init__(
        self, claim: Claim, table: VictimTable, charges: Charges, allowances: Sequence[Allowance], ground: Ground
    ) -> None:
        """The charges must be one's own: without those who are leaving, before the claim is charged."""
        self.claim = claim
        self.ground = ground
        self._table = table
        self._charges = charges
        self._book = charges.book
        self._allowances = allowances
        self._accounts = accounts_of(claim.entry)
        self._queue = claim.entry.group.queue
        self._charged: dict[tuple[int, ...], Charge] = {}
        self._owing: dict[tuple[str, ...], bool] = {}

    def is_own(self, group: int) -> bool:
        return self._table.entries[group].group.queue == self._queue

    def may_take(self, pool: Pool, unit: int) -> bool:
        """Whether it may be evicted beside all that was taken."""
        group = int(pool.group[unit])
        if not all(allowance.allows(pool.pod_rows(unit)) for allowance in self._allowances):
            return False
        return self.is_own(group) or self._may_take(
            accounts_of(self._table.entries[group]), self._charge(pool, unit).bill
        )

    def may_take_all(self, pool: Pool, units: Sequence[int]) -> bool:
        """Whether all of them may be evicted, where that can be told at once; False says nothing.

        As long as nobody falls below what it deserves, the sum of what is taken from a queue decides.
        """
        if self._allowances and not all(
            allowance.allows([row for unit in units for row in pool.pod_rows(unit)]) for allowance in self._allowances
        ):
            return False
        taken: dict[tuple[str, ...], list[int]] = {}
        for unit in units:
            group = int(pool.group[unit])
            if not self.is_own(group):
                taken.setdefault(accounts_of(self._table.entries[group]), []).extend(pool.positions(unit))
        if not taken:
            return True
        # What is taken from one queue is no longer above for another below the same account.
        if len(taken) > 1 or self.ground is not Ground.OWED:
            return False
        ((accounts, positions),) = taken.items()
        summed = self._book.bill(accounts, self._table.demand(positions))
        return self._may_take(accounts, summed)

    def take(self, pool: Pool, unit: int) -> None:
        self._charges.give_back(self._charge(pool, unit))
        for allowance in self._allowances:
            allowance.take(pool.pod_rows(unit))

    def give_back(self, pool: Pool, unit: int) -> None:
        self._charges.take(self._charge(pool, unit))
        for allowance in self._allowances:
            allowance.take(pool.pod_rows(unit), -1)

    def quota_allows(self) -> bool:
        """Whether the group's queues let it start beside what is left."""
        claim = self.claim
        return not claim.is_asked or self._charges.refusal(Charge(claim.bill, claim.ticket)) is None

    def stand_without(self, pool: Pool, taken: Iterable[int]) -> bool:
        """Whether all that was taken might still be taken, one after the other: own members first."""
        if self.ground is not Ground.BOTH:
            return True
        units = list(taken)
        for unit in units:
            self.give_back(pool, unit)
        stands = True
        ordered = sorted(units, key=lambda unit: (not self.is_own(int(pool.group[unit])), unit))
        for unit in ordered:
            stands = stands and self.may_take(pool, unit)
            self.take(pool, unit)
        return stands

    def lacks(self) -> tuple[int, int] | None:
        """The cell of the book where most is lacking for the claim's limits, and how much."""
        used = self._book.used
        over = [(used[cell] - headroom, cell) for cell, headroom in self.claim.bill.headrooms if used[cell] > headroom]
        if not over:
            return None
        units, cell = max(over)
        return cell, units

    def frees(self, pool: Pool, unit: int, cell: int) -> int:
        """What evicting the unit gives back in a cell of the book."""
        return next((units for at, units in self._charge(pool, unit).bill.charges if at == cell), 0)

    def _charge(self, pool: Pool, unit: int) -> Charge:
        positions = tuple(pool.positions(unit))
        charge = self._charged.get(positions)
        if charge is None:
            # With its last members a group no longer counts as one.
            entry, joins = self._table.entries[int(pool.group[unit])], bool(pool.rank[unit] == SURPLUS)
            charge = self._charges.charge(entry, self._table.demand(positions), joins=joins)
            self._charged[positions] = charge
        return charge

    def _may_take(self, accounts: tuple[str, ...], freed: Bill) -> bool:
        return may_take_from(
            self._book,
            self._accounts,
            accounts,
            self.claim.bill,
            freed,
            may_cut_into_deserved=self.ground is not Ground.OWED,
        )

    def is_owed_something(self, group: int) -> bool:
        """Whether anything at all could be taken from the queues of this group, before anything is."""
        accounts = accounts_of(self._table.entries[group])
        found = self._owing.get(accounts)
        if found is None:
            book, bill = self._book, self.claim.bill
            one = tuple((*book.layout.dimension_names[dimension], 1) for dimension, _ in bill.amounts)
            found = may_take_from(book, self._accounts, accounts, bill, book.bill(accounts, one))
            self._owing[accounts] = found
        return found
