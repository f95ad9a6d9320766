"""Keeps room for those it was freed for, from the moment of the first eviction until they start.

In every cycle it is worked out anew, from the snapshot alone: which groups wait for pods to leave is in their status,
which pods are leaving is in the table of pods. What is held is taken from the room and charged to the quota although
its old owners are still there: a node may so have less than nothing free, and nobody else fits on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from allhands.core.actions.allocate import Refusal
from allhands.core.actions.eviction_words import awaiting
from allhands.core.actions.placing import hold_room, place_group, start_of
from allhands.core.charges import Charge
from allhands.core.plan import Evict, Hold
from allhands.core.quota.reclaim import owed
from allhands.model.queue import ANY_FLAVOR

if TYPE_CHECKING:
    from collections.abc import Iterable

    from allhands.core.actions.allocate import Allocate, Demand, Option
    from allhands.core.actions.leaving import Leaving
    from allhands.core.actions.placing import Placed
    from allhands.core.calendar.calendar import Calendar
    from allhands.core.charges import Charges
    from allhands.core.plan import Start
    from allhands.core.snapshot import GroupEntry
    from allhands.core.work import Work
    from allhands.model.reason import Explanation


class Preempted(NamedTuple):
    """Room is on its way: where the group will start, who must leave for it, and what is held meanwhile."""

    start: Start
    """As it will be; not to be carried out before the victims are gone."""
    evictions: tuple[Evict, ...]
    """Empty where those who are leaving already suffice."""
    hold: Hold
    why: Explanation
    """What the group is told while it waits."""


class Holding:
    """For one cycle."""

    def __init__(
        self, work: Work, allocate: Allocate, charges: Charges, leaving: Leaving, calendar: Calendar | None
    ) -> None:
        self._work = work
        self._allocate = allocate
        self._charges = charges
        self._leaving = leaving
        self._calendar = calendar

    def promised(self, waiting: Iterable[GroupEntry]) -> list[GroupEntry]:
        """Those who come before the queues, in the order given: groups for which room is being made, and those of the
        same queue that outrank one of them and may have what was freed."""
        entries = list(waiting)
        holders: dict[str, list[GroupEntry]] = {}
        for entry in entries:
            if entry.status.preempting_since_seconds is not None:
                holders.setdefault(entry.group.queue, []).append(entry)
        if not holders:
            return []
        charges = self._leaving.without(self._charges)
        found: list[GroupEntry] = []
        most = self._work.policy.max_victim_searches
        for entry in entries:
            if entry.status.preempting_since_seconds is not None:
                found.append(entry)
            elif most and self._may_pass(entry, holders.get(entry.group.queue, []), charges):
                found.append(entry)
                most -= 1
        return found

    def _may_pass(self, entry: GroupEntry, holders: list[GroupEntry], charges: Charges) -> bool:
        """Whether it outranks one of these, and asks for no more than that one or than its queue is owed.

        Who asks for more would use up what others gave back, be above its part, and lose it to them again.
        """
        outranked = [holder for holder in holders if holder.group.priority < entry.group.priority]
        demand = self._allocate.demand(entry) if outranked else None
        if demand is None or isinstance(demand, Refusal):
            return False
        for option in demand.options:
            if not option.bill.names or owed(charges.book, option.bill):
                return True
            asked = dict(option.bill.amounts)
            for holder in outranked:
                theirs = self._allocate.demand(holder)
                if not isinstance(theirs, Refusal) and any(_is_within(asked, it) for it in theirs.options):
                    return True
        return False

    def hold(self, entry: GroupEntry, *, charged: bool = True) -> Preempted | None:
        """Holds room for a group that fits as soon as those are gone who are leaving already."""
        if not len(self._leaving) or not self.counts_on_leaving(entry):
            return None
        demand = self._allocate.demand(entry)
        if isinstance(demand, Refusal):
            return None
        mark = self._work.statement.mark()
        with self._work.seen_by(entry):
            self._leaving.release()
            found = self._fitting(entry, demand, charged=charged)
            self._work.statement.rollback(mark)
        return None if found is None else self.commit(entry, *found)

    def counts_on_leaving(self, entry: GroupEntry) -> bool:
        """Whether those who are being deleted are counted as gone for it: not if it has waited for them too long."""
        since = entry.status.preempting_since_seconds
        if since is None:
            return True
        until = since + self._work.policy.start_timeout_seconds
        if until > self._work.now:
            self._work.wake_at(until)
        return until > self._work.now

    def restricted(self, entry: GroupEntry, option: Option) -> Option:
        """The option without nodes that are promised to others, or closed, during a run that begins now."""
        calendar = self._calendar
        if calendar is None or calendar.tiers.is_open:
            return option
        now, end = self._work.now, calendar.estimates.end(entry.group, self._work.now)
        entitled = calendar.windows.entitled(entry)
        closed = np.zeros(len(self._work.snapshot.columns), dtype=np.bool_)
        closed[calendar.windows.closed(now, end, entitled)] = True
        closed[calendar.promises.row[calendar.promises.during(now, end, entitled)]] = True
        rows = np.flatnonzero(~closed) if option.rows is None else option.rows[~closed[option.rows]]
        return option._replace(rows=rows)

    def commit(self, entry: GroupEntry, option: Option, placed: Placed, evictions: tuple[Evict, ...] = ()) -> Preempted:
        """Takes the room and the quota, although those who have it are not gone: so nobody else can."""
        work = self._work
        for take, picks in placed.picks:
            state = work.state(entry.pending[take.members].shape)
            work.statement.place(state, picks, noticed=state.is_noticed or state.is_dynamic)
        hold_room(work, entry, placed.picks)
        self._allocate.charge(option)
        if self._calendar is not None:
            self._calendar.started(entry, placed)
        start = start_of(work, entry, placed, "" if option.flavor == ANY_FLAVOR else option.flavor)
        rows = sorted({row for _, picks in placed.picks for row in picks})
        nodes = tuple(work.snapshot.columns.names[row] for row in rows)
        # Members of a gang that must leave elsewhere are awaited too.
        elsewhere = sum(1 for evict in evictions if evict.node not in set(nodes))
        why = awaiting(self._leaving.on(rows) + elsewhere, len(evictions), nodes)
        hold = Hold(entry.key, nodes, None, awaits_leaving=True, binds=start.binds)
        return Preempted(start, evictions, hold, why)

    def _fitting(self, entry: GroupEntry, demand: Demand, *, charged: bool) -> tuple[Option, Placed] | None:
        charges = self._leaving.without(self._charges)
        for option in demand.options:
            if not is_open(option) or (charged and charges.refusal(Charge(option.bill, option.ticket)) is not None):
                continue
            placed = self._where_promised(entry, demand, self.restricted(entry, option))
            if placed is not None:
                return option, placed
        return None

    def _where_promised(self, entry: GroupEntry, demand: Demand, option: Option) -> Placed | None:
        """On the nodes of the last cycle, if it still fits there: what is held should not wander."""
        row_by_name = self._work.snapshot.columns.row_by_name
        named = sorted(row_by_name[name] for name in entry.status.nominated_nodes if name in row_by_name)
        if named:
            rows = np.array(named, dtype=np.int64)
            rows = rows if option.rows is None else rows[np.isin(rows, option.rows)]
            if (placed := place_group(self._work, entry, demand.part, rows)) is not None:
                return placed
        return place_group(self._work, entry, demand.part, option.rows)


def is_open(option: Option) -> bool:
    """Whether its queues start groups at all. Who names no queue is bound by none."""
    return not option.bill.names or option.bill.refused is None


def _is_within(asked: dict[int, int], option: Option) -> bool:
    limits = dict(option.bill.amounts)
    return all(units <= limits.get(dimension, 0) for dimension, units in asked.items())
