"""Keys that somebody must look at: each at most once at a time, now or at some moment, with pauses after failures.

A key that is added while it is being looked at is looked at again afterwards. One that nobody is in a hurry for waits
until the others are done, but not for ever. Nothing here knows what a key means.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections import deque
from typing import TYPE_CHECKING, Final

from allhands.api.errors import StatusError
from allhands.runtime.backoff import Backoff
from allhands.runtime.queue_measures import QueueMeasures

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from allhands.ports import Metrics

LULL_SECONDS: Final = 0.5
"""After the last that was in a hurry was looked at, when the others may be: before, more may come."""
MOST_HELD_BACK_SECONDS: Final = 10.0
"""So long a key that nobody is in a hurry for lets others go first."""
_LOG = logging.getLogger(__name__)


class WorkQueue:
    def __init__(self, name: str = "", metrics: Metrics | None = None) -> None:
        """The name is that of its metrics."""
        self._measures = None if metrics is None else QueueMeasures(metrics, name, self)
        self._ready: deque[str] = deque()
        self._unhurried: dict[str, float] = {}
        """Those that let the ready ones go first, and since when; the oldest come first."""
        self._waiting: dict[str, bool] = {}
        """Those in one of the two, or to be put there when they are done; whether there is a hurry."""
        self._working: dict[str, bool] = {}
        """Those that are being looked at; whether there was a hurry."""
        self._hurried_until = 0.0
        """When the last that was in a hurry was done, and all that follows from it was to be seen."""
        self._later: list[tuple[float, int, str, bool]] = []
        self._due: dict[tuple[str, bool], float] = {}
        """For each key, when it is to be looked at again, in a hurry or not: the earliest of all that was asked."""
        self._count = 0
        self._timer: asyncio.TimerHandle | None = None
        self._lull: asyncio.TimerHandle | None = None
        self._is_owed = False
        """Whether it is the turn of one in a hurry."""
        self._changed = asyncio.Event()
        self._backoffs: dict[str, Backoff] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is to be done now."""
        return not self._waiting and not self._working

    @property
    def is_hurried(self) -> bool:
        """Whether somebody waits who is in a hurry."""
        return bool(self._ready)

    def add(self, key: str) -> None:
        self._add(key, hurried=True)

    def _add(self, key: str, *, hurried: bool) -> None:
        known = self._waiting.get(key)
        if known or known is hurried:
            return
        self._waiting[key] = hurried
        if known is None and self._measures is not None:
            self._measures.added(key)
        if key not in self._working:
            self._put(key, hurried=hurried)

    def _put(self, key: str, *, hurried: bool) -> None:
        if hurried:
            self._unhurried.pop(key, None)
            self._ready.append(key)
        else:
            self._unhurried[key] = asyncio.get_running_loop().time()
        self._changed.set()

    def add_after(self, key: str, seconds: float, *, hurried: bool = True) -> None:
        """`hurried`: if not, all that is due by then goes first, for a while."""
        if seconds <= 0:
            self._add(key, hurried=hurried)
            return
        when = asyncio.get_running_loop().time() + seconds
        known = self._due.get((key, hurried))
        if known is not None and known <= when:
            return
        self._due[key, hurried] = when
        self._count += 1
        heapq.heappush(self._later, (when, self._count, key, hurried))
        self._arm()

    def retry(self, key: str) -> float:
        """Adds it after a pause that doubles with every failure; returns the pause."""
        pause = self._backoffs.setdefault(key, Backoff()).next_seconds()
        self.add_after(key, pause)
        if self._measures is not None:
            self._measures.retried()
        return pause

    def succeeded(self, key: str) -> None:
        self._backoffs.pop(key, None)

    async def take(self) -> str:
        """The next key, which is then being worked on until `done`."""
        while (key := self._next()) is None:
            self._changed.clear()
            await self._changed.wait()
        self._working[key] = self._waiting.pop(key)
        if self._measures is not None:
            self._measures.taken(key)
        return key

    def _next(self) -> str | None:
        """Those in no hurry come in a lull, or when they have let others go first for long enough: then in turn."""
        first = next(iter(self._unhurried), None)
        if first is None:
            return self._ready.popleft() if self._ready else None
        now, latest = asyncio.get_running_loop().time(), self._unhurried[first] + MOST_HELD_BACK_SECONDS
        if self._ready and (now < latest or self._is_owed):
            self._is_owed = False
            return self._ready.popleft()
        is_lull = not any(self._working.values())
        if now < latest and (not is_lull or now < self._hurried_until):
            self._look_at(min(latest, self._hurried_until) if is_lull else latest)
            return None
        self._is_owed = True
        del self._unhurried[first]
        return first

    def _look_at(self, when: float) -> None:
        if self._lull is not None:
            if self._lull.when() <= when:
                return
            self._lull.cancel()
        self._lull = asyncio.get_running_loop().call_at(when, self._end_lull)

    def _end_lull(self) -> None:
        self._lull = None
        self._changed.set()

    def done(self, key: str) -> None:
        if self._working.pop(key):
            self._hurried_until = asyncio.get_running_loop().time() + LULL_SECONDS
        if self._measures is not None:
            self._measures.done(key)
        hurried = self._waiting.get(key)
        if hurried is not None:
            self._put(key, hurried=hurried)
        elif self._unhurried:
            self._changed.set()

    def _arm(self) -> None:
        if self._timer is not None:
            if self._timer.when() <= self._later[0][0]:
                return
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(self._later[0][0], self._ring)

    def _ring(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        while self._later and self._later[0][0] <= now:
            when, _, key, hurried = heapq.heappop(self._later)
            if self._due.get((key, hurried)) == when:
                del self._due[key, hurried]
                self._add(key, hurried=hurried)
        if self._later:
            self._arm()


async def serve(queue: WorkQueue, look: Callable[[str], Awaitable[None]], what: str, *, per_turn: int = 0) -> None:
    """Looks at one key after the other until cancelled; one that fails is tried again later and stops no other.

    After `per_turn` keys in a row the loop's others get their turn, where looking itself may wait for nothing.
    """
    done = 0
    while True:
        key = await queue.take()
        try:
            await look(key)
        except StatusError as refusal:
            pause = queue.retry(key)
            _LOG.info("%s %s: %s; again in %g s", what, key, refusal.message, pause)
        except Exception:
            pause = queue.retry(key)
            _LOG.exception("%s %s: failed; again in %g s", what, key, pause)
        else:
            queue.succeeded(key)
        finally:
            queue.done(key)
        done += 1
        if per_turn and done % per_turn == 0:
            await asyncio.sleep(0)
