"""One watch as an endless answer: a line of JSON per event, until its time is over or the client or server ends it.

Nothing is buffered here: the next events are taken from the watch when the last ones were handed to the transport, and
a client that does not read for too long is cut off. Whatever way a stream ends, its watch is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

import msgspec

from allhands.api.errors import StatusError
from allhands.server.answers import Answer, Writer, partial_metadata

if TYPE_CHECKING:
    from collections.abc import Callable

    from allhands.ports import Event, Watch
    from allhands.server.asgi import Receive, Send
    from allhands.server.limits import Limits
    from allhands.server.options import WatchTerms

_LOG = logging.getLogger(__name__)
_HEADERS: Final = [(b"content-type", b"application/json"), (b"cache-control", b"no-cache, private")]


@runtime_checkable
class Feed(Protocol):
    """What a watch may offer beyond the port: events that are there already, and bookmarks."""

    def poll(self) -> Event | None: ...

    def bookmark(self) -> Event: ...


def line(type: str, raw: bytes) -> bytes:
    return b"".join((b'{"type":"', type.encode(), b'","object":', raw, b"}\n"))


def internal_error(what: str) -> StatusError:
    return StatusError(500, "InternalError", f"Internal error occurred: {what}", {"causes": [{"message": what}]})


def error_answer(error: StatusError) -> Answer:
    """A watch that failed before its first event; the real server says so inside the stream."""
    return Answer(200, line("ERROR", msgspec.json.encode(error.status())))


class EventWriter:
    """Turns events into lines, in the form that was asked for. Only the first table names its columns."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._headers_due = True

    def __call__(self, event: Event) -> bytes:
        form = self._writer.form
        if form.shown == "object" or event.type == "ERROR":
            return line(event.type, event.raw)
        if form.shown == "Table":
            table = self._writer.table_of(event.raw, headers=self._headers_due)
            self._headers_due = False
            return line(event.type, msgspec.json.encode(table))
        return line(event.type, partial_metadata(event.raw, form.version))


class WatchStream:
    """One running watch. `end` may be called at any time; the stream then ends cleanly and soon."""

    def __init__(self, watch: Watch, to_line: Callable[[Event], bytes], terms: WatchTerms, limits: Limits) -> None:
        self._watch = watch
        self._feed = watch if isinstance(watch, Feed) else None
        self._to_line = to_line
        self._terms = terms
        self._limits = limits
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sending = False
        self._stalled = False
        self.more_headers: tuple[tuple[bytes, bytes], ...] = ()

    def end(self) -> None:
        if not self._ended.done():
            self._ended.set_result(None)

    async def run(self, receive: Receive, send: Send, abort: Callable[[], None] | None) -> None:
        """Streams until the end. `abort` cuts the connection of a client that does not read."""
        seconds = self._terms.timeout_seconds or 0
        life = asyncio.get_running_loop().call_later(seconds if seconds > 0 else self._limits.watch_seconds, self.end)
        gone = asyncio.create_task(until_disconnect(receive))
        pump: asyncio.Task[None] | None = None
        try:
            await send({"type": "http.response.start", "status": 200, "headers": [*_HEADERS, *self.more_headers]})
            pump = asyncio.create_task(self._pump(send))
            await self._until_over(pump, gone, send)
            await cancelled(pump)
            if not gone.done() and not self._stalled:
                await self._write(send, b"", more=False)
        except TimeoutError:
            self._stalled = True
        finally:
            life.cancel()
            if pump is not None:
                await cancelled(pump)
            if self._stalled and abort is not None:
                abort()
                await asyncio.wait({gone}, timeout=1)
            await cancelled(gone)
            await self._watch.close()

    async def _until_over(self, pump: asyncio.Task[None], gone: asyncio.Task[None], send: Send) -> None:
        bookmarks = self._feed if self._terms.bookmarks else None
        while True:
            done, _ = await asyncio.wait(
                {pump, gone, self._ended},
                timeout=self._limits.bookmark_seconds if bookmarks else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if done or bookmarks is None:
                return
            if not self._sending:
                await self._write(send, self._to_line(bookmarks.bookmark()))

    async def _pump(self, send: Send) -> None:
        try:
            async for event in self._watch:
                self._sending = True
                await self._write(send, self._batch(event))
                self._sending = False
                await asyncio.sleep(0)
        except StatusError as error:
            await self._write(send, line("ERROR", msgspec.json.encode(error.status())))
        except TimeoutError:
            self._stalled = True
        except Exception:
            _LOG.exception("a watch failed")
            status = internal_error("the watch failed").status()
            await self._write(send, line("ERROR", msgspec.json.encode(status)))

    def _batch(self, first: Event) -> bytes:
        """The event, and those that are there already, up to a size."""
        text = self._to_line(first)
        if self._feed is None:
            return text
        parts, size = [text], len(text)
        while size < self._limits.watch_batch_bytes:
            event = self._feed.poll()
            if event is None:
                break
            parts.append(self._to_line(event))
            size += len(parts[-1])
        return b"".join(parts)

    async def _write(self, send: Send, body: bytes, *, more: bool = True) -> None:
        async with asyncio.timeout(self._limits.write_seconds):
            await send({"type": "http.response.body", "body": body, "more_body": more})


async def until_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def cancelled(task: asyncio.Task[None]) -> None:
    """Waits for the task's end, which is asked for. What it failed with was said elsewhere."""
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError, TimeoutError):
        await task
