"""Times as the API writes them: RFC 3339 in UTC, whole seconds for most fields, microseconds for leases and events."""

from __future__ import annotations

import datetime
import functools
import re
from typing import Any

_RFC3339 = re.compile(r"(\d{4})-(\d{2})-(\d{2})T(\d{2}):(\d{2}):(\d{2})(?:[.,](\d+))?(Z|[+-]\d{2}:\d{2})", re.ASCII)
SECONDS_LAYOUT = "2006-01-02T15:04:05Z07:00"
MICROS_LAYOUT = "2006-01-02T15:04:05.000000Z07:00"


def parse(text: str) -> datetime.datetime:
    """The moment an API time stands for. Raises ValueError on anything that is not RFC 3339."""
    found = _RFC3339.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not an RFC 3339 time")
    year, month, day, hour, minute, second = (int(part) for part in found.groups()[:6])
    micros = int((found[7] or "0")[:6].ljust(6, "0"))
    zone = datetime.UTC
    moment = datetime.datetime(year, month, day, hour, minute, second, micros, zone)
    if found[8] != "Z":
        sign = -1 if found[8][0] == "-" else 1
        offset = datetime.timedelta(hours=int(found[8][1:3]), minutes=int(found[8][4:6]))
        moment -= sign * offset
    return moment


def seconds(moment: datetime.datetime) -> str:
    """`2026-01-31T12:00:00Z`."""
    return moment.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micros(moment: datetime.datetime) -> str:
    """`2026-01-31T12:00:00.000000Z`."""
    return moment.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@functools.lru_cache(maxsize=4096)
def canonical_seconds(text: Any) -> str:
    return seconds(_parse_or_say(text, SECONDS_LAYOUT))


@functools.lru_cache(maxsize=4096)
def canonical_micros(text: Any) -> str:
    moment = _parse_or_say(text, MICROS_LAYOUT)
    found = _RFC3339.fullmatch(text)
    if found is None or len(found[7] or "") != 6:
        rest = text[19:]
        raise ValueError(f'parsing time "{text}" as "{MICROS_LAYOUT}": cannot parse "{rest}" as ".000000"')
    return micros(moment)


def _parse_or_say(text: Any, layout: str) -> datetime.datetime:
    try:
        return parse(text)
    except (ValueError, TypeError):
        raise ValueError(f'parsing time "{text}" as "{layout}": cannot parse "{text}" as "2006"') from None
