"""An event loop whose time is virtual: it never waits, it jumps to the next thing that is due.

Everything that runs on it (timers, sleeps, time-outs) runs as on a real one, only faster, and in the same order each
time. It knows no sockets, no threads and no signals: what would wait for the outside is a mistake, and is told so.
"""

from __future__ import annotations

import asyncio
import datetime
import math
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")


class NothingLeftError(RuntimeError):
    """Everybody waits for somebody else: no timer is set and nothing is ready."""


class _NoOutside:
    """In the place of a selector: there is nothing outside to wait for, so waiting is moving the clock."""

    def __init__(self, loop: VirtualTimeLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise NothingLeftError("nothing is ready and no timer is set: everybody waits for somebody else")
        if timeout > 0:
            self._loop.advance(timeout)
        return []

    def close(self) -> None:
        pass


class VirtualTimeLoop(asyncio.base_events.BaseEventLoop):
    def __init__(self) -> None:
        super().__init__()
        self._virtual_seconds = 0.0
        self._selector = _NoOutside(self)
        self._clock_resolution = 1e-9

    def time(self) -> float:
        return self._virtual_seconds

    def advance(self, seconds: float) -> None:
        """To the next timer exactly: adding up small differences would miss it by a rounding error."""
        scheduled = self._scheduled  # type: ignore[attr-defined]
        self._virtual_seconds = max(
            self._virtual_seconds, scheduled[0].when() if scheduled else self._virtual_seconds + seconds
        )
        # After some months the step between neighbouring numbers is larger than a nanosecond: added to the time, that
        # would be lost, and what is due now would never be seen as due.
        self._clock_resolution = max(1e-9, math.ulp(self._virtual_seconds))

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # type: ignore[override]
        """A thread works in real time, which does not pass here."""
        del executor, args
        raise NotImplementedError(f"{func!r} would run in a thread: there are none on virtual time")

    def _process_events(self, event_list: list[Any]) -> None:
        pass

    def _write_to_self(self) -> None:
        """Wakes a loop that waits; this one never does."""


class VirtualClock:
    """The wall clock of a simulation: a beginning plus the time of its loop, plus the jumps that faults make."""

    def __init__(self, loop: VirtualTimeLoop, begin: datetime.datetime | None = None) -> None:
        self._loop = loop
        self._begin = begin or datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
        self._jumped = datetime.timedelta()

    def now(self) -> datetime.datetime:
        return self._begin + datetime.timedelta(seconds=self._loop.time()) + self._jumped

    def jump(self, seconds: float) -> None:
        """As when somebody sets the machine's clock: timers do not notice."""
        self._jumped += datetime.timedelta(seconds=seconds)


def run_virtually(loop: VirtualTimeLoop, main: Coroutine[Any, Any, T]) -> T:
    """Runs it to its end, and then ends everything it left behind."""
    asyncio.set_event_loop(loop)
    try:
        return loop.run_until_complete(main)
    finally:
        left = [task for task in asyncio.all_tasks(loop) if not task.done()]
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        asyncio.set_event_loop(None)
        loop.close()
