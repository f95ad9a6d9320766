"""Starts groups that fit: asks queue after queue, group after group, and places each whole or not at all.

Groups that ask for the same and cannot have it are tried once: nothing that happens in this action makes room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from allhands.core.actions.placing import hold_room, place_group, start_of
from allhands.core.calendar.calendar import FROM_THE_START, Calendar
from allhands.core.charges import accounts_of
from allhands.core.explain import NO_ROOM, reason_for_no_room, why_incomplete, why_no_room
from allhands.core.gang import Part, minimum
from allhands.model.queue import ANY_FLAVOR
from allhands.model.reason import Explanation, Reason, explain
from allhands.model.resources import PODS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from allhands.core.columns import Request, Rows
    from allhands.core.plan import Start
    from allhands.core.quota.bill import Bill
    from allhands.core.quota.book import QuotaBook
    from allhands.core.quota.tenants import Tenants, Ticket
    from allhands.core.room import Room
    from allhands.core.snapshot import GroupEntry
    from allhands.core.work import Work

Class: TypeAlias = "int | tuple[int, int, str, str]"


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


class KeptDemand:
    """A demand that holds from cycle to cycle: of groups that pay in one way, on any nodes."""

    __slots__ = ("checked_at", "demand", "is_unlimited", "largest", "no_room", "whole")

    def __init__(self, demand: Demand, kind: int) -> None:
        self.demand = demand
        self.no_room = Refusal(NO_ROOM, for_room=True, option=demand.options[0], part=demand.part, kind=kind)
        """What those are told who lack nothing but room, where only the reason is asked for."""
        bill = demand.options[0].bill
        self.is_unlimited = bill.refused is None and not (bill.headrooms or bill.chains or bill.steps)
        """Whether its queues never refuse it."""
        self.largest: Request = ()
        """What some node must have, resource by resource: what the largest of its pods take."""
        self.whole: Request = ()
        """What all nodes must have together, where that is more."""
        self.checked_at = -1
        """The version of the nodes for which it is known that some node, if it were empty, would do for each shape."""


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
        self._keeps = tenants is None and self._calendar.kinds.are_kept and work.rivals is None
        self._kept: dict[int, KeptDemand] = work.memo.demands if self._keeps else {}
        self.numbers: Mapping[str, int] = work.memo.kinds.by_signature if self._keeps else {}
        """Signature -> class of groups, as far as that is known and all there is to a class."""
        self.hopeless: set[Class] = set()
        """Classes that are refused whoever asks: whatever happens in this action makes no room for them."""
        self._hopeful: tuple[int, list[int]] | None = None
        """The last answer of `hopeful`, and at which position of the room's log it was given."""
        self._explains = work.policy.explains

    def start(self, entry: GroupEntry, *, charged: bool = True) -> Start | Refusal:
        """Starts the group if it may and fits. Without `charged`, its queues are not asked, but still charged."""
        alike: Class | None = self.numbers.get(entry.signature)
        if alike is None:
            alike = self._class_of(entry)
        known = self._refused.get(alike)
        # Who may use no more room than one that did not fit does not fit either.
        if known is not None and (known[0] == FROM_THE_START or self._calendar.end_of(entry) > known[0]):
            return known[1]
        if not self._explains and (at_once := self._refused_at_once(alike, charged=charged)) is not None:
            return at_once
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

    def is_refused(self, entry: GroupEntry) -> bool:
        """Whether it would be told what one like it was told before, or can be refused without being tried."""
        alike: Class | None = self.numbers.get(entry.signature)
        if alike is None:
            alike = self._class_of(entry)
        known = self._refused.get(alike)
        if known is not None:
            return known[0] == FROM_THE_START or self._calendar.end_of(entry) > known[0]
        if self._explains:
            return False
        if self._plainly_refused(alike, charged=True) is not None:
            self.hopeless.add(alike)
            return True
        return self._is_kept_away(entry, alike)

    def _is_kept_away(self, entry: GroupEntry, alike: Class) -> bool:
        """Whether it is plain that it finds no room because of what was promised to others."""
        calendar = self._calendar
        kept = self._kept.get(alike) if isinstance(alike, int) else None
        if calendar.tiers.is_open or kept is None or not kept.is_unlimited:
            return False
        room = calendar.work_for(entry).room
        if room is self._work.room or kept.checked_at != self._work.memo.static_version:
            return False
        if not room.holds_none(kept.largest) and not room.holds_less(kept.whole):
            return False
        self._refused[alike] = (calendar.last_fall_before_end(entry), kept.no_room)
        return True

    @property
    def keeps_kinds(self) -> bool:
        """Whether classes are the kinds that a roll keeps its line by."""
        return self._keeps

    def most_seconds(self, kind: int) -> int | None:
        """Of this class, those are refused who say that they run longer; None if that is not known of any."""
        known = self._refused.get(kind)
        if known is None:
            return None
        return -1 if known[0] == FROM_THE_START else known[0] - self._work.now

    def hopeful(self) -> list[int]:
        """Of the classes in line, those of which it is not plain that all are refused. Nothing that happens in this
        action makes room, so nobody else becomes one of them."""
        work, room = self._work, self._work.room
        kinds: Iterable[int] = work.memo.roll.by_kind
        if self._hopeful is not None:
            if self._hopeful[0] == len(room.log):
                return self._hopeful[1]
            kinds = self._hopeful[1]
        known, hopeless = self._kept.get, self.hopeless
        version, most = work.memo.static_version, room.most()
        found = []
        for kind in kinds:
            if kind in hopeless:
                continue
            kept = known(kind)
            if kept is None or kept.checked_at != version or not kept.is_unlimited:
                found.append(kind)
                continue
            for column, units in kept.largest:
                if units > most[column]:
                    hopeless.add(kind)
                    break
            else:
                if kept.whole and room.holds_less(kept.whole):
                    hopeless.add(kind)
                else:
                    found.append(kind)
        self._hopeful = (len(room.log), found)
        return found

    def note_kept_away(self, kinds: Iterable[int]) -> None:
        """Of these classes, those who end after all that was promised has begun are refused where it is plain that they
        find no room beside it."""
        calendar, refused = self._calendar, self._refused
        if self._explains or calendar.tiers.is_open or calendar.windows.windows:
            return
        after = calendar.tiers.last_moment
        most, together = calendar.tiers.beside_all()
        known, version = self._kept.get, self._work.memo.static_version
        for kind in kinds:
            kept = known(kind)
            if kept is None or kind in refused or kept.checked_at != version or not kept.is_unlimited:
                continue
            if _is_more(kept.largest, most) or _is_more(kept.whole, together):
                refused[kind] = (after, kept.no_room)

    def demand(self, entry: GroupEntry) -> Demand | Refusal:
        alike = self._class_of(entry)
        found = self._demands.get(alike)
        if found is None:
            found = self._demands[alike] = self._kept_demand(entry, alike)
        return found

    def _kept_demand(self, entry: GroupEntry, alike: Class) -> Demand | Refusal:
        kept = self._kept.get(alike) if isinstance(alike, int) else None
        if kept is not None:
            return kept.demand
        found = self._work_out(entry)
        if not self._keeps or not isinstance(alike, int) or isinstance(found, Refusal):
            return found
        if len(found.options) == 1 and found.options[0].rows is None:
            self._kept[alike] = KeptDemand(found, alike)
        return found

    def _plainly_refused(self, alike: Class, *, charged: bool) -> KeptDemand | None:
        """Its demand, if no node has room for one of its pods, that is plain to see, and its queues would allow it."""
        kept = self._kept.get(alike) if isinstance(alike, int) else None
        if kept is None or kept.checked_at != self._work.memo.static_version:
            return None
        room = self._work.room
        if not room.holds_none(kept.largest) and not room.holds_less(kept.whole):
            return None
        if charged and not kept.is_unlimited and self.refusal(kept.demand.options[0]) is not None:
            return None
        return kept

    def _refused_at_once(self, alike: Class, *, charged: bool) -> Refusal | None:
        """The refusal for want of room, where only the reason is asked for and that is plain to see."""
        kept = self._plainly_refused(alike, charged=charged)
        if kept is None:
            return None
        self._refused[alike] = (FROM_THE_START, kept.no_room)
        return kept.no_room

    def _holds_none(self, room: Room, entry: GroupEntry) -> bool:
        """Whether only the reason is asked for, and that is plain to see in this room."""
        kept = self._kept.get(self._calendar.kinds.number(entry)) if not self._explains else None
        if kept is None or kept.checked_at != self._work.memo.static_version:
            return False
        return room.holds_none(kept.largest) or room.holds_less(kept.whole)

    def _check_shapes(self, entry: GroupEntry, part: Part) -> None:
        """Each of its shapes could be somewhere: as long as nodes stay what they are, only room can be missing."""
        kept = self._kept.get(self._calendar.kinds.number(entry))
        takes = [(self._work.state(entry.pending[take.members].shape), take.number) for take in part.all_takes()]
        if kept is None or any(state.shape.claims or state.shape.volumes for state, _ in takes):
            return
        largest: dict[int, int] = {}
        whole: dict[int, int] = {}
        for state, number in takes:
            for column, units in state.request:
                largest[column] = max(largest.get(column, 0), units)
                whole[column] = whole.get(column, 0) + units * number
        kept.largest = tuple(largest.items())
        kept.whole = tuple(whole.items()) if whole != largest else ()
        kept.checked_at = self._work.memo.static_version

    def _class_of(self, entry: GroupEntry) -> Class:
        """Equal for groups that ask for the same; where nominated pods count for some and not for others, see the same
        of them; and, where users are counted, are of the same user and namespace."""
        kind, rivals, group = self._calendar.kinds.number(entry), self._work.rivals, entry.group
        if self._tenants is None and rivals is None:
            return kind
        level = 0 if rivals is None else rivals.level_of(group.priority)
        return (kind, level, "", "") if self._tenants is None else (kind, level, group.identity.user, group.namespace)

    def _try(self, entry: GroupEntry, part: Part, option: Option, *, charged: bool) -> Start | Refusal:
        if charged and (why := self.refusal(option)) is not None:
            return Refusal(why, for_room=False, option=option)
        with self._work.seen_by(entry):
            work = self._work if self._calendar.tiers.is_open else self._calendar.work_for(entry)
            if work is not self._work and self._holds_none(work.room, entry):
                return Refusal(NO_ROOM, for_room=True, option=option)
            kept_away = work is not self._work and self._calendar.would_disturb(entry)
            placed = None if kept_away else place_group(work, entry, part, option.rows)
            if placed is None:
                return Refusal(self.why_no_room(work, entry, part, option), for_room=True, option=option)
        self.charge(option)
        self._calendar.started(entry, placed)
        start = start_of(self._work, entry, placed, "" if option.flavor == ANY_FLAVOR else option.flavor)
        if not self._work.nobody_looks and start.is_admission:
            hold_room(self._work, entry, placed.picks)
        return start

    def why_no_room(self, tried: Work, entry: GroupEntry, part: Part, option: Option) -> Explanation:
        """Why something did not fit where it was tried: somebody was promised the room, or there is none."""
        work = self._work
        if not self._explains:
            kept = self._kept.get(self._calendar.kinds.number(entry))
            if kept is not None and kept.checked_at == work.memo.static_version:
                return NO_ROOM
            why = reason_for_no_room(work, entry, part)
            if why is NO_ROOM:
                self._check_shapes(entry, part)
            return why
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
        is_dynamic = self._work.is_dynamic
        return any(is_dynamic(members.shape) for members in entry.pending)


def _is_more(amounts: Request, than: list[int]) -> bool:
    """Of some resource."""
    for column, units in amounts:  # noqa: SIM110 - asked for every class in line; a generator costs more than all else
        if units > than[column]:
            return True
    return False
