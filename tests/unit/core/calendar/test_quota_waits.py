"""When those whom their queues refuse may start: as soon as enough of what charges the same queues has ended."""

from __future__ import annotations

import pytest

from allhands.core.calendar.estimates import FOREVER
from allhands.core.calendar.quota_waits import Charge, Refused, charge_of, first_to_allow, guess_queue
from allhands.core.gang import Part
from allhands.core.quota.book import QuotaBook
from allhands.core.snapshot import GroupEntry, Members, PodRef
from allhands.model.pod import Pod
from allhands.model.podgroup import PodGroup, Slot
from allhands.model.queue import ANY_FLAVOR, Queue, Quota
from allhands.model.reason import Reason, explain
from allhands.model.resources import ResourceVector
from allhands.model.shape import PodShape


def book() -> QuotaBook:
    quotas = (Quota("gpu", capability=10),)
    return QuotaBook.build((Queue("q", quotas=quotas),), {ANY_FLAVOR: ResourceVector.of({"gpu": 100})})


def entry(name: str, gpus: int, seconds: int | None = None) -> GroupEntry:
    shape = PodShape.of(Pod("ns", name, requests=ResourceVector.of({"gpu": gpus})), None)
    group = PodGroup("ns", name, "q", expected_duration_seconds=seconds)
    return GroupEntry(group, (Members(Slot("", ""), shape, (PodRef(f"ns/{name}", name),)),))


def running(into: QuotaBook, *groups: tuple[str, int, int]) -> list[Charge]:
    """(name, gpus, end), charged."""
    charges = [charge_of(into, entry(name, gpus), end, (("gpu", gpus),)) for name, gpus, end in groups]
    for charge in charges:
        into.take(charge.bill)
    return charges


def refused(into: QuotaBook, name: str, gpus: int, seconds: int | None = 10) -> Refused:
    bill = into.bill(("q",), ((ANY_FLAVOR, "gpu", gpus),))
    over = explain(Reason.QUEUE_OVER_CAPABILITY, queue="q", used=0, limit=0, resource="gpu", request=0)
    why = into.refusal(bill) or over
    return Refused(entry(name, gpus), bill, why, seconds, Part("", None, ()), is_only_choice=True)


@pytest.mark.parametrize(("gpus", "needed"), [(2, 1), (5, 2), (6, 3), (10, 3), (11, None)])
def test_how_many_must_end_is_found_with_the_book_and_leaves_it_as_it_was(gpus: int, needed: int | None) -> None:
    ledger = book()
    charges = running(ledger, ("a", 3, 10), ("b", 2, 20), ("c", 5, 30))
    before = ledger.state()
    assert first_to_allow(ledger, refused(ledger, "w", gpus).bill, charges) == needed
    assert ledger.state() == before


def test_each_waits_for_as_much_more_as_those_before_it_ask_for() -> None:
    ledger = book()
    charges = running(ledger, ("c", 5, 30), ("a", 3, 10), ("b", 2, 20))
    waiting = [refused(ledger, f"w{number}", gpus) for number, gpus in enumerate((2, 2, 1, 6))]
    starts = [guess.start for guess in guess_queue(ledger, waiting, charges)]
    assert starts == [10, 20, 20, 31]


def test_without_the_book_the_first_is_reckoned_like_the_others() -> None:
    ledger = book()
    charges = running(ledger, ("a", 3, 10), ("b", 2, 20), ("c", 5, 30))
    assert [guess.start for guess in guess_queue(None, [refused(ledger, "w", 5)], charges)] == [20]


def test_a_group_without_a_limit_that_stands_in_the_way_is_named() -> None:
    ledger = book()
    charges = running(ledger, ("a", 3, 10), ("b", 7, FOREVER))
    waiting = [refused(ledger, "small", 3), refused(ledger, "large", 5)]
    assert [(guess.start, guess.because_of) for guess in guess_queue(ledger, waiting, charges)] == [
        (10, ""),
        (None, "ns/b"),
    ]


def test_behind_one_that_does_not_say_how_long_it_takes_nobody_knows() -> None:
    ledger = book()
    charges = running(ledger, ("a", 10, 10))
    waiting = [refused(ledger, "forever", 10, None), refused(ledger, "next", 10)]
    assert [(guess.start, guess.because_of) for guess in guess_queue(ledger, waiting, charges)] == [
        (10, ""),
        (None, "ns/forever"),
    ]


def test_a_group_that_asks_for_more_than_the_queue_may_ever_have_is_told_no_time() -> None:
    ledger = book()
    charges = running(ledger, ("a", 10, 10))
    assert [guess.start for guess in guess_queue(ledger, [refused(ledger, "huge", 11)], charges)] == [None]
    assert [guess.start for guess in guess_queue(book(), [refused(ledger, "huge", 11)], [])] == [None]
