"""Runs the application on a loopback address under uvicorn, inside whatever event loop is running.

It installs no signal handlers and configures no logging: both belong to the program around it. At its end watches end,
requests in flight get a bounded time, and what is left is cut.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Any, Final, Protocol

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from allhands.server.asgi import ABORT
from allhands.server.limits import DEFAULT_LIMITS, Limits
from allhands.server.listening import BACKLOG, Address, listener

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import AsyncIterator, Iterator

    from allhands.server.asgi import Receive, Scope, Send

_WIRE_LOG: Final = logging.getLogger("allhands.server.wire")
_WIRE_LOG.setLevel(logging.ERROR)  # a client that speaks nonsense is answered; that is not worth a line in our log


class Stoppable(Protocol):
    """An ASGI application that can be told that the server ends."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...

    def stop(self) -> None: ...


class Tls(Protocol):
    """Whoever has a certificate to serve with. What becomes of its context later holds for new connections."""

    def context(self) -> ssl.SSLContext: ...


def _guarded(limits: Limits) -> type[HttpToolsProtocol]:
    """A protocol that bounds the time and size of a request's head, and lets the application cut the connection."""

    class Guarded(HttpToolsProtocol):
        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            self.logger = _WIRE_LOG
            self.access_log = False
            self._head_bytes = 0
            self._fields_bytes = 0
            self._head_timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._expect_head()

        def connection_lost(self, exc: Exception | None) -> None:
            self._head_done()
            super().connection_lost(exc)

        def _expect_head(self) -> None:
            self._head_timer = self.loop.call_later(limits.header_seconds, self.transport.close)

        def _head_done(self) -> None:
            self._head_bytes = 0
            if self._head_timer is not None:
                self._head_timer.cancel()
                self._head_timer = None

        def data_received(self, data: bytes) -> None:
            if self._head_timer is not None:
                if self._head_bytes > limits.header_bytes:
                    self.transport.close()
                    return
                self._head_bytes += len(data)
            super().data_received(data)

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self._fields_bytes = 0
            if self._head_timer is None:
                self._expect_head()
            self.scope["extensions"] = {ABORT: {"abort": self.transport.abort}}

        def on_header(self, name: bytes, value: bytes) -> None:
            super().on_header(name, value)
            self._fields_bytes += len(name) + len(value)
            if self._fields_bytes + len(self.url) > limits.header_bytes:
                raise ValueError("the head of the request is too large")

        def on_headers_complete(self) -> None:
            self._head_done()
            super().on_headers_complete()

        def timeout_keep_alive_handler(self) -> None:
            if self.transport.get_write_buffer_size():
                self.transport.abort()  # the last answer was never read; closing would wait for that
            else:
                super().timeout_keep_alive_handler()

    return Guarded


class _Server(uvicorn.Server):
    """Ends in its own way: quietly, within a bound, and without touching signals."""

    def __init__(self, config: uvicorn.Config, limits: Limits) -> None:
        super().__init__(config)
        self._limits = limits
        self.listening = asyncio.Event()
        self._deadline = 0.0

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._deadline = asyncio.get_running_loop().time() + self._limits.shutdown_seconds
        for server in self.servers:
            server.close()
        for each in sockets or []:
            each.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        if self.server_state.tasks:
            await asyncio.wait(self.server_state.tasks, timeout=self._limits.shutdown_seconds)
        await self._part_from_clients()

    async def _part_from_clients(self) -> None:
        """Answers that are on their way may arrive; connections that then do not close at once are cut."""
        moment, moments = 0.02, 10
        while self.server_state.connections and moments > 0:
            on_their_way = any(_unsent_bytes(each.transport) for each in self.server_state.connections)
            moments -= 0 if on_their_way and asyncio.get_running_loop().time() < self._deadline else 1
            await asyncio.sleep(moment)
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        await asyncio.sleep(0)
        for task in list(self.server_state.tasks):
            task.cancel()
        for _ in range(100):
            if not (self.server_state.connections or self.server_state.tasks):
                break
            await asyncio.sleep(0.01)


def _unsent_bytes(transport: asyncio.Transport) -> int:
    try:
        return transport.get_write_buffer_size()
    except AttributeError:  # closed twice: asyncio's TLS has let go of it, and has nothing to ask any more
        return 0


@contextlib.asynccontextmanager
async def serving(
    app: Stoppable,
    host: str,
    port: int,
    tls: Tls | None,
    *,
    limits: Limits = DEFAULT_LIMITS,
    beyond_loopback: bool = False,
) -> AsyncIterator[Address]:
    """Serves while the context is open. Without `tls` it speaks plain HTTP."""
    with contextlib.closing(listener(host, port, beyond_loopback=beyond_loopback)) as listening:
        async with serving_on(app, listening, tls, limits=limits):
            yield Address(host, listening.getsockname()[1], tls is not None)


@contextlib.asynccontextmanager
async def serving_on(
    app: Stoppable, listening: socket.socket, tls: Tls | None, *, limits: Limits = DEFAULT_LIMITS
) -> AsyncIterator[None]:
    """The same on a socket that somebody else has opened."""
    config = uvicorn.Config(
        app,
        http=_guarded(limits),
        ws="none",
        loop="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_keep_alive=limits.keep_alive_seconds,
    )
    config.load()
    config.ssl = None if tls is None else tls.context()
    server = _Server(config, limits)
    running = asyncio.create_task(server.serve(sockets=[listening]))
    running.add_done_callback(lambda _task: server.listening.set())
    try:
        await server.listening.wait()
        yield
    finally:
        app.stop()
        server.should_exit = True
        await running
