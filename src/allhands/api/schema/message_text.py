"""Messages in protobuf as the JSON text that the same server would have sent, for those who read very many of them.

`protobuf.decode` reads whatever a client may send. This reads what an API server writes, in the order in which it
writes it, and leaves whatever is out of order to the other. Most objects are like others in most of their parts, so
what a part became is remembered: nobody can tell from the text whether it was. Malformed bytes are a `WireError`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from allhands.api.schema import protobuf, wire
from allhands.api.schema.definitions import META, definitions, go_types, referenced, schema_type
from allhands.api.schema.wire import LENGTH_DELIMITED, VARINT, WireError, read_varint
from allhands.model.text_memory import TextMemory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from allhands.api.schema.definitions import GoField

MOST_PARTS: Final = 1 << 14
MOST_BYTES: Final = 1 << 23
_QUANTITY: Final = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_encode: Final = msgspec.json.Encoder().encode
_FIRST_TAG: Final = 1 << 3
_TAGS_END: Final = 1 << 32
_BOOLEANS: Final = (b"false", b"true")


class _UnusualError(Exception):
    """A message that no API server writes: fields out of order, or in another encoding than theirs."""


class _Field:
    """How one field of a message becomes a member of an object, or members if it is inlined."""

    __slots__ = ("begin", "end", "is_many", "is_part", "mark", "text")

    def __init__(self, begin: bytes, end: bytes = b"", *, is_many: bool = False) -> None:
        self.begin = begin
        self.end = end
        self.is_many = is_many
        self.is_part = False
        """It is remembered what it became."""
        self.mark = b""
        """What tells its bytes apart from equal ones of another field."""
        self.text: Callable[[Any, int], bytes] = _no_text
        """The value, or one of the values; nothing if it is to be left out."""


def _no_text(value: Any, depth: int) -> bytes:
    raise AssertionError(f"a field without a way to write it: {value!r} at depth {depth}")


class MessageTexts:
    """`left_out` are fields by definition that nobody reads, and that are not worth writing."""

    def __init__(
        self,
        left_out: Iterable[tuple[str, str]] = (),
        most_parts: int = MOST_PARTS,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self._left_out = frozenset(left_out)
        self._tables: dict[str, dict[int, _Field]] = {}
        self._memory: TextMemory[bytes] = TextMemory(most_parts, most_bytes)
        self._marks = 0

    @property
    def remembered(self) -> int:
        return len(self._memory)

    def text(self, definition: str, message: bytes) -> bytes:
        """A JSON object, without apiVersion and kind: these are in the envelope."""
        return self._object(definition, message, 0)

    # -- writing

    def _object(self, definition: str, data: bytes, depth: int) -> bytes:
        if depth > protobuf.MAX_DEPTH:
            raise WireError(f"proto: messages are nested more than {protobuf.MAX_DEPTH} deep")
        table = self._tables.get(definition)
        if table is None:
            table = self._table(definition)
        try:
            return b"{%b}" % b",".join(self._members(table, data, depth))
        except (_UnusualError, WireError):  # what is wrong may not count: of several, the last does
            return self._otherwise(definition, data, depth)

    def _inlined(self, table: dict[int, _Field], data: bytes, depth: int) -> bytes:
        return b",".join(self._members(table, data, depth))

    def _otherwise(self, definition: str, data: bytes, depth: int) -> bytes:
        document = protobuf.decode_message(definition, data, depth)
        for left_out_of, name in self._left_out:
            if left_out_of == definition:
                document.pop(name, None)
        return _encode(document)

    def _members(self, table: dict[int, _Field], data: bytes, depth: int) -> list[bytes]:
        """Fields come in the order of their numbers; those of a list one after the other."""
        members: list[bytes] = []
        items: list[bytes] = []
        memory, position, end, last = self._memory, 0, len(data), 0
        many: _Field | None = None
        try:
            while position < end:
                tag = data[position]
                position += 1
                if tag >= 0x80:
                    if (more := data[position]) < 0x80:
                        tag += (more - 1) << 7
                        position += 1
                    else:
                        tag, position = read_varint(data, position - 1)
                value: Any = data[position]
                position += 1
                if value >= 0x80:
                    if (more := data[position]) < 0x80:
                        value += (more - 1) << 7
                        position += 1
                    else:
                        value, position = read_varint(data, position - 1)
                begin = position
                if tag & 7 == LENGTH_DELIMITED:
                    position += value
                    if position > end:
                        raise WireError("unexpected EOF")
                elif tag & 7 != VARINT:
                    raise _UnusualError
                field = table.get(tag)
                if field is None:
                    if -(tag >> 3) in table or not _FIRST_TAG <= tag < _TAGS_END:
                        raise _UnusualError
                    continue  # of a newer server, or left out
                if tag <= last and (tag < last or not field.is_many):
                    raise _UnusualError
                last = tag
                if tag & 7 == LENGTH_DELIMITED:
                    value = data[begin:position]
                if many is not None and many is not field:
                    members.append(many.begin + b",".join(items) + many.end)
                    many, items = None, []
                if field.is_part:
                    key = value + field.mark
                    text = memory.get(key)
                    if text is None:
                        text = field.text(value, depth + 1)
                        if not memory.is_new(key):
                            memory.put(key, text)
                else:
                    text = field.text(value, depth + 1)
                if field.is_many:
                    many = field
                    items.append(text)
                elif text:
                    members.append(field.begin + text)
        except IndexError:
            raise WireError("unexpected EOF") from None
        except UnicodeDecodeError:
            raise WireError("proto: a text is not UTF-8") from None
        if many is not None:
            members.append(many.begin + b",".join(items) + many.end)
        return members

    # -- tables

    def _table(self, definition: str) -> dict[int, _Field]:
        """Its fields by their tags; and by the negative of their numbers, to know those that come in another way."""
        table = self._tables[definition] = {}
        schemas = definitions()[definition].get("properties", {})
        inlined: dict[int, dict[str, GoField]] = {}
        for name, go in go_types()[definition].items():
            if not go.number or (definition, name) in self._left_out:
                continue
            if len(go.number) > 1:
                inlined.setdefault(go.number[0], {})[name] = go
                continue
            self._add(table, go.number[0], self._field(name, schemas[name], go), _wire_type(schemas[name]))
        for number, fields in inlined.items():
            part: dict[int, _Field] = {}
            for name, go in fields.items():
                self._add(part, go.number[1], self._field(name, schemas[name], go), _wire_type(schemas[name]))
            field = _Field(b"")
            field.text = partial(self._inlined, part)
            self._add(table, number, self._as_part(field), LENGTH_DELIMITED)
        return table

    @staticmethod
    def _add(table: dict[int, _Field], number: int, field: _Field, wire_type: int) -> None:
        table[number << 3 | wire_type] = table[-number] = field

    def _as_part(self, field: _Field) -> _Field:
        self._marks += 1
        field.mark = self._marks.to_bytes(2, "big")
        field.is_part = True
        return field

    def _field(self, name: str, schema: dict[str, Any], go: GoField) -> _Field:
        key = _encode(name) + b":"
        omits_zero = go.mark == "0"
        kind = schema_type(schema)
        if referenced(schema) is None and kind == "array" and not go.go_type.endswith("ExtraValue"):
            items = schema["items"]
            field = _Field(key + b"[", b"]", is_many=True)
            field.text = self._writer(items, go.go_type.removeprefix("[]"), nothing=b"null")
            return self._as_part(field) if _is_message(items) else field
        if referenced(schema) is None and kind == "object":
            field = _Field(key + b"{", b"}", is_many=True)
            write = self._writer(schema["additionalProperties"], go.go_type.rpartition("]")[2], nothing=b"null")
            field.text = _entry(write)
            return self._as_part(field)
        field = _Field(key)
        field.text = self._writer(schema, go.go_type, omits_zero=omits_zero)
        is_own = referenced(schema) == META + "ObjectMeta"
        return self._as_part(field) if _is_message(schema) and not is_own else field

    def _writer(
        self, schema: dict[str, Any], go_type: str, *, omits_zero: bool = False, nothing: bytes = b""
    ) -> Callable[[Any, int], bytes]:
        """How a single value is written; an empty text stands for one that is left out."""
        name = referenced(schema)
        if name is not None and not protobuf.is_special(name):
            if omits_zero:
                return lambda data, depth: _unless_empty(self._object(name, data, depth))
            return lambda data, depth: self._object(name, data, depth)
        if name == _QUANTITY:
            return _quantity
        kind = "" if name is not None else schema_type(schema)
        if kind == "string" and schema.get("format") != "byte":
            return _text_unless_empty if omits_zero else _text
        if kind == "boolean":
            return _boolean_unless_false if omits_zero else _boolean
        if kind == "integer":
            bits = 32 if schema.get("format") == "int32" else 64
            return lambda number, _: b"" if omits_zero and not number else b"%d" % wire.signed(number, bits)
        read = protobuf.reader(schema, go_type)

        def write(value: Any, depth: int) -> bytes:
            read_as = read([(VARINT if isinstance(value, int) else LENGTH_DELIMITED, value)], depth)
            if read_as is None:
                return nothing
            return b"" if omits_zero and not read_as else _encode(read_as)

        return write


def _wire_type(schema: dict[str, Any]) -> int:
    """As Go writes it: a list of numbers comes number by number."""
    if referenced(schema) is not None:
        return LENGTH_DELIMITED
    kind = schema_type(schema)
    if kind == "array":
        return _wire_type(schema["items"])
    return VARINT if kind in ("integer", "boolean") else LENGTH_DELIMITED


def _is_message(schema: dict[str, Any]) -> bool:
    return referenced(schema) is not None


def _text(data: bytes, _depth: int) -> bytes:
    return _encode(data.decode())


def _text_unless_empty(data: bytes, _depth: int) -> bytes:
    return _encode(data.decode()) if data else b""


def _boolean(number: int, _depth: int) -> bytes:
    return _BOOLEANS[number != 0]


def _boolean_unless_false(number: int, _depth: int) -> bytes:
    return b"true" if number else b""


def _unless_empty(text: bytes) -> bytes:
    return b"" if text == b"{}" else text


def _quantity(data: bytes, _depth: int) -> bytes:
    found = wire.gather(data).get(1)
    return _encode((wire.text(wire.expect_bytes(found[-1])) if found else "") or "0")


def _entry(write: Callable[[Any, int], bytes]) -> Callable[[bytes, int], bytes]:
    """A map is a list of messages, each with a key in field 1 and a value in field 2."""

    def write_entry(data: bytes, depth: int) -> bytes:
        entry = wire.gather(data)
        key = wire.text(wire.expect_bytes(entry[1][-1])) if 1 in entry else ""
        value = wire.expect_bytes(entry[2][-1]) if 2 in entry else b""
        return b"%b:%b" % (_encode(key), write(value, depth))

    return write_entry
