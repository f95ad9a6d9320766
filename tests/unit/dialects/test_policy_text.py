"""The text of a policy file: ours or Volcano's, read strictly."""

from __future__ import annotations

import pytest

from allhands.api.configuration import ConfigurationError
from allhands.api.policy import Backfill
from allhands.dialects.policy_text import MAX_BYTES, decode, policy_of_text

HEAD = "apiVersion: allhands.dev/v1alpha1\nkind: SchedulingPolicy\n"


def error(text: str) -> str:
    with pytest.raises(ConfigurationError) as found:
        policy_of_text(text)
    return str(found.value)


def test_our_own_policy_is_read_without_warnings() -> None:
    found = policy_of_text(HEAD + "backfill: easy\nscores: [{name: binpack, weight: 2}]\n")
    assert found.policy.backfill is Backfill.EASY
    assert found.warnings == ()


def test_volcanos_configuration_is_known_by_its_fields() -> None:
    assert policy_of_text("actions: allocate\ntiers: []\n").warnings


def test_volcanos_fields_in_our_own_policy_are_not_understood() -> None:
    assert "actions: Forbidden: there is no such field" in error(HEAD + "actions: allocate\n")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "document: Invalid value: null: expected a mapping"),
        ("- a\n", 'document: Invalid value: "a list": expected a mapping'),
        (HEAD + "backfill: easy\nbackfill: everyone\n", 'line 4: "backfill" is written twice'),
        (HEAD + "scores: [{name: binpack, name: taints}]\n", 'line 3: "name" is written twice'),
        (HEAD + "scores: [\n", "line 4: "),
        ("a: b: c\n", "line 1: mapping values are not allowed here"),
        ("a: !!python/object:os.system x\n", "could not determine a constructor"),
        (HEAD + "---\n" + HEAD, "it holds 2 documents; one is expected"),
        ("[" * 3000, "it is nested too deeply"),
        ("a: \0\n", "special characters are not allowed"),
        (HEAD + "backfill: off\n", 'backfill: Unsupported value: false: supported values: "everyone"'),
        ("x" * (MAX_BYTES + 1), "characters; at most 1048576 are read"),
    ],
    ids=lambda value: value[:40],
)
def test_text_that_is_no_policy_is_refused_with_its_line(text: str, expected: str) -> None:
    assert expected in error(text)


def test_dates_and_durations_stay_text() -> None:
    assert decode("a: 2026-01-01\nb: 1h\n") == {"a": "2026-01-01", "b": "1h"}


def test_a_text_that_would_grow_without_bound_is_refused_briefly() -> None:
    layers = "\n".join(f"l{number}: &l{number} [{', '.join([f'*l{number - 1}'] * 9)}]" for number in range(1, 12))
    assert len(error(f"{HEAD}l0: &l0 [x]\n{layers}\n")) < 10_000
