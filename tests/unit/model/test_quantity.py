"""Quantities against the API server's behaviour: every expected text was checked with the server's own parser."""

from __future__ import annotations

import pytest

from allhands.model.quantity import ZERO, Format, Quantity, QuantityError, canonical, canonical_resource

SI, BINARY, EXPONENT = Format.DECIMAL_SI, Format.BINARY_SI, Format.DECIMAL_EXPONENT

SHAPE = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
NUMBER = "unable to parse numeric part of quantity"
SUFFIX = "unable to parse quantity's suffix"

# text, canonical form, format
CANONICAL_FORMS = [
    ("0", "0", SI),
    ("00", "0", SI),
    ("-0", "0", SI),
    ("0m", "0", SI),
    ("0Ki", "0", BINARY),
    ("0e5", "0", EXPONENT),
    ("4", "4", SI),
    ("500m", "500m", SI),
    ("1000m", "1", SI),
    ("100000m", "100", SI),
    ("1500m", "1500m", SI),
    ("0.5", "500m", SI),
    (".5", "500m", SI),
    ("1.", "1", SI),
    ("1.5", "1500m", SI),
    ("9.01", "9010m", SI),
    ("0.00050k", "500m", SI),
    ("1000", "1k", SI),
    ("1000M", "1G", SI),
    ("0.001T", "1G", SI),
    ("1234567", "1234567", SI),
    ("8.1k", "8100", SI),
    ("50k", "50k", SI),
    ("12E", "12E", SI),
    ("1.01E", "1010P", SI),
    ("5n", "5n", SI),
    ("4u", "4u", SI),
    ("1080000000n", "1080m", SI),
    ("1.G", "1G", SI),
    ("9223372036854775807", "9223372036854775807", SI),
    ("9223372036854775808", "9223372036854775808", SI),
    ("-9223372036854775809", "-9223372036854775809", SI),
    ("12345678901234567890123", "12345678901234567890123", SI),
    ("1e3", "1e3", EXPONENT),
    ("1E6", "1e6", EXPONENT),
    ("1e14", "100e12", EXPONENT),
    ("1.2e3", "1200", EXPONENT),
    ("1.3E+6", "1300e3", EXPONENT),
    ("1e-3", "1e-3", EXPONENT),
    ("0.5e-2", "5e-3", EXPONENT),
    ("1000e-3", "1", EXPONENT),
    ("1e30", "1e30", EXPONENT),
    (".001e12", "1e9", EXPONENT),
    ("1Ki", "1Ki", BINARY),
    ("8Gi", "8Gi", BINARY),
    ("1024Ki", "1Mi", BINARY),
    ("307200Ki", "300Mi", BINARY),
    ("1025024Mi", "1001Gi", BINARY),
    ("1.5Gi", "1536Mi", BINARY),
    ("0.5Gi", "512Mi", BINARY),
    ("0.05Gi", "53687091200m", BINARY),
    ("1.1Ki", "1126400m", BINARY),
    ("1.25Ki", "1280", BINARY),
    ("0.25Ki", "256", BINARY),
    ("0.1Ki", "102400m", BINARY),
    ("0.001Ki", "1024m", BINARY),
    ("0.0009765625Ki", "1", BINARY),
    ("-1Ki", "-1Ki", BINARY),
    ("-1.5Gi", "-1536Mi", BINARY),
    ("7Ei", "7Ei", BINARY),
]

ROUNDED_AND_CAPPED = [
    ("0.0000000001", "1n", SI),
    ("0.00000012345", "124n", SI),
    ("3.001n", "4n", SI),
    ("-3.001n", "-4n", SI),
    ("1.1E-9", "2e-9", EXPONENT),
    ("1e-100", "1e-9", EXPONENT),
    (".000001Ki", "1024u", SI),
    (".000000001Ki", "1024n", SI),
    ("0.000000000001Ki", "2n", SI),
    ("-0.0001Ki", "-102400u", SI),
    ("8Ei", "9223372036854775807", BINARY),
    ("9Ei", "9223372036854775807", BINARY),
    ("-9Ei", "-9223372036854775807", BINARY),
    ("9223372036854775807Ki", "9223372036854775807", BINARY),
    ("99999999999999999999999999Gi", "9223372036854775807", BINARY),
]

# The server's scanner is laxer than the expression in its own error text.
WITHOUT_DIGITS = ["-", "+", ".", "-.", "m", "Mi", "Ti", ".Gi", "e9", "-k"]


@pytest.mark.parametrize(
    ("text", "written", "format"),
    [*CANONICAL_FORMS, *ROUNDED_AND_CAPPED],
    ids=lambda value: value.value if isinstance(value, Format) else str(value),
)
def test_a_parsed_text_is_written_canonically(text: str, written: str, format: Format) -> None:
    quantity = Quantity.parse(text)
    assert str(quantity) == written
    assert quantity.format is format
    assert Quantity.parse(written) == quantity


@pytest.mark.parametrize("text", WITHOUT_DIGITS)
def test_a_text_without_digits_is_zero_where_the_server_says_so(text: str) -> None:
    assert Quantity.parse(text) == ZERO
    assert canonical(text) == "0"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", SHAPE),
        (" ", SHAPE),
        ("abc", SHAPE),
        ("1.1.M", SHAPE),
        ("1 G", SHAPE),
        ("0x1", SHAPE),
        ("1_0", SHAPE),
        ("1e1_0", SHAPE),
        ("1.1e3m", SHAPE),
        ("1\n", SHAPE),
        ("\t1", SHAPE),
        ("--1", SUFFIX),
        ("١", SHAPE),
        ("5µ", SHAPE),
        ("1+1", SUFFIX),
        ("1-", SUFFIX),
        ("1i", SUFFIX),
        ("1K", SUFFIX),
        ("1ki", SUFFIX),
        ("0.1mi", SUFFIX),
        ("1Mi5", SUFFIX),
        ("1m5", SUFFIX),
        ("1mm", SUFFIX),
        ("-3.01e-", SUFFIX),
        ("1e", SUFFIX),
        ("1eE5", SUFFIX),
        ("1e99999999999999999999", SUFFIX),
        ("Ei", NUMBER),
        ("-Pi", NUMBER),
        (".e-10", NUMBER),
    ],
)
def test_a_malformed_text_is_refused_in_the_servers_words(text: str, message: str) -> None:
    with pytest.raises(QuantityError) as refused:
        Quantity.parse(text)
    assert str(refused.value) == message
    with pytest.raises(QuantityError):
        canonical(text)
    with pytest.raises(QuantityError):
        canonical_resource(text)


@pytest.mark.parametrize(
    "text",
    ["1e1001", "1e-1001", "1" * 1001, "1" * 600 + "e600", "1e2147483647", "9" * 200_000, "9" * 200_000 + "x"],
    ids=lambda text: f"{text[:12]} of {len(text)} characters",
)
def test_a_hostile_number_is_refused_at_once(text: str) -> None:
    with pytest.raises(QuantityError):
        Quantity.parse(text)


@pytest.mark.parametrize("text", ["1.500", "+500m", "1E3", "1e+3", "01Ki", "+1Ki", "1.Gi", "1.123456", "0500m", "500m"])
def test_the_server_repeats_these_texts_as_they_came(text: str) -> None:
    assert canonical(text) == text


@pytest.mark.parametrize(
    ("text", "emitted"),
    [
        ("+12345678901Ki", "+12345678901Ki"),
        ("+123456789013Ki", "123456789013Ki"),
        ("+99Ti", "+99Ti"),
        ("+101Ti", "101Ti"),
    ],
)
def test_the_server_rewrites_texts_whose_number_is_long(text: str, emitted: str) -> None:
    assert canonical(text) == emitted


@pytest.mark.parametrize(
    ("text", "emitted", "emitted_in_resources"),
    [
        ("1.123456", "1.123456", "1124m"),
        ("1.500", "1.500", "1.500"),
        ("1u", "1u", "1m"),
        ("-1u", "-1u", "-1m"),
        ("1n", "1n", "1m"),
        ("1e-9", "1e-9", "1e-3"),
        ("0.0000000001", "1n", "1m"),
        ("0.00000001Ki", "10240n", "1m"),
        ("1024Mi", "1Gi", "1Gi"),
        ("250m", "250m", "250m"),
        ("1000E", "1000E", "1000E"),
    ],
)
def test_a_resource_list_keeps_thousandths(text: str, emitted: str, emitted_in_resources: str) -> None:
    assert canonical(text) == emitted
    assert canonical_resource(text) == emitted_in_resources


@pytest.mark.parametrize(
    ("number", "written"),
    [(4, "4"), (-1, "-1"), (1000, "1k"), (0.5, "500m"), (1.5, "1500m"), (1e-7, "100e-9"), (2.0, "2")],
)
def test_a_bare_json_number_is_read_as_its_text(number: float, written: str) -> None:
    assert canonical(number) == written


@pytest.mark.parametrize("value", [True, False, float("nan"), float("inf"), None, [], {}])
def test_other_json_values_are_no_quantities(value: object) -> None:
    with pytest.raises(QuantityError):
        Quantity.parse(value)  # type: ignore[arg-type]


def test_spaces_around_are_trimmed_as_the_server_trims_them() -> None:
    assert canonical("  1.5Gi\u00a0") == "1536Mi"


@pytest.mark.parametrize(
    ("text", "value", "millis"),
    [
        ("0", 0, 0),
        ("1m", 1, 1),
        ("1001m", 2, 1001),
        ("1n", 1, 1),
        ("-1n", -1, -1),
        ("-1.5", -2, -1500),
        ("1.5Gi", 1610612736, 1610612736000),
        ("1E", 10**18, 10**21),
    ],
)
def test_whole_units_and_thousandths_round_away_from_zero(text: str, value: int, millis: int) -> None:
    quantity = Quantity.parse(text)
    assert (quantity.value(), quantity.milli_value()) == (value, millis)


def test_equality_and_hash_are_by_value_whatever_the_format() -> None:
    assert Quantity.parse("1Ki") == Quantity.parse("1024") == Quantity.parse("1.024e3")
    assert len({Quantity.parse("1k"), Quantity.parse("1000"), Quantity.parse("1e3")}) == 1
    assert Quantity.parse("1") != "1"


def test_addition_keeps_the_suffix_of_the_operand_that_is_not_zero() -> None:
    zero, gibi, tenth = ZERO, Quantity.parse("1Gi"), Quantity.parse("100m")
    assert [str(zero + gibi), str(gibi + zero), str(zero + tenth)] == ["1Gi", "1Gi", "100m"]
    assert [str(zero - gibi), str(gibi - zero)] == ["-1Gi", "1Gi"]
    assert str(gibi + Quantity.parse("1G")) == "2073741824"
    assert str(-tenth) == "-100m"
    assert not zero
    assert gibi


def test_quantities_are_built_from_whole_units_and_thousandths() -> None:
    assert str(Quantity.of_units(3 * 2**30, BINARY)) == "3Gi"
    assert str(Quantity.of_units(5, BINARY)) == "5"
    assert str(Quantity.of_millis(1500)) == "1500m"
    assert str(Quantity.of_millis(1234567, BINARY)) == "1234567m"


def test_a_quantity_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Quantity.parse("1").nanos = 5  # type: ignore[misc]
