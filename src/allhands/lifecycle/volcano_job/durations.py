"""Lengths of time as Go's programs write them: `90s`, `1h30m`, `1m0.5s`. Volcano's fields hold such texts.

It converts, and never asks what time it is. A text that is none is no length at all; refusing it is admission's part.
"""

from __future__ import annotations

import functools
import re
from typing import Final

LONGEST_TEXT: Final = 40
_WHOLE: Final = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:ns|us|µs|ms|s|m|h)")
_SECONDS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


@functools.lru_cache(maxsize=256)
def duration_seconds(text: str | None) -> float | None:
    """None for none, for what cannot be read and for what lies in the past."""
    if not text or len(text) > LONGEST_TEXT:
        return None
    if text in ("0", "+0"):
        return 0.0
    rest = text.removeprefix("+")
    parts = _WHOLE.findall(rest)
    if not parts or "".join(parts) != rest:
        return None
    return sum(_part_seconds(part) for part in parts)


def _part_seconds(part: str) -> float:
    number = part.rstrip("nuµmsh")
    return float(number) * _SECONDS[part[len(number) :]]


def duration_text(seconds: float) -> str:
    """Whole seconds in Go's own form: `45s`, `3m0s`, `2h0m5s`."""
    minutes, rest = divmod(max(0, int(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{rest}s"
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
