"""Sets of indexes as intervals: read, written, joined and searched as a status needs it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allhands.lifecycle.job.indexes import Indexes

SETS = st.sets(st.integers(0, 40))


@pytest.mark.parametrize(
    ("text", "completions", "expected"),
    [
        ("", 10, ""),
        (None, 10, ""),
        ("0", 10, "0"),
        ("0,1", 10, "0,1"),
        ("0,1,2", 10, "0-2"),
        ("0-2,3-5", 10, "0-5"),
        ("1-20", 10, "1-9"),
        ("3,10-12", 10, "3"),
        ("x,2,-4,5-,7-y", 10, "2"),
        ("5-3", 10, ""),
        ("99999999999999999999999", 10, ""),
        ("²", 10, ""),
    ],
)
def test_a_text_is_read_as_far_as_it_makes_sense(text: str | None, completions: int, expected: str) -> None:
    assert str(Indexes.parse(text, completions)) == expected


@given(SETS)
def test_what_is_written_is_read_again(indexes: set[int]) -> None:
    found = Indexes.of(indexes)
    assert Indexes.parse(str(found), 100) == found
    assert found.total == len(indexes)
    assert {it for it in range(50) if it in found} == indexes


@given(SETS, SETS)
def test_joining_and_overlapping_are_those_of_sets(first: set[int], second: set[int]) -> None:
    assert Indexes.of(first) | Indexes.of(second) == Indexes.of(first | second)
    assert Indexes.of(first).overlap(Indexes.of(second)) == len(first & second)


@given(SETS, st.integers(0, 50), st.integers(0, 50))
def test_the_first_missing_are_the_lowest_that_are_not_in(indexes: set[int], count: int, completions: int) -> None:
    expected = [it for it in range(completions) if it not in indexes][:count]
    assert Indexes.of(indexes).first_missing(count, completions) == expected


def test_the_number_of_completions_costs_nothing() -> None:
    assert Indexes.parse("0-2147483646", 2**31 - 1).total == 2**31 - 1
    assert Indexes.of([1]).first_missing(2, 2**31 - 1) == [0, 2]
