"""Reasons are words for programs, explanations sentences for people."""

from __future__ import annotations

import re
import string

import msgspec
import pytest

from allhands.model.reason import SENTENCES, Explanation, Reason, explain


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_is_a_condition_reason_and_has_one_sentence(reason: Reason) -> None:
    assert re.fullmatch(r"([A-Z][a-z]+)+", reason.value)
    names = [name for _, name, _, _ in string.Formatter().parse(SENTENCES[reason]) if name]
    sentence = str(explain(reason, **dict.fromkeys(names, 7)))
    assert "{" not in sentence
    if reason is not Reason.INVALID:
        assert sentence.endswith(".")
        assert sentence[0].isupper() or sentence[0].isdigit()


def test_an_explanation_shows_its_numbers() -> None:
    why = explain(Reason.QUEUE_OVER_CAPABILITY, queue="ml", used="60", limit="64", resource="cpu", request="8")
    assert str(why) == 'Queue "ml" uses 60 of its capability of 64 cpu; the group asks for 8.'
    assert why.number("limit") == "64"


def test_equal_explanations_are_equal_whatever_the_order_of_numbers() -> None:
    one, other = explain(Reason.GANG_INCOMPLETE, have=3, need=8), explain(Reason.GANG_INCOMPLETE, need=8, have=3)
    assert one == other
    assert hash(one) == hash(other)
    assert one != explain(Reason.GANG_INCOMPLETE, have=4, need=8)


def test_an_explanation_survives_a_dump() -> None:
    why = explain(Reason.GANG_INCOMPLETE, have=3, need=8, namespace="ml")
    assert msgspec.json.decode(msgspec.json.encode(why), type=Explanation) == why


def test_values_are_data_and_stay_on_one_line() -> None:
    assert str(explain(Reason.QUEUE_CLOSED, queue="{0.__class__}\n  x")) == 'Queue "{0.__class__} x" is closed.'


def test_a_sentence_of_ones_own_is_checked_like_the_standard_ones() -> None:
    assert str(Explanation(Reason.TOPOLOGY, "Only {racks} racks are up.", (("racks", 2),))) == "Only 2 racks are up."
    with pytest.raises(ValueError, match="TopologyUnsatisfied: the sentence needs racks"):
        Explanation(Reason.TOPOLOGY, "Only {racks} racks are up.")
    with pytest.raises(ValueError, match="a number is given twice: n, n"):
        Explanation(Reason.TOPOLOGY, "{n}", (("n", 1), ("n", 2)))
    with pytest.raises(ValueError, match="only plain names"):
        Explanation(Reason.TOPOLOGY, "{a.__class__}", (("a", 1),))
    with pytest.raises(ValueError, match="only plain names"):
        Explanation(Reason.TOPOLOGY, "{a!r:>9999999999}", (("a", 1),))


def test_a_standard_sentence_without_its_numbers_is_refused() -> None:
    with pytest.raises(ValueError, match="GangIncomplete: the sentence needs need"):
        explain(Reason.GANG_INCOMPLETE, have=1)
