"""Texts of our annotations are read exactly, or refused with their name, what they say and what is allowed."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.dialects.annotations import (
    EXPECTED_DURATION,
    MOST_SECONDS,
    AnnotationError,
    duration_seconds,
    expected_seconds,
    flag,
    min_available,
    topology_of,
    topology_rule,
)
from allhands.dialects.topology_labels import DEFAULT_LABELS
from allhands.model.podgroup import TopologyMode, TopologyRule
from tests.depth import examples


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        (" 90 ", 90),
        ("0", 0),
        ("0s", 0),
        ("90s", 90),
        ("45m", 2700),
        ("1h30m", 5400),
        ("2d", 172_800),
        ("1.5h", 5400),
        ("4.1h", 14_760),
        ("1ms", 1),
        ("999ms", 1),
        ("1001ms", 2),
        ("0.0001s", 1),
        ("3650d", MOST_SECONDS),
    ],
)
def test_durations_are_whole_seconds(text: str, seconds: int) -> None:
    assert duration_seconds("it", text) == seconds


@pytest.mark.parametrize(
    "text",
    ["", " ", "soon", "-5", "-5s", "5 m", "1h 30m", "s", "1.s", ".5s", "1e3", "٣s", "5S", "1h30", "+5s", "nan", "inf"],
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(AnnotationError, match=r'^it: ".*" is not a duration such as 90s, 45m or 1h30m$'):
        duration_seconds("it", text)


@pytest.mark.parametrize("text", ["3651d", "99999999999", "9" * 40, "9" * 39 + "h"])
def test_more_than_ten_years_is_a_mistake(text: str) -> None:
    with pytest.raises(AnnotationError, match="longer than ten years"):
        duration_seconds("it", text)


@pytest.mark.parametrize("text", ["9" * 200_000, "1" * 200_000 + "x", "1." * 100_000 + "h", "1h" * 100_000])
def test_a_huge_text_costs_nothing_and_is_not_repeated(text: str) -> None:
    with pytest.raises(AnnotationError) as caught:
        duration_seconds("it", text)
    assert len(str(caught.value)) < 200


def test_a_message_stays_on_one_line() -> None:
    with pytest.raises(AnnotationError) as caught:
        duration_seconds("it", "a\nb\x00c")
    assert "\n" not in str(caught.value)
    assert "\x00" not in str(caught.value)


@pytest.mark.parametrize(("text", "expected"), [("all", 7), ("3", 3), (" 1 ", 1), ("999999999", 999_999_999)])
def test_how_many_start_together(text: str, expected: int) -> None:
    assert min_available(text, 7) == expected


@pytest.mark.parametrize("text", ["", "0", "00", "-1", "2.5", "All", "50%", "²", "9999999999", "1" * 5000])
def test_a_minimum_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(AnnotationError, match='is neither a number of pods from 1 on nor "all"'):
        min_available(text, 7)


@pytest.mark.parametrize(
    ("text", "mode", "tier"),
    [
        ("rack", TopologyMode.HARD, "topology.allhands.dev/rack"),
        ("hard:rack", TopologyMode.HARD, "topology.allhands.dev/rack"),
        ("soft:zone", TopologyMode.SOFT, "topology.kubernetes.io/zone"),
        (" soft:topology.kubernetes.io/zone ", TopologyMode.SOFT, "topology.kubernetes.io/zone"),
    ],
)
def test_topology_names_a_tier_in_full_or_in_short(text: str, mode: TopologyMode, tier: str) -> None:
    assert topology_rule(text, DEFAULT_LABELS) == TopologyRule(mode, tier_name=tier)


def test_a_label_named_in_full_goes_before_one_that_ends_so() -> None:
    assert topology_rule("zone", ("example.com/zone", "zone")).tier_name == "zone"


@pytest.mark.parametrize(
    "text", ["", ":", "hard:", ":rack", "firm:rack", "hard:soft:rack", "row", "rack,zone", "x" * 9999]
)
def test_a_topology_that_makes_no_sense_is_refused_with_the_tiers_there_are(text: str) -> None:
    with pytest.raises(AnnotationError, match="one of the tiers rack, zone, region") as caught:
        topology_rule(text, DEFAULT_LABELS)
    assert len(str(caught.value)) < 300


def test_a_label_that_ends_in_a_slash_is_no_tier_without_a_name() -> None:
    with pytest.raises(AnnotationError):
        topology_rule("soft:", ("example.com/",))


def test_absent_annotations_say_nothing() -> None:
    assert expected_seconds({}) is None
    assert topology_of({}, DEFAULT_LABELS) is None


def test_flags_are_true_or_false() -> None:
    assert (flag("it", "true"), flag("it", "false")) == (True, False)
    with pytest.raises(AnnotationError, match='it: "yes" is neither "true" nor "false"'):
        flag("it", "yes")


@given(st.text())
@settings(max_examples=examples(200))
def test_any_text_is_read_or_refused(text: str) -> None:
    for read in (
        lambda: expected_seconds({EXPECTED_DURATION: text}),
        lambda: min_available(text, 3),
        lambda: topology_rule(text, DEFAULT_LABELS),
    ):
        try:
            read()
        except AnnotationError as error:
            assert str(error).startswith("allhands.dev/")
