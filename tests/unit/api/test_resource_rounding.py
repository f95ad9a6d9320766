"""Amounts in resource lists are kept in thousandths, however they are written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allhands.api.builtin.resource_lists import round_to_milli
from allhands.model.quantity import canonical, canonical_resource

CASES = {
    "1n": "1m",
    "1500u": "2m",
    "1.500m": "2m",
    "1.123456": "1124m",
    "-1.500m": "-2m",
    "1.500": "1.500",
    "2e-4": "1e-3",
}


@pytest.mark.parametrize(("text", "wanted"), CASES.items())
def test_finer_amounts_are_rounded_away_from_zero(text: str, wanted: str) -> None:
    amounts = {"cpu": canonical(text)}
    round_to_milli(amounts)
    assert amounts == {"cpu": wanted}


@given(
    number=st.from_regex(r"\A-?[0-9]{1,6}(\.[0-9]{0,10})?\Z"),
    suffix=st.sampled_from(["", "n", "u", "m", "k", "Ki", "e-5", "E-6"]),
)
def test_it_is_the_rounding_of_the_model(number: str, suffix: str) -> None:
    amounts = {"cpu": canonical(number + suffix)}
    round_to_milli(amounts)
    assert amounts == {"cpu": canonical_resource(number + suffix)}
