"""Controllers in their real loops, on the store, with a kubelet: for tests that wait for what comes of it."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from allhands.runtime.controller import ControllerLoop
from allhands.runtime.performer import Performer
from allhands.store import InProcessObjects, Store
from tests import pod_life
from tests.controller_world import Telling
from tests.doubles import CountingIds, ManualClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from allhands.api.document import Manifest

PATIENCE_SECONDS = 10


class Cluster:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = Store(self.clock, CountingIds(), keeps_quotas=True)
        self.objects = InProcessObjects(self.store)
        self.telling = Telling()

    async def get(self, resource: Any, name: str) -> Manifest:
        return (await self.objects.get(resource, name, "default")).manifest()

    async def until(self, holds: Callable[[], Awaitable[bool]]) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not await holds():
                await pod_life.step(self.objects, self.store.now())
                self.store.housekeeper.run_pending()
                await asyncio.sleep(0.001)

    @contextlib.asynccontextmanager
    async def running(self, *controllers: Any) -> AsyncIterator[None]:
        performer = Performer(self.objects, self.telling)  # type: ignore[arg-type]
        tasks = [asyncio.create_task(ControllerLoop(it, performer, self.clock).run()) for it in controllers]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
