"""Short requests over connections that are kept: HTTP/1.1 and little else, since a scheduler binds ten thousand pods in
a row and pays for every layer in between. Streams, proxies and whatever is unusual go by `http_session`.

A connection carries one request at a time, and is used again only after a whole answer. No request is ever sent twice
here, not even when the other side closes an idle connection in that very moment: nobody can tell whether it was read.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from typing import TYPE_CHECKING, Final

from yarl import URL

from allhands.kube import refusals
from allhands.kube.answers import AnswerError, AnswerReader
from allhands.kube.connections import CONNECT_SECONDS, KEEP_ALIVE_SECONDS
from allhands.kube.refusals import UnansweredError
from allhands.kube.sockets import SocketStream, connected_socket
from allhands.kube.wire_stream import WireStream

if TYPE_CHECKING:
    from typing import TypeAlias

    from allhands.kube.access import Access
    from allhands.kube.answers import Answer
    from allhands.kube.settings import Settings

    Outcome: TypeAlias = Answer | UnansweredError
    """A failure is handed over, not raised: whoever waited for it may have been cancelled, and nobody would look."""

TRUSTED_IDLE_SECONDS: Final = 1.0
"""A connection that was idle for longer is asked whether the other side has closed it."""
LEFT: Final = "Server disconnected"


class Wire:
    """The connections to one server. As many are made as there are requests at a time: whoever asks bounds them."""

    def __init__(self, access: Access, settings: Settings, *, keep_alive_seconds: float = KEEP_ALIVE_SECONDS) -> None:
        url = URL(access.server, encoded=True)
        self.server = access.server
        self.settings = settings
        self.keep_alive_seconds = keep_alive_seconds
        self._host, self._port = url.raw_host or "", url.port or 443
        self._name_in_certificate = access.tls_server_name or self._host.rstrip(".")
        self._loop = asyncio.get_running_loop()
        self._open: dict[Connection, None] = {}
        self._idle: list[Connection] = []
        """The one used last is used next; those in front are the ones that are left to be closed."""
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = float("inf")
        self._streams: dict[WireStream, None] = {}
        self._is_closed = False

    def now(self) -> float:
        """By the loop's clock, which deadlines are told in."""
        return self._loop.time()

    async def ask(self, request: bytes, tls: ssl.SSLContext | None, now: float, deadline: float) -> Answer:
        """Sends it once. Raises an `UnansweredError`, which says whether it can have arrived."""
        awaited = None
        while awaited is None:
            kept = self._kept(tls, now)
            connection = kept or self._kept_open(await self._connected(tls, now, deadline), tls)
            awaited = connection.send(request, deadline)
            if awaited is None and kept is None:
                raise refusals.not_reached(self.server, LEFT)
        if deadline < self._alarm_at:
            self._wake(min(deadline, now + self.keep_alive_seconds))
        try:
            outcome = await awaited
        except BaseException:
            connection.give_up(awaited)
            raise
        if isinstance(outcome, UnansweredError):
            raise outcome
        return outcome

    async def stream(
        self, request: bytes, tls: ssl.SSLContext | None, deadline: float, lasts_seconds: float | None
    ) -> WireStream | Answer:
        """A good answer that goes on, over a connection of its own, or all of another answer. Its beginning must come
        until the deadline; what has not ended after `lasts_seconds` is ended."""
        now = self.now()
        kept = self._kept(tls, now)
        made = await self._connected(tls, now, deadline) if kept is None else kept.let_go()
        stream = WireStream(self.server, made, self.settings.limits, self._stream_closed)
        self._streams[stream] = None
        try:
            async with asyncio.timeout_at(deadline):
                answer = await stream.begin(request)
        except BaseException as failure:
            stream.close()
            if isinstance(failure, TimeoutError):
                raise self.too_late(was_sent=True) from None
            raise
        if answer is not None:
            if (left := stream.let_go()) is not None:
                self.give_back(self._kept_open(left, tls))
            return answer
        if lasts_seconds is not None:
            stream.end_in(lasts_seconds)
        return stream

    def _stream_closed(self, stream: WireStream) -> None:
        self._streams.pop(stream, None)

    def close(self) -> None:
        """All connections at once; whoever waits for an answer is told so."""
        self._is_closed = True
        for stream in list(self._streams):
            stream.close()
        if self._alarm is not None:
            self._alarm.cancel()
        for connection in list(self._open):
            connection.end("the client was closed")

    # -- connections

    def _kept(self, tls: ssl.SSLContext | None, now: float) -> Connection | None:
        idle = self._idle
        while idle:
            connection = idle.pop()
            if connection.is_good(tls, now):
                return connection
            connection.end(LEFT)
        return None

    async def _connected(self, tls: ssl.SSLContext | None, now: float, deadline: float) -> socket.socket:
        """A new one. Whatever goes wrong here, nothing was sent."""
        self._refuse_if_closed()
        try:
            async with asyncio.timeout_at(min(deadline, now + CONNECT_SECONDS)):
                made = await connected_socket(self._host, self._port, tls, self._name_in_certificate)
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
            raise refusals.not_reached(self.server, LEFT) from None
        except ssl.SSLError as error:
            raise refusals.not_trusted(self.server, cause(error)) from error
        except OSError as error:
            if isinstance(error, TimeoutError) and not error.errno:  # ours, not the system's
                if self._loop.time() >= deadline:
                    raise self.too_late(was_sent=False) from None
                raise refusals.not_reached(self.server, f"no connection within {CONNECT_SECONDS:g} seconds") from None
            raise refusals.not_reached(self.server, cause(error)) from error
        try:
            self._refuse_if_closed()
        except BaseException:
            made.close()
            raise
        return made

    def _kept_open(self, made: socket.socket, tls: ssl.SSLContext | None) -> Connection:
        try:
            return Connection(self, made, tls)
        except BaseException:
            made.close()
            raise

    def _refuse_if_closed(self) -> None:
        if self._is_closed:
            raise RuntimeError("this client has been closed")

    def too_late(self, *, was_sent: bool) -> UnansweredError:
        return refusals.too_late(self.server, self.settings.patience.total_seconds, was_sent=was_sent)

    # -- told by connections

    def opened(self, connection: Connection) -> None:
        self._open[connection] = None

    def lost(self, connection: Connection) -> None:
        self._open.pop(connection, None)
        if connection in self._idle:
            self._idle.remove(connection)

    def give_back(self, connection: Connection) -> None:
        connection.idle_since = self._loop.time()
        self._idle.append(connection)

    # -- one timer for all of them

    def _wake(self, at: float) -> None:
        if at < self._alarm_at:
            if self._alarm is not None:
                self._alarm.cancel()
            self._alarm, self._alarm_at = self._loop.call_at(at, self._look_around), at

    def _look_around(self) -> None:
        """Closes what has waited too long for an answer, or for a request."""
        self._alarm, self._alarm_at = None, float("inf")
        now = self._loop.time()
        for connection in list(self._open):
            if connection.ends_at <= now:
                connection.expire()
            else:
                self._wake(connection.ends_at)


class Connection:
    """One connection; `tls` is what it was made with."""

    __slots__ = ("_awaited", "_deadline", "_reader", "_stream", "_tls", "_wire", "idle_since")

    def __init__(self, wire: Wire, made: socket.socket, tls: ssl.SSLContext | None) -> None:
        self._wire = wire
        self._tls = tls
        self._reader = AnswerReader(wire.settings.limits)
        self._awaited: asyncio.Future[Outcome] | None = None
        self._deadline = 0.0
        self.idle_since = wire.now()
        self._stream = SocketStream(made, self)
        wire.opened(self)

    @property
    def ends_at(self) -> float:
        return self._deadline if self._awaited is not None else self.idle_since + self._wire.keep_alive_seconds

    def is_good(self, tls: ssl.SSLContext | None, now: float) -> bool:
        """Whether an idle one can be used for the next request."""
        if self._tls is not tls:  # other credentials need another connection
            return False
        idle = now - self.idle_since
        if idle < TRUSTED_IDLE_SECONDS:
            return True
        return idle < self._wire.keep_alive_seconds and not self._stream.is_readable()

    # -- asked

    def send(self, request: bytes, deadline: float) -> asyncio.Future[Outcome] | None:
        """None if the system took nothing of it, since the connection had ended: then it may be sent by another."""
        self._reader.begin()
        try:
            self._stream.write(request)
        except OSError:
            self._close()
            return None
        self._deadline = deadline
        self._awaited = asyncio.get_running_loop().create_future()
        return self._awaited

    def let_go(self) -> socket.socket:
        """An idle connection becomes somebody else's."""
        self._wire.lost(self)
        return self._stream.let_go()

    def give_up(self, awaited: asyncio.Future[Outcome]) -> None:
        """Nobody waits for this answer any more; it may still come, so nothing else can be asked here."""
        if self._awaited is awaited:
            self._awaited = None
            self._close()

    def expire(self) -> None:
        self._end(self._wire.too_late(was_sent=True))

    def end(self, why: str) -> None:
        self._end(refusals.answer_lost(self._wire.server, why))

    # -- told by the socket

    def received(self, data: bytes) -> None:
        if self._awaited is None:
            self._close()  # nobody has asked for this
            return
        try:
            is_complete = self._reader.feed(data)
        except AnswerError as error:
            self._end(refusals.answer_lost(self._wire.server, error))
            return
        if is_complete:
            self._finish()

    def ended(self, reason: OSError | None) -> None:
        if self._awaited is not None and reason is None and self._reader.end():
            self._finish()
        else:
            self.end(LEFT if reason is None else cause(reason))

    # -- answers

    def _finish(self) -> None:
        """A whole answer has come."""
        awaited, self._awaited = self._awaited, None
        assert awaited is not None
        answer = self._reader.taken()
        if self._reader.keeps_alive and not self._stream.is_sending:
            self._wire.give_back(self)
        else:  # also if it was answered before all of the request was sent
            self._close()
        if not awaited.done():
            awaited.set_result(answer)

    def _end(self, error: UnansweredError) -> None:
        awaited, self._awaited = self._awaited, None
        self._close()
        if awaited is not None and not awaited.done():
            awaited.set_result(error)

    def _close(self) -> None:
        self._stream.close()
        self._wire.lost(self)


def cause(error: BaseException) -> str:
    """In few words: the system's own, where it has some."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return str(error.verify_message or error)
    if isinstance(error, socket.gaierror):
        return str(error.strerror or error)
    if isinstance(error, OSError) and error.errno and not isinstance(error, ssl.SSLError):
        return os.strerror(error.errno)
    return str(error) or type(error).__name__
