"""Tells every waiting group when it can expect to start, or who prevents an answer.

For the first groups in line the answer is exact for what is known: each is placed, for trial, after those before it.
For those behind them, and for groups that their queues refuse, it is reckoned (`fluid`, `quota_waits`). Nothing here
decides anything: what starts now has been decided before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from allhands.core.calendar.estimates import FOREVER
from allhands.core.calendar.fluid import Guess, demand_of, pour
from allhands.core.calendar.quota_waits import Charge, Refused, charge_of, guess_queue
from allhands.core.never import QuotaAlone, why_never_held
from allhands.core.policy import Backfill
from allhands.model.reason import AFTER, AFTER_IN_DOMAINS, AFTER_UNKNOWN, Reason, explain
from allhands.model.time_text import utc_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from allhands.core.calendar.calendar import Blocked, Calendar
    from allhands.core.calendar.search import Found
    from allhands.core.columns import Column
    from allhands.core.quota.book import QuotaBook
    from allhands.core.waits import Waits
    from allhands.core.work import Work
    from allhands.model.reason import Explanation

EXPLAINED: frozenset[Reason] = frozenset({Reason.INSUFFICIENT_RESOURCES, Reason.TOPOLOGY})
"""Reasons to which it is added after whom the group can start."""


class Expectations:
    def __init__(self, work: Work, calendar: Calendar, book: QuotaBook) -> None:
        self._work = work
        self._calendar = calendar
        self._book = book
        self._guesses: dict[str, Guess] = {}

    def tell(self, waits: Waits, refused: Sequence[Refused]) -> None:
        """`refused` are those whom their queues do not allow to start, in order."""
        blocked = self._calendar.blocked
        if blocked:
            exact = self._tell_exactly(waits, blocked)
            if exact < len(blocked):
                self._tell_roughly(waits, blocked, exact)
        if refused:
            self._tell_refused(waits, refused)

    # -- for want of room

    def _tell_exactly(self, waits: Waits, blocked: Sequence[Blocked]) -> int:
        """How many of the blocked groups have been told."""
        calendar = self._calendar
        kept = {promise.owner for promise in calendar.promises}
        promises = calendar.suppose()
        for number, group in enumerate(blocked[: self._work.policy.max_reservations]):
            key = group.entry.group.key
            if group.behind and (first := self._guesses.get(group.behind)) is not None and first.start is None:
                self._guesses[key] = first
                waits.expect(group.entry, None, first.because_of)
                continue
            if key in kept:
                found: Found | None = calendar.found.get(key)
            else:
                not_before = self._guesses[group.behind].start if group.behind in self._guesses else None
                ask, found = calendar.earliest(group, not_before or 0)
                if found is None and calendar.budget.left <= 0:
                    return number
                if found is not None and found.is_known:
                    promises.append(found.promise(ask, len(promises)))
            self._tell(waits, group, found)
        return min(len(blocked), self._work.policy.max_reservations)

    def _tell(self, waits: Waits, group: Blocked, found: Found | None) -> None:
        if found is None:
            guess = Guess(None)
        elif found.is_known:
            guess = Guess(found.time)
        else:
            guess = Guess(None, found.after)
            if self._work.policy.backfill is not Backfill.OFF:
                self._calendar.is_due_to_drain(group.entry)
        self._guesses[group.entry.group.key] = guess
        waits.expect(group.entry, guess.start, guess.because_of, None if group.behind else self._explain(group, found))

    def _explain(self, group: Blocked, found: Found | None) -> Explanation | None:
        """The reason with when and after whom; None if there is nothing to add."""
        why = group.why
        if why.reason not in EXPLAINED:
            return None
        if found is None:
            if any(self._work.state(members.shape).is_dynamic for members in group.entry.pending):
                return None
            never = why_never_held(self._work, group.entry, group.part)
            return never or explain(Reason.GROUP_NEVER_FITS, need=group.part.count)
        if not found.after:
            return None
        if not found.is_known:
            return why.with_more(AFTER_UNKNOWN, after=found.after)
        when = utc_text(found.time)
        if found.domains is None:
            return why.with_more(AFTER, after=found.after, expected=when)
        return why.with_more(AFTER_IN_DOMAINS, serving=found.domains, after=found.after, expected=when)

    def _tell_roughly(self, waits: Waits, blocked: Sequence[Blocked], first: int) -> None:
        calendar = self._calendar
        numbers: dict[int, int] = {}
        order: list[int] = []
        demands: list[Column] = []
        for group in blocked:
            number = numbers.get(group.kind)
            if number is None:
                number = numbers[group.kind] = len(demands)
                demands.append(demand_of(self._work, group.entry, group.part))
            order.append(number)
        free = np.maximum(self._work.room.free, 0).sum(axis=1)
        duration = calendar.estimates.duration
        seconds = [duration(group.entry.group) for group in blocked]
        guesses = pour(calendar.search_for().future.releases, free, np.array(demands)[order], seconds)
        unbounded = next((group for group, it in zip(blocked, seconds, strict=True) if it is None), None)
        blocker = guesses.because_of or (unbounded.entry.group.key if unbounded is not None else "")
        for group, start in zip(blocked[first:], guesses.starts[first:].tolist(), strict=True):
            if start < FOREVER:
                waits.expect(group.entry, start)
            else:
                waits.expect(group.entry, None, blocker)

    # -- for want of quota

    def _tell_refused(self, waits: Waits, refused: Sequence[Refused]) -> None:
        by_queue: dict[str, list[Refused]] = {}
        for it in self._not_for_good(waits, refused):
            by_queue.setdefault(it.entry.group.queue, []).append(it)
        charges = self._charges()
        exact = self._work.policy.max_reservations
        book = self._book.copy()
        for number, waiting in enumerate(by_queue.values()):
            own: dict[str, Charge] = {}
            for account in waiting[0].bill.names:
                own.update((charge.key, charge) for charge in charges.get(account, ()))
            guesses = guess_queue(book if number < exact else None, waiting, list(own.values()))
            if number < exact and guesses[0] == Guess(None) and waiting[0].why.reason is Reason.QUEUE_OVER_DESERVED:
                # What is kept for others may be given back by anybody.
                everybody = {charge.key: charge for charged in charges.values() for charge in charged}
                guesses = guess_queue(book, waiting, list(everybody.values()))
            for it, guess in zip(waiting, guesses, strict=True):
                waits.expect(it.entry, guess.start, guess.because_of)

    def _not_for_good(self, waits: Waits, refused: Sequence[Refused]) -> Iterator[Refused]:
        """Those whom time may help. The others are told that it will not, and nobody is told to wait for them."""
        kinds = self._calendar.kinds
        alone = QuotaAlone(self._book)
        never: dict[int, Explanation | None] = {}
        for it in refused:
            kind = kinds.number(it.entry)
            if kind not in never:
                never[kind] = why_never_held(self._work, it.entry, it.part)
            why = never[kind]
            if why is None and it.is_only_choice:
                why = alone.why_never(it.bill)
            if why is None:
                yield it
            else:
                waits.add(it.entry, why)

    def _charges(self) -> dict[str, list[Charge]]:
        """What runs, by the accounts that it charges."""
        calendar, work = self._calendar, self._work
        by_account: dict[str, list[Charge]] = {}
        running = calendar.running
        found = [
            charge_of(self._book, entry, end, entry.holding)
            for entry, end in zip(running.entries, running.ends.tolist(), strict=True)
        ]
        names = work.snapshot.columns.resources
        started = calendar.started_groups()
        for entry, placed, end in started:
            units = [0] * len(names)
            for take, _ in placed.picks:
                for column, amount in work.state(entry.pending[take.members].shape).request:
                    units[column] += amount * take.number
            holding = tuple((name, amount) for name, amount in zip(names, units, strict=True) if amount)
            found.append(charge_of(self._book, entry, end, holding))
        for charge in found:
            for account in charge.bill.names:
                by_account.setdefault(account, []).append(charge)
            if charge.end < FOREVER:
                work.wake_at(charge.end)
        if started:
            work.wake_at(work.now + 1)
        return by_account
