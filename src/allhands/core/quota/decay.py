"""Halving over time in whole numbers, so that past use compares the same on every machine.

Powers of two come from tables that are made with integer square roots; nothing here is a float. Factors are fixed
point with 62 bits after the point.
"""

from __future__ import annotations

import functools
from math import isqrt
from typing import Final

BITS: Final = 62
ONE: Final = 1 << BITS
HALF: Final = 1 << (BITS - 1)

ONE_OVER_LN2: Final = 6653256548922161246
"""1 / ln 2, which turns a half-life into the time constant of the same decay."""

_TABLE_BITS: Final = 8
_TABLES: Final = 6
_FRACTION_BITS: Final = _TABLE_BITS * _TABLES


def _tables() -> tuple[tuple[int, ...], ...]:
    """Table t holds 2^(-i / 256^(t+1)) for i in 0..255."""
    guard = 32
    roots = []
    value = 1 << (BITS + guard - 1)
    for _ in range(_FRACTION_BITS):
        value = isqrt(value << (BITS + guard))
        roots.append(value)
    tables = []
    for table in range(_TABLES):
        # The last root of a table is one step of it.
        step = roots[_TABLE_BITS * (table + 1) - 1]
        entry = 1 << (BITS + guard)
        entries = []
        for _ in range(1 << _TABLE_BITS):
            entries.append(entry >> guard)
            entry = entry * step >> (BITS + guard)
        tables.append(tuple(entries))
    return tuple(tables)


_POWERS: Final = _tables()


@functools.lru_cache(maxsize=1 << 12)
def decay_factor(elapsed_seconds: int, half_life_seconds: int) -> int:
    """2^(-elapsed / half-life) as fixed point; never more for a longer time, 0 once nothing is left."""
    halvings, rest = divmod(elapsed_seconds, half_life_seconds)
    if halvings > BITS:
        return 0
    fraction = (rest << _FRACTION_BITS) // half_life_seconds
    factor = ONE
    for table in range(_TABLES):
        index = fraction >> (_FRACTION_BITS - _TABLE_BITS * (table + 1)) & ((1 << _TABLE_BITS) - 1)
        factor = factor * _POWERS[table][index] + HALF >> BITS
    return factor >> halvings
