"""Messages in protobuf for tests: made by hand, and recorded from a stock kubectl and Go's own encoder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec


class Recorded(msgspec.Struct):
    name: str
    definition: str
    body: str
    document: dict[str, Any]


RECORDED = [
    msgspec.json.decode(line, type=Recorded)
    for line in (Path(__file__).parent / "unit" / "api" / "protobuf_bodies.jsonl").read_text().splitlines()
]


def message(*fields: tuple[int, int | bytes | str]) -> bytes:
    """A message by hand: numbers become varints, the rest has a length."""
    parts = []
    for number, value in fields:
        if isinstance(value, int):
            parts.append(varint(number << 3) + varint(value))
        else:
            data = value.encode() if isinstance(value, str) else value
            parts.append(varint(number << 3 | 2) + varint(len(data)) + data)
    return b"".join(parts)


def varint(number: int) -> bytes:
    number &= 2**64 - 1
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])
