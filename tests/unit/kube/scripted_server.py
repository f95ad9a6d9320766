"""A server that says what a test has written for it, byte by byte, and remembers what it was asked."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections import deque
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable
    from typing import TypeAlias

    Line: TypeAlias = Callable[["Turn"], Awaitable[None]]

BODY = b'{"kind":"Status","status":"Success"}'


def answer(body: bytes = BODY, first: str = "HTTP/1.1 201 Created", *headers: str) -> bytes:
    lines = [first, "Content-Type: application/json", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


class Turn:
    """One request, read up to the end of its head."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: str, number: int) -> None:
        self._reader = reader
        self.writer = writer
        self.head = head
        self.connection = number
        self.has_body_left = True

    async def read_body(self) -> bytes:
        self.has_body_left = False
        _, _, rest = self.head.lower().partition("content-length: ")
        return await self._reader.readexactly(int(rest.partition("\r\n")[0] or 0))

    async def say(self, raw: bytes) -> None:
        self.writer.write(raw)
        await self.writer.drain()

    def hang_up(self) -> None:
        self.writer.close()

    def reset(self) -> None:
        made: socket.socket = self.writer.get_extra_info("socket")
        made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def until_left(self) -> None:
        """Returns when the other side has closed."""
        with contextlib.suppress(ConnectionError):
            while await self._reader.read(65536):
                pass


async def well(turn: Turn) -> None:
    await turn.read_body()
    await turn.say(answer())


def saying(raw: bytes) -> Line:
    async def said(turn: Turn) -> None:
        await turn.read_body()
        await turn.say(raw)

    return said


def saying_and_leaving(raw: bytes, *, resets: bool = False) -> Line:
    async def said(turn: Turn) -> None:
        await turn.read_body()
        await turn.say(raw)
        if resets:
            turn.reset()
        else:
            turn.hang_up()

    return said


class ScriptedServer:
    """Use as an async context manager. Each request gets the next line of the script; after its end all go well."""

    def __init__(self, *script: Line, tls: ssl.SSLContext | None = None) -> None:
        self.script: deque[Line] = deque(script)
        self._tls = tls
        self._serving: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self.heads: list[str] = []
        self.used: list[int] = []
        """By which connection each request came."""
        self.connections = 0
        self.left = asyncio.Semaphore(0)
        """Released for each connection that has ended."""

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    @property
    def url(self) -> str:
        return f"{'http' if self._tls is None else 'https'}://{self.address}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=self._tls)
        return self

    async def __aexit__(self, *reason: object) -> None:
        self._server.close()
        for task, writer in list(self._serving.items()):
            task.cancel()
            writer.transport.abort()
        await asyncio.gather(*self._serving, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer, self.connections))
        self._serving[task] = writer
        task.add_done_callback(self._serving.pop)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        try:
            while not writer.is_closing():
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                self.heads.append(head)
                self.used.append(number)
                line = self.script.popleft() if self.script else well
                await line(Turn(reader, writer, head, number))
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the other side has gone, or the test has ended
        finally:
            writer.transport.abort()
            self.left.release()
