"""What an API server sends in protobuf, as JSON texts of the objects in it.

Writing JSON costs an API server several times what protobuf costs it, and for a busy kind such as pods that is a good
part of its work. Whoever reads gets what a JSON answer would have held but for `managedFields`, which nobody who
watches reads. Bytes that are no message are a `WireError`, never another exception.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from allhands.api.errors import StatusError
from allhands.api.schema import protobuf, wire
from allhands.api.schema.definitions import META, published_definition
from allhands.api.schema.message_text import MessageTexts
from allhands.api.schema.wire import WireError, read_varint
from allhands.kube.watching import EVENT_TYPES
from allhands.ports import Event, PackedEvent, Page

if TYPE_CHECKING:
    from collections.abc import Callable

    from allhands.ports import EventType

T = TypeVar("T")

ACCEPTED: Final = f"{protobuf.CONTENT_TYPE}, application/json"
"""A server that knows only JSON sends that."""
_UNREAD: Final = ((META + "ObjectMeta", "managedFields"),)
_FIRST: Final = 1 << 3 | wire.LENGTH_DELIMITED
_SECOND: Final = 2 << 3 | wire.LENGTH_DELIMITED
_AS_IT_IS: Final = (b"", b"\x1a\x00\x22\x00")
"""How an envelope ends that has no further encoding and no other content type."""
_LENGTH_BYTES: Final = 4


class Messages:
    """Reads answers and events. It remembers texts of parts, so the objects of one kind are best read by one of it."""

    def __init__(self) -> None:
        self._texts = MessageTexts(_UNREAD)
        self._kinds: dict[bytes, tuple[str, bytes]] = {}
        """By what an envelope says of its object: the definition, and how the text of the object begins."""

    def object(self, envelope: bytes) -> bytes:
        """The text of one object, with its apiVersion and kind."""
        if not envelope.startswith(protobuf.MAGIC):
            raise WireError("an object does not begin as messages do")
        type_meta, position = _part(envelope, len(protobuf.MAGIC), _FIRST)
        message, position = _part(envelope, position, _SECOND)
        if envelope[position:] not in _AS_IT_IS:
            raise WireError("an object is packed once more")
        kind = self._kinds.get(type_meta)
        if kind is None:
            kind = self._kinds[type_meta] = _kind(type_meta)
        definition, head = kind
        text = self._texts.text(definition, message)
        return head + (text[1:] if text == b"{}" else b"," + text[1:])

    def page(self, body: bytes) -> Page:
        api_version, kind, message = protobuf.decode_envelope(body)
        if not kind.endswith("List"):
            raise WireError(f"a {kind} is no list")
        definition = published_definition(api_version, kind.removesuffix("List"))
        items: list[bytes] = []
        meta, text = b"", self._texts.text
        for number, occurrence in wire.fields(message):
            if number == 2:
                items.append(text(definition, wire.expect_bytes(occurrence)))
            elif number == 1:
                meta += wire.expect_bytes(occurrence)
        listed = protobuf.decode_message(META + "ListMeta", meta, 0)
        return Page(
            items, listed.get("resourceVersion", ""), listed.get("continue", ""), listed.get("remainingItemCount")
        )

    def event(self, frame: bytes) -> Event:
        kind, envelope = _event(frame)
        return Event(kind, self.object(envelope))


def _event(frame: bytes) -> tuple[EventType, bytes]:
    """What has happened, and the envelope of the object that it happened to."""
    name, position = _part(frame, 0, _FIRST)
    extension, position = _part(frame, position, _SECOND)
    kind = EVENT_TYPES.get(name)
    if kind is None or position != len(frame):
        raise WireError(f"an event of an unknown form, {name[:40]!r}")
    return kind, _part(extension, 0, _FIRST)[0]


def _kind(type_meta: bytes) -> tuple[str, bytes]:
    said = wire.gather(type_meta)
    api_version, kind = (wire.text(wire.expect_bytes(said[number][-1])) if number in said else "" for number in (1, 2))
    definition = META + kind if (api_version, kind) == ("v1", "Status") else published_definition(api_version, kind)
    if not protobuf.is_known(definition):
        raise WireError(f"{api_version} {kind} is no kind that is known here")
    return definition, b'{"apiVersion":"%b","kind":"%b"' % (api_version.encode(), kind.encode())


def _part(data: bytes, position: int, tag: int) -> tuple[bytes, int]:
    """The bytes of the field that begins here, and where the next one does."""
    if position >= len(data) or data[position] != tag:
        raise WireError("a message lacks what every such message has")
    size, position = read_varint(data, position + 1)
    end = position + size
    if end > len(data):
        raise WireError("unexpected EOF")
    return data[position:end], end


class Frames:
    """Cuts what comes into the events of a watch: each is preceded by its length, in four bytes. What cannot be read is
    told to `refused`, and is a `msgspec.MsgspecError` as JSON that cannot be read is."""

    def __init__(self, messages: Messages, refused: Callable[[Exception], None]) -> None:
        self._messages = messages
        self._refused = refused
        self._begun: list[bytes] = []
        self.begun_bytes = 0
        """Of an event whose end has not come; of a whole one that is announced, if that is more."""
        self._have = 0

    def event_of(self, cut: bytes) -> Event:
        return self._tried(self._messages.event, cut)

    def late_event_of(self, cut: bytes) -> Event:
        kind, envelope = self._tried(_event, cut)
        if kind != "MODIFIED":
            return Event(kind, self._text(envelope))
        return PackedEvent(kind, b"", envelope=envelope, unpacked=self._text)

    def _text(self, envelope: bytes) -> bytes:
        return self._tried(self._messages.object, envelope)

    def _tried(self, read: Callable[[bytes], T], data: bytes) -> T:
        try:
            return read(data)
        except (WireError, StatusError) as error:
            self._refused(error)
            raise msgspec.ValidationError(str(error)) from None

    def cut(self, chunk: bytes) -> list[bytes]:
        """The events that are complete with it."""
        self._begun.append(chunk)
        self._have += len(chunk)
        if self._have < self.begun_bytes:
            return []
        data = chunk if len(self._begun) == 1 else b"".join(self._begun)
        frames: list[bytes] = []
        position, end = 0, len(data)
        announced = 0
        while position + _LENGTH_BYTES <= end:
            announced = _LENGTH_BYTES + int.from_bytes(data[position : position + _LENGTH_BYTES], "big")
            if position + announced > end:
                break
            frames.append(data[position + _LENGTH_BYTES : position + announced])
            position, announced = position + announced, 0
        rest = data[position:]
        self._begun, self._have = ([rest], len(rest)) if rest else ([], 0)
        self.begun_bytes = announced or len(rest)
        return frames
