"""The embedded cluster beside code that is not asynchronous: it runs in a thread with an event loop of its own."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

from allhands.compose.access_settings import AS_IT_WAS, AccessWish
from allhands.compose.embedded import EmbeddedCluster, embedded

if TYPE_CHECKING:
    from pathlib import Path

START_SECONDS = 20


class EmbeddedInThread:
    """An embedded cluster with an event loop of its own, beside tests that are not asynchronous."""

    def __init__(self, folder: Path, access: AccessWish = AS_IT_WAS, *, keeps_quotas: bool = False) -> None:
        self._folder = folder
        self._access = access
        self._keeps_quotas = keeps_quotas
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="embedded cluster", daemon=True)
        self.cluster: EmbeddedCluster | None = None

    async def _run(self) -> None:
        self.loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        quotas = self._keeps_quotas
        async with embedded(self._folder, durable=True, access=self._access, keeps_quotas=quotas) as self.cluster:
            self._ready.set()
            await self._stop.wait()

    def __enter__(self) -> EmbeddedCluster:
        self._thread.start()
        assert self._ready.wait(START_SECONDS), "the embedded cluster did not start"
        assert self.cluster is not None
        return self.cluster

    def __exit__(self, *_: object) -> None:
        self.loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(START_SECONDS)
        assert not self._thread.is_alive(), "the embedded cluster did not stop"
