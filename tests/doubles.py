"""Doubles that enter through ports: a clock that stands still until told, identifiers that count."""

from __future__ import annotations

import datetime


class ManualClock:
    """Time moves only when a test moves it."""

    def __init__(self) -> None:
        self._now = datetime.datetime(2026, 1, 31, 12, 0, 0, tzinfo=datetime.UTC)

    def now(self) -> datetime.datetime:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += datetime.timedelta(seconds=seconds)


class CountingIds:
    """Identifiers that are the same in every run."""

    def __init__(self) -> None:
        self._count = 0

    def uid(self) -> str:
        self._count += 1
        return f"00000000-0000-4000-8000-{self._count:012d}"

    def suffix(self) -> str:
        self._count += 1
        digits = "bcdfghjklmnpqrstvwxz2456789"
        number, text = self._count, ""
        for _ in range(5):
            number, rest = divmod(number, len(digits))
            text = digits[rest] + text
        return text
