"""When nothing can come of what happened: nobody who waits finds room, or a cycle has left nobody who could start,
nothing has come free since, and whoever came does not fit. Then the plan is empty, and nobody need be asked.

It only saves work, in the plain case: a policy that tells nothing, nobody whom anybody could have evicted, one line, no
terms about other pods, no windows. Where a promise was made, it must be plain that it would be made again. In doubt it
says nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allhands.core.policy import Backfill
from allhands.core.roll import is_quiet
from allhands.model.queue import QueueOrder

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from allhands.core.actions.allocate import KeptDemand
    from allhands.core.actions.census import Census
    from allhands.core.calendar.calendar import Calendar
    from allhands.core.calendar.tiers import Ahead
    from allhands.core.facts import Facts
    from allhands.core.policy import Policy
    from allhands.core.roll import Roll
    from allhands.core.snapshot import GroupEntry
    from allhands.core.work import Work


class Standstill:
    """What a cycle left behind."""

    __slots__ = (
        "_ahead",
        "_easy",
        "_facts",
        "_first",
        "_free",
        "_head",
        "_queue",
        "_started",
        "_static_version",
        "_time",
        "until",
    )

    def __init__(
        self,
        work: Work,
        started: Collection[str],
        first: GroupEntry | None,
        head: GroupEntry | None,
        ahead: Ahead | None,
    ) -> None:
        self._facts: Facts = work.snapshot.facts
        self._static_version = work.memo.static_version
        self._free = work.room.free.tobytes()
        """What is free once all that was started is there."""
        self._time = work.now
        self._started: Collection[str] = started
        self._first = first
        """Who was promised room."""
        self._head = head
        """Whom nobody passes."""
        self._ahead: tuple[int, list[int]] | None = None
        if ahead is not None:
            free = map(min, ahead.free[:, 0].tolist(), work.room.free[:, 0].tolist())
            self._ahead = (ahead.counts_from, list(free))
        """Who ends after that moment has so much room, on the one node that there is."""
        self._easy = work.policy.backfill is Backfill.EASY
        self._queue = work.memo.roll.only_queue()
        self.until = work.stirs_at
        """From then on time alone may let somebody start."""

    def holds(self, work: Work) -> bool:
        """Whether nobody can start now either."""
        roll, snapshot = work.memo.roll, work.snapshot
        if roll.gone or roll.open or not work.nobody_looks or snapshot.set_aside:
            return False
        if snapshot.facts is not self._facts or work.memo.static_version != self._static_version:
            return False
        if work.now < self._time or (self.until is not None and work.now >= self.until):
            return False
        if self._queue is not None and roll.only_queue() != self._queue:
            return False
        return self._nobody_is_new(work) and work.room.free.tobytes() == self._free

    def _nobody_is_new(self, work: Work) -> bool:
        """Whether all who changed are those that were started, and those who do not fit."""
        roll, groups, first, head = work.memo.roll, work.snapshot.groups, self._first, self._head
        for one in (first, head):
            if one is not None and groups.get(one.key) is not one:
                return False
        for key in roll.changed:
            entry = groups[key]
            if key in self._started:
                is_expected = is_quiet(entry) and (not self._easy or self._began_then(work, entry))
            elif not roll.is_in_line(key):
                is_expected = False
            elif head is not None and roll.place_of(head) < roll.place_of(entry):
                is_expected = True
            else:
                is_expected = self._does_not_fit(work, entry)
                # Who comes before the first is promised room in its place.
                is_expected = is_expected and (first is None or roll.place_of(first) < roll.place_of(entry))
            if not is_expected:
                return False
        return True

    def _does_not_fit(self, work: Work, entry: GroupEntry) -> bool:
        memo = work.memo
        kept: KeptDemand | None = memo.demands.get(memo.kinds.number(entry))
        if kept is None or kept.checked_at != memo.static_version or not kept.is_unlimited:
            return False
        if work.room.holds_none(kept.largest) or work.room.holds_less(kept.whole):
            return True
        seconds = entry.group.expected_duration_seconds
        if self._ahead is None or seconds is None or work.now + max(seconds, 1) <= self._ahead[0]:
            return False
        free = self._ahead[1]
        return any(units > free[column] for column, units in kept.whole or kept.largest)

    def _began_then(self, work: Work, entry: GroupEntry) -> bool:
        """Whether it is expected to end when the cycle that started it expected that."""
        since = work.snapshot.pods.since
        return entry.status.started_at_seconds is None and all(int(since[row]) == self._time for row in entry.bound)

    def goes_on(self, work: Work) -> None:
        """It held: those who were started are there now."""
        self._started = ()
        if self._queue is None:
            self._queue = work.memo.roll.only_queue()


class Calm:
    """What a cycle saw that holds as long as queues and nodes stay what they are: that nothing but room and their order
    decides who starts."""

    __slots__ = ("_evicts", "_facts", "_static_version", "_strict")

    def __init__(self, work: Work) -> None:
        self._facts: Facts = work.snapshot.facts
        self._static_version = work.memo.static_version
        self._strict = frozenset(it.name for it in work.queues.values() if it.order is QueueOrder.FIFO_STRICT)
        """Queues in which nobody passes the first."""
        self._evicts = work.policy.preempts or work.policy.reclaims

    def is_of(self, work: Work) -> bool:
        """Whether queues and nodes are the same."""
        return work.snapshot.facts is self._facts and work.memo.static_version == self._static_version

    def nobody_fits(self, work: Work) -> bool:
        """Whether it is plain that there is no room for any who wait, or may pass; whatever is promised to whom."""
        memo = work.memo
        roll = memo.roll
        if len(roll.open) > len(roll.unsettled) or not work.nobody_looks or work.snapshot.set_aside:
            return False
        if not self.is_of(work):
            return False
        if (self._strict or self._evicts) and roll.open:
            return False
        if self._evicts and not _nobody_outranks(roll):
            return False
        if self._strict and roll.only_queue() in self._strict:
            kind = memo.kinds.number(roll.line()[0])
            first = memo.demands.get(kind)
            return first is not None and first.is_unlimited and self._find_no_room(work, (kind,))
        return self._find_no_room(work, roll.by_kind) and self._find_no_room(work, roll.unsettled_kinds)

    def _find_no_room(self, work: Work, kinds: Iterable[int]) -> bool:
        """Whether no group of these kinds does, as far as that is plain."""
        known, version, most = work.memo.demands.get, self._static_version, work.room.most()
        for kind in kinds:
            kept = known(kind)
            if kept is None or kept.checked_at != version:
                return False
            for column, units in kept.largest:
                if units > most[column]:
                    break
            else:
                if not work.room.holds_less(kept.whole):
                    return False
        return True


def _nobody_outranks(roll: Roll) -> bool:
    """Whether nobody in line could have anybody leave: all are of one queue, and nobody who has room is of another one
    or of a lower priority."""
    held = roll.holding_by_rank
    if not held:
        return True
    queue = roll.only_queue()
    if queue is None or len(held) > 1 or queue not in held:
        return not roll.line()
    return min(held[queue]) >= roll.highest_priority()


def is_silent(policy: Policy) -> bool:
    """Whether a cycle under this policy can tell nobody anything: then it may leave behind that all is calm."""
    return policy.passes_over and not policy.tells_promises and not policy.gates


def is_plain(policy: Policy) -> bool:
    """Whether it evicts nobody either: then it may leave a standstill behind."""
    return is_silent(policy) and not (policy.preempts or policy.reclaims)


def left_behind(
    work: Work, census: Census, calendar: Calendar, started: Collection[str], head: GroupEntry | None
) -> Standstill | None:
    """After a cycle of one line, kept by kind; None if it cannot be told what it means for the next. `head` is the one
    in a strict queue whom nobody passes."""
    if not census.is_in_order or not work.nobody_looks or calendar.windows.windows:
        return None
    if work.policy.backfill is Backfill.CONSERVATIVE:
        return None
    if census.begun or census.admitted or census.whole or census.not_now or census.drained:
        return None
    line = work.memo.roll.line()
    if len(line) and work.memo.roll.only_queue() is None:
        return None
    first, ahead = calendar.plainly_promised, calendar.tiers.ahead
    if len(ahead) != (first is not None):
        return None
    if work.policy.backfill is Backfill.EASY and len(work.snapshot.columns) > 1:
        # Where a promise is kept depends on what was started after it was made.
        return None
    if ahead and ahead[0].counts_from != ahead[0].promise.start:
        # With time, it keeps ever more away.
        return None
    return Standstill(work, started, first, head, ahead[0] if ahead else None)
