"""GET pods/NAME/log: what a container has written, as plain text, to its end or for as long as it runs.

A client that does not read for too long is cut off; whatever way it ends, the log is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Final

from allhands.agents.logs import LogOptions
from allhands.api.errors import StatusError
from allhands.server import options
from allhands.server.answers import Answer, wrong_method
from allhands.server.watching import cancelled, until_disconnect

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from allhands.server.asgi import Receive, Send
    from allhands.server.limits import Limits
    from allhands.server.resources import Call

_LOG = logging.getLogger(__name__)
_HEADERS: Final = [(b"content-type", b"text/plain; charset=utf-8"), (b"cache-control", b"no-cache, private")]


class LogStream:
    """One log that is being read. `end` may be called at any time."""

    def __init__(self, pieces: AsyncIterator[bytes], limits: Limits) -> None:
        self._pieces = pieces
        self._limits = limits
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def end(self) -> None:
        if not self._ended.done():
            self._ended.set_result(None)

    async def run(self, receive: Receive, send: Send, abort: Callable[[], None] | None) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        pump = asyncio.create_task(self._pump(send))
        gone = asyncio.create_task(until_disconnect(receive))
        try:
            await asyncio.wait((pump, gone, self._ended), return_when=asyncio.FIRST_COMPLETED)
            stalled = pump.done() and not pump.cancelled() and isinstance(pump.exception(), TimeoutError)
            if stalled and abort is not None:
                abort()
            elif not gone.done():
                with contextlib.suppress(TimeoutError):
                    await self._write(send, b"", more=False)
        finally:
            await cancelled(pump)
            await cancelled(gone)
            close = getattr(self._pieces, "aclose", None)
            if close is not None:
                await close()

    async def _pump(self, send: Send) -> None:
        try:
            async for piece in self._pieces:
                await self._write(send, piece)
        except TimeoutError:
            raise
        except Exception:
            _LOG.exception("a log could not be read to its end")

    async def _write(self, send: Send, body: bytes, *, more: bool = True) -> None:
        async with asyncio.timeout(self._limits.write_seconds):
            await send({"type": "http.response.body", "body": body, "more_body": more})


async def answer(call: Call) -> LogStream | Answer:
    if call.request.method != "GET":
        raise wrong_method()
    if call.face.logs is None:
        raise StatusError(501, "NotImplemented", "pods/log is not served by the embedded cluster without its nodes")
    request = call.request
    wanted = LogOptions(
        container=request.parameter("container"),
        follow=bool(options.flag(request, "follow")),
        previous=bool(options.flag(request, "previous")),
        timestamps=bool(options.flag(request, "timestamps")),
        tail_lines=options.integer(request, "tailLines"),
        since_seconds=options.integer(request, "sinceSeconds"),
        since_time=request.parameter("sinceTime"),
        limit_bytes=options.integer(request, "limitBytes"),
    )
    call.face.check_room_for_watch()
    pieces = await call.face.logs.logs(call.target.namespace, call.target.name, wanted)
    return Answer(204, b"") if pieces is None else LogStream(pieces, call.face.limits)
