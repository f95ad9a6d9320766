"""The normal form of built-in kinds: what a round trip through the server's Go structs makes of a document.

Struct types are generated from the definitions, so that msgspec does the work of Go's decoder and encoder in C: types
are checked, `omitempty` fields that are zero disappear, fields without it appear, quantities and times become
canonical. Only a document that does not pass is walked in Python, to say what is wrong in the server's words.
"""

from __future__ import annotations

import base64
import binascii
import functools
import keyword
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import msgspec

from allhands.api.schema import timestamps
from allhands.api.schema.definitions import META, GoField, definitions, go_types, referenced, schema_type
from allhands.model.quantity import canonical

if TYPE_CHECKING:
    from allhands.api.document import Json, Manifest


class _CanonicalText(type):
    """Lets a decode hook answer a marker type with a plain `str`: msgspec asks isinstance, and the marker says yes."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, str)


class _Marker(metaclass=_CanonicalText):
    """A textual value that is brought into canonical form while decoding."""

    canonicalise: ClassVar[Any]
    """A function of the value as it came."""


class _Quantity(_Marker):
    canonicalise = staticmethod(canonical)


class _Time(_Marker):
    canonicalise = staticmethod(timestamps.canonical_seconds)


class _MicroTime(_Marker):
    canonicalise = staticmethod(timestamps.canonical_micros)


def canonical_base64(text: Any) -> str:
    if not isinstance(text, str):
        raise ValueError("bytes must be base64 text")
    try:
        return base64.b64encode(base64.b64decode(text, validate=True)).decode()
    except binascii.Error:
        raise ValueError(f"illegal base64 data at input byte {_first_foreign_byte(text)}") from None


def _first_foreign_byte(text: str) -> int:
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="
    return next((index for index, char in enumerate(text) if char not in alphabet), len(text) - len(text) % 4)


class _Bytes(_Marker):
    canonicalise = staticmethod(canonical_base64)


def _canonicalise(marker: type[Any], value: Any) -> str:
    return marker.canonicalise(value)  # type: ignore[no-any-return]


_encoder = msgspec.json.Encoder()
_INT32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
_INT64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]

_SPECIAL: dict[str, Any] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": _Quantity,
    META + "Time": _Time,
    META + "MicroTime": _MicroTime,
    META + "FieldsV1": Any,
    META + "Patch": Any,
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": _INT32 | str,
    "io.k8s.apimachinery.pkg.runtime.RawExtension": Any,
    # A schema inside a custom resource definition is checked by `structural`, which knows what is allowed there.
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps": Any,
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON": Any,
}


def _value_type(schema: dict[str, Any], stored: bool, finished: bool) -> Any:
    """The Python type of a schema where it is neither optional nor absent."""
    name = referenced(schema)
    if name is not None:
        return _SPECIAL[name] if name in _SPECIAL else struct_for(name, stored, finished)
    match schema_type(schema):
        case "string":
            return _Bytes if schema.get("format") == "byte" else str
        case "integer":
            return _INT32 if schema.get("format") == "int32" else _INT64
        case "number":
            return float
        case "boolean":
            return bool
        case "array":
            return list[_plain(_value_type(schema["items"], stored, finished), finished)]  # type: ignore[misc]
        case "object" if isinstance(schema.get("additionalProperties"), dict):
            values = _value_type(schema["additionalProperties"], stored, finished)
            return dict[str, _plain(values, finished)]  # type: ignore[misc]
        case _:
            return Any


def _plain(value_type: Any, finished: bool) -> Any:
    """What is known to be in canonical form is just a text."""
    return str if finished and isinstance(value_type, _CanonicalText) else value_type


_ZEROS: dict[Any, Any] = {str: "", _Quantity: "0", _Bytes: "", float: 0.0, bool: False, _INT32: 0, _INT64: 0}


def _none() -> None:
    return None


@functools.cache
def _always(zero: Any) -> Any:
    """A default that is written all the same: msgspec leaves out plain defaults and empty list and dict factories."""
    return msgspec.field(default_factory=lambda: zero)


def _declare(name: str, schema: dict[str, Any], go: GoField, stored: bool, finished: bool) -> tuple[str, Any, Any]:
    value_type = _value_type(schema, stored, finished)
    if value_type is Any:
        return name, Any, None
    kept = _plain(value_type, finished)
    is_list, is_map = schema_type(schema) == "array", "additionalProperties" in schema and not referenced(schema)
    is_time = value_type in (_Time, _MicroTime)
    if go.mark == "n" or (is_time and go.mark == "!"):
        return name, kept | None, msgspec.field(default_factory=_none) if stored else None
    if go.mark == "?" or is_time:
        return name, kept | None, None
    if go.mark == "0" and (is_list or is_map):
        return name, kept, msgspec.field(default_factory=list if is_list else dict)
    if isinstance(value_type, type) and issubclass(value_type, msgspec.Struct):
        return name, kept, msgspec.field(default_factory=value_type)
    zero = _ZEROS.get(value_type, 0)
    return name, kept, zero if go.mark == "0" else _always(zero)


@functools.cache
def struct_for(name: str, stored: bool, finished: bool = False) -> Any:
    """The struct type of a definition, with the fields, defaults and omissions of its Go twin. In the form that is
    `stored`, lists, pointers and times that Go always writes are null where they are nil; rules see no nulls. Of what
    is `finished`, texts are canonical already, and taken as they are."""
    schema, go = definitions()[name], go_types()[name]
    fields = [_declare(field, schema["properties"][field], go[field], stored, finished) for field in go]
    renamed = {f"{field}_": field for field, _, _ in fields if keyword.iskeyword(field)}
    fields = [(f"{each[0]}_", *each[1:]) if f"{each[0]}_" in renamed else each for each in fields]
    return msgspec.defstruct(
        name.rpartition(".")[2], fields, omit_defaults=True, forbid_unknown_fields=True, rename=renamed or None
    )


class TypedSchema:
    """The schema of one built-in kind."""

    def __init__(self, definition: str) -> None:
        self.definition = definition
        self._worked_on = struct_for(definition, stored=False)
        self._stored = struct_for(definition, stored=True)
        self._decoder = msgspec.json.Decoder(self._worked_on, dec_hook=_canonicalise)

    def normal_form(self, document: Manifest) -> Manifest:
        """The document as rules work on it. Raises msgspec.ValidationError where the shape is wrong: then ask
        `allhands.api.schema.diagnosis` for the reason."""
        return msgspec.to_builtins(msgspec.convert(document, self._worked_on, dec_hook=_canonicalise))  # type: ignore[no-any-return]

    def decoded(self, body: bytes) -> Manifest:
        """`normal_form` straight from text."""
        return msgspec.to_builtins(self._decoder.decode(body))  # type: ignore[no-any-return]

    def encoded(self, document: Manifest) -> bytes:
        """The text that the server stores and shows: `normal_form` plus the nulls that Go writes."""
        return _encoder.encode(msgspec.convert(document, self._stored, dec_hook=_canonicalise))

    def encoded_finished(self, document: Manifest) -> bytes:
        """The same, of a document that is in `normal_form` already: it costs half as much."""
        return _encoder.encode(msgspec.convert(document, self._finished))

    @functools.cached_property
    def _finished(self) -> Any:
        return struct_for(self.definition, stored=True, finished=True)


def drop_nulls(document: Json) -> Json:
    """The document without null fields: to Go, a null field and an absent one are the same."""
    if isinstance(document, dict):
        return {key: drop_nulls(value) for key, value in document.items() if value is not None}
    if isinstance(document, list):
        return [drop_nulls(item) for item in document]
    return document
