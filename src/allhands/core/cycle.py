"""One scheduling cycle: `cycle(snapshot, policy, memo, now, rng) -> (plan, memo)`, a pure function of its inputs.

Groups that have begun come first, then those that were admitted, then the queues. It works on a
copy of the room: the snapshot is never changed, and a plan happens only when somebody carries it out.
"""

from __future__ import annotations

from heapq import heapify, heappop, heapreplace
from typing import TYPE_CHECKING, Final

from allhands.core.actions.allocate import Allocate, Refusal
from allhands.core.actions.census import Census, take_census
from allhands.core.actions.grow import grow
from allhands.core.actions.lanes import Lanes, in_order
from allhands.core.actions.preempt import Preempt
from allhands.core.actions.release import WAITS_FOR_PODS, drain, release_failed_starts, take_back
from allhands.core.calendar.calendar import Calendar
from allhands.core.calendar.expected import Expectations
from allhands.core.calendar.quota_waits import TIME_HELPS, Refused
from allhands.core.charges import charges_of, keep_charges
from allhands.core.gates.counting import Counting
from allhands.core.objects_set_aside import objects_set_aside
from allhands.core.orders.timing import wake_for_orders
from allhands.core.plan import Evict, Hold, Plan, Release, Start
from allhands.core.standstill import Calm, is_plain, is_silent, left_behind
from allhands.core.waits import Waits
from allhands.core.work import Work
from allhands.model.queue import ANY_FLAVOR
from allhands.model.reason import TAKEN_BACK, Reason, explain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from allhands.core.actions.holding import Preempted
    from allhands.core.charges import Charges
    from allhands.core.memo import Memo
    from allhands.core.policy import Policy
    from allhands.core.roll import Place
    from allhands.core.snapshot import GroupEntry, Snapshot
    from allhands.model.reason import Explanation

NOT_READY: Final = WAITS_FOR_PODS | {Reason.INVALID}
"""Who waits for such a reason has no place in line yet, so that nobody waits behind it."""

NOTHING: Final = Plan()


def cycle(
    snapshot: Snapshot,
    policy: Policy,
    memo: Memo,
    now: int,
    rng: int = 0,
    *,
    emit: Callable[[Start], None] | None = None,
) -> tuple[Plan, Memo]:
    """Decides for everyone. `now` is in seconds; `rng` is a number that plugins may draw chance from.

    `emit` gets every start as soon as it is final, so that carrying it out can overlap with deciding the rest.
    """
    known = memo.plan_for(snapshot, policy, now, rng)
    if known is not None:
        return known, memo
    work = Work(snapshot, policy, memo, now)
    standstill = memo.standstill
    if work.rivals is None and standstill is not None and standstill.holds(work):
        standstill.goes_on(work)
        work.wakes_at = standstill.until
        keep_charges(work)
        plan = NOTHING
    elif work.rivals is None and memo.calm is not None and memo.calm.nobody_fits(work):
        memo.standstill = None
        keep_charges(work)
        plan = NOTHING
    else:
        running = _Running(work, charges_of(work), emit)
        running.run()
        plan = running.plan()
        running.leave_behind(plan)
    memo.end(work, plan, rng)
    work.statement.close()
    return plan, memo


class _Running:
    """The steps of one cycle, and what they have decided so far."""

    def __init__(self, work: Work, charges: Charges, emit: Callable[[Start], None] | None) -> None:
        self._work = work
        self._census = take_census(work)
        self._calendar = Calendar(work, frozenset(entry.group.key for entry in self._census.begun))
        self._allocate = Allocate(work, charges.book, self._calendar, charges.tenants)
        self._made_preempt: Preempt | None = None
        self._over_quota: list[Refused] = []
        self._unpromised: list[tuple[GroupEntry, Refusal | None]] = []
        """Groups that were refused and not promised anything yet; None for one that is like the first of them."""
        self._head: GroupEntry | None = None
        """Whom nobody passes in the last strict queue that was closed."""
        self._unasked: Callable[[], GroupEntry | None] | None = None
        """Those behind them, if all are like them."""
        self._counting = Counting(work.policy, work.snapshot, work.now)
        self._charges = charges
        self._book = charges.book
        self._emit = emit
        self._waits = Waits(work)
        self._starts: list[Start] = []
        self._evictions: list[Evict] = []
        self._releases: list[Release] = []
        self._holds: list[Hold] = []

    def run(self) -> None:
        census = self._census
        for entry, why in census.not_now:
            self._waits.add(entry, why, _known_start(entry, why))
        released = self._release(census)
        for entry in self._ordered(census.begun):
            if entry.key not in released:
                self._complete(entry)
        for entry in self._ordered(census.admitted):
            self._begin(entry, charged=False)
        waiting = census.waiting if census.is_in_order else self._ordered(census.waiting)
        served = set() if census.is_in_order else self._serve_promised(waiting)
        self._serve_queues([entry for entry in waiting if entry.key not in served] if served else waiting)
        leaving = {evict.group for evict in self._evictions}
        # Who makes room for others does not grow into it.
        growing = [entry for entry in census.whole if entry.pending and entry.group.key not in leaving]
        if growing or self._work.policy.tells_promises or self._can_grow_at_once():
            self._promise_all()
        self._grow(self._ordered(growing))
        if self._work.policy.explains or self._work.policy.tells_promises:
            self._holds.extend(self._calendar.holds())
        if self._work.policy.explains:
            Expectations(self._work, self._calendar, self._book).tell(self._waits, self._over_quota)

    def plan(self) -> Plan:
        return Plan(
            starts=tuple(self._starts),
            evictions=tuple(self._evictions),
            releases=tuple(self._releases),
            holds=tuple(self._holds),
            waits=self._waits.all() if self._work.policy.explains else (),
            set_aside=objects_set_aside(self._work, self._book),
        )

    def leave_behind(self, plan: Plan) -> None:
        """What the next cycle may see at a glance: that nobody can start."""
        work = self._work
        calm = work.memo.calm
        work.memo.standstill = work.memo.calm = None
        if not is_silent(work.policy) or not self._allocate.keeps_kinds or plan.set_aside or plan.evictions:
            return
        if not self._census.is_draining:
            if is_plain(work.policy):
                started = {start.group for start in plan.starts}
                work.memo.standstill = left_behind(work, self._census, self._calendar, started, self._head)
            work.memo.calm = calm if calm is not None and calm.is_of(work) else Calm(work)

    def _ordered(self, entries: Sequence[GroupEntry]) -> Sequence[GroupEntry]:
        if not entries:
            return entries
        work = self._work
        wake_for_orders(work, entries)
        return in_order(entries, work.policy, work.snapshot, work.now)

    @property
    def _preempt(self) -> Preempt:
        """Made when somebody asks: in most cycles nobody does."""
        if self._made_preempt is None:
            charges = self._charges
            made = Preempt(self._work, self._allocate, charges.book, self._calendar, charges.tenants)
            made.decided.update(entry.group.key for entry in self._census.begun)
            self._made_preempt = made
        return self._made_preempt

    def _release(self, census: Census) -> set[str]:
        """The groups whose start has failed: nothing more is done for them now."""
        for released in release_failed_starts(self._work, census):
            self._waits.add(released.entry, released.why, released.release.retry_at_seconds)
            self._releases.append(released.release)
            self._evictions.extend(released.evictions)
        self._evictions.extend(drain(self._work, census))
        if self._evictions:
            self._preempt.also_leaving(self._evictions)
        return {release.group for release in self._releases}

    def _complete(self, entry: GroupEntry) -> None:
        """A group that has members on nodes and is below its minimum: nothing overtakes it."""
        outcome = self._allocate.start(entry, charged=False)
        made = self._make_room(entry, outcome, charged=False) if isinstance(outcome, Refusal) else outcome
        if isinstance(made, Start):
            self._keep(made)
        elif not isinstance(made, Refusal):
            self._hold(entry, made)
        else:
            why, goes_on = self._why_not_complete(entry, made)
            self._waits.add(entry, why)
            if goes_on and made.option is not None:
                # Its queue's last bit is not for others, or it would be completed over the cap.
                self._allocate.charge(made.option)
            self._refused(entry, made)

    def _why_not_complete(self, entry: GroupEntry, refusal: Refusal) -> tuple[Explanation, bool]:
        """Where only room is missing, members that have not begun to run are taken back. The other value: whether it
        is still to be completed."""
        if not refusal.for_room:
            return refusal.why, True
        need = entry.group.required_count
        why = explain(Reason.PARTLY_BOUND, bound=len(entry.bound), need=need, cause=str(refusal.why))
        taken = take_back(self._work, entry, why)
        if not taken:
            return why, True
        self._evictions.extend(taken)
        self._preempt.also_leaving(taken)
        return why.with_more(TAKEN_BACK), False

    def _begin(self, entry: GroupEntry, *, charged: bool = True, promises: bool = True) -> Refusal | None:
        """None if it starts. Without `promises`, what it is promised if it is refused is worked out later, if ever."""
        counts = charged and bool(self._work.policy.limits)
        if counts and (why := self._counting.refusal(entry)) is not None:
            self._waits.add(entry, why)
            return Refusal(why, for_room=False)
        outcome = self._allocate.start(entry, charged=charged)
        if isinstance(outcome, Refusal):
            made = self._make_room(entry, outcome, charged=charged)
            if not isinstance(made, Refusal):
                self._hold(entry, made)
                return None
            if self._work.policy.explains:
                self._waits.add(entry, made.why)
            if promises:
                self._refused(entry, made)
            elif not self._calendar.promises_no_more():
                self._unpromised.append((entry, made))
            return made
        self._keep(outcome)
        if counts:
            self._counting.started(entry)
        return None

    def _make_room(self, entry: GroupEntry, refusal: Refusal, *, charged: bool) -> Preempted | Refusal:
        policy = self._work.policy
        # Where nobody is ever evicted for others, there is nothing to look at.
        if not (policy.preempts or policy.reclaims or policy.explains):
            return refusal
        return self._preempt.make_room(entry, refusal, charged=charged)

    def _refused(self, entry: GroupEntry, refusal: Refusal) -> None:
        """Time may help it."""
        if refusal.option is None or refusal.part is None:
            return
        if refusal.for_room:
            self._calendar.refused(entry, refusal.kind, refusal.part, refusal.option.rows, refusal.why)
        elif refusal.why.reason in TIME_HELPS:
            seconds = self._calendar.estimates.duration(entry.group)
            option, is_only = refusal.option, refusal.option.flavor == ANY_FLAVOR
            self._over_quota.append(Refused(entry, option.bill, refusal.why, seconds, refusal.part, is_only))

    def _not_asked(self, entry: GroupEntry, refusal: Refusal, first: GroupEntry) -> None:
        """It waits behind the first, and for what that one waits for."""
        demand = self._allocate.demand(entry)
        if isinstance(demand, Refusal):
            return
        if refusal.for_room:
            kind = self._calendar.kinds.number(entry)
            self._calendar.behind(entry, kind, demand.part, demand.options[0].rows, refusal.why, first)
        else:
            self._refused(entry, refusal._replace(option=demand.options[0], part=demand.part))

    def _serve_promised(self, waiting: Sequence[GroupEntry]) -> set[str]:
        """Groups for which others are leaving: they start, or their room is held, before anybody else is asked."""
        served: set[str] = set()
        if all(entry.status.preempting_since_seconds is None for entry in waiting):
            return served
        for entry in self._preempt.promised(waiting):
            outcome = self._allocate.start(entry)
            if not isinstance(outcome, Refusal):
                self._keep(outcome)
                self._counting.started(entry)
                served.add(entry.key)
            elif (held := self._preempt.hold(entry)) is not None:
                self._hold(entry, held)
                served.add(entry.key)
        return served

    def _hold(self, entry: GroupEntry, held: Preempted) -> None:
        self._evictions.extend(held.evictions)
        self._waits.add_evicted(held.evictions)
        self._holds.append(held.hold)
        self._waits.add(entry, held.why)

    def _serve_queues(self, waiting: Sequence[GroupEntry]) -> None:
        queues = self._work.queues
        only = self._work.memo.roll.only_queue() if self._census.is_in_order else None
        lanes = Lanes(waiting, self._charges, self._work, only)
        self._work.in_turn.upcoming = lanes.upcoming
        if self._work.policy.passes_over:
            self._serve_quickly(lanes)
            return
        behind: dict[str, tuple[GroupEntry, Refusal, list[GroupEntry]]] = {}
        """Queues in which nobody passes the first that does not start."""
        while (entry := lanes.take()) is not None:
            first = behind.get(entry.group.queue) if behind else None
            if first is not None:
                first[2].append(entry)
            elif (refusal := self._begin(entry)) is not None and refusal.why.reason not in NOT_READY:
                others = list(lanes.refused(entry))
                queue = queues.get(entry.group.queue)
                if others or (queue is not None and not queue.backfill and refusal.for_room):
                    behind[entry.group.queue] = (entry, refusal, others)
        if not self._work.policy.explains:
            return
        for entry, refusal, others in behind.values():
            for position, other in enumerate(others, 2):
                self._waits.add_behind(other, entry, position, len(others) + 1)
                self._not_asked(other, refusal, entry)

    def _serve_quickly(self, lanes: Lanes) -> None:
        """The same, where nobody has to be told anything: those like one that was refused are not asked, and nobody is
        promised anything before somebody comes who could take it away."""
        allocate, calendar, policy = self._allocate, self._calendar, self._work.policy
        evicts = policy.preempts or policy.reclaims
        take, is_refused, hopeless, number_of = lanes.take, allocate.is_refused, allocate.hopeless, allocate.numbers.get
        alike = self._census.is_in_order and self._work.memo.roll.is_of_one_kind
        queues = self._work.queues
        closing = {name for name in lanes.names if name in queues and not queues[name].backfill}
        """Queues in which nobody passes the first that does not start for want of room."""
        closed: set[str] = set()
        goes_by_kind = not evicts and not closing and lanes.are_one_in_order and allocate.keeps_kinds
        goes_by_kind = goes_by_kind and self._census.is_in_order
        passes_over = calendar.promises_no_more()
        if passes_over and goes_by_kind:
            passes_over = False
            if not self._serve_kinds(lanes, None):
                return
        while (entry := take()) is not None:
            queue = entry.group.queue
            if closed and queue in closed:
                continue
            if self._unpromised:
                if self._is_like_unpromised(entry) and (not evicts or self._preempt.has_failed(entry)):
                    self._unpromised.append((entry, None))
                    continue
                self._promise_all()
                passes_over = calendar.promises_no_more()
                if passes_over and goes_by_kind:
                    passes_over = False
                    if not self._serve_kinds(lanes, entry, is_asked=False):
                        return
                    continue
            if (
                passes_over
                and queue not in closing
                and not lanes.is_strict(queue)
                and (not evicts or self._preempt.has_failed(entry))
                and (number_of(entry.signature) in hopeless or is_refused(entry))
            ):
                continue
            refusal = self._begin(entry, promises=False)
            if refusal is not None and refusal.why.reason not in NOT_READY:
                if lanes.is_strict(queue):
                    lanes.close(queue)
                    self._head = entry
                if refusal.for_room and queue in closing:
                    closed.add(queue)
            passes_over = not self._unpromised and calendar.promises_no_more()
            if passes_over and goes_by_kind:
                passes_over = False
                if not self._serve_kinds(lanes, entry):
                    return
            if self._unpromised and (
                (alike and (not evicts or self._preempt.has_failed(entry)))
                or (goes_by_kind and not self._has_hope_behind(entry))
            ):
                self._unasked = None if closed else take  # all others are like this one, or find no room either
                return

    def _has_hope_behind(self, entry: GroupEntry) -> bool:
        """Whether it is not plain that all behind it in a single line are refused for want of room, too."""
        roll = self._work.memo.roll
        place = roll.place_of(entry)
        return any(roll.by_kind[kind].places[-1] > place for kind in self._allocate.hopeful())

    def _serve_kinds(self, lanes: Lanes, after: GroupEntry | None, *, is_asked: bool = True) -> bool:
        """The same for all behind one of a single line, kind by kind: those of kinds that are plainly refused are not
        even looked at. Whether some may be promised anything again: they and those behind are yet to be asked."""
        allocate, calendar, roll = self._allocate, self._calendar, self._work.memo.roll
        last = None if after is None else roll.place_of(after)
        own_kind = -1 if after is None or is_asked else calendar.kinds.number(after)
        heap: list[tuple[Place, int]] = []
        hopeful = allocate.hopeful()
        allocate.note_kept_away(hopeful)
        for kind in hopeful:
            first = last if kind == own_kind else roll.by_kind[kind].first(last, allocate.most_seconds(kind))
            if first is not None:
                heap.append((first, kind))
        heapify(heap)
        while heap:
            place, kind = heap[0]
            entry = place[-1]
            if kind not in allocate.hopeless and not allocate.is_refused(entry):
                self._begin(entry, promises=False)
                if not calendar.promises_no_more():
                    lanes.go_on_after(place)
                    return True
            following = None
            if kind not in allocate.hopeless:
                following = roll.by_kind[kind].first(place, allocate.most_seconds(kind))
            if following is None:
                heappop(heap)
            else:
                heapreplace(heap, (following, kind))
        return False

    def _is_like_unpromised(self, entry: GroupEntry) -> bool:
        """Whether it is refused as the first of those is, whatever that one will be promised."""
        first = self._unpromised[0][0]
        return entry.signature == first.signature and entry.group.priority <= first.group.priority

    def _promise_all(self) -> None:
        """Those who were refused for want of room are promised some now, in their order."""
        owed, self._unpromised = self._unpromised, []
        calendar = self._calendar
        for entry, refusal in owed:
            if refusal is not None:
                self._refused(entry, refusal)
            elif not calendar.promises_no_more():
                self._begin(entry)
        while self._unasked is not None and not calendar.promises_no_more():
            if (other := self._unasked()) is None:
                break
            self._begin(other)

    def _can_grow_at_once(self) -> bool:
        """Whether a group that starts has more members than it starts with."""
        groups = self._work.snapshot.groups
        return any(
            len(start.binds) < sum(len(members.pods) for members in groups[start.group].pending)
            for start in self._starts
        )

    def _grow(self, whole: Sequence[GroupEntry]) -> None:
        work, calendar, allocate = self._work, self._calendar, self._allocate
        if calendar.tiers.is_open and work.rivals is None:
            for start in grow(work, allocate, whole, self._starts, self._waits.add):
                self._keep(start)
            return
        for start in list(self._starts):
            entry = work.snapshot.groups[start.group]
            if len(start.binds) < sum(len(members.pods) for members in entry.pending):
                with work.seen_by(entry):
                    for more in grow(calendar.work_of_running(entry), allocate, [], [start], self._waits.add):
                        self._keep(more)
        for entry in whole:
            if entry.pending:
                with work.seen_by(entry):
                    for more in grow(calendar.work_of_running(entry), allocate, [entry], [], self._waits.add):
                        self._keep(more)

    def _keep(self, start: Start) -> None:
        self._starts.append(start)
        if self._emit is not None:
            self._emit(start)


def _known_start(entry: GroupEntry, why: Explanation) -> int | None:
    """For a group that is not to start before a time, that time."""
    if why.reason is Reason.NOT_BEFORE:
        return entry.group.not_before_seconds
    return entry.status.retry_at_seconds if why.reason is Reason.BACKING_OFF else None
