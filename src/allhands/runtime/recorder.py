"""Events of the API for people: what happened to an object, told once and counted when it happens again.

Telling is never in the way of doing: it happens in the background, after what is busy, a limited number a second, and
what comes too fast is dropped and counted. Equal tellings are one Event whose count rises, as long as the API keeps it.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Final

from allhands.api.errors import StatusError
from allhands.api.kinds import Resource
from allhands.model.time_text import utc_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from allhands.api.document import Manifest
    from allhands.lifecycle.instructions import Record
    from allhands.ports import Clock, Objects

EVENTS: Final = Resource("", "v1", "events")
PER_SECOND: Final = 50.0
MOST_WAITING: Final = 2_000
MANY_WAITING: Final = 100
"""When so many wait, what is worth little is not told: of ten thousand pods that are bound at once nobody reads it."""
MOST_HELD_BACK_SECONDS: Final = 30.0
"""So long it lets those go first who are busy."""
TIMES_SLOWER: Final = 10
"""While others are still busy after that."""
LOOK_SECONDS: Final = 0.1
MOST_KNOWN: Final = 4_096
MESSAGE_LIMIT: Final = 1_024


class Recorder:
    """`is_busy`: whether something goes on that goes first."""

    def __init__(
        self,
        objects: Objects,
        clock: Clock,
        component: str,
        *,
        per_second: float = PER_SECOND,
        is_busy: Callable[[], bool] = lambda: False,
    ) -> None:
        self._objects = objects
        self._clock = clock
        self._component = component
        self._per_second = per_second
        self._is_busy = is_busy
        self._held_back_seconds = 0.0
        """Since somebody has been busy."""
        self._waiting: deque[Record] = deque()
        self._known: OrderedDict[str, int] = OrderedDict()
        """Name of the Event -> how often it was told."""
        self._changed = asyncio.Event()
        self.dropped = 0

    @property
    def is_idle(self) -> bool:
        """Whether everything has been told."""
        return not self._waiting

    def has_room(self, *, if_few: bool = False) -> bool:
        """Whether `record` would take it. Who would have to work out what to tell asks first; what is not told then
        counts as dropped."""
        if len(self._waiting) >= (MANY_WAITING if if_few else MOST_WAITING):
            self.dropped += 1
            return False
        return True

    def record(self, telling: Record, *, if_few: bool = False) -> None:
        """`if_few`: it is left out if many are waiting to be told."""
        if self.has_room(if_few=if_few):
            self._waiting.append(telling)
            self._changed.set()

    async def run(self) -> None:
        while True:
            while not self._waiting:
                self._changed.clear()
                await self._changed.wait()
            await self._let_others_go_first()
            try:
                await self._tell(self._waiting[0])
            except StatusError:
                self.dropped += 1  # an Event is not worth a second try
            self._waiting.popleft()
            await asyncio.sleep((TIMES_SLOWER if self._is_busy() else 1) / self._per_second)

    async def _let_others_go_first(self) -> None:
        while (is_busy := self._is_busy()) and self._held_back_seconds < MOST_HELD_BACK_SECONDS:
            await asyncio.sleep(LOOK_SECONDS)
            self._held_back_seconds += LOOK_SECONDS
        if not is_busy:
            self._held_back_seconds = 0.0

    async def _tell(self, telling: Record) -> None:
        involved = telling.involved
        namespace = involved.get("namespace") or "default"
        name = _name(telling, self._component)
        now = utc_text(int(self._clock.now().timestamp()))
        count = self._known.pop(name, 0) + 1
        self._known[name] = count
        if len(self._known) > MOST_KNOWN:
            self._known.popitem(last=False)
        if count > 1:
            try:
                await self._objects.patch(EVENTS, name, "merge", {"count": count, "lastTimestamp": now}, namespace)
            except StatusError as refusal:
                if refusal.code != 404:
                    raise
                self._known[name] = 1
            else:
                return
        try:
            await self._objects.create(EVENTS, self._event(telling, name, namespace, now), namespace)
        except StatusError as refusal:
            if refusal.reason != "AlreadyExists":
                raise
            await self._count_on(name, namespace, now)

    async def _count_on(self, name: str, namespace: str, now: str) -> None:
        """Somebody before us has told the same: a process that ended, or one whose answer was lost."""
        found = (await self._objects.get(EVENTS, name, namespace)).manifest()
        count = int(found.get("count") or 1) + 1
        await self._objects.patch(EVENTS, name, "merge", {"count": count, "lastTimestamp": now}, namespace)
        self._known[name] = count

    def _event(self, telling: Record, name: str, namespace: str, now: str) -> Manifest:
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": telling.involved,
            "type": telling.type,
            "reason": telling.reason,
            "message": telling.message[:MESSAGE_LIMIT],
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }


def _name(telling: Record, component: str) -> str:
    """Equal tellings have equal names, after a restart too."""
    involved = telling.involved
    what = "\0".join((component, involved.get("uid", ""), telling.type, telling.reason, telling.message))
    digest = hashlib.blake2b(what.encode(), digest_size=8).hexdigest()
    cut = str(involved.get("name", ""))[:200].rstrip("-.")  # a part of a name must not end so
    return f"{cut}.{digest}" if cut else digest
