"""Ages for people, to the letter: scripts cut them out of `kubectl get`."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allhands.api.tables.duration import human_duration, human_since, parse_time, rfc3339, time_or_none

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
SECONDS_PER_UNIT = {"s": 1, "m": 60, "h": 3600, "d": 86400, "y": 365 * 86400}
HOUR, DAY = 3600, 86400
YEAR = 365 * DAY


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        pytest.param(-2, "<invalid>", id="two seconds ahead"),
        pytest.param(-1.9, "0s", id="less than two seconds ahead is clock skew"),
        pytest.param(-0.5, "0s", id="half a second ahead"),
        pytest.param(0, "0s", id="now"),
        pytest.param(0.999, "0s", id="not yet a second"),
        pytest.param(119, "119s", id="seconds up to two minutes"),
        pytest.param(120, "2m", id="two minutes"),
        pytest.param(303, "5m3s", id="minutes with seconds"),
        pytest.param(599, "9m59s", id="seconds are shown up to ten minutes"),
        pytest.param(659, "10m", id="no seconds past ten minutes"),
        pytest.param(3 * HOUR - 1, "179m", id="minutes up to three hours"),
        pytest.param(3 * HOUR, "3h", id="three hours"),
        pytest.param(7 * HOUR + 59 * 60, "7h59m", id="minutes are shown up to eight hours"),
        pytest.param(8 * HOUR + 59 * 60, "8h", id="no minutes past eight hours"),
        pytest.param(47 * HOUR, "47h", id="hours up to two days"),
        pytest.param(48 * HOUR, "2d", id="two days"),
        pytest.param(5 * DAY + 3 * HOUR, "5d3h", id="days with hours"),
        pytest.param(8 * DAY + 23 * HOUR, "8d", id="no hours past eight days"),
        pytest.param(2 * YEAR - 1, "729d", id="days up to two years"),
        pytest.param(2 * YEAR, "2y", id="two years"),
        pytest.param(3 * YEAR + 5 * DAY, "3y5d", id="years with days"),
        pytest.param(8 * YEAR + 300 * DAY, "8y", id="no days past eight years"),
    ],
)
def test_human_duration(seconds: float, expected: str) -> None:
    assert human_duration(timedelta(seconds=seconds)) == expected


@given(st.integers(min_value=0, max_value=50 * YEAR))
def test_a_duration_never_overstates_and_drops_at_most_a_ninth(seconds: int) -> None:
    shown = sum(int(n) * SECONDS_PER_UNIT[unit] for n, unit in re.findall(r"(\d+)([a-z])", _human(seconds)))
    assert shown <= seconds
    assert (seconds - shown) * 9 <= seconds


@given(st.integers(min_value=0, max_value=50 * YEAR))
def test_a_duration_never_takes_more_than_seven_characters(seconds: int) -> None:
    assert len(_human(seconds)) <= 7


def _human(seconds: int) -> str:
    return human_duration(timedelta(seconds=seconds))


@pytest.mark.parametrize(
    ("then", "expected"),
    [
        pytest.param(None, "<unknown>", id="no timestamp"),
        pytest.param("", "<unknown>", id="an empty timestamp"),
        pytest.param("0001-01-01T00:00:00Z", "<unknown>", id="the zero time"),
        pytest.param("2026-03-01T11:59:00Z", "60s", id="a minute ago"),
        pytest.param("2026-03-01T12:59:00+01:00", "60s", id="a minute ago, told in another zone"),
        pytest.param("2026-03-01T11:58:59.123456Z", "60s", id="with microseconds"),
        pytest.param("2026-03-01T11:58:59.123456789Z", "60s", id="with nanoseconds"),
        pytest.param("2026-03-01T13:00:00Z", "<invalid>", id="an hour ahead"),
        pytest.param("yesterday", "<invalid>", id="no date at all"),
        pytest.param("2026-03-01", "<invalid>", id="a day without a time"),
        pytest.param("2026-03-01T11:59:00", "<invalid>", id="a time without a zone"),
        pytest.param("2026-13-01T11:59:00Z", "<invalid>", id="a thirteenth month"),
        pytest.param("2026-03-01 11:59:00Z", "<invalid>", id="a blank in the middle"),
    ],
)
def test_human_since(then: str | None, expected: str) -> None:
    assert human_since(then, NOW) == expected


def test_what_is_no_time_is_refused_or_absent() -> None:
    with pytest.raises(ValueError, match="not an RFC 3339 timestamp"):
        parse_time("soon")
    assert time_or_none("soon") is None
    assert rfc3339("soon") == "0001-01-01T00:00:00Z"
