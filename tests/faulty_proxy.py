"""A proxy between a client and an API server that goes wrong on demand: it drops answers, resets, delays, lies.

It speaks plain HTTP/1.1 to the client and TLS to the server. Faults are functions over an `Exchange`; each is used for
one request, in the order given, and only for those that the rule of `upset` picks. Without a fault it is honest.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections import deque
from typing import TYPE_CHECKING, Self

import aiohttp
import msgspec

from allhands.kube.access import Access
from allhands.kube.connections import tls_context
from allhands.kube.http_connector import Connector
from allhands.kube.transport import UNLIMITED

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import TypeAlias

    Fault: TypeAlias = Callable[["Exchange"], Awaitable[None]]

HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "host", "content-length"}


class Request(msgspec.Struct, frozen=True):
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Exchange:
    """One request, and what may be done to it."""

    def __init__(self, proxy: FaultyProxy, request: Request, writer: asyncio.StreamWriter) -> None:
        self._proxy = proxy
        self._writer = writer
        self.request = request

    async def forward(self) -> tuple[int, dict[str, str], bytes]:
        """Lets the server do it; the whole answer."""
        async with self._proxy.ask(self.request) as answer:
            return answer.status, dict(answer.headers), await answer.read()

    async def pass_on(self) -> None:
        """What an honest proxy does; also for answers that never end."""
        async with self._proxy.ask(self.request) as answer:
            head = {name: value for name, value in answer.headers.items() if name.lower() not in HOP_BY_HOP}
            await self.begin(answer.status, head | {"Transfer-Encoding": "chunked"})
            async for part in answer.content.iter_any():
                await self.write(chunk(part))
            await self.write(b"0\r\n\r\n")

    async def begin(self, status: int, headers: dict[str, str]) -> None:
        lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in headers.items())]
        await self.write(("\r\n".join(lines) + "\r\n\r\n").encode())

    async def reply(self, status: int, body: bytes, content_type: str = "application/json", **headers: str) -> None:
        more = {name.replace("_", "-"): value for name, value in headers.items()}
        await self.begin(status, {"Content-Type": content_type, "Content-Length": str(len(body))} | more)
        await self.write(body)

    async def write(self, raw: bytes) -> None:
        self._writer.write(raw)
        await self._writer.drain()

    def hang_up(self) -> None:
        self._writer.close()

    def reset(self) -> None:
        """The other side sees a connection that was reset, not one that ended."""
        made: socket.socket = self._writer.get_extra_info("socket")
        made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()


class FaultyProxy:
    """Use as an async context manager; `access` is the way through it."""

    def __init__(self, upstream: Access, port: int = 0) -> None:
        self._upstream = upstream
        self._port = port
        self._faults: deque[Fault] = deque()
        self._picks: Callable[[Request], bool] = lambda _: True
        self._connections: set[asyncio.Task[None]] = set()
        self.seen: list[Request] = []
        self.connections = 0

    @property
    def access(self) -> Access:
        return Access(server=f"http://127.0.0.1:{self._port}", token=self._upstream.token)

    def upset(self, *faults: Fault, when: Callable[[Request], bool] = lambda _: True) -> None:
        """The next requests that are picked go wrong so, one after the other."""
        self._faults.extend(faults)
        self._picks = when

    @property
    def is_honest(self) -> bool:
        """All faults have been used."""
        return not self._faults

    def ask(self, request: Request) -> contextlib.AbstractAsyncContextManager[aiohttp.ClientResponse]:
        headers = {name: value for name, value in request.headers.items() if name not in HOP_BY_HOP}
        url = self._upstream.server + request.path
        return self._session.request(request.method, url, data=request.body or None, headers=headers, ssl=self._tls)

    async def __aenter__(self) -> Self:
        self._tls = tls_context(self._upstream)
        self._session = aiohttp.ClientSession(
            connector=Connector(UNLIMITED), auto_decompress=False, timeout=aiohttp.ClientTimeout(total=None)
        )
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *reason: object) -> None:
        self._server.close()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._session.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        self.connections += 1
        try:
            while (request := await _read_request(reader)) is not None and not writer.is_closing():
                self.seen.append(request)
                fault: Fault = self._faults.popleft() if self._faults and self._picks(request) else Exchange.pass_on
                await fault(Exchange(self, request, writer))
        except (ConnectionError, aiohttp.ClientError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # either side has gone, or the test has ended
        finally:
            self._connections.discard(task)
            writer.close()
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()


async def _read_request(reader: asyncio.StreamReader) -> Request | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode().strip().split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(method, path, headers, body)


def chunk(part: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(part), part)


# -- faults


async def reset_before_asking(exchange: Exchange) -> None:
    exchange.reset()


async def drop_the_answer(exchange: Exchange) -> None:
    """The server does it, and nobody hears of it."""
    await exchange.forward()
    exchange.reset()


async def cut_the_answer(exchange: Exchange) -> None:
    """A chunked body that ends in the middle."""
    status, _, body = await exchange.forward()
    await exchange.begin(status, {"Content-Type": "application/json", "Transfer-Encoding": "chunked"})
    await exchange.write(chunk(body[: len(body) // 2]))
    exchange.hang_up()


async def never_end(exchange: Exchange) -> None:
    """A body that goes on for as long as somebody reads."""
    await exchange.begin(200, {"Content-Type": "application/json", "Transfer-Encoding": "chunked"})
    part = chunk(b" " * 65536)
    while True:
        await exchange.write(part)


async def say_nothing(exchange: Exchange) -> None:
    """The connection stays, an answer does not come."""
    await asyncio.Event().wait()
    del exchange


def delay(until: asyncio.Event, arrived: asyncio.Event) -> Fault:
    async def late(exchange: Exchange) -> None:
        arrived.set()
        await until.wait()
        await exchange.pass_on()

    return late


def busy(code: int = 429, *, retry_after: str | None = "0", body: bytes = b"Too many requests") -> Fault:
    """What an API server or a balancer says that has too much to do."""

    async def refuse(exchange: Exchange) -> None:
        headers = {} if retry_after is None else {"Retry_After": retry_after}
        await exchange.reply(code, body, "text/plain", **headers)

    return refuse


def page(code: int, html: str = "<html><head><title>x</title></head><body><h1>Log in</h1></body></html>") -> Fault:
    async def answer(exchange: Exchange) -> None:
        await exchange.reply(code, html.encode(), "text/html; charset=utf-8")

    return answer


def status(code: int, reason: str, message: str = "no", **details: object) -> Fault:
    async def answer(exchange: Exchange) -> None:
        document = {"kind": "Status", "code": code, "reason": reason, "message": message, "details": details}
        await exchange.reply(code, msgspec.json.encode(document))

    return answer
