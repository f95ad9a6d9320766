"""Logarithms and roots of whole numbers as whole numbers, so that an order is the same on every machine.

Floating point libraries differ in the last digit of a logarithm; these are computed from integers alone.
"""

from __future__ import annotations

import functools
import math
from typing import Final

FRACTION_BITS: Final = 40
ONE: Final = 1 << FRACTION_BITS
"""What 1 is in the fixed point of all results here."""
_WORK_BITS: Final = 128
_LOG10_OF_2: Final = 102_435_199_438_739_363_750_012_109_250_103_232_700
"""log10(2) * 2**128, rounded down."""


@functools.lru_cache(maxsize=1 << 16)
def log2(number: int) -> int:
    """The logarithm of a number of at least 1, rounded down."""
    return _log2_bits(number, FRACTION_BITS)


@functools.lru_cache(maxsize=1 << 16)
def log10(number: int) -> int:
    """The logarithm of a number of at least 1; off by less than three in the last place."""
    return _log2_bits(number, 2 * FRACTION_BITS) * _LOG10_OF_2 >> (_WORK_BITS + FRACTION_BITS)


def square_root(number: int) -> int:
    """Rounded down."""
    return math.isqrt(number << 2 * FRACTION_BITS)


def _log2_bits(number: int, bits: int) -> int:
    """Bit by bit: squaring doubles a logarithm, and whether that passes 2 is its next digit."""
    if number < 1:
        raise ValueError(f"no logarithm of {number}")
    whole = number.bit_length() - 1
    mantissa = (number << _WORK_BITS) >> whole
    result = whole
    for _ in range(bits):
        mantissa = mantissa * mantissa >> _WORK_BITS
        passes = mantissa >> (_WORK_BITS + 1)
        result = result << 1 | passes
        mantissa >>= passes
    return result
