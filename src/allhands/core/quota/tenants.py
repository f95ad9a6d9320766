"""Users and namespaces inside queues: how much each has, and the limits on each and on the number of running groups.

A limit of a queue holds for everything below it too. Counters are whole numbers; giving back is the exact inverse of
taking. Past use is not here but in `usage.py`, under the same keys.

| what is said | what it means |
|---|---|
| max_running_groups n | at most n groups run in the queue and below; 0 means none; absent means no limit |
| max_running_groups_per_user n | the same, of one user |
| per_user capability n | one user's groups use at most n of the resource, in that flavor or (`*`) in all |
| a group whose user is not known | counts as one user without a name |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from allhands.core.quota.shares import MILLION
from allhands.core.quota.usage import UsageKey
from allhands.model.queue import ANY_FLAVOR, Queue, ShareBy
from allhands.model.reason import Explanation, Reason, explain
from allhands.model.resources import text_of_units

if TYPE_CHECKING:
    from allhands.core.quota.bill import Demand
    from allhands.core.quota.book import QuotaBook
    from allhands.core.quota.layout import Layout

GROUPS: Final = "running groups"

_MOST_TICKETS: Final = 1 << 16

Counter = tuple[UsageKey, str, str]
"""Whose, and what of: a flavor and a resource, or no flavor and GROUPS."""


class Ticket(NamedTuple):
    """What one group counts for, compiled: counters with units, and those with a limit once more, with the limit."""

    charges: tuple[tuple[int, int], ...]
    limited: tuple[tuple[int, int, int], ...]
    size: int


class TenantLayout:
    """The numbers of all counters, and the tickets compiled to them. Copies of `Tenants` share it."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self.counters: dict[Counter, int] = {}
        self.names: list[Counter] = []
        self.totals = [
            (resource, total) for (flavor, resource), total in sorted(layout.totals.items()) if flavor == ANY_FLAVOR
        ]
        self._tickets: dict[tuple[str, str, str, Demand, int], Ticket] = {}

    def ticket(self, queue: str, user: str, namespace: str, demand: Demand, groups: int) -> Ticket:
        key = (queue, user, namespace, demand, groups)
        found = self._tickets.get(key)
        if found is None:
            if len(self._tickets) >= _MOST_TICKETS:
                self._tickets.clear()
            charged = self._charged(queue, user, namespace, demand, groups)
            limits = self._limits(queue, user)
            numbers = [(self._number(name), name, units) for name, units in charged.items() if units > 0]
            found = self._tickets[key] = Ticket(
                tuple((number, units) for number, _, units in numbers),
                tuple((number, units, limits[name]) for number, name, units in numbers if name in limits),
                len(self.names),
            )
        return found

    def _path(self, queue: str) -> list[str]:
        row = self._layout.row_by_name.get(queue)
        return [] if row is None else [self._layout.accounts[at].name for at in self._layout.path(row)]

    def _charged(self, queue: str, user: str, namespace: str, demand: Demand, groups: int) -> dict[Counter, int]:
        charged: dict[Counter, int] = {}
        for name in self._path(queue):
            tenants = (UsageKey(name, ShareBy.USER, user), UsageKey(name, ShareBy.NAMESPACE, namespace))
            for key in (UsageKey(name), *tenants):
                charged[key, "", GROUPS] = groups
            for key in tenants:
                for flavor, resource, units in demand:
                    for over in (flavor,) if flavor == ANY_FLAVOR else (flavor, ANY_FLAVOR):
                        counter = (key, over, resource)
                        charged[counter] = charged.get(counter, 0) + max(units, 0)
        return charged

    def _limits(self, queue: str, user: str) -> dict[Counter, int]:
        limits: dict[Counter, int | None] = {}
        for name in self._path(queue):
            account = self._layout.accounts[self._layout.row_by_name[name]]
            if isinstance(account, Queue):
                of_user = UsageKey(name, ShareBy.USER, user)
                limits[UsageKey(name), "", GROUPS] = account.max_running_groups
                limits[of_user, "", GROUPS] = account.max_running_groups_per_user
                limits |= {(of_user, quota.flavor, quota.resource): quota.capability for quota in account.per_user}
        return {counter: limit for counter, limit in limits.items() if limit is not None}

    def _number(self, name: Counter) -> int:
        number = self.counters.get(name)
        if number is None:
            number = self.counters[name] = len(self.names)
            self.names.append(name)
        return number


class Tenants:
    """The counters of all queues of a book. Get a ticket for a group, ask, take, give back."""

    __slots__ = ("_counts", "_layout")

    def __init__(self, book: QuotaBook) -> None:
        self._layout = TenantLayout(book.layout)
        self._counts: list[int] = []

    def copy(self) -> Tenants:
        """Another with the same counts; the two part ways from here."""
        twin = Tenants.__new__(Tenants)
        twin._layout, twin._counts = self._layout, self._counts.copy()
        return twin

    def ticket(self, queue: str, user: str, namespace: str, demand: Demand, groups: int = 1) -> Ticket:
        """`groups` is 0 for members that join a group that runs already. Equal questions get the same ticket."""
        return self._layout.ticket(queue, user, namespace, demand, groups)

    def refusal(self, ticket: Ticket) -> Explanation | None:
        """Why the group must not start now, or None if all limits on users and groups allow it."""
        counts = self._sized(ticket.size)
        for number, units, limit in ticket.limited:
            if counts[number] + units > limit:
                return self._explain(number, units, limit)
        return None

    def take(self, ticket: Ticket) -> None:
        counts = self._sized(ticket.size)
        for number, units in ticket.charges:
            counts[number] += units

    def give_back(self, ticket: Ticket) -> None:
        """The exact inverse of `take`."""
        counts = self._sized(ticket.size)
        for number, units in ticket.charges:
            counts[number] -= units

    def running_groups(self, key: UsageKey) -> int:
        return self._count((key, "", GROUPS))

    def use(self, key: UsageKey, resource: str, flavor: str = ANY_FLAVOR) -> int:
        """What a user or a namespace uses in a queue and below it."""
        return self._count((key, flavor, resource))

    def share(self, key: UsageKey) -> int:
        """The largest part of any resource of the cluster that a user or a namespace has in a queue, in millionths.

        Of a resource that the cluster does not have, any use counts as all of it.
        """
        largest = 0
        for resource, total in self._layout.totals:
            if (units := self._count((key, ANY_FLAVOR, resource))) > 0:
                largest = max(largest, units * MILLION // total if total else MILLION)
        return largest

    def state(self) -> tuple[tuple[Counter, int], ...]:
        """All counts that are not 0."""
        counted = zip(self._layout.names, self._counts, strict=False)
        return tuple(sorted((name, count) for name, count in counted if count))

    def _sized(self, size: int) -> list[int]:
        if size > len(self._counts):
            self._counts.extend([0] * (size - len(self._counts)))
        return self._counts

    def _count(self, name: Counter) -> int:
        number = self._layout.counters.get(name)
        return 0 if number is None or number >= len(self._counts) else self._counts[number]

    def _explain(self, number: int, units: int, limit: int) -> Explanation:
        key, flavor, resource = self._layout.names[number]
        used = self._counts[number]
        if resource == GROUPS:
            if key.by is not ShareBy.USER:
                return explain(Reason.QUEUE_RUNNING_LIMIT, queue=key.queue, used=used, limit=limit)
            return explain(Reason.USER_RUNNING_LIMIT, user=key.name, queue=key.queue, used=used, limit=limit)
        return explain(
            Reason.USER_LIMIT,
            user=key.name,
            queue=key.queue,
            used=text_of_units(resource, used),
            limit=text_of_units(resource, limit),
            resource=resource,
            what=resource if flavor == ANY_FLAVOR else f'{resource} in flavor "{flavor}"',
            request=text_of_units(resource, units),
        )
