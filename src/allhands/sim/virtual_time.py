"""An event loop whose time is virtual: it never waits, it jumps to the next thing that is due.

Everything that runs on it (timers, sleeps, time-outs) runs as on a real one, only faster, and in the same order each
time. It knows no sockets, no threads and no signals: what would wait for the outside is a mistake, and is told so.
"""

from __future__ import annotations

import asyncio
import contextvars
import datetime
import heapq
from collections import deque
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

T = TypeVar("T")

LEAST_CANCELLED: Final = 100


class NothingLeftError(RuntimeError):
    """Everybody waits for somebody else: no timer is set and nothing is ready."""


class _Handle(asyncio.Handle):
    """Something to be done, made without asking the loop whether it is being debugged: there are very many."""

    __slots__ = ()

    def __init__(
        self,
        callback: Callable[..., Any],
        args: Sequence[Any],
        loop: VirtualTimeLoop,
        context: contextvars.Context | None,
    ) -> None:
        self._callback = callback
        self._args = args
        self._loop = loop
        self._context = contextvars.copy_context() if context is None else context
        self._cancelled = False
        self._repr = None
        self._source_traceback = None


class VirtualTimeLoop(asyncio.base_events.BaseEventLoop):
    def __init__(self) -> None:
        super().__init__()
        self._virtual_seconds = 0.0
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        """Those that are set for the same moment ring in the order in which they were set."""
        self._count = 0
        self._cancelled_timers = 0
        self._stopping = False

    def time(self) -> float:
        return self._virtual_seconds

    # -- what is to be done, and when

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., Any], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        if self.is_closed():
            raise RuntimeError("Event loop is closed")
        handle = _Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        if self.is_closed():
            raise RuntimeError("Event loop is closed")
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        timer._scheduled = True  # type: ignore[attr-defined]
        self._count += 1
        heapq.heappush(self._timers, (when, self._count, timer))
        return timer

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., Any], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._virtual_seconds + delay, callback, *args, context=context)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Most time-outs never come: what is cancelled must not pile up until its moment."""
        if handle._scheduled:  # type: ignore[attr-defined]
            self._cancelled_timers += 1
            if self._cancelled_timers > max(LEAST_CANCELLED, len(self._timers) // 2):
                self._timers[:] = [it for it in self._timers if not it[2].cancelled() and it[2] is not handle]
                heapq.heapify(self._timers)
                self._cancelled_timers = 0

    def _run_once(self) -> None:
        """All that is ready, once; if nothing is, time goes to the next timer exactly."""
        ready, timers = self._ready, self._timers
        while timers and timers[0][2].cancelled():
            self._pop_timer()
        if not ready and not self._stopping:
            if not timers:
                raise NothingLeftError("nothing is ready and no timer is set: everybody waits for somebody else")
            self._virtual_seconds = max(self._virtual_seconds, timers[0][0])
        while timers and timers[0][0] <= self._virtual_seconds:
            ready.append(self._pop_timer())
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle.cancelled():
                handle._run()

    def _pop_timer(self) -> asyncio.TimerHandle:
        timer = heapq.heappop(self._timers)[2]
        timer._scheduled = False  # type: ignore[attr-defined]
        if timer.cancelled():
            self._cancelled_timers -= 1
        return timer

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # type: ignore[override]
        """A thread works in real time, which does not pass here."""
        del executor, args
        raise NotImplementedError(f"{func!r} would run in a thread: there are none on virtual time")

    def _write_to_self(self) -> None:
        """Wakes a loop that waits; this one never does."""


class VirtualClock:
    """The wall clock of a simulation: a beginning plus the time of its loop, plus the jumps that faults make."""

    def __init__(self, loop: VirtualTimeLoop, begin: datetime.datetime | None = None) -> None:
        self._loop = loop
        self._begin = begin or datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
        self._jumped = datetime.timedelta()
        self._told = (-1.0, self._begin)
        """The last answer, and the loop's time then: much is asked at one moment."""

    def now(self) -> datetime.datetime:
        seconds = self._loop.time()
        if self._told[0] != seconds:
            self._told = (seconds, self._begin + datetime.timedelta(seconds=seconds) + self._jumped)
        return self._told[1]

    def jump(self, seconds: float) -> None:
        """As when somebody sets the machine's clock: timers do not notice."""
        self._jumped += datetime.timedelta(seconds=seconds)
        self._told = (-1.0, self._begin)


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
