"""What a cycle knows about time: where a group may go now without delaying anybody, and what is promised to whom.

The first group that lacks nothing but room is promised some (EASY), or every such group is (conservative): from the
time at which it is expected to fit. Whoever is asked later must leave that possible. Where no time is known, a group
that has waited long gets the nodes that are easiest to empty. Never asks whether a group may start: queues do that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from allhands.core.calendar.counting import LEAST_WORK, WORK_PER_GROUP, WORK_PER_PROMISE, Budget
from allhands.core.calendar.drain import chosen_room
from allhands.core.calendar.estimates import FOREVER, Estimates
from allhands.core.calendar.found_before import FoundBefore
from allhands.core.calendar.future import Future
from allhands.core.calendar.kinds import Kinds
from allhands.core.calendar.promises import Promises
from allhands.core.calendar.releases import Running, Started
from allhands.core.calendar.search import Ask, Search
from allhands.core.calendar.soon import Soon
from allhands.core.calendar.tiers import FROM_THE_START, Tiers
from allhands.core.calendar.windows import Windows, keep_amount
from allhands.core.plan import Hold
from allhands.core.policy import Backfill
from allhands.model.reason import Reason
from allhands.model.resources import PODS, ResourceVector

if TYPE_CHECKING:
    from collections.abc import Collection

    from allhands.core.actions.placing import Placed
    from allhands.core.calendar.search import Found
    from allhands.core.calendar.windows import Window
    from allhands.core.columns import Rows
    from allhands.core.gang import Part
    from allhands.core.snapshot import GroupEntry
    from allhands.core.work import Work
    from allhands.model.reason import Explanation

__all__ = ["FROM_THE_START", "Blocked", "Calendar"]

TIME_HELPS: Final = frozenset({Reason.INSUFFICIENT_RESOURCES, Reason.TOPOLOGY, Reason.AFFINITY, Reason.ROOM_RESERVED})
"""Why there may be no room now, and some later."""


class Blocked(NamedTuple):
    """A group that lacks only room, or waits in a strict queue for one that does (`behind`)."""

    entry: GroupEntry
    kind: int
    part: Part
    within: Rows | None
    why: Explanation
    behind: str = ""


class Calendar:
    def __init__(self, work: Work, begun: Collection[str] = ()) -> None:
        """`begun` are the groups that have some of the members that they must have, and not all."""
        policy = work.policy
        self._work = work
        self._begun = begun
        self.estimates = Estimates(work.queues, work.snapshot.facts.past_runs)
        self.windows = Windows(work)
        self.tiers = Tiers(work, self.windows)
        self.blocked: list[Blocked] = []
        """In the order in which they were asked."""
        self.promises = Promises(len(work.snapshot.columns.resources))
        self._supposed: Promises | None = None
        self.found: dict[str, Found] = {}
        """For whom a time was looked for, by key: when it was found, or who prevents it."""
        is_conservative = policy.backfill is Backfill.CONSERVATIVE
        per_group = WORK_PER_PROMISE if is_conservative else WORK_PER_GROUP
        self.budget = Budget(max(policy.max_reservations * per_group, LEAST_WORK))
        self.kinds = Kinds(self.windows, work.memo.kinds)
        self._known: dict[int, FoundBefore] = {}
        """What was found for each kind of group."""
        self._has_time: set[int] = set()
        """Kinds of groups for one of which at least a time was found."""
        self._last_time = 0
        self._explains = policy.explains
        self._soon: Soon | None = None
        self.plainly_promised: GroupEntry | None = None
        """Who was promised room in the plain case."""
        self._is_timed: bool | None = None
        """Whether all that is known so far ends at a known time: what runs, and so many starts and promises."""
        self._timed = (0, 0)
        self._started: list[tuple[GroupEntry, Placed]] = []
        self._running: Running | None = None
        self._search: Search | None = None
        self._searched_after = -1
        most = policy.max_reservations if is_conservative else int(policy.backfill is Backfill.EASY)
        self._times_left = self._drains_left = most
        for window in self.windows.amounts():
            self._keep_amount(window)

    # -- where a group may go now

    def work_for(self, entry: GroupEntry) -> Work:
        """Where the group may go if it starts now."""
        if self.tiers.is_open:
            return self._work
        return self.tiers.work_until(self.end_of(entry), self.windows.entitled(entry))

    def work_of_running(self, entry: GroupEntry) -> Work:
        """Where a group that runs, or has just been started, may get more members."""
        if self.tiers.is_open:
            return self._work
        end = self.running.end_of(entry)
        return self.tiers.work_until(self.end_of(entry) if end is None else end, self.windows.entitled(entry))

    def owner_of_room(self, entry: GroupEntry) -> str:
        """For whom the room is kept that the group does not get."""
        return self.tiers.owner_before(self.end_of(entry), self.windows.entitled(entry))

    def would_disturb(self, entry: GroupEntry) -> bool:
        """Whether its pods, wherever they are, may keep away somebody who was promised room."""
        if not self.tiers.is_delicate_before(self.end_of(entry)):
            return False
        return any(self._work.state(members.shape).is_noticed for members in entry.pending)

    def end_of(self, entry: GroupEntry) -> int:
        """When it would end if it started now."""
        return self.estimates.end(entry.group, self._work.now)

    def last_fall_before_end(self, entry: GroupEntry) -> int:
        """All who end after this moment, and start now, have the same room as the group, or less."""
        return FROM_THE_START if self.tiers.is_open else self.tiers.last_fall_before(self.end_of(entry))

    # -- what happens

    def started(self, entry: GroupEntry, placed: Placed) -> None:
        self._started.append((entry, placed))

    def refused(self, entry: GroupEntry, kind: int, part: Part, within: Rows | None, why: Explanation) -> None:
        """The group lacks only room: it is promised some, if it is its turn."""
        if why.reason in TIME_HELPS:
            blocked = Blocked(entry, kind, part, within, why)
            if self._explains:
                self.blocked.append(blocked)
            if self.may_promise(entry, kind):
                self._promise(blocked)

    def behind(
        self, entry: GroupEntry, kind: int, part: Part, within: Rows | None, why: Explanation, first: GroupEntry
    ) -> None:
        """The group is not asked, since another one of its queue does not start."""
        self.blocked.append(Blocked(entry, kind, part, within, why, first.group.key))

    def holds(self) -> list[Hold]:
        """Who has been promised which nodes (each as often as it gets pods there), and from when."""
        names = self._work.snapshot.columns.names
        slots = self._work.snapshot.columns.column_by_resource[PODS]
        return [
            Hold(
                it.owner,
                tuple(names[row] for row in np.repeat(it.rows, it.amounts[slots]).tolist()),
                None if it.is_drain else it.start,
            )
            for it in self.promises
            if not it.is_of_window
        ]

    # -- times

    @property
    def running(self) -> Running:
        if self._running is None:
            self._running = Running(self._work, self.estimates, self._begun)
        return self._running

    @property
    def soon(self) -> Soon:
        if self._soon is None:
            self._soon = Soon(self._work, self.estimates, self._begun)
        return self._soon

    def started_groups(self) -> list[Started]:
        """What has started by now, and when it is expected to end."""
        return [Started(entry, placed, self.end_of(entry)) for entry, placed in self._started]

    def search_for(self, entry: GroupEntry | None = None) -> Search:
        """A search that knows all that has started by now."""
        if entry is not None and entry.bound:
            # It must not be shown its own room as if that were to come free.
            return self._new_search(Running(self._work, self.estimates, self._begun, without=entry.group.key))
        if self._search is None or self._searched_after != len(self._started):
            self._search = self._new_search(self.running)
            self._searched_after = len(self._started)
        return self._search

    def suppose(self) -> Promises:
        """From here, starts are looked for beside these promises: what was promised, and what is added to it."""
        self._supposed = self.promises.copy()
        if self._search is not None:
            self._search.future.promises = self._supposed
        return self._supposed

    def earliest(self, blocked: Blocked, not_before: int = 0) -> tuple[Ask, Found | None]:
        """When it fits. Never earlier than one before it that asked for the same, for no longer a time."""
        entry = blocked.entry
        seconds = self.estimates.duration(entry.group)
        known = self._known.get(blocked.kind)
        if known is None:
            known = self._known[blocked.kind] = FoundBefore()
        length = FOREVER if seconds is None else seconds
        if (hopeless := known.hopeless(length)) is not None:
            return Ask(entry, blocked.part, blocked.within, seconds), hopeless[0]
        not_before = max(not_before, known.not_before(length))
        hint = max(self._last_time, known.latest)
        ask = Ask(entry, blocked.part, blocked.within, seconds, self.windows.entitled(entry), not_before, hint)
        found = self.search_for(entry).earliest(ask)
        if found is not None or self.budget.left > 0:
            known.add(length, found)
        if found is not None:
            self.found[entry.group.key] = found
            if found.is_known:
                self._has_time.add(blocked.kind)
                self._last_time = found.time
        return ask, found

    def is_due_to_drain(self, entry: GroupEntry) -> bool:
        """Whether it has waited so long that nodes are emptied for it."""
        due = entry.group.created_at_seconds + self._longest_wait(entry)
        if due > self._work.now:
            self._work.wake_at(due)
        return due <= self._work.now

    def _longest_wait(self, entry: GroupEntry) -> int:
        """Its own word goes before the policy's."""
        own = entry.group.max_wait_seconds
        return self._work.policy.drain_after_seconds if own is None else own

    def _new_search(self, running: Running) -> Search:
        work = self._work
        releases = running.with_started(self.started_groups())
        if releases.known:
            # Then those who are still there are expected to take longer.
            work.wake_at(int(releases.times[0]))
        if self._started:
            # Their ends are counted from now, so a second later they are others.
            work.wake_at(work.now + 1)
        promises = self.promises if self._supposed is None else self._supposed
        return Search(work, Future(work, releases, self.windows, promises), self.windows, self.budget)

    # -- promises

    def may_promise(self, entry: GroupEntry, kind: int) -> bool:
        """Whether a group that lacks only room may be promised some now."""
        if self._times_left:
            return True
        if self._begun and entry.group.key in self._begun:
            return self._work.policy.backfill is not Backfill.OFF
        # Where one that asks for the same has a time, nothing needs to be emptied.
        if not self._drains_left or kind in self._has_time or self._everybody_has_a_time():
            return False
        return self.is_due_to_drain(entry)

    def promises_no_more(self) -> bool:
        """Whether no group that has not begun is promised anything any more in this cycle."""
        return not self._times_left and (not self._drains_left or self._everybody_has_a_time())

    def _everybody_has_a_time(self) -> bool:
        """Whether all that runs and is promised ends at a known time, so that nothing is ever emptied for anybody.

        Where expected starts are told, they are looked for all the same: in the same order, with the same work.
        """
        if self._explains:
            return False
        if self._is_timed is None:
            self._is_timed = not self.soon.has_unknown
        # Nothing that has started or was promised is taken back, so each is looked at once.
        if self._is_timed:
            starts, promises = self._timed
            started, promised = len(self._started), len(self.promises)
            if starts < started or promises < promised:
                self._timed = (started, promised)
                self._is_timed = self._have_times(starts, promises)
        return self._is_timed

    def _have_times(self, starts: int, promises: int) -> bool:
        """Whether those do that came after the first so many."""
        for entry, _ in self._started[starts:]:
            if self.end_of(entry) >= FOREVER:
                return False
        # Most often there is none, or one: a loop costs less than a generator.
        for it in self.promises.since(promises):  # noqa: SIM110
            if it.end >= FOREVER:
                return False
        return True

    def _promise_soon(self, blocked: Blocked) -> bool:
        """The same for the first group of a cycle where all is plain; False if it is not."""
        work = self._work
        if self._explains or work.policy.backfill is not Backfill.EASY or len(self.promises) or self.windows.windows:
            return False
        if not self._everybody_has_a_time():
            return False
        entry = blocked.entry
        ask = Ask(entry, blocked.part, blocked.within, self.estimates.duration(entry.group))
        first = None if ask.seconds is None else self.soon.first(ask, self.started_groups())
        if first is None:
            return False
        found, free = first
        self.found[entry.group.key] = found
        self._has_time.add(blocked.kind)
        self._times_left -= 1
        self.plainly_promised = entry
        promise = found.promise(ask, 0)
        self.tiers.promise(promise, free, patience=self._patience(entry))
        self.promises.append(promise)
        return True

    def _promise(self, blocked: Blocked) -> None:
        if self._promise_soon(blocked):
            return
        ask, found = self.earliest(blocked)
        if found is None:
            return
        is_begun = ask.entry.group.key in self._begun
        future = self.search_for(ask.entry).future
        if found.is_known:
            if not self._times_left and not is_begun:
                return
            self._times_left -= not is_begun
            promise, free = found.promise(ask, len(self.promises)), future.free_at(found.time)
        else:
            if not self._drains_left or not self.is_due_to_drain(ask.entry):
                return
            drained = chosen_room(self._work, future, self.windows, ask)
            if drained is None:
                return
            self._drains_left -= 1
            promise, free = drained, self._work.room.free.copy()
        patience = self._patience(ask.entry)
        self.tiers.promise(promise, free, patience=patience, is_delicate=self._is_delicate(ask))
        self.promises.append(promise)

    def _patience(self, entry: GroupEntry) -> int:
        """How many times as long as they say others may take without delaying it: the more, the longer it has waited.

        So estimates that are all too short by some factor delay it no more than about twice as many set waits.
        """
        work = self._work
        step = max(self._longest_wait(entry), 1)
        patience = 1 + max(work.now - entry.group.created_at_seconds, 0) // step
        work.wake_at(entry.group.created_at_seconds + patience * step)
        return patience

    def _is_delicate(self, ask: Ask) -> bool:
        return any(self._work.state(ask.entry.pending[it.members].shape).is_dynamic for it in ask.part.all_takes())

    def _keep_amount(self, window: Window) -> None:
        """Of a window that keeps an amount, what those who are entitled to it do not have yet."""
        held: dict[str, int] = {}
        for entry in self.running.entries:
            if window.number in self.windows.entitled(entry):
                for name, units in entry.holding:
                    held[name] = held.get(name, 0) + units
        free = self.search_for().future.free_at(max(window.start, self._work.now))
        promise = keep_amount(self._work, window, free, ResourceVector.of(held))
        if promise is not None:
            self.tiers.promise(promise, free)
            self.promises.append(promise)
