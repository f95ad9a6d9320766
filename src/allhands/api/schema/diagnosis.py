"""Why a document does not have the shape of its kind, in the words of the server's decoder.

This is the slow path: it walks the document in Python, and only after the fast decoder refused it. It never decides
whether a document is acceptable, it only tells what to say and what the document is without its unknown fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allhands.api.schema import timestamps
from allhands.api.schema.definitions import META, definitions, go_types, referenced, schema_type
from allhands.api.schema.typed import canonical_base64
from allhands.model.quantity import canonical

if TYPE_CHECKING:
    from collections.abc import Callable

    from allhands.api.document import Json, Manifest

MAX_UNKNOWN_FIELDS = 100
"""The server's decoder stops collecting at this many."""

_OPAQUE = ("RawExtension", "FieldsV1", "JSONSchemaProps", "v1.JSON")
_TIMES: dict[str, Callable[[Any], str]] = {
    META + "Time": timestamps.canonical_seconds,
    META + "MicroTime": timestamps.canonical_micros,
}
_TEXTUAL: dict[str, Callable[[Any], str]] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": canonical,
    **_TIMES,
}
_GO_NUMBERS = frozenset({"int32", "int64", "uint8", "float64"})
_INT_RANGES = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}


class Diagnosis:
    """What a walk over one document found."""

    def __init__(self, document: Manifest, definition: str) -> None:
        self.mismatch = ""
        """The first value that cannot be decoded, as a whole message; empty if all can."""
        self.conversion = ""
        """The same as the server words it when it converts the result of a strategic patch: there, a number that is
        too large for its field is cut to its lower bits, and is no fault."""
        self._ended = False
        self.unknown: list[str] = []
        """Paths of fields that the kind does not have, in document order."""
        self.pruned: Manifest = self._struct(document, definition, "", [])

    def _struct(self, value: Json, definition: str, path: str, names: list[str]) -> Json:
        schema, go = definitions()[definition], go_types().get(definition, {})
        kept: dict[str, Any] = {}
        for name, item in value.items():
            field_path = f"{path}.{name}" if path else name
            if name not in go:
                if len(self.unknown) < MAX_UNKNOWN_FIELDS:
                    self.unknown.append(field_path)
                continue
            if item is None:
                continue
            context = _Context(definition.rpartition(".")[2], [*names, name], go[name].go_type)
            kept[name] = self._value(item, schema["properties"][name], field_path, context)
        return kept

    def _value(self, value: Json, schema: dict[str, Any], path: str, context: _Context) -> Json:
        if value is None:
            return _zero(schema)
        name = referenced(schema)
        if name is not None:
            return self._referenced(value, name, path, context)
        match schema_type(schema):
            case "array":
                if not isinstance(value, list):
                    return self._refuse(value, context, f"cannot restore slice from {_go_name(value)}")
                inner = context.element()
                return [self._value(item, schema["items"], f"{path}[{i}]", inner) for i, item in enumerate(value)]
            case "object" if isinstance(schema.get("additionalProperties"), dict):
                if not isinstance(value, dict):
                    return self._refuse(value, context, f"cannot restore map from {_go_name(value)}")
                inner = context.element()
                values = schema["additionalProperties"]
                return {key: self._value(item, values, f"{path}.{key}", inner) for key, item in value.items()}
            case "object" | "":
                return value
            case scalar:
                return self._scalar(value, scalar, schema.get("format", ""), context)

    def _referenced(self, value: Json, name: str, path: str, context: _Context) -> Json:
        if name.endswith(_OPAQUE):
            return value
        if name in _TIMES and not isinstance(value, str):
            return self._refuse_itself(value, context, f"json: cannot unmarshal {_json_name(value)}", "string")
        if name in _TEXTUAL:
            return self._textual(value, _TEXTUAL[name], ends=True)
        if name.endswith("IntOrString"):
            if not isinstance(value, (int, str)) or isinstance(value, bool):
                found = f"json: cannot unmarshal {_json_name(value)}"
                found += f" {_literal(value)}" if isinstance(value, float) else ""
                self._refuse_itself(value, context, found, "int32")
            return value
        if not isinstance(value, dict):
            return self._refuse(value, context, f"cannot restore struct from: {_go_name(value)}")
        return self._struct(value, name, path, context.names)

    def _scalar(self, value: Json, scalar: str, form: str, context: _Context) -> Json:
        if scalar == "integer" and isinstance(value, (int, float)) and not isinstance(value, bool):
            low, high = _INT_RANGES.get(form, _INT_RANGES["int64"])
            if isinstance(value, float) or not low <= value <= high:
                is_cut = isinstance(value, int) and form == "int32" and -(2**63) <= value < 2**63
                conversion = "" if is_cut else _converted(value, context.go_type)
                self._refuse(value, context, conversion, f"number {_literal(value)}")
                return (int(value) + 2**31) % 2**32 - 2**31 if is_cut else value
            return value
        fits = {
            "string": isinstance(value, str),
            "boolean": isinstance(value, bool),
            "number": isinstance(value, (int, float)) and not isinstance(value, bool),
        }.get(scalar, False)
        if not fits:
            return self._refuse(value, context, _converted(value, context.go_type))
        return self._textual(value, canonical_base64) if form == "byte" else value

    def _textual(self, value: Json, canonicalise: Callable[[Any], str], *, ends: bool = False) -> Json:
        try:
            canonicalise(value)
        except (ValueError, TypeError) as error:
            self._say(str(error), str(error), ends=ends)
        return value

    def _refuse(self, value: Json, context: _Context, conversion: str, what: str = "") -> Json:
        found = f"json: cannot unmarshal {what or _json_name(value)}"
        self._say(f"{found} into Go struct field {context.place} of type {context.go_type}", conversion)
        return value

    def _refuse_itself(self, value: Json, context: _Context, found: str, go_type: str) -> Json:
        """By a type that reads itself."""
        field = f"struct field {context.place} of type {go_type}"
        self._say(f"{found} into Go {field}", f"{found} into Go value of type {go_type}", ends=True)
        return value

    def _say(self, message: str, conversion: str, *, ends: bool = False) -> None:
        """Go remembers the first wrong type and reads on; a type that reads itself ends the decoding with its own."""
        if self._ended:
            return
        if ends or not self.mismatch:
            self.mismatch = message
        if conversion and (ends or not self.conversion):
            self.conversion = conversion
        self._ended = ends


class _Context:
    """Where a value stands, as Go's messages name it: the innermost struct, the field names, the wanted type."""

    def __init__(self, struct: str, names: list[str], go_type: str) -> None:
        self.struct = struct
        self.names = names
        self.go_type = go_type

    @property
    def place(self) -> str:
        return f"{self.struct}.{'.'.join(self.names)}"

    def element(self) -> _Context:
        """The context of an item of this list or of a value of this map."""
        if self.go_type.startswith("[]"):
            return _Context(self.struct, self.names, self.go_type[2:])
        return _Context(self.struct, self.names, self.go_type.rpartition("]")[2])


def _json_name(value: Json) -> str:
    match value:
        case bool():
            return "bool"
        case str():
            return "string"
        case int() | float():
            return "number"
        case list():
            return "array"
        case _:
            return "object"


def _go_name(value: Json) -> str:
    """The Go kind of a value that was read without knowing its type."""
    names = {"number": "float64" if isinstance(value, float) else "int64", "array": "slice", "object": "map"}
    return names.get(_json_name(value), _json_name(value))


def _converted(value: Json, go_type: str) -> str:
    """Why a plain value cannot be converted; every Go type that is not one of the plain ones is a name for texts."""
    source, kind = _go_name(value), go_type if go_type in _GO_NUMBERS or go_type == "bool" else "string"
    if (source == "int64" and kind == "string") or (source == "float64" and kind in _GO_NUMBERS):
        return f"cannot convert {source} to {go_type}"
    return f"unrecognized type: {kind}"


def _zero(schema: dict[str, Any]) -> Json:
    """What Go makes of a null where it cannot leave the value out: in a list or as the value of a map."""
    name = referenced(schema)
    if name is not None:
        return "0" if name.endswith("Quantity") else 0 if name.endswith("IntOrString") else {}
    zeros = {"string": "", "integer": 0, "number": 0.0, "boolean": False, "array": [], "object": {}}
    return zeros.get(schema_type(schema))


def _literal(value: float) -> str:
    return str(value)
