"""Lets groups in as soon as their queue has room: whoever makes their pods waits for that and for nothing else.

So it comes before what is only told of groups, many at a time, and also while pods are being bound. Who may come in is
decided by `enqueueing`; who may not is told why by `group_statuses`, which also tries again what was refused here.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from allhands.runtime.scheduling.enqueueing import OUTSIDE, TURN_SECONDS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from allhands.dialects.groups import GroupRecord
    from allhands.runtime.scheduling.enqueueing import Enqueueing
    from allhands.runtime.scheduling.watched_world import WatchedWorld

GATHER_SECONDS: Final = 0.02
"""Those who come together are asked about together."""
FLIGHT: Final = 16
"""So many are written at a time."""


class LettingIn:
    """`write` writes what is to be said of a group: that it is let in, if it is."""

    def __init__(
        self,
        watched: WatchedWorld,
        enqueueing: Enqueueing,
        concerns_us: Callable[[str], bool],
        write: Callable[[str], Awaitable[Any]],
    ) -> None:
        self._watched = watched
        self._enqueueing = enqueueing
        self._concerns_us = concerns_us
        self._write = write
        self._outside: dict[str, None] = {}
        """Groups that wait to be let in, in the order in which they came."""
        self._arrived = asyncio.Event()
        watched.pod_groups.on_change(self._group_changed)

    @property
    def count(self) -> int:
        """How many are outside."""
        return len(self._outside)

    def _group_changed(self, group: str, _before: GroupRecord | None, after: GroupRecord | None) -> None:
        kind = self._watched.pod_groups.kind_of(group)
        if kind is None or not kind.is_enqueued:
            return
        if after is None or after.problem or after.written.phase not in OUTSIDE:
            self._outside.pop(group, None)
        elif group not in self._outside:
            self._outside[group] = None
            self._arrived.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            while not self._outside:
                self._arrived.clear()
                await self._arrived.wait()
            await asyncio.sleep(max(GATHER_SECONDS, self._enqueueing.pause_seconds()))
            self._arrived.clear()
            groups = [it for it in self._enqueueing.let_in(self._outside) if self._concerns_us(it)]
            if groups:
                await self._let_in(groups)
            else:
                await self._until_others_come()

    async def _let_in(self, groups: Sequence[str]) -> None:
        pending = iter(groups)

        async def some() -> None:
            for group in pending:
                await self._write(group)
                # Were it refused, it is tried again by whom it is told to, and not at once.
                self._outside.pop(group, None)

        async with asyncio.TaskGroup() as tasks:
            for _ in range(min(FLIGHT, len(groups))):
                tasks.create_task(some())

    async def _until_others_come(self) -> None:
        """Or until there may be room for those who are there."""
        try:
            async with asyncio.timeout(TURN_SECONDS):
                await self._arrived.wait()
        except TimeoutError:
            pass
