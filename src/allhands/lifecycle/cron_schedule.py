"""When a CronJob's schedule fires: five fields, `@daily` and its like, `@every 1h30m`, in a time zone.

A moment fires if the clock on the wall of that zone shows a minute that the fields allow. So an hour that the clocks
skip fires nothing, and one that they repeat fires twice. It never asks what time it is.
"""

from __future__ import annotations

import datetime
import functools
import re
import zoneinfo
from typing import Final, Protocol

import msgspec

from allhands.api.builtin.cron import schedule_error
from allhands.api.builtin.timezones import location_error
from allhands.api.errors import go_quote

_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_RANGES: Final[tuple[tuple[int, int, dict[str, int]], ...]] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, {name: number for number, name in enumerate(_MONTHS, 1)}),
    (0, 6, {name: number for number, name in enumerate(_DAYS)}),
)
_MACROS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_DURATION_PART: Final = re.compile(r"([0-9]*(?:\.[0-9]*)?)([a-zµμ]+)")
_UNIT_SECONDS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_YEARS_AHEAD: Final = 5
"""A schedule that does not fire within these never fires: the 30th of February."""
_LAST_YEAR: Final = 9990
_MINUTE, _HOUR = 60, 3600


class ScheduleError(ValueError):
    """Why a schedule cannot be followed, for the user who wrote it."""


class Schedule(Protocol):
    def next_after(self, seconds: float) -> int | None:
        """The first moment strictly later at which it fires; None if it never does."""

    def last_within(self, after_seconds: float, until_seconds: float) -> int | None:
        """The last moment later than the one and not later than the other; None if it does not fire in between."""


class Every(msgspec.Struct, frozen=True):
    """Fires at a fixed distance from the last time."""

    interval_seconds: int

    def next_after(self, seconds: float) -> int | None:
        return int(seconds // 1) + self.interval_seconds

    def last_within(self, after_seconds: float, until_seconds: float) -> int | None:
        begin = int(after_seconds // 1)
        times = int((until_seconds - begin) // self.interval_seconds)
        return begin + times * self.interval_seconds if times > 0 else None


class Fields(msgspec.Struct, frozen=True):
    """Fires in the minutes that all fields allow. Two restricted kinds of day are alternatives, as in every cron."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either_day: bool
    """Neither kind of day is `*`: one of the two is enough."""
    zone: zoneinfo.ZoneInfo

    def next_after(self, seconds: float) -> int | None:
        moment = int(seconds // _MINUTE) * _MINUTE + _MINUTE
        last_year = min(self._local(moment).year + _YEARS_AHEAD, _LAST_YEAR)
        while True:
            local = self._local(moment)
            if local.year > last_year:
                return None
            if not self._allows_day(local):
                moment = self._after_midnight(local, moment)
            elif local.hour not in self.hours:
                moment += _HOUR - local.minute * _MINUTE
            elif local.minute not in self.minutes:
                later = [minute for minute in self.minutes if minute > local.minute]
                moment += (min(later, default=_MINUTE) - local.minute) * _MINUTE
            else:
                return moment

    def last_within(self, after_seconds: float, until_seconds: float) -> int | None:
        """Looks back in ever larger steps, so years of missed minutes are not walked through."""
        back_seconds = _MINUTE
        while True:
            begin = max(after_seconds, until_seconds - back_seconds)
            found = following = self.next_after(begin)
            while following is not None and following <= until_seconds:
                found, following = following, self.next_after(following)
            if found is not None and found <= until_seconds:
                return found
            if found is None or begin == after_seconds:
                return None
            back_seconds *= 4

    def _local(self, moment: int) -> datetime.datetime:
        return datetime.datetime.fromtimestamp(moment, self.zone)

    def _allows_day(self, local: datetime.datetime) -> bool:
        if local.month not in self.months:
            return False
        by_date, by_weekday = local.day in self.days, local.isoweekday() % 7 in self.weekdays
        return (by_date or by_weekday) if self.either_day else (by_date and by_weekday)

    def _after_midnight(self, local: datetime.datetime, moment: int) -> int:
        """The first moment of the next day, or of the next month where this one has no days at all."""
        if local.month in self.months:
            following = local.date() + datetime.timedelta(days=1)
        else:
            following = (local.date().replace(day=28) + datetime.timedelta(days=4)).replace(day=1)
        midnight = datetime.datetime.combine(following, datetime.time(), self.zone)
        return max(int(midnight.timestamp()), moment + _MINUTE)


@functools.lru_cache(maxsize=1 << 12)
def parse_schedule(text: str, time_zone: str | None = None) -> Schedule:
    """The schedule, or a `ScheduleError`. A zone beside it wins over none; one inside the text over both."""
    error = location_error(time_zone) if time_zone else ""
    if error:
        raise ScheduleError(f"invalid timeZone: {go_quote(time_zone or '')}: {error}")
    error = schedule_error(text)
    if error:
        raise ScheduleError(f"unparseable schedule: {go_quote(text)} : {error}")
    zone, fields = time_zone or "UTC", text
    if text.startswith(("TZ=", "CRON_TZ=")):
        prefix, _, fields = text.partition(" ")
        zone = prefix.partition("=")[2] or "UTC"
    fields = _MACROS.get(fields.strip(), fields.strip())
    if fields.startswith("@every "):
        return Every(max(1, int(_duration_seconds(fields.removeprefix("@every ")))))
    return _fields(fields.split(), _zone(zone))


def _zone(name: str) -> zoneinfo.ZoneInfo:
    try:
        return zoneinfo.ZoneInfo("UTC" if name == "Local" else name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ScheduleError(f"invalid timeZone: {go_quote(name)}: this machine has no data about it") from error


def _fields(texts: list[str], zone: zoneinfo.ZoneInfo) -> Fields:
    sets, stars = [], []
    for text, (low, high, names) in zip(texts, _RANGES, strict=True):
        values: set[int] = set()
        is_star = False
        for part in filter(None, text.split(",")):
            first, last, step, star = _part(part, low, high, names)
            values.update(range(first, last + 1, step))
            is_star = is_star or star
        sets.append(frozenset(values))
        stars.append(is_star)
    minutes, hours, days, months, weekdays = sets
    return Fields(minutes, hours, days, months, weekdays, not (stars[2] or stars[4]), zone)


def _part(part: str, low: int, high: int, names: dict[str, int]) -> tuple[int, int, int, bool]:
    """First, last and step of one range of a schedule that is known to be well formed, and whether it is a star."""
    span, _, step_text = part.partition("/")
    step = min(int(step_text), high + 1) if step_text else 1
    first_text, dash, last_text = span.partition("-")
    if first_text in ("*", "?"):
        return low, high, step, step == 1
    first = _value(first_text, names)
    last = _value(last_text, names) if dash else (high if step_text else first)
    return first, last, step, False


def _value(text: str, names: dict[str, int]) -> int:
    named = names.get(text.lower())
    return int(text) if named is None else named


def _duration_seconds(text: str) -> float:
    sign = -1.0 if text.startswith("-") else 1.0
    return sign * sum(float(number) * _UNIT_SECONDS[unit] for number, unit in _DURATION_PART.findall(text))


def local_text(seconds: int, time_zone: str | None) -> str:
    """The moment as a clock in that zone writes it, for a zone that a schedule was parsed with."""
    moment = datetime.datetime.fromtimestamp(seconds, _zone(time_zone or "UTC"))
    return moment.isoformat().replace("+00:00", "Z")
