"""Durations for people ("5d3h"), and the timestamps they are measured from, exactly as a real server writes them.

Every function takes both ends of the span: nothing here asks what time it is.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

UNKNOWN: Final = "<unknown>"
INVALID: Final = "<invalid>"

_RFC3339: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)
_ZERO: Final = datetime(1, 1, 1, tzinfo=UTC)
_SECOND: Final = timedelta(seconds=1)


def parse_time(text: str | None) -> datetime | None:
    """An RFC 3339 timestamp; None where it is absent or Go's zero time. Raises ValueError for any other text."""
    if not text:
        return None
    if _RFC3339.fullmatch(text) is None:
        raise ValueError(f"not an RFC 3339 timestamp: {text!r}")
    moment = datetime.fromisoformat(text)
    return None if moment == _ZERO else moment


def time_or_none(text: str | None) -> datetime | None:
    """Like `parse_time`, but what is no timestamp counts as absent: one bad object must not hide a whole list."""
    try:
        return parse_time(text)
    except ValueError:
        return None


def human_duration(span: timedelta) -> str:
    """A span in at most two units, the coarser the longer. Up to two seconds of clock skew count as now."""
    # Go cuts towards zero, Python's floor division does not.
    seconds = span // _SECOND if span >= timedelta(0) else -(-span // _SECOND)
    if seconds < -1:
        return INVALID
    if seconds < 0:
        return "0s"
    if seconds < 60 * 2:
        return f"{seconds}s"
    minutes, hours = seconds // 60, seconds // 3600
    if minutes < 10:
        return _two_units(minutes, "m", seconds % 60, "s")
    if minutes < 60 * 3:
        return f"{minutes}m"
    if hours < 8:
        return _two_units(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    return _human_days(hours)


def _human_days(hours: int) -> str:
    days, years = hours // 24, hours // 24 // 365
    if days < 8:
        return _two_units(days, "d", hours % 24, "h")
    if days < 365 * 2:
        return f"{days}d"
    if days < 365 * 8:
        return _two_units(years, "y", days % 365, "d")
    return f"{years}y"


def _two_units(coarse: int, coarse_unit: str, fine: int, fine_unit: str) -> str:
    return f"{coarse}{coarse_unit}{fine}{fine_unit}" if fine else f"{coarse}{coarse_unit}"


def human_since(then: str | None, now: datetime) -> str:
    """How long ago a timestamp of an object was: `<unknown>` where there is none, `<invalid>` where it lies ahead."""
    try:
        moment = parse_time(then)
    except ValueError:
        return INVALID
    return UNKNOWN if moment is None else human_duration(now - moment)


def rfc3339(then: str | None) -> str:
    """A timestamp in UTC to the second; the zero time where there is none."""
    moment = time_or_none(then)
    return "0001-01-01T00:00:00Z" if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
