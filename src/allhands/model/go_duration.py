"""Lengths of time as Go programs write them: `90s`, `1h30m`, `1m0.5s`. One grammar for all fields that hold such texts.

Exact: whoever needs whole seconds or a float rounds himself. A sign below zero, and what is no duration, is none.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
NANOSECONDS_BY_UNIT: Final = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}


def exact_seconds(text: str, longest: int) -> Fraction | None:
    """None if it is none, or longer than so many characters."""
    parts = _PART.findall(text) if len(text) <= longest else []
    if not parts or "".join(number + unit for number, unit in parts) != text.removeprefix("+"):
        return None
    return sum((Fraction("0" + number) * NANOSECONDS_BY_UNIT[unit] for number, unit in parts), Fraction(0)) / 10**9


def millis_text(millis: int) -> str:
    """As Go writes it: `0s`, `250ms`, `1.5s`, `1m0.25s`, `2h0m5s`."""
    if 0 < millis < 1000:
        return f"{millis}ms"
    whole, rest = divmod(max(0, millis), 1000)
    minutes, seconds = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    fraction = f".{rest:03d}".rstrip("0") if rest else ""
    larger = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return f"{larger}{seconds}{fraction}s"
