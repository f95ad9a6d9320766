"""Sockets that belong to us alone, with and without TLS: read when something comes, written at once, closed at once.

asyncio's own streams copy everything through two buffers and several layers, and let go of a socket some time after
they were told to. Here OpenSSL reads from and writes to the socket itself, and what is closed is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
import ssl
from typing import TYPE_CHECKING, Any, Final, Protocol

import aiohappyeyeballs

from allhands.kube.connections import watched_socket

if TYPE_CHECKING:
    from collections.abc import Callable

RECORD_BYTES: Final = 16 * 1024
"""What a record of TLS holds at most, and what is read and written at a time."""
READS_IN_A_ROW: Final = 32
"""So much of a large answer is taken in one turn of the loop; others want theirs, too."""
SMALL_BYTES: Final = 1024
"""After less than this there is hardly more: the next turn of the loop will see."""
OTHER_ADDRESS_SECONDS: Final = 0.25
"""A name may have several addresses; so long after the first the second is tried beside it."""
_NOT_NOW: Final = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


async def connected_socket(host: str, port: int, tls: ssl.SSLContext | None, name: str) -> socket.socket:
    """A connection to the server, which has shown by its certificate that it has this name. Raises `OSError`, of which
    `ssl.SSLError` is one."""
    loop = asyncio.get_running_loop()
    made = await aiohappyeyeballs.start_connection(
        await _addresses(loop, host, port),
        happy_eyeballs_delay=OTHER_ADDRESS_SECONDS,
        loop=loop,
        socket_factory=watched_socket,
    )
    try:
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            made = tls.wrap_socket(
                made, server_hostname=name, do_handshake_on_connect=False, suppress_ragged_eofs=False
            )
            await _shake_hands(loop, made)
    except BaseException:
        made.close()
        raise
    return made


async def _addresses(loop: asyncio.AbstractEventLoop, host: str, port: int) -> list[Any]:
    try:
        with contextlib.suppress(socket.gaierror):  # it is a name
            return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        return await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError:
        raise socket.gaierror(socket.EAI_NONAME, f"{host!r} cannot be the name of a host") from None


async def _shake_hands(loop: asyncio.AbstractEventLoop, made: ssl.SSLSocket) -> None:
    while True:
        try:
            made.do_handshake()
        except ssl.SSLWantReadError:
            await _once(loop.add_reader, loop.remove_reader, made.fileno())
        except ssl.SSLWantWriteError:
            await _once(loop.add_writer, loop.remove_writer, made.fileno())
        else:
            return


async def _once(add: Callable[..., Any], remove: Callable[[int], Any], descriptor: int) -> None:
    ready = asyncio.Event()
    add(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        remove(descriptor)


class Taker(Protocol):
    """Who gets what comes."""

    def received(self, data: bytes) -> None: ...

    def ended(self, reason: OSError | None) -> None:
        """Nothing more will come: without a reason, because the other side has said so."""


class SocketStream:
    """Bytes over one connected socket, for as long as nobody closes it. It closes nothing by itself."""

    __slots__ = ("_descriptor", "_least", "_loop", "_receive", "_send", "_socket", "_taker", "_unsent")

    def __init__(self, made: socket.socket, taker: Taker, *, goes_on: bool = False) -> None:
        """`goes_on`: what comes is many small things, of which several may have come by now."""
        self._socket = made
        self._descriptor = made.fileno()
        self._taker = taker
        self._least = 0 if goes_on else SMALL_BYTES
        self._send: Callable[[bytes | memoryview], int] = made.send
        self._receive: Callable[[int], bytes] = made.recv
        self._unsent: memoryview | None = None
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._descriptor, self._read)

    @property
    def is_sending(self) -> bool:
        return self._unsent is not None

    def write(self, data: bytes) -> None:
        """Raises `OSError` if the system took nothing of it. One thing at a time: nothing may be unsent."""
        assert self._unsent is None
        try:
            sent = self._send(data if len(data) <= RECORD_BYTES else data[:RECORD_BYTES])
        except _NOT_NOW:
            sent = 0
        if sent < len(data):
            self._unsent = memoryview(data)[sent:]
            self._loop.add_writer(self._descriptor, self._write)

    def is_readable(self) -> bool:
        """Whether something has come that the loop has not seen yet."""
        if not hasattr(select, "poll"):
            return False
        looking = select.poll()
        looking.register(self._descriptor, select.POLLIN)
        return bool(looking.poll(0))

    def pause(self) -> None:
        """Nothing is read until it goes on."""
        if self._descriptor >= 0:
            self._loop.remove_reader(self._descriptor)

    def go_on(self) -> None:
        if self._descriptor >= 0:
            self._loop.add_reader(self._descriptor, self._read)

    def let_go(self) -> socket.socket:
        """The socket, for somebody else to read and write. Nothing may be unsent."""
        assert self._unsent is None
        self._loop.remove_reader(self._descriptor)
        self._descriptor = -1
        return self._socket

    def close(self) -> None:
        """At once, unsent or not. A graceful end of TLS would wait for a server with no more to say."""
        if self._descriptor >= 0:
            self._loop.remove_reader(self._descriptor)
            self._loop.remove_writer(self._descriptor)
            self._descriptor = -1
            self._socket.close()

    # -- told by the loop

    def _read(self) -> None:
        """What has come, together, and then whether that was the end."""
        parts: list[bytes] = []
        is_end = False
        reason: OSError | None = None
        for _ in range(READS_IN_A_ROW):
            try:
                data = self._receive(RECORD_BYTES)
            except _NOT_NOW:
                break
            except ssl.SSLEOFError:
                is_end, reason = True, ConnectionResetError("Server disconnected")
                break
            except OSError as error:
                is_end, reason = True, error
                break
            if not data:
                is_end = True
                break
            parts.append(data)
            if len(data) < self._least:
                break
        if parts:
            self._taker.received(parts[0] if len(parts) == 1 else b"".join(parts))
        if is_end:
            self._end(reason)

    def _write(self) -> None:
        """As much as the system takes. What TLS could not write must be offered to it again as it was."""
        unsent = self._unsent
        try:
            while unsent:
                unsent = self._unsent = unsent[self._send(unsent[:RECORD_BYTES]) :]
        except _NOT_NOW:
            return
        except OSError as error:
            self._read()  # whoever does not want to hear the rest may have said why
            self._end(error)
            return
        self._unsent = None
        self._loop.remove_writer(self._descriptor)

    def _end(self, reason: OSError | None) -> None:
        if self._descriptor >= 0:
            self._loop.remove_reader(self._descriptor)  # else it would be told again and again
            self._loop.remove_writer(self._descriptor)
            self._taker.ended(reason)
