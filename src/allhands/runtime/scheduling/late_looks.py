"""What was expected and is looked at later: those who wait to be bound go before what only shows that others were.

A bind of ours counts since it was sent. While many are being sent, what the watch shows of them is put off, unread but
for whose it is; any other news of such a pod, and whatever others do, is looked at when it comes, and in its order.
What is put off is looked at when the last bind has ended, or after twenty seconds.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import msgspec

from allhands.api.schema.pod_glance import PodGlance, glance
from allhands.model.pod import PodPhase
from allhands.ports import Head, PackedEvent
from allhands.runtime.informer import key_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from allhands.core.world import World
    from allhands.dialects.pods import PodRecord
    from allhands.ports import Event
    from allhands.runtime.informer import Informer

LATER_SECONDS: Final = 1.0
MOST_LATER_SECONDS: Final = 20.0
"""So long what was expected is not looked at, while there is more to come of it."""
AT_A_TIME: Final = 100
"""So many are looked at before others have their turn."""
MOST_PUT_OFF: Final = 1 << 14
"""Each is a text of some kilobytes."""
PENDING: Final = PodPhase.PENDING.value


class _Metadata(msgspec.Struct, frozen=True, rename="camel", gc=False):
    name: str
    uid: str
    resource_version: str
    namespace: str = ""
    deletion_timestamp: str | None = None


class _Spec(msgspec.Struct, frozen=True, rename="camel", gc=False):
    node_name: str = ""


class _Status(msgspec.Struct, frozen=True, gc=False):
    phase: str = ""


class _Shown(msgspec.Struct, frozen=True, gc=False):
    metadata: _Metadata
    spec: _Spec
    status: _Status


_shown = msgspec.json.Decoder(_Shown)


def _glance_at_text(raw: bytes) -> PodGlance | None:
    try:
        shown = _shown.decode(raw)
        version = int(shown.metadata.resource_version)
    except ValueError:  # nor can anybody else read it, who will say so
        return None
    metadata, spec, status = shown.metadata, shown.spec, shown.status
    is_deleted = metadata.deletion_timestamp is not None
    return PodGlance(metadata.namespace, metadata.name, metadata.uid, version, spec.node_name, status.phase, is_deleted)


class LateLooks:
    """`is_busy`: something is being bound. `is_thronged`: so much that putting off is worth it. `changed` is called
    when all has been looked at."""

    def __init__(
        self,
        pods: Informer[PodRecord],
        world: World,
        *,
        is_busy: Callable[[], bool],
        is_thronged: Callable[[], bool],
        changed: Callable[[], None],
    ) -> None:
        self._pods = pods
        self._world = world
        self._is_busy = is_busy
        self._is_thronged = is_thronged
        self._changed = changed
        self._timer: asyncio.TimerHandle | None = None
        self._since = 0.0
        pods.put_off(self._own_bind)

    def note(self) -> None:
        """Something was expected. Nobody is waiting for it, but what is in use is counted by it."""
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._since = loop.time()
            self._timer = loop.call_later(LATER_SECONDS, self._look)

    def _own_bind(self, event: Event) -> Head | None:
        """Whose it is, if it shows a bind that was sent, and nothing else is known of the pod since."""
        if not self._is_thronged() or self._pods.count_put_off >= MOST_PUT_OFF:
            return None
        shown = glance(event.envelope) if isinstance(event, PackedEvent) else _glance_at_text(event.raw)
        if shown is None or not shown.node or self._world.assumed_node(shown.uid) != shown.node:
            return None
        if shown.phase != PENDING or shown.is_deleted:
            return None
        self.note()
        return Head(key_of(shown.namespace, shown.name), shown.uid, shown.version)

    def _look(self) -> None:
        """As long as thousands are being bound, counting them anew every second would cost more than it shows."""
        loop = asyncio.get_running_loop()
        if self._is_busy() and loop.time() - self._since < MOST_LATER_SECONDS:
            self._timer = loop.call_later(LATER_SECONDS, self._look)
        elif self._pods.look_at_put_off(AT_A_TIME):
            self._timer = loop.call_later(0, self._look)
        else:
            self._timer = None
            self._changed()
