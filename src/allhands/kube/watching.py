"""A watch as events: cut as they come, from lines of JSON (or, by `messages`, from protobuf). A line is not decoded:
what it holds is read by whoever wants it.

A watch ends without an error when the server ends it, or the connection breaks: whoever watches goes on from the last
version he saw. What is cut off in the middle is not shown.
"""

from __future__ import annotations

import contextlib
from collections import deque
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from allhands.api.errors import StatusError
from allhands.kube.refusals import BAD_GATEWAY, UnansweredError
from allhands.ports import Event

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from allhands.ports import EventType

LONGEST_HEAD: Final = 40
_HEAD: Final = b'{"type":"'
_OBJECT: Final = b'","object":'
EVENT_TYPES: Final[dict[bytes, EventType]] = {
    name.encode(): name for name in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR")
}


class _WatchLine(msgspec.Struct):
    type: Any
    object: msgspec.Raw


_lines = msgspec.json.Decoder(_WatchLine)


class Body(Protocol):
    """An answer that goes on for long."""

    async def readany(self) -> bytes:
        """What has come; nothing at the end. Raises an `UnansweredError` if it broke off."""

    @property
    def is_packed(self) -> bool:
        """Whether it is protobuf, not JSON."""

    def close(self) -> None: ...


class Cutter(Protocol):
    """How what comes is cut into events."""

    begun_bytes: int
    """So large is the one whose end has not come, at least."""

    def cut(self, chunk: bytes) -> list[bytes]:
        """Those that are complete with it."""

    def event_of(self, cut: bytes) -> Event: ...

    def late_event_of(self, cut: bytes) -> Event:
        """One whose text need not be made yet."""


class Lines:
    """An event for each line."""

    def __init__(self) -> None:
        self._begun: list[bytes] = []
        """The beginning of a line whose end has not come."""
        self.begun_bytes = 0

    def cut(self, chunk: bytes) -> list[bytes]:
        first, *others = chunk.split(b"\n")
        if first:
            self._begun.append(first)
            self.begun_bytes += len(first)
        if not others:
            return []
        lines = [b"".join(self._begun), *others]
        rest = lines.pop()
        self._begun, self.begun_bytes = ([rest], len(rest)) if rest else ([], 0)
        return lines

    def event_of(self, cut: bytes) -> Event:
        return event_of(cut)

    late_event_of = event_of


class KubeWatch:
    """Events may be large, but not endless."""

    def __init__(self, body: Body, most_event_bytes: int, cutter: Cutter | None = None) -> None:
        self._body = body
        self._most_event_bytes = most_event_bytes
        self._cutter = cutter or Lines()
        self._event_of = self._cutter.event_of
        self._late_event_of = self._cutter.late_event_of
        self._cut: deque[bytes] = deque()

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        while (event := self.poll()) is None:
            if not await self.more():
                raise StopAsyncIteration
        return event

    def poll(self) -> Event | None:
        """The next event if it has come already: those that came together can be taken together."""
        while self._cut:
            if cut := self._cut.popleft():
                return self._event_of(cut)
        return None

    def poll_late(self) -> Event | None:
        """The same, for who may not want to know what it says."""
        while self._cut:
            if cut := self._cut.popleft():
                return self._late_event_of(cut)
        return None

    async def more(self) -> bool:
        """Waits until something has come; False if nothing will any more."""
        chunk = b""
        with contextlib.suppress(UnansweredError):
            chunk = await self._body.readany()
        if not chunk:
            await self.close()  # a broken connection is held until somebody lets go of it
            return False
        self._cut.extend(self._cutter.cut(chunk))
        if self._cutter.begun_bytes > self._most_event_bytes:
            await self.close()
            raise StatusError(BAD_GATEWAY, "", f"an event is larger than {self._most_event_bytes:,} bytes")
        return True

    async def close(self) -> None:
        self._body.close()


def event_of(line: bytes) -> Event:
    """API servers write type and object, in this order and without spaces; of any other JSON the parts are looked for.
    Cutting is all that is done for an event here, since there may be a hundred thousand of them."""
    if line.startswith(_HEAD):
        end = line.find(_OBJECT, len(_HEAD), LONGEST_HEAD)
        kind = EVENT_TYPES.get(line[len(_HEAD) : end])
        if kind is not None and line.endswith(b"}}"):
            return Event(kind, line[end + len(_OBJECT) : -1])
    decoded = _lines.decode(line)
    return Event(decoded.type, bytes(decoded.object))
