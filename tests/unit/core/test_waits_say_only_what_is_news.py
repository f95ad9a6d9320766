"""Owners are told again only when the reason changes or the expected start moves by more than a tenth of the wait."""

from __future__ import annotations

import pytest

from allhands.core.snapshot import GroupEntry
from allhands.core.waits import Waits
from allhands.model.group_status import GroupStatus, Said
from allhands.model.podgroup import PodGroup
from allhands.model.reason import Explanation, Reason, explain
from tests.unit.core.calendar.rooms import NOW, Rooms

SHORT = explain(Reason.INSUFFICIENT_RESOURCES, fits=1, need=2, resource="cpu", short="1")
SHORTER = explain(Reason.INSUFFICIENT_RESOURCES, fits=0, need=2, resource="cpu", short="2")
HELD = explain(Reason.QUEUE_HELD, queue="q")


def entry(said: Said | None = None) -> GroupEntry:
    return GroupEntry(PodGroup("ns", "g", "q"), status=GroupStatus(said=said))


@pytest.mark.parametrize(
    ("said", "why", "start", "is_news"),
    [
        (None, SHORT, None, True),
        (Said(SHORT), SHORT, None, False),
        (Said(SHORT), SHORTER, None, False),
        (Said(HELD), SHORT, None, True),
        (Said(SHORT), SHORT.with_more("For good.", never=1), None, True),
        (Said(SHORT), SHORT, NOW + 100, True),
        (Said(SHORT, NOW + 100), SHORT, None, True),
        (Said(SHORT, NOW + 100), SHORT, NOW + 110, False),
        (Said(SHORT, NOW + 100), SHORT, NOW + 111, True),
        (Said(SHORT, NOW + 100), SHORT, NOW + 90, False),
        (Said(SHORT, NOW - 5), SHORT, NOW + 1, True),
        (Said(SHORT, NOW - 5), SHORT, NOW - 5, False),
    ],
    ids=[
        "the first word is news",
        "the same is not",
        "other numbers are not",
        "another reason is",
        "that it is for good is",
        "a start where none was known is",
        "no start where one was known is",
        "a tenth of the wait is not",
        "more than a tenth is",
        "nor a tenth earlier",
        "a start that is over and moves is",
        "one that does not move is not",
    ],
)
def test_what_is_news(said: Said | None, why: Explanation, start: int | None, is_news: bool) -> None:
    waits = Waits(Rooms(4).work())
    waits.add(entry(said), why, start)
    assert [wait.say for wait in waits.all()] == [is_news]


def test_what_is_no_news_yet_is_told_when_the_start_has_come_near_enough() -> None:
    work = Rooms(4).work()
    waits = Waits(work)
    waits.add(entry(Said(SHORT, NOW + 100)), SHORT, NOW + 105)
    assert not waits.all()[0].say
    assert work.wakes_at == NOW + 51, "then the remaining wait is 49 seconds, and 5 are more than a tenth of it"


def test_an_expectation_replaces_the_words_only_for_the_same_reason() -> None:
    waits = Waits(Rooms(4).work())
    waits.add(entry(), HELD)
    waits.expect(entry(), NOW + 5, why=SHORT)
    assert (waits.all()[0].explanation, waits.all()[0].expected_start_seconds) == (HELD, NOW + 5)
    waits.add(entry(), SHORT)
    waits.expect(entry(), None, "ns/other", SHORTER)
    assert (waits.all()[0].explanation, waits.all()[0].unknown_because_of) == (SHORTER, "ns/other")


def test_nobody_is_told_a_time_who_does_not_wait() -> None:
    waits = Waits(Rooms(4).work())
    waits.expect(entry(), NOW + 5)
    assert waits.all() == ()
