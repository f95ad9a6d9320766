"""The embedded cluster beside code that is not asynchronous: it runs in a thread with an event loop of its own."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

from allhands.compose.embedded import EmbeddedCluster, embedded

if TYPE_CHECKING:
    from pathlib import Path

START_SECONDS = 20


class EmbeddedInThread:
    """An embedded cluster with an event loop of its own, beside tests that are not asynchronous."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="embedded cluster", daemon=True)
        self.cluster: EmbeddedCluster | None = None

    async def _run(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with embedded(self._folder) as self.cluster:
            self._ready.set()
            await self._stop.wait()

    def __enter__(self) -> EmbeddedCluster:
        self._thread.start()
        assert self._ready.wait(START_SECONDS), "the embedded cluster did not start"
        assert self.cluster is not None
        return self.cluster

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(START_SECONDS)
        assert not self._thread.is_alive(), "the embedded cluster did not stop"
