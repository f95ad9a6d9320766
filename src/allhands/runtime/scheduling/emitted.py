"""Hands starts over from the thread that decides to the loop that binds, while others are still being decided about.

The first goes at once, then ever more together: waking the loop costs. `emit` is called in the thread, all else in the
loop; what was emitted arrives in its order, and before the end of the cycle is known.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from allhands.core.plan import Start

MOST_PODS: Final = 128
"""So many are handed over together at most, unless one group has more."""


class Emitted:
    """`take` is called in the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, take: Callable[[tuple[Start, ...]], None]) -> None:
        self._loop = loop
        self._take = take
        self._held: list[Start] = []
        self._pods = 0
        self._enough = 1
        self.count = 0
        """Starts so far."""

    def emit(self, start: Start) -> None:
        self._held.append(start)
        self.count += 1
        self._pods += len(start.binds)
        if self._pods < self._enough:
            return
        starts, self._held, self._pods = tuple(self._held), [], 0
        self._enough = min(MOST_PODS, self._enough * 4)
        with contextlib.suppress(RuntimeError):  # the loop has ended: nobody carries out anything any more
            self._loop.call_soon_threadsafe(self._take, starts)

    def end(self) -> None:
        """The cycle has ended: the rest."""
        if self._held:
            starts, self._held = tuple(self._held), []
            self._take(starts)
