"""A server that is loaded when somebody first knocks. For probes and metrics of a process that has better things to do
while it begins: loading an HTTP server takes as long as binding some hundred pods, and many are never asked.

The port is open from the beginning, so that one that is taken is told at once; who comes early waits to be let in.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, TypeAlias

from allhands.server.listening import BACKLOG, Address, listener

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

    Serve: TypeAlias = Callable[[socket.socket], AbstractAsyncContextManager[object]]

_LOG = logging.getLogger(__name__)


@contextlib.asynccontextmanager
async def serving_when_asked(load: Callable[[], Serve], host: str, port: int) -> AsyncIterator[Address]:
    """Listens on plain HTTP while the context is open. `load` is called in a thread, once; what it gives serves."""
    listening = listener(host, port, beyond_loopback=True)
    try:
        listening.listen(BACKLOG)
        serving = asyncio.create_task(_serve_once_asked(load, listening), name="health")
        try:
            yield Address(host, listening.getsockname()[1], secure=False)
        finally:
            serving.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await serving
    finally:
        listening.close()


async def _serve_once_asked(load: Callable[[], Serve], listening: socket.socket) -> None:
    await _knock(listening)
    try:
        serve = await asyncio.to_thread(load)
        async with serve(listening):
            await asyncio.Event().wait()
    except Exception:
        _LOG.exception("probes and metrics are not served")  # what the process is there for goes on


async def _knock(listening: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    knocked = asyncio.Event()
    loop.add_reader(listening, knocked.set)
    try:
        await knocked.wait()
    finally:
        loop.remove_reader(listening)
