"""Who has how much at the start of a cycle, from the API alone: everything that is bound or leaving is charged.

Between cycles the charged books are kept, and only groups that changed are charged anew. A cycle works on copies. Users
and namespaces are counted only where some queue has a limit on them or shares by them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from allhands.core.quota.book import QuotaBook
from allhands.core.quota.shares import MILLION
from allhands.core.quota.tenants import Tenants
from allhands.core.quota.usage import UsageKey, UsageLedger, fold_all, forget, past_share
from allhands.model.queue import ANY_FLAVOR, Queue, QueueOrder, ShareBy
from allhands.model.resources import PODS, ResourceVector

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from allhands.core.facts import Facts
    from allhands.core.policy import Policy
    from allhands.core.quota.bill import Bill, Demand
    from allhands.core.quota.tenants import Ticket
    from allhands.core.snapshot import GroupEntry, Snapshot
    from allhands.core.work import Work
    from allhands.model.flavor import Flavor
    from allhands.model.reason import Explanation


class Charge(NamedTuple):
    """What one group takes: from its accounts, and from what its user and its namespace may have."""

    bill: Bill
    ticket: Ticket | None


class Charges:
    """The quota book together with the counts of users and namespaces, asked and charged as one."""

    def __init__(self, book: QuotaBook, tenants: Tenants | None) -> None:
        self.book = book
        self.tenants = tenants

    @staticmethod
    def build(facts: Facts, capacity: Mapping[str, ResourceVector]) -> Charges:
        book = QuotaBook.build(facts.accounts, capacity)
        return Charges(book, Tenants(book) if any(_counts_tenants(account) for account in facts.accounts) else None)

    def copy(self) -> Charges:
        return Charges(self.book.copy(), None if self.tenants is None else self.tenants.copy())

    def charge(self, entry: GroupEntry, demand: Demand, *, joins: bool = False) -> Charge:
        """`joins`: members of a group that runs already; it counts as one group all the same."""
        bill = self.book.bill(accounts_of(entry), demand)
        if self.tenants is None:
            return Charge(bill, None)
        group = entry.group
        ticket = self.tenants.ticket(group.queue, group.identity.user, group.namespace, demand, 0 if joins else 1)
        return Charge(bill, ticket)

    def refusal(self, charge: Charge) -> Explanation | None:
        """Why the group must not start now. Who names no queue is bound by none."""
        if not charge.bill.names:
            return None
        why = self.book.refusal(charge.bill)
        if why is None and charge.ticket is not None and self.tenants is not None:
            return self.tenants.refusal(charge.ticket)
        return why

    def take(self, charge: Charge) -> None:
        self.book.take(charge.bill)
        if charge.ticket is not None and self.tenants is not None:
            self.tenants.take(charge.ticket)

    def give_back(self, charge: Charge) -> None:
        self.book.give_back(charge.bill)
        if charge.ticket is not None and self.tenants is not None:
            self.tenants.give_back(charge.ticket)


class KeptCharges:
    """The charges that follow the groups from cycle to cycle."""

    def __init__(self, charges: Charges, flavors: tuple[Flavor, ...]) -> None:
        self.charges = charges
        self._flavors = flavors
        self._charged: dict[str, Charge] = {}
        self.version = -1
        """Of the snapshot that was followed last."""

    def follow(self, snapshot: Snapshot, changed: Iterable[str], gone: Iterable[str] = ()) -> None:
        """Charges what changed since the last time."""
        charges, charged, current = self.charges, self._charged, snapshot.groups
        self.version = snapshot.version
        for key in gone:
            if (charge := charged.pop(key, None)) is not None:
                charges.give_back(charge)
        for key in changed:
            if (charge := charged.pop(key, None)) is not None:
                charges.give_back(charge)
            entry = current[key]
            if entry.holding:
                charge = charges.charge(entry, self._held(entry, snapshot))
                charges.take(charge)
                charged[key] = charge

    def _held(self, entry: GroupEntry, snapshot: Snapshot) -> Demand:
        if not self._flavors:
            return tuple((ANY_FLAVOR, name, units) for name, units in entry.holding)
        held: dict[tuple[str, str], int] = {}
        pods, nodes = snapshot.pods, snapshot.columns.nodes
        for row in (*entry.bound, *entry.leaving):
            labels = nodes[int(pods.node[row])].labels
            flavor = next((it.name for it in self._flavors if it.holds(labels)), ANY_FLAVOR)
            shape = pods.shapes[int(pods.shape[row])]
            for name, units in (*shape.requests.entries, (PODS, 1)):
                held[flavor, name] = held.get((flavor, name), 0) + units
        return tuple((flavor, name, units) for (flavor, name), units in sorted(held.items()))


def charges_of(work: Work) -> Charges:
    """This cycle's own, with the use of all groups; kept from the last cycle where queues and capacity are the same."""
    return keep_charges(work).charges.copy()


def keep_charges(work: Work) -> KeptCharges:
    """Brings what is kept up to date with the groups, for later cycles."""
    kept = work.memo.charges_for(work.snapshot)
    roll = work.memo.roll
    if kept is not None and kept.version in (roll.version_before, work.snapshot.version):
        kept.follow(work.snapshot, roll.changed, roll.gone)
    else:
        facts = work.snapshot.facts
        used = {quota.flavor for account in facts.accounts for quota in account.quotas} - {ANY_FLAVOR}
        flavors = tuple(flavor for flavor in facts.flavors if flavor.name in used)
        kept = KeptCharges(Charges.build(facts, _capacity(work, flavors)), flavors)
        kept.follow(work.snapshot, work.snapshot.groups)
        work.memo.keep_charges(work.snapshot, kept)
    return kept


def past_shares(facts: Facts, policy: Policy) -> dict[UsageKey, int]:
    """What each has used before, in millionths: comparable with, and added to, what it has now."""
    half_life = policy.half_life_seconds
    return {entry.key: past_share(entry.amount, MILLION, half_life) for entry in facts.past_usage.entries}


def fold_usage(snapshot: Snapshot, policy: Policy, charges: Charges, until_seconds: int) -> UsageLedger:
    """The ledger with what was in use since its last fold. For whoever keeps it, at every event that changes use."""
    book, tenants = charges.book, charges.tenants
    units = {UsageKey(name): book.share(name) for name in book.layout.row_by_name}
    if tenants is not None:
        # Many groups have few owners: each of these is asked for once.
        alike = {_owner(entry): entry for entry in snapshot.groups.values()}
        for entry in alike.values():
            for key in tenant_keys(entry):
                units[key] = tenants.share(key)
    ledger = fold_all(snapshot.facts.past_usage, units, until_seconds, policy.half_life_seconds)
    return forget(ledger, until_seconds, policy.half_life_seconds)


def _owner(entry: GroupEntry) -> tuple[str, str, str]:
    group = entry.group
    return group.queue, group.identity.user, group.namespace


def tenant_keys(entry: GroupEntry) -> tuple[UsageKey, UsageKey]:
    group = entry.group
    return (
        UsageKey(group.queue, ShareBy.USER, group.identity.user),
        UsageKey(group.queue, ShareBy.NAMESPACE, group.namespace),
    )


def accounts_of(entry: GroupEntry) -> tuple[str, ...]:
    """Whom the group charges; a pod without a queue charges nobody."""
    group = entry.group
    return group.accounts or ((group.queue,) if group.queue else ())


def _capacity(work: Work, flavors: tuple[Flavor, ...]) -> dict[str, ResourceVector]:
    capacity = {ANY_FLAVOR: work.total}
    for flavor in flavors:
        total: dict[str, int] = {}
        for node in work.snapshot.columns.nodes:
            if flavor.holds(node.labels):
                for name, units in node.allocatable.entries:
                    total[name] = total.get(name, 0) + units
        capacity[flavor.name] = ResourceVector.of(total)
    return capacity


def _counts_tenants(account: object) -> bool:
    return isinstance(account, Queue) and (
        account.order is QueueOrder.FAIR
        or account.share_by is not ShareBy.NONE
        or bool(account.per_user)
        or account.max_running_groups is not None
        or account.max_running_groups_per_user is not None
    )
