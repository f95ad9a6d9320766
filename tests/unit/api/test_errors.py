"""Refusals: their words are Go's, and they stay smaller than what they refuse."""

from __future__ import annotations

import pytest

from allhands.api.errors import MAX_CAUSES, go_quote, invalid, invalid_object, required


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("plain", '"plain"'),
        ('a"b\\c', '"a\\"b\\\\c"'),
        ("tab\tline\n", '"tab\\tline\\n"'),
        ("\x00", '"\\x00"'),
        ("é", '"é"'),
        ("\u200b", '"\\u200b"'),
    ],
)
def test_texts_are_quoted_as_go_quotes_them(text: str, quoted: str) -> None:
    assert go_quote(text) == quoted


def test_one_error_stands_alone_and_several_in_brackets() -> None:
    assert invalid_object("", "Pod", "a", [required("spec")]).message == 'Pod "a" is invalid: spec: Required value'
    both = invalid_object("batch", "Job", "a", [required("b"), required("c")]).message
    assert both == 'Job.batch "a" is invalid: [b: Required value, c: Required value]'


def test_values_are_shown_as_json_with_gos_escapes() -> None:
    assert str(invalid("a", {"b": "<c>"}, "no")) == 'a: Invalid value: {"b":"\\u003cc\\u003e"}: no'


def test_a_refusal_shows_a_bounded_number_of_causes_and_counts_the_rest() -> None:
    refusal = invalid_object("", "Pod", "a", [required(f"spec.{number}") for number in range(MAX_CAUSES + 7)])
    assert len((refusal.details or {})["causes"]) == MAX_CAUSES
    assert refusal.message.endswith("and 7 more]")
