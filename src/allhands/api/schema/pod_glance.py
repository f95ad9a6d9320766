"""A glance at a Pod in protobuf: whose it is, where it is, whether it goes. For those who see very many of them and
need no more of most.

It trusts that fields come in the order of their numbers, as API servers write them, and reads no further than it must.
What is written in another way is not seen, or not as it is meant: whoever goes by a glance looks at the whole later.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from allhands.api.schema.protobuf import MAGIC
from allhands.api.schema.wire import WireError, read_varint

_METADATA, _SPEC, _STATUS = 0x0A, 0x12, 0x1A
_NAME, _NAMESPACE, _UID, _VERSION, _DELETION = 0x0A, 0x1A, 0x2A, 0x32, 0x4A
_NODE: Final = 0x52
_PHASE: Final = 0x0A
_MESSAGE: Final = 0x12
"""In an envelope."""
_LENGTH_DELIMITED, _VARINT = 2, 0


class PodGlance(NamedTuple):
    namespace: str
    name: str
    uid: str
    version: int
    node: str
    phase: str
    is_deleted: bool


def glance(envelope: bytes) -> PodGlance | None:
    """None if it cannot be read at a glance."""
    if not envelope.startswith(MAGIC):
        return None
    try:
        begin, end = _fields(envelope, len(MAGIC), len(envelope), _MESSAGE)[_MESSAGE]
        parts = _fields(envelope, begin, end, _STATUS)
        metadata = _fields(envelope, *parts[_METADATA], _DELETION)
        uid, version = _text(envelope, metadata[_UID]), int(_text(envelope, metadata[_VERSION]))
        spec = _fields(envelope, *parts[_SPEC], _NODE)
        status = _fields(envelope, *parts[_STATUS], _PHASE)
        return PodGlance(
            _text(envelope, metadata[_NAMESPACE]),
            _text(envelope, metadata[_NAME]),
            uid,
            version,
            _text(envelope, spec[_NODE]) if _NODE in spec else "",
            _text(envelope, status[_PHASE]) if _PHASE in status else "",
            _DELETION in metadata,
        )
    except (WireError, IndexError, KeyError, ValueError):
        return None


def _fields(data: bytes, position: int, end: int, last: int) -> dict[int, tuple[int, int]]:
    """Where the values are of the fields up to the one with this tag; of several with one tag, that of the last."""
    found: dict[int, tuple[int, int]] = {}
    while position < end:
        tag = data[position]
        if tag > last:
            break
        size = data[position + 1]
        position += 2
        if size >= 0x80:
            size, position = read_varint(data, position - 1)
        if tag & 7 == _LENGTH_DELIMITED:
            found[tag] = position, position + size
            position += size
        elif tag & 7 != _VARINT:
            raise WireError("not as API servers write it")
    if position > end:
        raise WireError("unexpected EOF")
    return found


def _text(data: bytes, place: tuple[int, int]) -> str:
    return data[place[0] : place[1]].decode()
