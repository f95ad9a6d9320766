"""Laws of quantities over random values and random texts, with exact fractions as the judge."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from allhands.model.quantity import Format, Quantity, QuantityError, canonical, canonical_resource

quantities = st.builds(
    Quantity,
    nanos=st.one_of(
        st.integers(-(10**30), 10**30),
        st.builds(lambda mantissa, power: mantissa * 10**power, st.integers(-999, 999), st.integers(0, 40)),
    ),
    format=st.sampled_from([Format.DECIMAL_SI, Format.DECIMAL_EXPONENT]),
) | st.builds(
    # Beyond 2^63-1 a binary text is capped, so values end there.
    lambda mantissa, shift: Quantity(max(-LARGEST, min(LARGEST, mantissa << shift)), Format.BINARY_SI),
    st.integers(-(2**63), 2**63),
    st.integers(0, 60),
)

LARGEST = (2**63 - 1) * 10**9

DECIMAL_POWERS = {
    "n": -9,
    "u": -6,
    "m": -3,
    "": 0,
    "k": 3,
    "M": 6,
    "G": 9,
    "T": 12,
    "P": 15,
    "E": 18,
    "e7": 7,
    "E-4": -4,
}
BINARY_POWERS = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}

numbers = st.from_regex(r"\A[+-]?(0{0,3}[0-9]{1,24}(\.[0-9]{0,14})?|\.[0-9]{1,14})\Z")
texts = st.builds(lambda number, suffix: (number, suffix), numbers, st.sampled_from([*DECIMAL_POWERS, *BINARY_POWERS]))


def exact_value(number: str, suffix: str) -> Fraction:
    unit = (
        Fraction(10) ** DECIMAL_POWERS[suffix] if suffix in DECIMAL_POWERS else Fraction(1024) ** BINARY_POWERS[suffix]
    )
    return Fraction(number.rstrip(".") if number.endswith(".") else number) * unit


def away_from_zero(value: Fraction) -> int:
    return math.ceil(value) if value >= 0 else math.floor(value)


@given(quantities)
@example(Quantity(10**30))
@example(Quantity(1024 * 10**9, Format.BINARY_SI))
def test_writing_and_parsing_again_gives_the_same_quantity(quantity: Quantity) -> None:
    written = str(quantity)
    assert Quantity.parse(written) == quantity
    assert str(Quantity.parse(written)) == written
    assert canonical(written) == written


@given(texts)
@example(("8", "Ei"))
@example(("0.0000000001", ""))
def test_a_text_means_its_exact_value_rounded_up_to_a_nano_and_capped(text: tuple[str, str]) -> None:
    wanted = away_from_zero(exact_value(*text) * 10**9)
    if text[1] in BINARY_POWERS:
        wanted = max(-LARGEST, min(LARGEST, wanted))
    assert Quantity.parse("".join(text)).nanos == wanted


@given(texts)
def test_what_the_server_emits_has_the_same_value_and_is_stable(text: tuple[str, str]) -> None:
    joined = "".join(text)
    quantity, emitted = Quantity.parse(joined), canonical(joined)
    assert Quantity.parse(emitted) == quantity
    assert canonical(emitted) == emitted
    in_resources = canonical_resource(joined)
    assert Quantity.parse(in_resources) == quantity.rounded_to_millis()
    assert canonical_resource(in_resources) == in_resources


@given(quantities, quantities)
def test_order_and_equality_are_those_of_the_exact_values(one: Quantity, other: Quantity) -> None:
    left, right = Fraction(one.nanos, 10**9), Fraction(other.nanos, 10**9)
    assert (one < other, one <= other, one > other, one >= other, one == other) == (
        left < right,
        left <= right,
        left > right,
        left >= right,
        left == right,
    )
    if one == other:
        assert hash(one) == hash(other)


@given(quantities, quantities)
def test_sums_and_differences_are_exact(one: Quantity, other: Quantity) -> None:
    assert (one + other).nanos == one.nanos + other.nanos
    assert one + other == other + one
    assert (one - other) + other == one
    negated = -one
    assert one + negated == Quantity(0)
    assert -negated == one


@given(quantities)
def test_rounding_never_shrinks_and_moves_less_than_one_step(quantity: Quantity) -> None:
    value = Fraction(quantity.nanos, 10**9)
    assert quantity.value() == away_from_zero(value)
    assert quantity.milli_value() == away_from_zero(value * 1000)
    rounded = quantity.rounded_to_millis()
    assert abs(quantity.nanos) <= abs(rounded.nanos) < abs(quantity.nanos) + 10**6
    assert rounded.rounded_to_millis() is rounded


@given(st.text(alphabet="+-.0123456789eEinumkKMGTP x\u0661", max_size=30) | st.text(max_size=20))
def test_any_text_is_a_quantity_or_refused_with_a_message(text: str) -> None:
    try:
        emitted = canonical(text)
    except QuantityError:
        with pytest.raises(QuantityError, match="quantit"):
            Quantity.parse(text)
    else:
        assert Quantity.parse(emitted) == Quantity.parse(text)
