"""Moments and spans for people: "in 3m 20s", "2m ago". Both ends come in; nothing here asks what time it is."""

from __future__ import annotations

from typing import Final

from allhands.model.time_text import utc_text

_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))


def span_text(seconds: int, between: str = "") -> str:
    """The two largest units, without what is zero: `3h20m`, `5m`. What is negative is over."""
    parts: list[str] = []
    rest = max(0, seconds)
    for size, unit in _UNITS:
        if rest >= size:
            parts.append(f"{rest // size}{unit}")
            rest %= size
        elif parts:
            break
    return between.join(parts[:2]) or "0s"


def ahead_text(moment_seconds: int, now_seconds: int) -> str:
    """`in 3m20s`; a moment that is past and did not bring what it should is about to."""
    return f"in {span_text(moment_seconds - now_seconds)}" if moment_seconds > now_seconds else "any moment"


def ago_text(moment_seconds: int, now_seconds: int) -> str:
    return f"{span_text(now_seconds - moment_seconds)} ago"


def dated(moment_seconds: int, relative: str) -> str:
    """A relative time with the absolute one, for those who write things down."""
    return f"{relative} ({utc_text(moment_seconds)})"
