"""Seconds since 1970 as the text that the API uses for times. It converts, and never asks what time it is."""

from __future__ import annotations

import datetime
import functools

_FIRST = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MOST_SECONDS = 253402300799
"""The end of the year 9999; nothing later can be written."""


@functools.lru_cache(maxsize=256)
def utc_text(seconds: int) -> str:
    """As `2026-11-16T01:30:00Z`; times outside the calendar are written as its ends."""
    clamped = max(0, min(seconds, _MOST_SECONDS))
    return (_FIRST + datetime.timedelta(seconds=clamped)).strftime("%Y-%m-%dT%H:%M:%SZ")
