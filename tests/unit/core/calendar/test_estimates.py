"""When groups end, as far as anybody knows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from allhands.core.calendar.estimates import (
    FOREVER,
    LONGEST_SECONDS,
    Estimates,
    expected_end,
    expected_ends,
    leaving_ends,
)
from allhands.core.facts import PastRuns
from allhands.model.podgroup import PodGroup
from allhands.model.queue import Queue

TIMES = st.integers(-(1 << 36), 1 << 36)


@given(TIMES, st.integers(1, 1 << 30), TIMES)
def test_an_estimate_doubles_until_its_end_lies_ahead(start: int, seconds: int, now: int) -> None:
    end = expected_end(start, seconds, now)
    assert end > now
    length = end - start
    assert length % seconds == 0
    assert (length // seconds).bit_count() == 1, "a power of two"
    assert length == seconds or start + length // 2 <= now, "the smallest that will do"


@given(st.lists(st.tuples(TIMES, st.integers(0, 1 << 30)), max_size=8), TIMES)
def test_many_at_once_are_the_same_as_each_alone(runs: list[tuple[int, int]], now: int) -> None:
    starts, seconds = (np.array([run[index] for run in runs], dtype=np.int64) for index in (0, 1))
    assert expected_ends(starts, seconds, now).tolist() == [expected_end(*run, now) for run in runs]


@pytest.mark.parametrize("start", [-(1 << 62), 0, 1 << 62])
@pytest.mark.parametrize("seconds", [0, 1, 1 << 62])
def test_absurd_times_stay_within_bounds(start: int, seconds: int) -> None:
    end = expected_end(start, seconds, 1_700_000_000)
    assert 1_700_000_000 < end < FOREVER


def test_a_pod_that_does_not_go_is_expected_to_take_twice_as_long() -> None:
    assert leaving_ends(np.array([1000, 990, 0]), 1000).tolist() == [1030, 1020, 1920]


def group(seconds: int | None, queue: str = "q") -> PodGroup:
    return PodGroup("ns", "g", queue, expected_duration_seconds=seconds)


def test_a_duration_is_at_least_a_second_and_has_an_end() -> None:
    estimates = Estimates({}, {})
    assert estimates.duration(group(0)) == 1
    assert estimates.duration(group(1 << 62)) == LONGEST_SECONDS
    assert estimates.duration(group(None)) is None
    assert estimates.end(group(None), 5) == FOREVER
    assert estimates.end(group(7), 5) == 12


def test_past_runs_count_only_if_there_were_any() -> None:
    estimates = Estimates({"a": Queue("a")}, {"a": PastRuns(60, 3), "b": PastRuns(60, 0), "gone": PastRuns(-5, 1)})
    assert estimates.duration(group(None, "a")) == 60
    assert estimates.duration(group(None, "b")) is None
    assert estimates.duration(group(None, "gone")) == 1
