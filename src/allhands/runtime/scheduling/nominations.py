"""Says on pods for whom others are about to be evicted where they will go: `status.nominatedNodeName`.

Others read it: a scheduler beside us counts such a pod where it is nominated, an autoscaler makes no node for it. So it
is written before anybody is evicted, and taken back when the room is not made after all. We ourselves go by the record
of the group, not by this.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from allhands.api.errors import StatusError
from allhands.ports import WriteOptions
from allhands.runtime.scheduling import resources
from allhands.runtime.scheduling.records import MANAGER

if TYPE_CHECKING:
    from collections.abc import Iterable

    from allhands.core.plan import Bind, Hold, Plan
    from allhands.ports import Objects
    from allhands.runtime.scheduling.watched_world import WatchedWorld

MOST_PODS: Final = 1_000
"""Of a group: beyond that, telling would take longer than evicting."""
_OPTIONS: Final = WriteOptions(field_manager=MANAGER)
_LOG = logging.getLogger(__name__)


class Nominations:
    def __init__(self, objects: Objects, watched: WatchedWorld, flight: int) -> None:
        self._objects = objects
        self._watched = watched
        self._flight = flight
        self._nominated: dict[str, tuple[Bind, ...]] = {}
        """Group -> where its pods were last said to go."""

    async def announce(self, hold: Hold) -> None:
        """Best effort: who may not write it may still make room."""
        binds = tuple(bind for bind in hold.binds[:MOST_PODS] if bind.uid)
        news = [bind for bind in binds if self._said(bind) != bind.node]
        self._nominated[hold.group] = binds
        await self._write(news)

    def settled(self, plan: Plan) -> list[str]:
        """Groups for which no room is being made any more, and which did not start: theirs is to be taken back."""
        if not self._nominated:
            return []
        held = {hold.group for hold in plan.holds if hold.awaits_leaving}
        for start in plan.starts:
            self._nominated.pop(start.group, None)  # the server forgets a nomination when the pod is bound
        return [group for group in self._nominated if group not in held]

    async def take_back(self, group: str) -> None:
        binds = self._nominated.pop(group, ())
        await self._write([bind._replace(node="") for bind in binds if self._said(bind)])

    def _said(self, bind: Bind) -> str:
        record = self._watched.pods.get(bind.pod)
        if record is None or record.pod.uid != bind.uid or record.pod.node_name:
            return bind.node  # nobody is to be told anything
        return record.pod.nominated_node

    async def _write(self, binds: Iterable[Bind]) -> None:
        if self._flight == 1:
            for bind in binds:
                await self._nominate(bind)
            return
        free = asyncio.Semaphore(self._flight)

        async def one(bind: Bind) -> None:
            async with free:
                await self._nominate(bind)

        await asyncio.gather(*map(one, binds))

    async def _nominate(self, bind: Bind) -> None:
        namespace, _, name = bind.pod.partition("/")
        patch = {"metadata": {"uid": bind.uid}, "status": {"nominatedNodeName": bind.node or None}}
        try:
            document = await self._objects.patch(
                resources.PODS, name, "merge", patch, namespace, _OPTIONS, subresource="status"
            )
        except StatusError as refusal:
            _LOG.info("nominating %s for %s: %s", bind.pod, bind.node or "no node", refusal.message)
        else:
            self._watched.pods.observe(document.raw)
