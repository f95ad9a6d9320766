"""When schedules fire: fields, names, steps, ranges, macros, zones, and clocks that are put forward and back."""

from __future__ import annotations

import datetime
import zoneinfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.lifecycle.cron_schedule import Every, Fields, ScheduleError, local_text, parse_schedule
from tests.depth import examples


def at(text: str) -> float:
    return datetime.datetime.fromisoformat(text).timestamp()


def times(schedule: str, after: str, count: int, zone: str | None = None) -> list[str]:
    moment: float | None = at(after)
    found = []
    for _ in range(count):
        moment = parse_schedule(schedule, zone).next_after(moment or 0)
        if moment is None:
            break
        found.append(datetime.datetime.fromtimestamp(moment, datetime.UTC).strftime("%Y-%m-%dT%H:%MZ"))
    return found


@pytest.mark.parametrize(
    ("schedule", "after", "expected"),
    [
        ("*/20 * * * *", "2026-01-01T00:00:30Z", ["2026-01-01T00:20Z", "2026-01-01T00:40Z"]),
        ("0 9-17/4 * * mon-fri", "2026-01-02T14:00:00Z", ["2026-01-02T17:00Z", "2026-01-05T09:00Z"]),
        ("5 4 * JAN,jul SUN", "2026-01-26T00:00:00Z", ["2026-07-05T04:05Z"]),
        ("0 0 13 * 5", "2026-01-10T00:00:00Z", ["2026-01-13T00:00Z", "2026-01-16T00:00Z"]),
        ("0 0 */10 * 5", "2026-01-10T00:00:00Z", ["2026-01-11T00:00Z", "2026-01-16T00:00Z"]),
        ("0 0 */1 * 5", "2026-01-10T00:00:00Z", ["2026-01-16T00:00Z", "2026-01-23T00:00Z"]),
        ("0 0 29 2 ?", "2026-01-01T00:00:00Z", ["2028-02-29T00:00Z", "2032-02-29T00:00Z"]),
        ("50/5 23 31 12 *", "2026-12-31T23:51:00Z", ["2026-12-31T23:55Z", "2027-12-31T23:50Z"]),
        ("@yearly", "2026-01-01T00:00:00Z", ["2027-01-01T00:00Z"]),
        ("@monthly", "2026-01-01T00:00:00Z", ["2026-02-01T00:00Z"]),
        ("@weekly", "2026-01-01T00:00:00Z", ["2026-01-04T00:00Z"]),
        ("@midnight", "2026-01-01T00:00:00Z", ["2026-01-02T00:00Z"]),
        ("@hourly", "2026-01-01T00:59:59Z", ["2026-01-01T01:00Z", "2026-01-01T02:00Z"]),
        ("TZ=Asia/Kolkata 0 0 1 * *", "2026-01-01T00:00:00Z", ["2026-01-31T18:30Z"]),
        ("CRON_TZ=Asia/Tokyo @daily", "2026-01-01T00:00:00Z", ["2026-01-01T15:00Z"]),
        ("@every 90m", "2026-01-01T00:10:30Z", ["2026-01-01T01:40Z", "2026-01-01T03:10Z"]),
        ("59 23 31 2 *", "2026-01-01T00:00:00Z", []),
        (", * * * *", "2026-01-01T00:00:00Z", []),
    ],
)
def test_a_schedule_fires_when_its_fields_say(schedule: str, after: str, expected: list[str]) -> None:
    assert times(schedule, after, 2)[: len(expected)] == expected
    assert len(times(schedule, after, 2)) >= len(expected)
    assert bool(times(schedule, after, 2)) == bool(expected)


def test_an_hour_that_clocks_skip_fires_nothing() -> None:
    assert times("30 2 * * *", "2026-03-27T12:00:00Z", 3, "Europe/Berlin") == [
        "2026-03-28T01:30Z",
        "2026-03-30T00:30Z",
        "2026-03-31T00:30Z",
    ]


def test_an_hour_that_clocks_repeat_fires_twice() -> None:
    assert times("30 2 * * *", "2026-10-24T12:00:00Z", 3, "Europe/Berlin") == [
        "2026-10-25T00:30Z",
        "2026-10-25T01:30Z",
        "2026-10-26T01:30Z",
    ]


def test_a_zone_whose_clocks_move_at_midnight_is_followed() -> None:
    assert times("0 0 * * *", "2026-09-05T12:00:00Z", 2, "America/Santiago")[0] != "2026-09-06T04:00Z"


@pytest.mark.parametrize(
    ("schedule", "zone", "text"),
    [
        ("* * *", None, "expected exactly 5 fields"),
        ("60 * * * *", None, "above maximum"),
        ("* * * * *", "Mars/Olympus", "unknown time zone"),
        ("@fortnightly", None, "unrecognized descriptor"),
        ("@every soon", None, "invalid duration"),
        (f"{'9' * 4000} * * * *", None, "value out of range"),
        ("-5 * * * *", None, "failed to parse int"),
        ("*/0 * * * *", None, "step of range should be a positive number"),
    ],
)
def test_a_schedule_that_is_none_is_refused_with_the_reason(schedule: str, zone: str | None, text: str) -> None:
    with pytest.raises(ScheduleError, match=text):
        parse_schedule(schedule, zone)


def test_intervals_are_whole_seconds_and_at_least_one() -> None:
    assert parse_schedule("@every 1h30m10.9s") == Every(5410)
    assert parse_schedule("@every 10ms") == Every(1)
    assert parse_schedule("@every -5m") == Every(1)
    assert Every(60).last_within(100, 99) is None
    assert Every(60).last_within(100, 10_000) == 9_940 + 60


ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "America/Santiago")


@st.composite
def schedules(draw: st.DrawFn) -> str:
    def field(low: int, high: int) -> str:
        kind = draw(st.sampled_from(["*", "number", "range", "step"]))
        first = draw(st.integers(low, high))
        if kind == "*":
            return "*"
        if kind == "number":
            return str(first)
        if kind == "range":
            return f"{first}-{draw(st.integers(first, high))}"
        return f"*/{draw(st.integers(1, high))}"

    return " ".join(field(*bounds) for bounds in ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6)))


@given(
    schedules(), st.sampled_from(ZONES), st.integers(int(at("2026-01-01T00:00:00Z")), int(at("2026-12-31T00:00:00Z")))
)
@settings(max_examples=examples(60))
def test_the_next_time_is_the_first_minute_whose_clock_the_fields_allow(text: str, zone: str, after: int) -> None:
    schedule = parse_schedule(text, zone)
    assert isinstance(schedule, Fields)
    found = schedule.next_after(after)
    clock = zoneinfo.ZoneInfo(zone)
    moment = after // 60 * 60 + 60
    for _ in range(3 * 24 * 60):
        local = datetime.datetime.fromtimestamp(moment, clock)
        days = local.day in schedule.days, local.isoweekday() % 7 in schedule.weekdays
        allowed = any(days) if schedule.either_day else all(days)
        if (
            allowed
            and local.month in schedule.months
            and local.hour in schedule.hours
            and local.minute in schedule.minutes
        ):
            assert found == moment
            return
        moment += 60
    assert found is None or found >= moment


@given(schedules(), st.integers(0, 400_000), st.integers(0, 400_000))
@settings(max_examples=examples(60))
def test_the_last_time_within_a_span_is_the_last_of_all_that_follow_one_another(
    text: str, begin: int, length: int
) -> None:
    schedule = parse_schedule(text)
    after = at("2026-03-01T00:00:00Z") + begin
    last, following = None, schedule.next_after(after)
    while following is not None and following <= after + length:
        last, following = following, schedule.next_after(following)
    assert schedule.last_within(after, after + length) == last


def test_years_of_missed_minutes_are_not_walked_through() -> None:
    assert parse_schedule("* * * * *").last_within(0, at("2026-01-01T00:00:30Z")) == at("2026-01-01T00:00:00Z")


def test_moments_are_written_as_the_zone_writes_them() -> None:
    moment = int(at("2026-07-01T10:00:00Z"))
    assert local_text(moment, None) == "2026-07-01T10:00:00Z"
    assert local_text(moment, "Asia/Kolkata") == "2026-07-01T15:30:00+05:30"
