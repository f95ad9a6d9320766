"""Starts groups that fit: asks queue after queue, group after group, and places each whole or not at all.

Groups that ask for the same and cannot have it are tried once: nothing that happens in this action makes room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from allhands.core.actions.placing import place_group, start_of
from allhands.core.calendar.calendar import FROM_THE_START, Calendar
from allhands.core.charges import accounts_of
from allhands.core.explain import why_incomplete, why_no_room
from allhands.core.gang import Part, minimum
from allhands.model.queue import ANY_FLAVOR
from allhands.model.reason import Explanation, Reason, explain
from allhands.model.resources import PODS

if TYPE_CHECKING:
    from allhands.core.columns import Rows
    from allhands.core.plan import Start
    from allhands.core.quota.bill import Bill
    from allhands.core.quota.book import QuotaBook
    from allhands.core.quota.tenants import Tenants, Ticket
    from allhands.core.snapshot import GroupEntry
    from allhands.core.work import Work

Class: TypeAlias = "int | tuple[int, str, str]"


class Option(NamedTuple):
    """One way to pay: in a flavor, on the nodes that it names (None: on all)."""

    flavor: str
    rows: Rows | None
    bill: Bill
    ticket: Ticket | None = None
    """What it counts for its user and its namespace, where anybody counts that."""


class Demand(NamedTuple):
    """What a group asks for: its least part, and the ways to pay for it."""

    part: Part
    options: tuple[Option, ...]


class Refusal(NamedTuple):
    """Why a group did not start. `for_room`: nothing but room is missing, so waiting for an end of others helps.

    `option` is the way to pay that came closest, if it came to that; `part` and `kind` are what was asked for.
    """

    why: Explanation
    for_room: bool
    option: Option | None = None
    part: Part | None = None
    kind: int = -1


class Allocate:
    def __init__(
        self, work: Work, book: QuotaBook, calendar: Calendar | None = None, tenants: Tenants | None = None
    ) -> None:
        self._work = work
        self._book = book
        self._tenants = tenants
        self._calendar = Calendar(work) if calendar is None else calendar
        self._demands: dict[Class, Demand | Refusal] = {}
        self._refused: dict[Class, tuple[int, Refusal]] = {}
        """What groups of a kind were told, and after which moment the runs end that it holds for."""
        self._flavor_rows: dict[str, Rows] = {}

    def start(self, entry: GroupEntry, *, charged: bool = True) -> Start | Refusal:
        """Starts the group if it may and fits. Without `charged`, its queues are not asked, but still charged."""
        alike = self._class_of(entry)
        known = self._refused.get(alike)
        # Who may use no more room than one that did not fit does not fit either.
        if known is not None and (known[0] == FROM_THE_START or self._calendar.end_of(entry) > known[0]):
            return known[1]
        demand = self._demands.get(alike) or self.demand(entry)
        if isinstance(demand, Refusal):
            return demand
        refusal = None
        for option in demand.options:
            outcome = self._try(entry, demand.part, option, charged=charged)
            if not isinstance(outcome, Refusal):
                return outcome
            # Of several flavors, the one that lacks only room is the most telling.
            if refusal is None or (outcome.for_room and not refusal.for_room):
                refusal = outcome
        assert refusal is not None
        refusal = refusal._replace(part=demand.part, kind=self._calendar.kinds.number(entry))
        if not self._depends_on_others(entry):
            holds_after = self._calendar.last_fall_before_end(entry) if refusal.for_room else FROM_THE_START
            self._refused[alike] = (holds_after, refusal)
        return refusal

    def demand(self, entry: GroupEntry) -> Demand | Refusal:
        alike = self._class_of(entry)
        found = self._demands.get(alike)
        if found is None:
            found = self._demands[alike] = self._work_out(entry)
        return found

    def _class_of(self, entry: GroupEntry) -> Class:
        """Equal for groups that ask for the same; and, where users are counted, for the same user and namespace."""
        kind = self._calendar.kinds.number(entry)
        return kind if self._tenants is None else (kind, entry.group.identity.user, entry.group.namespace)

    def _try(self, entry: GroupEntry, part: Part, option: Option, *, charged: bool) -> Start | Refusal:
        if charged and (why := self.refusal(option)) is not None:
            return Refusal(why, for_room=False, option=option)
        work = self._calendar.work_for(entry)
        kept_away = work is not self._work and self._calendar.would_disturb(entry)
        placed = None if kept_away else place_group(work, entry, part, option.rows)
        if placed is None:
            return Refusal(self.why_no_room(work, entry, part, option), for_room=True, option=option)
        self.charge(option)
        self._calendar.started(entry, placed)
        return start_of(self._work, entry, placed, "" if option.flavor == ANY_FLAVOR else option.flavor)

    def why_no_room(self, tried: Work, entry: GroupEntry, part: Part, option: Option) -> Explanation:
        """Why something did not fit where it was tried: somebody was promised the room, or there is none."""
        work = self._work
        if tried is not work:
            mark = work.statement.mark()
            fits = place_group(work, entry, part, option.rows) is not None
            work.statement.rollback(mark)
            if fits:
                return explain(Reason.ROOM_RESERVED, owner=self._calendar.owner_of_room(entry))
        return why_no_room(work, entry, part, option.rows)

    def refusal(self, option: Option) -> Explanation | None:
        """Why its queues do not allow it, if so."""
        # Who names no queue is bound by none.
        if not option.bill.names:
            return None
        why = self._book.refusal(option.bill)
        if why is None and option.ticket is not None and self._tenants is not None:
            return self._tenants.refusal(option.ticket)
        return why

    def allows(self, option: Option) -> bool:
        return self.refusal(option) is None

    def charge(self, option: Option) -> None:
        book, bill = self._book, option.bill
        book.take(bill)
        self._work.statement.done(lambda: book.give_back(bill))
        tenants, ticket = self._tenants, option.ticket
        if tenants is not None and ticket is not None:
            tenants.take(ticket)
            self._work.statement.done(lambda: tenants.give_back(ticket))

    def _work_out(self, entry: GroupEntry) -> Demand | Refusal:
        part = minimum(entry)
        if part is None:
            return Refusal(why_incomplete(entry), for_room=False)
        return Demand(part, self.options(entry, part))

    def options(self, entry: GroupEntry, part: Part) -> tuple[Option, ...]:
        units: dict[str, int] = {}
        for take in part.all_takes():
            for name, amount in entry.pending[take.members].shape.requests.entries:
                units[name] = units.get(name, 0) + amount * take.number
            units[PODS] = units.get(PODS, 0) + take.number
        amounts = sorted(units.items())
        return tuple(self._option(entry, flavor, amounts) for flavor in self._flavors(entry.group.queue))

    def _option(self, entry: GroupEntry, flavor: str, amounts: list[tuple[str, int]]) -> Option:
        demand = tuple((flavor, name, amount) for name, amount in amounts)
        ticket = None
        if self._tenants is not None:
            group = entry.group
            # Members that join others belong to a group that is counted already.
            groups = 0 if entry.bound else 1
            ticket = self._tenants.ticket(group.queue, group.identity.user, group.namespace, demand, groups)
        return Option(flavor, self._rows_of(flavor), self._book.bill(accounts_of(entry), demand), ticket)

    def _flavors(self, queue: str) -> tuple[str, ...]:
        """In the order in which the queue names them; plain queues have the one that means all nodes."""
        account = self._work.queues.get(queue)
        named = [quota.flavor for quota in account.quotas if quota.flavor != ANY_FLAVOR] if account is not None else []
        return tuple(dict.fromkeys(named)) or (ANY_FLAVOR,)

    def _rows_of(self, flavor: str) -> Rows | None:
        if flavor == ANY_FLAVOR:
            return None
        found = self._flavor_rows.get(flavor)
        if found is None:
            known = {it.name: it for it in self._work.snapshot.facts.flavors}
            nodes = self._work.snapshot.columns.nodes
            rows = [row for row, node in enumerate(nodes) if flavor in known and known[flavor].holds(node.labels)]
            found = self._flavor_rows[flavor] = np.array(rows, dtype=np.int64)
        return found

    def _depends_on_others(self, entry: GroupEntry) -> bool:
        """Whether what is placed later could help it: pods that want to be near others."""
        return any(self._work.state(members.shape).is_dynamic for members in entry.pending)
