"""The lengths of time in Volcano's fields, in seconds and back.

It converts, and never asks what time it is. A text that is none is no length at all; refusing it is admission's part.
"""

from __future__ import annotations

import functools
from typing import Final

from allhands.model.go_duration import exact_seconds

LONGEST_TEXT: Final = 40


@functools.lru_cache(maxsize=256)
def duration_seconds(text: str | None) -> float | None:
    """None for none, for what cannot be read and for what lies in the past."""
    if text in ("0", "+0"):
        return 0.0
    exact = exact_seconds(text or "", LONGEST_TEXT)
    return None if exact is None else float(exact)


def duration_text(seconds: float) -> str:
    """Whole seconds in Go's own form: `45s`, `3m0s`, `2h0m5s`."""
    minutes, rest = divmod(max(0, int(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{rest}s"
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
