"""The present moment as the API writes it, worked out once a second: agents write it very often."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

from allhands.model.time_text import utc_text

if TYPE_CHECKING:
    from allhands.ports import Clock


class TimeTexts:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._second = -1
        self._text = ""

    def now(self) -> str:
        """As `2026-01-31T12:00:00Z`."""
        second = int(self._clock.now().timestamp())
        if second != self._second:
            self._second, self._text = second, utc_text(second)
        return self._text

    def precise(self) -> str:
        """With microseconds, as leases have it."""
        return self._clock.now().astimezone(datetime.UTC).isoformat(timespec="microseconds")[:-6] + "Z"

    def precise_nanos(self) -> str:
        """With nine digits, as logs have it."""
        return self.precise()[:-1] + "000Z"

    def seconds_since(self, text: str) -> float:
        """How long ago a moment was; 0 if there is none or it is still to come."""
        if not text:
            return 0.0
        return max(0.0, (self._clock.now() - datetime.datetime.fromisoformat(text)).total_seconds())
