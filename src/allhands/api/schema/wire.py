"""The protobuf wire format: numbered values, nothing of what they mean.

It reads untrusted bytes, so every length is checked before it is used, and the only exception is `WireError`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

VARINT: Final = 0
FIXED64: Final = 1
LENGTH_DELIMITED: Final = 2
FIXED32: Final = 5

MAX_VARINT_BYTES: Final = 10

Value: TypeAlias = "int | bytes"
"""A varint as an unsigned number; everything else as its bytes."""
Occurrence: TypeAlias = "tuple[int, Value]"
"""A wire type and a value of it."""


class WireError(ValueError):
    """Bytes that are not a message, or not the message that was expected."""


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """The unsigned number at a position, and the position after it."""
    value = shift = 0
    for length in range(MAX_VARINT_BYTES):
        if position + length >= len(data):
            raise WireError("unexpected EOF")
        byte = data[position + length]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, position + length + 1
        shift += 7
    raise WireError("proto: integer overflow")


def fields(data: bytes) -> Iterator[tuple[int, Occurrence]]:
    """Every field of a message in the order of the bytes: its number, its wire type and its value."""
    position = 0
    while position < len(data):
        tag, position = read_varint(data, position)
        number, wire_type = tag >> 3, tag & 7
        if not 0 < number < 2**29:
            raise WireError(f"proto: illegal tag {number} (wire type {wire_type})")
        if wire_type == VARINT:
            value, position = read_varint(data, position)
            yield number, (wire_type, value)
            continue
        if wire_type == LENGTH_DELIMITED:
            length, position = read_varint(data, position)
        elif wire_type in (FIXED64, FIXED32):
            length = 8 if wire_type == FIXED64 else 4
        else:
            raise WireError(f"proto: illegal wireType {wire_type}")
        end = position + length
        if end > len(data):
            raise WireError("unexpected EOF")
        yield number, (wire_type, data[position:end])
        position = end


def gather(data: bytes) -> dict[int, list[Occurrence]]:
    """The fields of a message by number, each with all its occurrences."""
    found: dict[int, list[Occurrence]] = {}
    for number, occurrence in fields(data):
        found.setdefault(number, []).append(occurrence)
    return found


def packed_varints(data: bytes) -> list[int]:
    """The numbers of a packed list."""
    numbers, position = [], 0
    while position < len(data):
        number, position = read_varint(data, position)
        numbers.append(number)
    return numbers


def signed(number: int, bits: int) -> int:
    """The number that the lowest bits of a varint stand for in two's complement."""
    number &= (1 << bits) - 1
    return number - (1 << bits) if number >> (bits - 1) else number


def expect_bytes(occurrence: Occurrence) -> bytes:
    wire_type, value = occurrence
    if wire_type != LENGTH_DELIMITED or isinstance(value, int):
        raise WireError(f"proto: wrong wireType = {wire_type}")
    return value


def expect_varint(occurrence: Occurrence) -> int:
    wire_type, value = occurrence
    if not isinstance(value, int):
        raise WireError(f"proto: wrong wireType = {wire_type}")
    return value


def expect_fixed64(occurrence: Occurrence) -> bytes:
    wire_type, value = occurrence
    if wire_type != FIXED64 or isinstance(value, int):
        raise WireError(f"proto: wrong wireType = {wire_type}")
    return value


def text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise WireError("proto: a text is not UTF-8") from None
