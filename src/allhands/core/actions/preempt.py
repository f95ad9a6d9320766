"""Makes room for a group that has none: by evicting whom its priority or its queue's share entitles it to evict.

Nobody is evicted unless the whole group then fits, and starts, on room that is held for it from that moment on. Those
who are leaving already count as gone: if they suffice, nobody else goes. Grounds are tried in the order of `Ground`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from allhands.core.actions.allocate import Refusal
from allhands.core.actions.consents import Allowances, Consents
from allhands.core.actions.eviction_words import by_priority, by_share, protected, with_note
from allhands.core.actions.holding import Holding, Preempted, is_open
from allhands.core.actions.leaving import Leaving
from allhands.core.actions.pool import SURPLUS, rank_candidates
from allhands.core.actions.rights import Claim, Ground, Rights
from allhands.core.actions.scenario import Scenario, Search
from allhands.core.actions.turns import Turns
from allhands.core.actions.victims import Charged, VictimTable
from allhands.core.charges import Charge, Charges
from allhands.core.plan import Evict
from allhands.model.reason import NEVER_PREEMPTS, Reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from allhands.core.actions.allocate import Allocate, Demand, Option
    from allhands.core.actions.pool import Unit
    from allhands.core.calendar.calendar import Calendar
    from allhands.core.quota.book import QuotaBook
    from allhands.core.quota.tenants import Tenants
    from allhands.core.snapshot import GroupEntry
    from allhands.core.work import Work
    from allhands.model.reason import Explanation

HOPELESS: Final = frozenset(
    (
        Reason.DEVICE_NOT_AVAILABLE,
        Reason.INVALID,
        Reason.NEVER_FITS,
        Reason.NO_MATCHING_NODE,
        Reason.UNTOLERATED_TAINT,
        Reason.VOLUME_NOT_READY,
    )
)
"""Not even an empty cluster would do."""


class _Asked(NamedTuple):
    """A group that asks for room. `charged` says whether its queues are asked."""

    entry: GroupEntry
    demand: Demand
    charged: bool
    consents: Consents


class Preempt:
    """For one cycle. It takes over the room and the charge of every group that it makes room for."""

    def __init__(
        self,
        work: Work,
        allocate: Allocate,
        book: QuotaBook,
        calendar: Calendar | None = None,
        tenants: Tenants | None = None,
    ) -> None:
        self._work = work
        self._allocate = allocate
        self._book = book
        self._charges = Charges(book, tenants)
        self._leaving = Leaving(work)
        self._holding = Holding(work, allocate, self._charges, self._leaving, calendar)
        self._allowances = Allowances(work)
        self._table: VictimTable | None = None
        self.decided: set[str] = set()
        """Groups that are no victims, since they are completed or released in this cycle. To be filled first."""
        self._turns = Turns(work)
        self._failed: dict[str, tuple[int, str]] = {}
        """Signature -> the highest priority with which it was tried in vain, and the note about it."""

    def also_leaving(self, evictions: Iterable[Evict]) -> None:
        """Others evict these in the same cycle: they are nobody's victims, and their room is free soon."""
        snapshot = self._work.snapshot
        going: dict[str, set[str]] = {}
        for evict in evictions:
            going.setdefault(evict.group, set()).add(evict.uid)
        charged = Charged(self._work)
        for key, uids in going.items():
            entry = snapshot.groups[key]
            rows = [row for row in entry.bound if snapshot.pods.uids[row] in uids]
            joins = len(rows) < len(entry.bound)
            self._leaving.add(rows, self._charges.charge(entry, charged.demand(rows), joins=joins))
            self.decided.add(key)

    def promised(self, waiting: Iterable[GroupEntry]) -> list[GroupEntry]:
        """Those who must be asked before the queues, in the order given; start them, else `hold` for them."""
        return self._holding.promised(waiting)

    def hold(self, entry: GroupEntry, *, charged: bool = True) -> Preempted | None:
        """Holds room for a group that fits as soon as those are gone who are leaving already."""
        return self._holding.hold(entry, charged=charged)

    def has_failed(self, entry: GroupEntry) -> bool:
        """Whether it is known that no room can be made for such a group."""
        known = self._failed.get(entry.signature)
        return known is not None and known[0] >= entry.group.priority

    def make_room(self, entry: GroupEntry, refusal: Refusal, *, charged: bool = True) -> Preempted | Refusal:
        """Room for a group that was refused; the refusal, with why no room can be made, if there is no way."""
        known = self._failed.get(entry.signature)
        if known is not None and self.has_failed(entry):
            return refusal._replace(why=with_note(refusal.why, known[1])) if known[1] else refusal
        demand = self._allocate.demand(entry)
        if isinstance(demand, Refusal) or not self._may_help(demand, refusal):
            return refusal
        grounds = self._grounds(entry, demand)
        if not grounds:
            self._failed[entry.signature] = (entry.group.priority, "")
            return refusal
        if entry.never_preempts:
            return refusal._replace(why=with_note(refusal.why, NEVER_PREEMPTS))
        if not self._turns.take(entry, self._may_ask):
            return refusal
        if (held := self.hold(entry, charged=charged)) is not None:
            return held
        asked = _Asked(entry, demand, charged, Consents(self._work, entry, self.table, self._allowances))
        found = self._search(asked, grounds)
        if found is not None:
            return found
        note = protected(asked.consents.counts(), asked.consents.asked, asked.consents.counts_in_part())
        self._failed[entry.signature] = (entry.group.priority, note)
        return refusal._replace(why=with_note(refusal.why, note))

    # -- whether it is worth trying

    def _may_help(self, demand: Demand, refusal: Refusal) -> bool:
        """Whether it is room or quota that lacks, and not something that no eviction changes."""
        if refusal.why.reason in HOPELESS:
            return False
        if not demand.part.count or not any(is_open(option) for option in demand.options):
            return False
        charges = self._charges
        return refusal.for_room or any(charges.refusal(Charge(it.bill, it.ticket)) for it in demand.options)

    def _grounds(self, entry: GroupEntry, demand: Demand) -> list[Ground]:
        """Those on which anybody could have to go at all, told without looking at victims one by one."""
        policy, queue = self._work.policy, entry.group.queue
        if not self._could_have_victims(entry):
            return []
        table = self.table
        by_priority = policy.preempts and self._has_lower(entry) and self._preempts_within(queue)
        has_others = len(table.by_queue) > (queue in table.by_queue)
        by_share = policy.reclaims and has_others and bool(demand.options[0].bill.rows)
        if not by_priority and not by_share:
            return []
        is_owed = by_share and any(self._is_within_somewhere(option) for option in demand.options)
        worth = {
            Ground.OWED: is_owed,
            Ground.PRIORITY: by_priority,
            Ground.OWED_AT_ANY_SIZE: is_owed,
            Ground.BOTH: by_priority and by_share,
        }
        return [ground for ground in Ground if worth[ground]]

    def _could_have_victims(self, entry: GroupEntry) -> bool:
        """Whether anybody runs in another queue, or with a lower priority in its own; told without the table."""
        ranks = self._work.memo.roll.holding_by_rank
        queue = entry.group.queue
        own = ranks.get(queue)
        if len(ranks) > (own is not None) or self._table is not None:
            return True
        return own is not None and min(own) < entry.group.priority

    def _may_ask(self, entry: GroupEntry) -> bool:
        """Whether there could be grounds, told by its queue and priority alone."""
        policy, queue, table = self._work.policy, entry.group.queue, self.table
        if entry.never_preempts:
            return False
        by_share = policy.reclaims and bool(queue) and len(table.by_queue) > (queue in table.by_queue)
        return by_share or (policy.preempts and self._has_lower(entry) and self._preempts_within(queue))

    def _preempts_within(self, queue: str) -> bool:
        account = self._work.queues.get(queue)
        return account is None or account.preempt_within

    def _has_lower(self, entry: GroupEntry) -> bool:
        return self.table.lowest.get(entry.group.queue, entry.group.priority) < entry.group.priority

    def _is_within_somewhere(self, option: Option) -> bool:
        """Whether any level above the group deserves more than it would then use; else nobody owes it anything."""
        book, stride = self._book, self._book.layout.stride
        for row in option.bill.rows:
            shared = [
                book.used[dimension * stride + row] + units <= deserved
                for dimension, units in option.bill.amounts
                if dimension * stride + row < len(book.used)
                and (deserved := book.entitlements.of(dimension, row)) is not None
            ]
            if shared and all(shared):
                return True
        return False

    # -- searching

    def _search(self, asked: _Asked, grounds: list[Ground]) -> Preempted | None:
        work, mark = self._work, self._work.statement.mark()
        best: tuple[Option, Scenario] | None = None
        with work.seen_by(asked.entry):
            self._leaving.release(old=self._holding.counts_on_leaving(asked.entry))
            for ground in grounds:
                for option in asked.demand.options:
                    scenario = self._best(asked, option, ground) if is_open(option) else None
                    if scenario is not None and (best is None or scenario.cost < best[1].cost):
                        best = (option, scenario)
                if best is not None:
                    break
            work.statement.rollback(mark)
        if best is None:
            return None
        option, scenario = best
        evictions = self._evict(_claim(asked, option), scenario)
        return self._holding.commit(asked.entry, option, scenario.placed, evictions)

    def _best(self, asked: _Asked, option: Option, ground: Ground) -> Scenario | None:
        entry = asked.entry
        charges = self._leaving.without(self._charges, old=self._holding.counts_on_leaving(entry))
        rights = Rights(_claim(asked, option), self.table, charges, self._allowances.left, ground)
        groups = self._victims(asked, rights)
        if not groups:
            return None
        across = {} if ground is Ground.PRIORITY else {name: it.priority for name, it in self._work.queues.items()}
        candidates = rank_candidates(self.table, groups, across)
        allowed = self._holding.restricted(entry, option)
        return Search(self._work, entry, asked.demand.part, allowed, self.table, candidates, rights).best()

    def _victims(self, asked: _Asked, rights: Rights) -> list[int]:
        """Groups that the ground covers and no guard protects."""
        table, ground, group_of = self.table, rights.ground, asked.entry.group
        found: list[int] = []
        for queue in sorted(table.by_queue):
            groups = table.by_queue[queue]
            if queue == group_of.queue:
                if ground in (Ground.OWED, Ground.OWED_AT_ANY_SIZE):
                    continue
                groups = [group for group in groups if table.priority[group] < group_of.priority]
            elif ground is Ground.PRIORITY:
                continue
            elif ground is not Ground.BOTH:
                groups = [group for group in groups if rights.is_owed_something(group)]
            found.extend(
                group
                for group in groups
                if len(table.positions(group))
                and table.entries[group].key != asked.entry.key
                and asked.consents.may_evict(group)
            )
        return found

    # -- what was found

    def _evict(self, claim: Claim, scenario: Scenario) -> tuple[Evict, ...]:
        """The evictions of a scenario; from here on its victims are leaving."""
        evictions = [evict for unit in scenario.units for evict in self._evictions(claim, unit)]
        for unit in scenario.units:
            self._take(unit.group, unit.positions, joins=unit.rank == SURPLUS)
        return tuple(sorted(evictions, key=lambda evict: (evict.group, evict.pod)))

    def _take(self, group: int, positions: Sequence[int], *, joins: bool) -> None:
        """They are leaving from here on; `joins` says that others of their group stay."""
        table = self.table
        rows = table.pod[list(positions)].tolist()
        self._leaving.add(rows, self._charges.charge(table.entries[group], table.demand(positions), joins=joins))
        table.take(positions)
        for allowance in self._allowances.left:
            allowance.take(rows)

    def _evictions(self, claim: Claim, unit: Unit) -> list[Evict]:
        table, pods, names = self.table, self._work.snapshot.pods, self._work.snapshot.columns.names
        victim, why = table.entries[unit.group], self._why(claim, unit)
        grace = victim.group.grace_seconds
        return [
            Evict(pods.keys[row], pods.uids[row], names[int(pods.node[row])], victim.key, claim.entry.key, why, grace)
            for row in table.pod[list(unit.positions)].tolist()
        ]

    def _why(self, claim: Claim, unit: Unit) -> Explanation:
        victim, freed = self.table.entries[unit.group], self.table.demand(unit.positions)
        what = "A member that it can spare of gang" if unit.rank == SURPLUS else "Gang"
        if victim.group.queue == claim.entry.group.queue:
            return by_priority(claim, victim, what, freed)
        return by_share(claim, victim, what, freed, self._book)

    @property
    def searches(self) -> int:
        """How many were made; counted work, bounded by the policy."""
        return self._turns.taken

    @property
    def table(self) -> VictimTable:
        if self._table is None:
            self._table = VictimTable(self._work, self.decided)
        return self._table


def _claim(asked: _Asked, option: Option) -> Claim:
    return Claim(asked.entry, option.bill, option.ticket, asked.charged)
