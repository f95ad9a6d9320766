"""When a group that its queues refuse may start: when enough of what charges the same queues has ended.

The first group of a queue is asked for with the quota book itself, as it would stand after each end. Those behind it
are reckoned by the resource that was short: each needs as much more to be given back as those before it ask for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from allhands.core.calendar.estimates import FOREVER
from allhands.core.calendar.fluid import Guess
from allhands.model.queue import ANY_FLAVOR
from allhands.model.reason import Reason

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allhands.core.gang import Part
    from allhands.core.quota.bill import Bill
    from allhands.core.quota.book import QuotaBook
    from allhands.core.snapshot import GroupEntry
    from allhands.model.reason import Explanation

TIME_HELPS = frozenset(
    (
        Reason.QUEUE_OVER_CAPABILITY,
        Reason.QUEUE_OVER_DESERVED,
        Reason.BORROWING_LIMIT,
        Reason.QUEUE_RUNNING_LIMIT,
        Reason.USER_LIMIT,
        Reason.USER_RUNNING_LIMIT,
    )
)
"""Refusals that end when others do."""


class Refused(NamedTuple):
    entry: GroupEntry
    bill: Bill
    why: Explanation
    seconds: int | None
    part: Part
    is_only_choice: bool
    """Whether no other flavor could have it."""


class Charge(NamedTuple):
    """What runs and charges a queue."""

    end: int
    key: str
    bill: Bill
    holding: tuple[tuple[str, int], ...]


def charge_of(book: QuotaBook, entry: GroupEntry, end: int, holding: tuple[tuple[str, int], ...]) -> Charge:
    group = entry.group
    accounts = group.accounts or ((group.queue,) if group.queue else ())
    bill = book.bill(accounts, tuple((ANY_FLAVOR, name, units) for name, units in holding))
    return Charge(end, group.key, bill, holding)


def first_to_allow(book: QuotaBook, bill: Bill, charges: Sequence[Charge]) -> int | None:
    """How many of these must have ended for the bill to be allowed; None if all of them do not suffice.

    The book is a private copy; it is left as it was.
    """
    ended = 0

    def go_to(number: int) -> None:
        nonlocal ended
        for charge in charges[ended:number]:
            book.give_back(charge.bill)
        for charge in charges[number:ended]:
            book.take(charge.bill)
        ended = number

    go_to(len(charges))
    low, high = 1, len(charges)
    possible = book.refusal(bill) is None
    while possible and low < high:
        middle = (low + high) // 2
        go_to(middle)
        if book.refusal(bill) is None:
            high = middle
        else:
            low = middle + 1
    go_to(0)
    return high if possible and charges else None


def guess_queue(book: QuotaBook | None, waiting: Sequence[Refused], charges: Sequence[Charge]) -> list[Guess]:
    """For the refused groups of one queue, in order. Without a book the first of them is only reckoned, too."""
    charges = sorted(charges, key=lambda charge: (charge.end, charge.key))
    first = waiting[0]
    resource = next((str(value) for name, value in first.why.numbers if name == "resource"), "")
    given_back = _running_sums(charges, resource)
    if book is not None:
        needed = first_to_allow(book, first.bill, charges)
    else:
        needed = _first_with(given_back, _amount(first, resource))
    if needed is None:
        return [Guess(None)] * len(waiting)
    queue = _Queue(charges, given_back)
    guesses = []
    # The first needs at most what it asks for, unless the queue has more than it may.
    own = _amount(first, resource)
    before = given_back[needed - 2] if needed > 1 else 0
    wanted = (own if before < own <= given_back[needed - 1] else given_back[needed - 1]) - own
    for number, refused in enumerate(waiting):
        wanted += _amount(refused, resource)
        # Where no resource is named, one must end for each.
        turn = _first_with(given_back, wanted) if resource else needed + number
        guesses.append(queue.guess(len(charges) + 1 if turn is None else max(needed, turn), wanted))
        queue.pass_by(refused)
    return guesses


class _Queue:
    """What runs, and who has been reckoned to start when it ends."""

    def __init__(self, charges: Sequence[Charge], given_back: Sequence[int]) -> None:
        self._charges = charges
        self._given_back = given_back
        self._passed = self._seconds = 0
        self._unbounded = ""

    def pass_by(self, refused: Refused) -> None:
        self._passed += 1
        self._seconds += refused.seconds or 0
        if refused.seconds is None:
            self._unbounded = self._unbounded or refused.entry.group.key

    def guess(self, turn: int, wanted: int) -> Guess:
        if turn <= len(self._charges):
            charge = self._charges[turn - 1]
            return Guess(charge.end) if charge.end < FOREVER else Guess(None, charge.key)
        last = self._charges[-1]
        if last.end >= FOREVER:
            return Guess(None, last.key)
        if self._unbounded or not self._passed:
            return Guess(None, self._unbounded)
        mean, all_of_it = self._seconds // self._passed, self._given_back[-1]
        return Guess(last.end + mean * max(wanted - all_of_it, 0) // max(1, all_of_it))


def _running_sums(charges: Sequence[Charge], resource: str) -> list[int]:
    sums, total = [], 0
    for charge in charges:
        total += next((units for name, units in charge.holding if name == resource), 0)
        sums.append(total)
    return sums


def _first_with(sums: Sequence[int], wanted: int) -> int | None:
    low, high = 0, len(sums)
    while low < high:
        middle = (low + high) // 2
        if sums[middle] >= wanted:
            high = middle
        else:
            low = middle + 1
    return low + 1 if low < len(sums) else None


def _amount(refused: Refused, resource: str) -> int:
    entry = refused.entry
    if not resource:
        return 0
    return sum(members.shape.requests.get(resource) * len(members.pods) for members in entry.pending)
