"""Keeps the parts of a process alive: one that ends is told of by its name, counted, and begun anew after a pause.

A part is begun from nothing each time, so whatever it needs must be in the API. No mistake is hidden: it is in the log
and in the metrics, and `checks` say that the part is not well until it has run for a while again. Simulations do not
use this: there a part that ends by a mistake is what is looked for.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from allhands.runtime.backoff import Backoff
from allhands.runtime.metrics import Unmeasured

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from allhands.ports import Metrics

    Begin: TypeAlias = Callable[[], Coroutine[Any, Any, None]]

FIRST_PAUSE_SECONDS: Final = 1.0
MOST_PAUSE_SECONDS: Final = 60.0
SETTLED_SECONDS: Final = 5.0
"""A part that had ended is well again once it has run for so long."""
STEADY_SECONDS: Final = 120.0
"""After so long the next pause is a short one again."""
_LOG = logging.getLogger(__name__)


class _Part:
    __slots__ = ("failures", "is_done", "is_ready", "running_since")

    def __init__(self, is_ready: Callable[[], bool]) -> None:
        self.is_ready = is_ready
        self.running_since: float | None = None
        self.failures = 0
        self.is_done = False

    def is_well(self) -> bool:
        if self.is_done:
            return True
        if self.running_since is None:
            return False
        if self.failures and asyncio.get_running_loop().time() - self.running_since < SETTLED_SECONDS:
            return False
        return self.is_ready()


class Keeper:
    """The parts of one process, by name. Declare them all before the first probe asks."""

    def __init__(self, metrics: Metrics | None = None) -> None:
        self._metrics = metrics or Unmeasured()
        self._parts: dict[str, _Part] = {}
        self._checks: dict[str, Callable[[], bool]] = {}

    @property
    def checks(self) -> Mapping[str, Callable[[], bool]]:
        """For each part, whether it is well now."""
        return self._checks

    def declare(self, name: str, is_ready: Callable[[], bool] = lambda: True) -> None:
        """A part that will be kept. `is_ready` is what it says of itself while it runs."""
        part = self._parts[name] = _Part(is_ready)
        self._checks[name] = part.is_well
        self._metrics.set("allhands_part_up", 0, part=name)

    async def keep(self, name: str, begin: Begin, *, ends: bool = False) -> None:
        """Runs it until cancelled; one that `ends` until it has ended without a mistake."""
        if name not in self._parts:
            self.declare(name)
        part = self._parts[name]
        loop = asyncio.get_running_loop()
        backoff = Backoff(FIRST_PAUSE_SECONDS, MOST_PAUSE_SECONDS)
        while True:
            began = part.running_since = loop.time()
            self._metrics.set("allhands_part_up", 1, part=name)
            try:
                mistake = await _ended(name, begin)
            finally:
                part.running_since = None
                self._metrics.set("allhands_part_up", 0, part=name)
            if ends and mistake is None:
                part.is_done = True
                return
            part.failures += 1
            if loop.time() - began >= STEADY_SECONDS:
                backoff.reset()
            pause = backoff.next_seconds()
            self._metrics.count("allhands_part_failures_total", part=name)
            _LOG.error("%s has ended: %s; it begins anew in %g s", name, _why(mistake), pause, exc_info=mistake)
            await asyncio.sleep(pause)


async def _ended(name: str, begin: Begin) -> BaseException | None:
    """Returns when the part has ended, with its mistake. Cancelled, it returns when the part has ended for that."""
    task = asyncio.create_task(begin(), name=name)
    try:
        await asyncio.wait((task,))
    except asyncio.CancelledError:
        task.cancel()
        while not task.done():
            # Whoever cancels again need not wait less: what the part holds must be let go.
            try:
                await asyncio.wait((task,))
            except asyncio.CancelledError:
                continue
        if not task.cancelled() and (mistake := task.exception()) is not None:
            _LOG.error("%s failed while it ended: %s", name, _why(mistake), exc_info=mistake)
        raise
    if task.cancelled():
        return asyncio.CancelledError("it was cancelled, and not by us")
    mistake = task.exception()
    if mistake is not None and not isinstance(mistake, Exception):
        raise mistake
    return mistake


def _why(mistake: BaseException | None) -> str:
    """The first cause in a group of them: that of the whole group says nothing."""
    if mistake is None:
        return "it should run for ever"
    while isinstance(mistake, BaseExceptionGroup):
        mistake = mistake.exceptions[0]
    return f"{type(mistake).__name__}: {mistake}"
