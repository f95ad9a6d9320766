"""Request bodies in protobuf: some clients (`kubectl create deployment NAME`) send nothing else.

Messages are decoded to the document that the same client would have sent as JSON, guided by the published definitions
and by the field numbers in `gotypes.txt`. Bodies are untrusted: a malformed one is a bad request, never another
exception, and nesting is bounded. Answers are always JSON, so nothing is encoded here.
"""

from __future__ import annotations

import base64
import datetime
import functools
import math
import struct
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from allhands.api.errors import bad_request, go_quote
from allhands.api.schema import timestamps, wire
from allhands.api.schema.definitions import META, definitions, go_types, referenced, schema_type
from allhands.api.schema.wire import Occurrence, WireError

if TYPE_CHECKING:
    from collections.abc import Callable

    from allhands.api.document import Json, Manifest

    Read: TypeAlias = Callable[[list[Occurrence], int], Json]
    """All occurrences of a field, and how deeply nested it is, to its value in JSON; None is an absent value."""

CONTENT_TYPE: Final = "application/vnd.kubernetes.protobuf"
MAX_DEPTH: Final = 64
MAGIC: Final = b"k8s\x00"
_SCHEMA: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."


def decode_envelope(body: bytes) -> tuple[str, str, bytes]:
    """The apiVersion and the kind that a body names, and the message it wraps. Raises StatusError (400)."""
    if not body.startswith(MAGIC):
        raise bad_request(
            "the object provided is unrecognized: provided data does not appear to be a protobuf message, "
            f"expected prefix {list(MAGIC)}".replace(", ", " ")
        )
    try:
        envelope = wire.gather(body[len(MAGIC) :])
        type_meta = wire.gather(_joined(envelope.get(1, [])))
        if _text(envelope.get(3, [])):
            raise WireError("the message has a content encoding")
        return _text(type_meta.get(1, [])), _text(type_meta.get(2, [])), _last_bytes(envelope.get(2, []))
    except WireError as error:
        raise bad_request(f"the object provided is unrecognized: {error}") from None


def decode(raw: bytes, definition: str) -> Manifest:
    """The document in a message of a published definition, without apiVersion and kind: these are in the envelope.
    Raises StatusError (400)."""
    try:
        return decode_message(definition, raw, 0)
    except WireError as error:
        version, kind = definition.split(".")[-2:]
        raise bad_request(f"{kind} in version {go_quote(version)} cannot be handled as a {kind}: {error}") from None


class _Slot(msgspec.Struct, frozen=True):
    """One field of a message."""

    name: str
    path: tuple[int, ...]
    omit_zero: bool
    read: Callable[[list[Occurrence], int], Any]


def decode_message(definition: str, data: bytes, depth: int) -> Manifest:
    if depth > MAX_DEPTH:
        raise WireError(f"proto: messages are nested more than {MAX_DEPTH} deep")
    messages: dict[tuple[int, ...], dict[int, list[Occurrence]]] = {(): wire.gather(data)}
    document: Manifest = {}
    for slot in _slots(definition):
        inlined = slot.path[:-1]
        if inlined not in messages:
            messages[inlined] = wire.gather(_joined(messages[()].get(inlined[0], [])))
        occurrences = messages[inlined].get(slot.path[-1])
        if occurrences is None:
            continue
        value = slot.read(occurrences, depth + 1)
        if value is not None and (value or not slot.omit_zero):
            document[slot.name] = value
    return document


@functools.cache
def _slots(definition: str) -> tuple[_Slot, ...]:
    schemas = definitions()[definition].get("properties", {})
    return tuple(
        _Slot(name, go.number, go.mark == "0", reader(schemas[name], go.go_type))
        for name, go in go_types()[definition].items()
        if go.number
    )


def reader(schema: dict[str, Any], go_type: str) -> Read:
    """How the values of a schema are read."""
    name = referenced(schema)
    if name is not None:
        return _singular(_reader_of_definition(name))
    match schema_type(schema):
        case "array" if go_type.endswith("ExtraValue"):
            return _singular(_extra_value)
        case "array":
            return _repeated(reader(schema["items"], go_type.removeprefix("[]")), _is_varint(schema["items"]))
        case "object":
            return _map(reader(schema["additionalProperties"], go_type.rpartition("]")[2]))
        case "integer":
            bits = 32 if schema.get("format") == "int32" else 64
            return lambda found, _depth: wire.signed(wire.expect_varint(found[-1]), bits)
        case "boolean":
            return lambda found, _depth: wire.expect_varint(found[-1]) != 0
        case "number":
            return lambda found, _depth: _double(found)
        case _ if schema.get("format") == "byte":
            return lambda found, _depth: base64.b64encode(wire.expect_bytes(found[-1])).decode()
        case _:
            return lambda found, _depth: _text(found)


def _is_varint(schema: dict[str, Any]) -> bool:
    return schema_type(schema) in ("integer", "boolean")


def _singular(read: Callable[[bytes, int], Json]) -> Read:
    """A message that comes in several pieces is the message of the pieces put together."""
    return lambda found, depth: read(_joined(found), depth)


def _repeated(read: Read, varints: bool) -> Read:
    def read_list(found: list[Occurrence], depth: int) -> Json:
        if not varints:
            return [read([occurrence], depth) for occurrence in found]
        items: list[Json] = []
        for occurrence in found:
            packed = occurrence[0] == wire.LENGTH_DELIMITED
            numbers = wire.packed_varints(wire.expect_bytes(occurrence)) if packed else [wire.expect_varint(occurrence)]
            items += [read([(wire.VARINT, number)], depth) for number in numbers]
        return items

    return read_list


def _map(read: Read) -> Read:
    """A map is a list of messages, each with a key in field 1 and a value in field 2."""

    def read_map(found: list[Occurrence], depth: int) -> Json:
        values: dict[str, Json] = {}
        for occurrence in found:
            entry = wire.gather(wire.expect_bytes(occurrence))
            values[_text(entry.get(1, []))] = read(entry.get(2, [(wire.LENGTH_DELIMITED, b"")]), depth)
        return values

    return read_map


def is_known(definition: str) -> bool:
    """Whether messages of it can be read."""
    return definition in go_types() and definition in definitions()


def is_special(definition: str) -> bool:
    """Whether it is not written in JSON as its message has it."""
    return definition in _SPECIAL


def _reader_of_definition(name: str) -> Callable[[bytes, int], Json]:
    special = _SPECIAL.get(name)
    return special if special is not None else functools.partial(decode_message, name)


def _extra_value(data: bytes, _depth: int) -> Json:
    return [wire.text(wire.expect_bytes(item)) for item in wire.gather(data).get(1, [])]


def _quantity(data: bytes, _depth: int) -> Json:
    return _text(wire.gather(data).get(1, [])) or "0"


def _moment(data: bytes) -> datetime.datetime | None:
    """The moment in a message of seconds and nanoseconds since 1970; an empty message is Go's zero time."""
    if not data:
        return None
    fields = wire.gather(data)
    epoch_seconds = wire.signed(_varint(fields.get(1, [])), 64)
    nanos = wire.signed(_varint(fields.get(2, [])), 32)
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    try:
        return epoch + datetime.timedelta(seconds=epoch_seconds, microseconds=math.trunc(nanos / 1000))
    except OverflowError:
        raise WireError("a time is outside of year 1 to 9999") from None


def _time(data: bytes, _depth: int) -> Json:
    moment = _moment(data)
    return None if moment is None else timestamps.seconds(moment)


def _micro_time(data: bytes, _depth: int) -> Json:
    moment = _moment(data)
    return None if moment is None else timestamps.micros(moment)


def _int_or_string(data: bytes, _depth: int) -> Json:
    fields = wire.gather(data)
    if _varint(fields.get(1, [])) == 0:
        return wire.signed(_varint(fields.get(2, [])), 32)
    return _text(fields.get(3, []))


def _embedded_json(data: bytes, _depth: int) -> Json:
    raw = _last_bytes(wire.gather(data).get(1, []))
    if not raw:
        return None
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise WireError("an embedded object is not JSON") from None


def _schema_or_bool(data: bytes, depth: int) -> Json:
    fields = wire.gather(data)
    if 2 in fields:
        return decode_message(_SCHEMA + "JSONSchemaProps", _joined(fields[2]), depth)
    return _varint(fields.get(1, [])) != 0


def _schema_or_schemas(data: bytes, depth: int) -> Json:
    fields = wire.gather(data)
    name = _SCHEMA + "JSONSchemaProps"
    if 2 in fields:
        return [decode_message(name, wire.expect_bytes(item), depth) for item in fields[2]]
    return decode_message(name, _joined(fields[1]), depth) if 1 in fields else None


def _schema_or_names(data: bytes, depth: int) -> Json:
    fields = wire.gather(data)
    if 2 in fields:
        return [wire.text(wire.expect_bytes(item)) for item in fields[2]]
    return decode_message(_SCHEMA + "JSONSchemaProps", _joined(fields[1]), depth) if 1 in fields else None


_SPECIAL: Final[dict[str, Callable[[bytes, int], Json]]] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": _quantity,
    META + "Time": _time,
    META + "MicroTime": _micro_time,
    META + "FieldsV1": _embedded_json,
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": _int_or_string,
    "io.k8s.apimachinery.pkg.runtime.RawExtension": _embedded_json,
    _SCHEMA + "JSON": _embedded_json,
    _SCHEMA + "JSONSchemaPropsOrBool": _schema_or_bool,
    _SCHEMA + "JSONSchemaPropsOrArray": _schema_or_schemas,
    _SCHEMA + "JSONSchemaPropsOrStringArray": _schema_or_names,
}


def _joined(found: list[Occurrence]) -> bytes:
    return b"".join([wire.expect_bytes(occurrence) for occurrence in found])


def _last_bytes(found: list[Occurrence]) -> bytes:
    return wire.expect_bytes(found[-1]) if found else b""


def _text(found: list[Occurrence]) -> str:
    return wire.text(_last_bytes(found))


def _varint(found: list[Occurrence]) -> int:
    return wire.expect_varint(found[-1]) if found else 0


def _double(found: list[Occurrence]) -> Json:
    (number,) = struct.unpack("<d", wire.expect_fixed64(found[-1]))
    if not math.isfinite(number):
        raise WireError("a number is not finite")
    return int(number) if number.is_integer() else number
