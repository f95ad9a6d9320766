"""From types to the schema of a custom kind: structs become objects, `Meta` becomes limits and descriptions.

The result is structural, so a server prunes what no field is for. A type that a schema cannot say is refused with the
path of its field when the definition is made, never when an object comes. Defaults: what is not None, not empty and
not a struct is written by the server; None, "", an empty list or map and a struct mean that nothing is said.
"""

from __future__ import annotations

import inspect as python_inspect
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import inspect

from allhands.api.field_types import INT32_MAX, INT64_MAX
from allhands.api.schema.of_builtin import built_in_schema

if TYPE_CHECKING:
    from allhands.api.document import Manifest

PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
INT_OR_STRING: Final = "x-kubernetes-int-or-string"
WHOLE: Final = "x-allhands-whole-schema"
"""In a Meta's `extra_json_schema`: what it says is all that is said; the type is not looked at."""
BUILT_IN: Final = "x-allhands-built-in"
"""The same, with the name of a published definition whose schema stands in the place of the type's."""
OVERLAY: Final = "x-allhands-overlay"
"""The same: below, nothing is filled in and no rule holds over several fields, since it is laid over something else."""
RULES: Final = "x-kubernetes-validations"
_LIST_KEYS: Final = "x-kubernetes-list-map-keys"
_LIMITS: Final = (
    ("ge", "minimum"),
    ("gt", "minimum"),
    ("le", "maximum"),
    ("lt", "maximum"),
    ("multiple_of", "multipleOf"),
)
_FORMAT_LIMITS: Final = {"int32": (-INT32_MAX - 1, INT32_MAX), "int64": (-INT64_MAX - 1, INT64_MAX)}
_NAMES: Final = {
    inspect.StrType: "string",
    inspect.IntType: "integer",
    inspect.FloatType: "number",
    inspect.BoolType: "boolean",
}


class SchemaError(TypeError):
    """A type that no structural schema can say; the text names the field."""


def schema_of(type: type[msgspec.Struct]) -> Manifest:
    """The schema of a struct, with everything below it in place."""
    found = inspect.type_info(type)
    if not isinstance(found, inspect.StructType):
        raise SchemaError(f"{type.__name__} is not a struct")
    return _struct(found, type.__name__, ())


def _schema(kind: inspect.Type, path: str, around: tuple[type[Any], ...]) -> Manifest:
    match kind:
        case inspect.Metadata():
            return _described(kind, path, around)
        case inspect.UnionType():
            return _union(kind, path, around)
        case inspect.StructType():
            return _struct(kind, path, around)
        case inspect.DictType():
            return _map(kind, path, around)
        case inspect.ListType() | inspect.VarTupleType():
            return _bounded(
                {"type": "array", "items": _schema(kind.item_type, f"{path}[]", around)}, kind, "minItems", "maxItems"
            )
        case inspect.EnumType():
            return _choices(tuple(member.value for member in kind.cls), path, _doc(kind.cls))
        case inspect.LiteralType():
            return _choices(kind.values, path)
        case inspect.AnyType():
            return {PRESERVE: True}
        case inspect.StrType():
            schema = _bounded({"type": "string"}, kind, "minLength", "maxLength")
            return schema if kind.pattern is None else schema | {"pattern": kind.pattern}
        case inspect.IntType() | inspect.FloatType():
            return _number(kind)
        case inspect.BoolType():
            return {"type": "boolean"}
    raise SchemaError(f"{path}: a schema has no word for {type(kind).__name__.removesuffix('Type')}")


def _described(kind: inspect.Metadata, path: str, around: tuple[type[Any], ...]) -> Manifest:
    extra = dict(kind.extra_json_schema or {})
    if extra.pop(WHOLE, False):
        return extra
    if extra.get(INT_OR_STRING):
        return extra
    if definition := extra.pop(BUILT_IN, ""):
        return built_in_schema(definition) | extra
    is_overlay = extra.pop(OVERLAY, False)
    schema = {**_schema(kind.type, path, around), **extra}
    if is_overlay:
        _bare(schema)
    limits = _FORMAT_LIMITS.get(schema.get("format", ""))
    if limits is not None:  # the format says as much
        for name, limit in zip(("minimum", "maximum"), limits, strict=True):
            if schema.get(name) == limit:
                del schema[name]
    return schema


def _union(kind: inspect.UnionType, path: str, around: tuple[type[Any], ...]) -> Manifest:
    """Only "this or nothing": what may be left out. A number or a text is said by `QuantityText`."""
    others = [it for it in kind.types if not isinstance(it, inspect.NoneType)]
    if len(others) != 1:
        names = ", ".join(type(it).__name__.removesuffix("Type") for it in others)
        raise SchemaError(f"{path}: a field has one type, not {names}")
    return _schema(others[0], path, around)


def _struct(kind: inspect.StructType, path: str, around: tuple[type[Any], ...]) -> Manifest:
    if kind.cls in around:
        raise SchemaError(f"{path}: {kind.cls.__name__} holds itself, which a structural schema cannot say")
    if kind.array_like or kind.tag_field is not None:
        raise SchemaError(f"{path}: {kind.cls.__name__} is written as an array or with a tag")
    schema: Manifest = {"type": "object"}
    if doc := _doc(kind.cls):
        schema["description"] = doc
    properties: Manifest = {}
    for field in kind.fields:
        where = f"{path}.{field.encode_name}"
        found = _schema(field.type, where, (*around, kind.cls))
        default = _default(field)
        if default is not None:
            found["default"] = default
        properties[field.encode_name] = found
    if properties:
        schema["properties"] = properties
    if needed := [field.encode_name for field in kind.fields if field.required]:
        schema["required"] = needed
    return schema


def _map(kind: inspect.DictType, path: str, around: tuple[type[Any], ...]) -> Manifest:
    if not isinstance(kind.key_type, inspect.StrType):
        raise SchemaError(f"{path}: the keys of a map are texts")
    if isinstance(kind.value_type, inspect.AnyType):
        schema: Manifest = {"type": "object", PRESERVE: True}
    else:
        schema = {"type": "object", "additionalProperties": _schema(kind.value_type, f"{path}[*]", around)}
    return _bounded(schema, kind, "minProperties", "maxProperties")


def _number(kind: inspect.IntType | inspect.FloatType) -> Manifest:
    schema: Manifest = {"type": _NAMES[type(kind)]}
    for attribute, name in _LIMITS:
        limit = getattr(kind, attribute)
        if limit is not None:
            schema[name] = limit
    if kind.gt is not None:
        schema["exclusiveMinimum"] = True
    if kind.lt is not None:
        schema["exclusiveMaximum"] = True
    return schema


def _bounded(schema: Manifest, kind: Any, least: str, most: str) -> Manifest:
    if kind.min_length is not None:
        schema[least] = kind.min_length
    if kind.max_length is not None:
        schema[most] = kind.max_length
    return schema


def _choices(values: tuple[Any, ...], path: str, doc: str = "") -> Manifest:
    types = {type(value) for value in values}
    if types not in ({str}, {int}):
        raise SchemaError(f"{path}: choices are all texts or all whole numbers")
    schema: Manifest = {"type": "string" if types == {str} else "integer", "enum": list(values)}
    return schema | {"description": doc} if doc else schema


def _default(field: inspect.Field) -> Any:
    """What the server writes where nothing is said; None if it writes nothing."""
    default = field.default
    if field.default_factory is not msgspec.NODEFAULT:
        default = field.default_factory()
    if default is msgspec.NODEFAULT or default is msgspec.UNSET or isinstance(default, msgspec.Struct):
        return None
    plain = msgspec.to_builtins(default)
    return None if plain is None or plain in ("", [], {}, ()) else plain


def _bare(schema: Manifest, keys: tuple[str, ...] = ()) -> None:
    """Takes defaults and rules away, everywhere below; keys of lists that are maps need theirs, or to be required."""
    schema.pop(RULES, None)
    for name, field in (schema.get("properties") or {}).items():
        if name not in keys:
            field.pop("default", None)
        _bare(field)
    for word in ("items", "additionalProperties"):
        if isinstance(schema.get(word), dict):
            _bare(schema[word], tuple(schema.get(_LIST_KEYS, ())) if word == "items" else ())


def _doc(cls: type[Any]) -> str:
    """What the class says of itself, one line for each paragraph. What it inherits is not about it."""
    text = cls.__dict__.get("__doc__")
    paragraphs = python_inspect.cleandoc(text).split("\n\n") if text else ()
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
