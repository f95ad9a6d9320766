"""Groups with which something was refused: they are left alone for a moment, and longer each time it happens again."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from allhands.runtime.backoff import Backoff

if TYPE_CHECKING:
    from collections.abc import Callable

FORGET_SECONDS: Final = 600.0
"""A refusal so long ago says nothing about the next one."""


class Pauses:
    """`ended` is called when a pause is over."""

    def __init__(self, ended: Callable[[], None]) -> None:
        self._ended = ended
        self._paused: dict[str, asyncio.TimerHandle] = {}
        self._backoffs: dict[str, tuple[Backoff, float]] = {}

    def __contains__(self, group: object) -> bool:
        return group in self._paused

    def begin(self, group: str) -> None:
        loop = asyncio.get_running_loop()
        self._forget(loop.time())
        backoff, _ = self._backoffs.pop(group, (Backoff(), 0.0))
        self._backoffs[group] = (backoff, loop.time())
        if group in self._paused:
            self._paused[group].cancel()
        self._paused[group] = loop.call_later(backoff.next_seconds(), self._end, group)

    def succeeded(self, group: str) -> None:
        """The next pause is a short one again."""
        self._backoffs.pop(group, None)

    def _end(self, group: str) -> None:
        self._paused.pop(group, None)
        self._ended()

    def _forget(self, now: float) -> None:
        """The oldest come first."""
        while self._backoffs:
            group = next(iter(self._backoffs))
            if now - self._backoffs[group][1] <= FORGET_SECONDS:
                return
            del self._backoffs[group]
