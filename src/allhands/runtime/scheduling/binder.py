"""Binds the pods of groups that have been opened, so many at a time as may be in flight.

A result that nobody knows is read back, and room is not given to others before somebody can say whether it is taken.
It does not choose what is opened, and what is bound in part is told to whoever opened it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Final

from allhands.api.errors import StatusError
from allhands.runtime.backoff import Backoff
from allhands.runtime.scheduling import resources
from allhands.runtime.scheduling.staleness import why_bind_stale

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from allhands.core.plan import Bind, Start
    from allhands.ports import Objects
    from allhands.runtime.scheduling.watched_world import WatchedWorld

ATTEMPTS: Final = 5
FINAL_CODES: Final = frozenset({400, 403, 404, 409, 422})
"""The server has decided: asking again gives the same answer."""
NOT_FOUND: Final = 404
GONE: Final = "(gone)"
"""In the place of a node: the pod is no more."""
_LOG = logging.getLogger(__name__)


class _Opened:
    """A group whose binds have begun. `surprises`: what had been seen of others when it was looked at last."""

    __slots__ = ("done", "left", "start", "surprises")

    def __init__(self, start: Start, surprises: int) -> None:
        self.start = start
        self.surprises = surprises
        self.done = [False] * len(start.binds)
        self.left = len(start.binds)


class Binder:
    """`ended` is told of each group which of its binds were done, and says what of it is still to be done; `freed` is
    told that there may be room for the next group."""

    def __init__(
        self,
        objects: Objects,
        watched: WatchedWorld,
        flight: int,
        ended: Callable[[Start, list[bool]], Awaitable[None] | None],
        freed: Callable[[], None],
    ) -> None:
        self._objects = objects
        self._watched = watched
        self._flight = flight
        self._ended = ended
        self._freed = freed
        self._tasks: asyncio.TaskGroup | None = None
        self._waiting: deque[tuple[_Opened, int]] = deque()
        self._workers = 0
        self._idle: list[asyncio.Future[None]] = []
        self.open_binds = 0
        """Of the groups that are open, those that have not ended."""

    @property
    def has_room(self) -> bool:
        """The next group is opened when the last binds of those before it are under way, so that nobody waits idly."""
        return self.open_binds < self._flight

    def begin(self, tasks: asyncio.TaskGroup) -> None:
        """Those that bind are tasks of this group: as many as are needed, and each for many pods."""
        self._tasks = tasks

    def open(self, start: Start) -> None:
        opened = _Opened(start, self._watched.surprises)
        self.open_binds += opened.left
        self._waiting.extend([(opened, number) for number in range(opened.left)])
        needed = opened.left
        while needed and self._idle:
            worker = self._idle.pop()
            if not worker.done():
                worker.set_result(None)
                needed -= 1
        assert self._tasks is not None, "opened before it has begun"
        for _ in range(min(needed, self._flight - self._workers)):
            self._workers += 1
            self._tasks.create_task(self._bind_one_after_the_other())

    async def _bind_one_after_the_other(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            while self._waiting:
                opened, number = self._waiting.popleft()
                opened.done[number] = await self.bind(opened.start.binds[number], opened.surprises)
                self.open_binds -= 1
                opened.left -= 1
                self._freed()
                if not opened.left and (rest := self._ended(opened.start, opened.done)) is not None:
                    await rest
            woken = loop.create_future()
            self._idle.append(woken)
            await woken

    async def bind(self, bind: Bind, surprises: int) -> bool:
        """Whether the pod is bound. What was seen of others since may be in the room that was meant for it: then it is
        placed anew, first of all, with the rest of its group."""
        namespace, _, name = bind.pod.partition("/")
        binding = {"metadata": {"uid": bind.uid}, "target": {"kind": "Node", "name": bind.node}}
        backoff = None
        for _ in range(ATTEMPTS):
            if self._watched.surprises != surprises and (problem := why_bind_stale(bind, self._watched)):
                _LOG.info("%s is not bound to %s: %s", bind.pod, bind.node, problem)
                break
            try:
                await self._objects.bind(namespace, name, binding)
            except StatusError as refusal:
                _LOG.info("binding %s to %s: %s", bind.pod, bind.node, refusal.message)
                node = await self._node_of(bind)
                if node == bind.node:
                    return True
                if node or refusal.code in FINAL_CODES:
                    break
                backoff = backoff or Backoff()
                await asyncio.sleep(backoff.next_seconds())
            else:
                return True
        self._watched.world.assume_bound(bind.uid, "")
        return False

    async def _node_of(self, bind: Bind) -> str:
        """Where the pod is in truth; "" if it is nowhere."""
        namespace, _, name = bind.pod.partition("/")
        backoff = Backoff()
        while True:
            try:
                document = await self._objects.get(resources.PODS, name, namespace)
            except StatusError as refusal:
                if refusal.code == NOT_FOUND:
                    return GONE
            else:
                self._watched.pods.observe(document.raw)
                found = document.manifest()
                return str(found["spec"].get("nodeName", "")) if found["metadata"]["uid"] == bind.uid else GONE
            await asyncio.sleep(backoff.next_seconds())
            seen = self._watched.pods.get(bind.pod)
            if seen is None or seen.pod.uid != bind.uid:
                return GONE
            if seen.pod.node_name:
                return seen.pod.node_name
