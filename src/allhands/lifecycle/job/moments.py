"""Times of the API as numbers: a Job compares them with now and with each other.

It reads what is written, and never asks what time it is.
"""

from __future__ import annotations

import datetime
import functools


@functools.lru_cache(maxsize=1 << 10)
def moment_seconds(text: str | None) -> float | None:
    """Seconds since 1970; None for none and for what is no time. Many pods share a second, so it is looked up first."""
    if not text:
        return None
    try:
        return datetime.datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None
