"""An answer that goes on for long, such as a watch, over a connection of its own: `wire`'s way of asking, without end.

What comes is handed over as it comes, and no more of it is read than somebody takes. It asks for nothing again and
decodes nothing; whoever opened it closes it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from allhands.kube import refusals
from allhands.kube.answers import PROTOBUF, AnswerError, AnswerReader, is_spoken
from allhands.kube.sockets import SocketStream

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from allhands.kube.answers import Answer
    from allhands.kube.refusals import UnansweredError
    from allhands.kube.settings import Limits

MUCH_BYTES: Final = 16 * 1024 * 1024
"""So much may wait to be taken; then nothing more is read until somebody has taken most of it."""
PIECE_BYTES: Final = 1024 * 1024
"""So much is handed over together: whoever splits and reads it holds it twice."""
LITTLE_BYTES: Final = 16 * 1024
THICK_SECONDS: Final = 0.005
GATHER_SECONDS: Final = 0.01
"""Where little comes at a time and the next comes soon after, more is let come together: each waking costs more than
reading an event. Whatever comes after a pause is handed over at once."""
LEFT: Final = "Server disconnected"


class _EndlessReader(AnswerReader):
    """Hands on the body of a good answer instead of keeping it."""

    __slots__ = ("_is_good", "_take")

    def __init__(self, limits: Limits, take: Callable[[bytes], None]) -> None:
        self._take = take
        self._is_good = False
        super().__init__(limits)

    @property
    def is_good(self) -> bool:
        """Whether the head of a good answer has come."""
        return self._is_good and not self._problem

    @property
    def is_packed(self) -> bool:
        return self._headers.get(b"content-type", b"").startswith(PROTOBUF.encode())

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self._is_good = 200 <= self._status < 300 and is_spoken(self._headers) and not self._is_cut

    def on_body(self, part: bytes) -> None:
        if self.is_good and not self._is_complete:
            self._take(part)
        else:
            super().on_body(part)

    def _unpack(self, encoding: bytes) -> None:
        if encoding not in (b"identity", b""):
            self._problem = f"it is packed in a way that was not asked for: {encoding.decode(errors='replace')}"


class WireStream:
    """One answer. `closed` is told once, when its connection is."""

    def __init__(self, server: str, made: socket.socket, limits: Limits, closed: Callable[[WireStream], None]) -> None:
        self._server = server
        self._closed = closed
        self._parts: list[bytes] = []
        self._bytes = 0
        self._is_paused = False
        self._came_at = 0.0
        self._is_thick = False
        """Whether what came last followed soon after what came before it, and was little."""
        self._is_ended = False
        """Nothing more will come."""
        self._is_beginning = False
        """Somebody waits for its beginning, and will let go of it if it is not what he asked for."""
        self._is_reusable = False
        self._error: UnansweredError | None = None
        self._waiting: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._reader = _EndlessReader(limits, self._take)
        self._stream = SocketStream(made, self, goes_on=True)

    # -- asked

    async def begin(self, request: bytes) -> Answer | None:
        """Sends the request. None if a good answer has begun, else all of the other answer."""
        try:
            self._stream.write(request)
        except OSError:
            raise refusals.not_reached(self._server, LEFT) from None
        self._is_beginning = True
        while not (self._is_ended or self._reader.is_good):
            await self._wait()
        self._is_beginning = False
        if self._reader.is_good:
            return None
        if self._error is not None:
            raise self._error
        return self._reader.taken()

    @property
    def is_packed(self) -> bool:
        return self._reader.is_packed

    def end_in(self, seconds: float) -> None:
        """If it has not ended by then, the other side is taken for dead."""
        self._timer = asyncio.get_running_loop().call_later(seconds, self._end, None)

    async def readany(self) -> bytes:
        """What has come, at least something; nothing at the end. Raises an `UnansweredError` if it broke off."""
        while not self._parts:
            if self._is_ended:
                if self._error is not None:
                    raise self._error
                return b""
            if self._is_thick:
                self._is_thick = False
                self._stream.pause()
                asyncio.get_running_loop().call_later(GATHER_SECONDS, self._stream.go_on)
            await self._wait()
        now = asyncio.get_running_loop().time()
        self._is_thick = self._bytes < LITTLE_BYTES and now - self._came_at < THICK_SECONDS + GATHER_SECONDS
        self._came_at = now
        if self._bytes > PIECE_BYTES:
            return await self._piece()
        parts, self._parts, self._bytes = self._parts, [], 0
        self._go_on()
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def _piece(self) -> bytes:
        """Some of what has come. Others have their turn in between, also the one who reads the socket."""
        count = size = 0
        while size < PIECE_BYTES:
            size += len(self._parts[count])
            count += 1
        piece = b"".join(self._parts[:count])
        del self._parts[:count]
        self._bytes -= size
        self._go_on()
        await asyncio.sleep(0)
        return piece

    def _go_on(self) -> None:
        if self._is_paused and self._bytes <= MUCH_BYTES // 2:
            self._is_paused = False
            self._stream.go_on()

    def close(self) -> None:
        """At once; may be called again."""
        self._end(None)
        self._parts.clear()
        if self._is_reusable:
            self._is_reusable = False
            self._stream.close()
            self._closed(self)

    def let_go(self) -> socket.socket | None:
        """The connection of an answer that was not what `begin` asked for, if it can be used again; else None."""
        if not self._is_reusable:
            return None
        self._is_reusable = False
        self._closed(self)
        return self._stream.let_go()

    async def _wait(self) -> None:
        self._waiting = asyncio.get_running_loop().create_future()
        try:
            await self._waiting
        finally:
            self._waiting = None

    # -- told by the socket

    def received(self, data: bytes) -> None:
        try:
            is_complete = self._reader.feed(data)
        except AnswerError as error:
            self._end(refusals.answer_lost(self._server, error))
            return
        if is_complete:
            self._end(None, is_whole=True)
        elif self._bytes > MUCH_BYTES and not self._is_paused:
            self._is_paused = True
            self._stream.pause()
        if self._parts or self._reader.is_good:
            self._wake()

    def ended(self, reason: OSError | None) -> None:
        if reason is None and self._reader.end():
            self._end(None)
        else:
            self._end(refusals.answer_lost(self._server, LEFT if reason is None else reason))

    def _take(self, part: bytes) -> None:
        self._parts.append(part)
        self._bytes += len(part)

    def _end(self, error: UnansweredError | None, *, is_whole: bool = False) -> None:
        if self._is_ended:
            return
        self._is_ended, self._error = True, error
        if self._timer is not None:
            self._timer.cancel()
        is_kept = is_whole and self._reader.keeps_alive and not self._stream.is_sending
        self._is_reusable = is_kept and self._is_beginning
        if not self._is_reusable:
            self._stream.close()
            self._closed(self)
        self._wake()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)
