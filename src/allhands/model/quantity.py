"""An amount as Kubernetes writes it ("500m", "1.5Gi", "1e3"): parsed, kept and compared exactly, written canonically.

The value is a whole number of nanos, so nothing here may ever pass through a float. Grammar, rounding, capping and
error texts are the API server's. One deliberate limit, so that no text can cost much: an exponent beyond ±1000 and a
number of more than 1000 digits are refused.
"""

from __future__ import annotations

import enum
import functools
import re
from typing import Final

import msgspec


class QuantityError(ValueError):
    """The text is no quantity; the message is the one that the API server gives."""


class Format(enum.Enum):
    """The family of suffixes that a quantity was written with, and is written back with."""

    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


_WRONG_SHAPE: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_WRONG_NUMBER: Final = "unable to parse numeric part of quantity"
_WRONG_SUFFIX: Final = "unable to parse quantity's suffix"

# Possessive repeats: a long hostile text fails in one pass.
_SHAPE = re.compile(r"([+-]?)([0-9]*+)(?:\.([0-9]*+))?([eEinumkKMGTP]*+[+-]?[0-9]*+)")

_DECIMAL_EXPONENTS = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_SUFFIXES = {exponent: suffix for suffix, exponent in _DECIMAL_EXPONENTS.items()}
_BINARY_SHIFTS = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_BINARY_SUFFIXES = ["", *_BINARY_SHIFTS]

_NANO: Final = 10**9
_NANOS_PER_MILLI: Final = 10**6
_MAX_BINARY_NANOS: Final = (2**63 - 1) * _NANO
_LARGEST_SUFFIX_EXPONENT: Final = 18
_MAX_EXPONENT: Final = 1000
_MAX_DIGITS: Final = 1000

# A number of up to this many digits always fits the server's 64-bit fast path.
_INT64_DIGITS: Final = 18
_INT64_BINARY_DIGITS: Final = 14

# What the server trims: white space that may stand raw inside a JSON string.
_TRIMMED = (
    " \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)

_CACHED_TEXTS: Final = 1 << 14
_LONGEST_CACHED_TEXT: Final = 40


class Quantity(msgspec.Struct, frozen=True, eq=False):
    """An exact amount. Compares, hashes and adds by value; the format only decides how it is written."""

    nanos: int
    format: Format = Format.DECIMAL_SI

    @staticmethod
    def parse(text: str | int | float) -> Quantity:
        """The quantity in a JSON value: a string, or a bare number as its shortest decimal text."""
        if type(text) is str and len(text) <= _LONGEST_CACHED_TEXT:
            return _read_cached(text).quantity
        return _read(str(text)).quantity

    @staticmethod
    def of_units(units: int, format: Format = Format.DECIMAL_SI) -> Quantity:
        return Quantity(units * _NANO, format)

    @staticmethod
    def of_millis(millis: int, format: Format = Format.DECIMAL_SI) -> Quantity:
        return Quantity(millis * _NANOS_PER_MILLI, format)

    def value(self) -> int:
        """Whole units, rounded away from zero. Exact however large: callers with fixed-width columns must clamp."""
        return _divide_away_from_zero(self.nanos, _NANO)

    def milli_value(self) -> int:
        """Thousandths, rounded away from zero."""
        return _divide_away_from_zero(self.nanos, _NANOS_PER_MILLI)

    def rounded_to_millis(self) -> Quantity:
        """What the API server keeps of it in a container's or a node's resources."""
        if self.nanos % _NANOS_PER_MILLI == 0:
            return self
        return Quantity(self.milli_value() * _NANOS_PER_MILLI, self.format)

    def __str__(self) -> str:
        """The canonical form: no fraction, no precision lost, the largest suffix possible."""
        nanos = self.nanos
        if nanos == 0:
            return "0"
        if self.format is Format.BINARY_SI and abs(nanos) >= 1024 * _NANO and nanos % _NANO == 0:
            return _write_binary(nanos // _NANO)
        return _write_decimal(nanos, exponential=self.format is Format.DECIMAL_EXPONENT)

    def __add__(self, other: Quantity) -> Quantity:
        return Quantity(self.nanos + other.nanos, self.format if self.nanos else other.format)

    def __sub__(self, other: Quantity) -> Quantity:
        return Quantity(self.nanos - other.nanos, self.format if self.nanos else other.format)

    def __neg__(self) -> Quantity:
        return Quantity(-self.nanos, self.format)

    def __bool__(self) -> bool:
        return self.nanos != 0

    def __hash__(self) -> int:
        return hash(self.nanos)

    def __eq__(self, other: object) -> bool:
        return self.nanos == other.nanos if isinstance(other, Quantity) else NotImplemented

    def __lt__(self, other: Quantity) -> bool:
        return self.nanos < other.nanos

    def __le__(self, other: Quantity) -> bool:
        return self.nanos <= other.nanos

    def __gt__(self, other: Quantity) -> bool:
        return self.nanos > other.nanos

    def __ge__(self, other: Quantity) -> bool:
        return self.nanos >= other.nanos


ZERO: Final = Quantity(0)


def canonical(text: str | int | float) -> str:
    """The text that the API server returns for this one.

    It is `str(Quantity.parse(text))`, except that the server keeps some texts that are not canonical exactly as they
    came ("1.500", "+1", "1E3", "01Ki"), and so do we.
    """
    if type(text) is str and len(text) <= _LONGEST_CACHED_TEXT:
        return _read_cached(text).emitted
    return _read(str(text)).emitted


def canonical_resource(text: str | int | float) -> str:
    """As `canonical`, for an entry of a resource list, which the server also rounds up to thousandths."""
    if type(text) is str and len(text) <= _LONGEST_CACHED_TEXT:
        return _read_cached(text).emitted_in_resources
    return _read(str(text)).emitted_in_resources


class _Reading(msgspec.Struct, frozen=True, gc=False):
    """All that is known about one text."""

    quantity: Quantity
    emitted: str
    emitted_in_resources: str


def _read(text: str) -> _Reading:
    text = text.strip(_TRIMMED)
    matched = _SHAPE.fullmatch(text)
    if matched is None or not text:
        raise QuantityError(_WRONG_SHAPE)
    sign, whole, fraction, suffix = matched.groups("")
    if len(whole) + len(fraction) > _MAX_DIGITS:
        raise QuantityError(_WRONG_NUMBER)
    if (shift := _BINARY_SHIFTS.get(suffix)) is not None:
        quantity, verbatim = _read_binary(sign, whole, fraction, shift)
    elif (exponent := _DECIMAL_EXPONENTS.get(suffix)) is not None:
        quantity, verbatim = _read_decimal(sign, whole, fraction, exponent, Format.DECIMAL_SI)
    else:
        quantity, verbatim = _read_decimal(sign, whole, fraction, _explicit_exponent(suffix), Format.DECIMAL_EXPONENT)
    emitted = text if verbatim else str(quantity)
    rounded = quantity.rounded_to_millis()
    return _Reading(quantity, emitted, emitted if rounded is quantity else str(rounded))


_read_cached = functools.lru_cache(maxsize=_CACHED_TEXTS)(_read)


def _read_binary(sign: str, whole: str, fraction: str, shift: int) -> tuple[Quantity, bool]:
    """The quantity, and whether the server would repeat its text verbatim."""
    significant = whole.lstrip("0") or "0"
    fast = not fraction and len(significant) + shift * 3 // 10 <= _INT64_BINARY_DIGITS
    if not (fast or whole or fraction):
        raise QuantityError(_WRONG_NUMBER)
    number = int(whole + fraction or "0")
    nanos = -((-number << shift) * _NANO // 10 ** len(fraction))
    nanos = min(nanos, _MAX_BINARY_NANOS)
    # A binary suffix cannot write less than one unit.
    written_as = Format.DECIMAL_SI if 0 < nanos < _NANO else Format.BINARY_SI
    return Quantity(-nanos if sign == "-" else nanos, written_as), fast and number & 7 != 0


def _read_decimal(sign: str, whole: str, fraction: str, exponent: int, format: Format) -> tuple[Quantity, bool]:
    """The quantity, and whether the server would repeat its text verbatim."""
    digits = (whole.lstrip("0") or "0") + fraction
    exponent -= len(fraction)
    fast = len(digits) <= _INT64_DIGITS and exponent >= -9
    too_large = len(digits) + exponent > _MAX_EXPONENT
    if too_large or not (fast or whole or fraction):
        raise QuantityError(_WRONG_NUMBER)
    number = int(digits)
    power = exponent + 9
    nanos = number * 10**power if power >= 0 else -(-number // 10**-power)
    verbatim = fast and exponent % 3 == 0 and digits[0] != "0" and not digits.endswith("000")
    return Quantity(-nanos if sign == "-" else nanos, format), verbatim


def _explicit_exponent(suffix: str) -> int:
    if suffix[0] not in "eE" or len(suffix) > 12:
        raise QuantityError(_WRONG_SUFFIX)
    try:
        exponent = int(suffix[1:])
    except ValueError:
        raise QuantityError(_WRONG_SUFFIX) from None
    if abs(exponent) > _MAX_EXPONENT:
        raise QuantityError(_WRONG_SUFFIX)
    return exponent


def _write_binary(units: int) -> str:
    power = 0
    while power < len(_BINARY_SUFFIXES) - 1 and units % 1024 == 0:
        units //= 1024
        power += 1
    return f"{units}{_BINARY_SUFFIXES[power]}"


def _write_decimal(nanos: int, *, exponential: bool) -> str:
    # A decimal suffix ends at E; the server drops the suffix beyond it (1000E becomes 1), we keep the value instead.
    largest = _MAX_EXPONENT if exponential else _LARGEST_SUFFIX_EXPONENT
    exponent = -9
    while exponent + 3 <= largest and nanos % 1000 == 0:
        nanos //= 1000
        exponent += 3
    if exponential:
        return f"{nanos}e{exponent}" if exponent else str(nanos)
    return f"{nanos}{_DECIMAL_SUFFIXES[exponent]}"


def _divide_away_from_zero(number: int, divisor: int) -> int:
    return -(-number // divisor) if number >= 0 else number // divisor
