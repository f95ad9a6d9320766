"""What was asked for before anybody is there to read it: a process that is still being loaded lets the API server begin
with its work.

Each answer is handed over once, as it came or as it was refused; what nobody takes in time is given up, since a watch
that nobody reads costs the server. Nothing of what they show is read here.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from allhands.kube.watching import KubeWatch

if TYPE_CHECKING:
    from collections.abc import Coroutine, Hashable
    from typing import Any

T = TypeVar("T")

KEPT_SECONDS: Final = 10.0
"""So long one waits for somebody to take it: whoever must get a lease first may have to wait for days."""


class EarlyRequests(Generic[T]):
    """By what was asked."""

    def __init__(self) -> None:
        self._begun: dict[Hashable, asyncio.Task[T]] = {}
        self._alarm: asyncio.TimerHandle | None = None
        self._given_up: dict[asyncio.Task[None], None] = {}

    def __len__(self) -> int:
        return len(self._begun)

    def begin(self, what: Hashable, asking: Coroutine[Any, Any, T], kept_seconds: float = KEPT_SECONDS) -> None:
        if what in self._begun:
            asking.close()
            return
        self._begun[what] = asyncio.create_task(asking)
        self._alarm = self._alarm or asyncio.get_running_loop().call_later(kept_seconds, self._give_up)

    def take(self, what: Hashable) -> asyncio.Task[T] | None:
        """Whoever takes a watch closes it."""
        return self._begun.pop(what, None)

    async def close(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._give_up()
        await asyncio.gather(*self._given_up)

    def _give_up(self) -> None:
        self._alarm = None
        for begun in self._begun.values():
            closing = asyncio.create_task(_closed(begun))
            self._given_up[closing] = None
            closing.add_done_callback(lambda task: self._given_up.pop(task, None))
        self._begun = {}


async def _closed(begun: asyncio.Task[Any]) -> None:
    """Whatever has come of it: nobody wants to know."""
    begun.cancel()
    await asyncio.wait((begun,))
    if not begun.cancelled() and begun.exception() is None and isinstance(begun.result(), KubeWatch):
        await begun.result().close()
