"""The grammar of a CronJob's schedule: five fields, `@daily` and its like, `@every 1h30m`, and a leading `TZ=`.

It only says whether a schedule is well formed, in the words of the real server; it never computes a time.
"""

from __future__ import annotations

import re
from typing import Final

from allhands.api.builtin.timezones import location_error
from allhands.api.errors import go_quote
from allhands.model.go_duration import NANOSECONDS_BY_UNIT

_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")

_FIELDS: Final[tuple[tuple[int, int, dict[str, int]], ...]] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, {name: number for number, name in enumerate(_MONTHS, 1)}),
    (0, 6, {name: number for number, name in enumerate(_DAYS)}),
)
"""Lowest value, highest value and names of minute, hour, day of month, month and day of week."""

_DESCRIPTORS: Final = frozenset({"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"})
_EVERY: Final = "@every "
_INTEGER: Final = re.compile("[+-]?[0-9]+")
_INT64_MAX: Final = 2**63 - 1
_INT64_DIGITS: Final = 19
_DURATION_PART: Final = re.compile(r"([0-9]*)(?:\.([0-9]*))?([^.0-9]*)")


class ScheduleError(ValueError):
    """Carries the text for the client."""


def schedule_error(schedule: str) -> str:
    """Why the schedule is not one; empty when it is."""
    try:
        _parse(schedule)
    except ScheduleError as malformed:
        return str(malformed)
    return ""


def _parse(schedule: str) -> None:
    if schedule.startswith(("TZ=", "CRON_TZ=")):
        zone_start, zone_end = schedule.index("=") + 1, schedule.find(" ")
        if zone_end < 0:
            # The real parser runs past the end here and the server reports its panic.
            raise ScheduleError("invalid schedule format: runtime error: slice bounds out of range [:-1]")
        zone = schedule[zone_start:zone_end]
        if error := location_error(zone):
            raise ScheduleError(f"provided bad location {zone}: {error}")
        schedule = schedule[zone_end:].strip()
    if schedule.startswith("@"):
        _parse_descriptor(schedule)
        return
    fields = schedule.split()
    if len(fields) != len(_FIELDS):
        raise ScheduleError(f"expected exactly {len(_FIELDS)} fields, found {len(fields)}: [{' '.join(fields)}]")
    for text, (low, high, names) in zip(fields, _FIELDS, strict=True):
        for part in text.split(","):
            if part:
                _parse_range(part, low, high, names)


def _parse_descriptor(descriptor: str) -> None:
    if descriptor in _DESCRIPTORS:
        return
    if not descriptor.startswith(_EVERY):
        raise ScheduleError(f"unrecognized descriptor: {descriptor}")
    if error := duration_error(descriptor[len(_EVERY) :]):
        raise ScheduleError(f"failed to parse duration {descriptor}: {error}")


def _parse_range(part: str, low: int, high: int, names: dict[str, int]) -> None:
    span, *steps = part.split("/")
    ends = span.split("-")
    if ends[0] in ("*", "?"):
        start, end = low, high
    else:
        start = _number_or_name(ends[0], names)
        if len(ends) > 2:
            raise ScheduleError(f"too many hyphens: {part}")
        end = start if len(ends) == 1 else _number_or_name(ends[1], names)
    if len(steps) > 1:
        raise ScheduleError(f"too many slashes: {part}")
    step = _number(steps[0]) if steps else 1
    if steps and len(ends) == 1:
        end = high
    if start < low:
        raise ScheduleError(f"beginning of range ({start}) below minimum ({low}): {part}")
    if end > high:
        raise ScheduleError(f"end of range ({end}) above maximum ({high}): {part}")
    if start > end:
        raise ScheduleError(f"beginning of range ({start}) beyond end of range ({end}): {part}")
    if step == 0:
        raise ScheduleError(f"step of range should be a positive number: {part}")


def _number_or_name(text: str, names: dict[str, int]) -> int:
    named = names.get(text.lower())
    return _number(text) if named is None else named


def _number(text: str) -> int:
    why = "" if _INTEGER.fullmatch(text) else "invalid syntax"
    digits = text.lstrip("+-").lstrip("0") or "0"
    # Counting digits first keeps a schedule of a million nines from becoming a number.
    if not why and (len(digits) > _INT64_DIGITS or int(digits) > _INT64_MAX):
        why = "value out of range"
    if why:
        raise ScheduleError(f"failed to parse int from {text}: strconv.Atoi: parsing {go_quote(text)}: {why}")
    number = -int(digits) if text[0] == "-" else int(digits)
    if number < 0:
        raise ScheduleError(f"negative number ({number}) not allowed: {text}")
    return number


def duration_error(text: str) -> str:
    """Why the text is not a Go duration like `1h30m`; empty when it is."""
    rest = text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return ""
    total_nanos = 0
    bad = f"time: invalid duration {go_quote(text)}"
    if not rest:
        return bad
    while rest:
        part = _DURATION_PART.match(rest)
        if part is None or not (part[1] or part[2]) or len(part[1]) > _INT64_DIGITS:
            return bad
        if not part[3]:
            return f"time: missing unit in duration {go_quote(text)}"
        if part[3] not in NANOSECONDS_BY_UNIT:
            return f"time: unknown unit {go_quote(part[3])} in duration {go_quote(text)}"
        total_nanos += int(part[1] or 0) * NANOSECONDS_BY_UNIT[part[3]]
        if total_nanos > _INT64_MAX:
            return bad
        rest = rest[part.end() :]
    return ""
