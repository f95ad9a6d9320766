"""From OpenAPI schemas, published or of a custom kind, to the types that a merge needs."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final, cast

from allhands.api.apply.field_type import DEDUCED, UNTYPED, FieldType, ListType, MapType
from allhands.api.schema.definitions import META, definitions, go_types, referenced, schema_type
from allhands.api.schema.of_builtin import DEFAULT_KEYS

if TYPE_CHECKING:
    from collections.abc import Callable

    from allhands.api.apply.field_type import Scalar
    from allhands.api.document import Json, Manifest

_OBJECT_META: Final = META + "ObjectMeta"
_PRESERVES: Final = "x-kubernetes-preserve-unknown-fields"
_SCALARS: Final[dict[str, Scalar]] = {"integer": "numeric", "number": "numeric", "boolean": "boolean"}
_SPECIAL: Final = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": FieldType("untyped"),
    "io.k8s.apimachinery.pkg.runtime.RawExtension": UNTYPED,
}
_EMPTY_KEYS: Final = frozenset({("io.k8s.api.core.v1.LocalObjectReference", "name")})
"""Fields that Go leaves out when they are empty, and that the real server's schema gives the empty default."""
_ZEROS: Final[dict[str, Json]] = {"string": "", "integer": 0}


@functools.cache
def definition_type(name: str) -> FieldType:
    """The type of a published definition, such as `io.k8s.api.core.v1.Pod`."""
    if name in _SPECIAL:
        return _SPECIAL[name]
    return _type(definitions()[name], _key_defaults(name), preserves=False)


def custom_type(schema: Manifest) -> FieldType:
    """The type of a custom kind's objects in one version."""
    return _type(_as_resource(schema), _stated_defaults(schema), preserves=False)


def _key_defaults(name: str) -> dict[str, Json]:
    """What absent fields of a definition count as where they are keys: Go always writes some of them."""
    found: dict[str, Json] = {}
    for field, go in go_types().get(name, {}).items():
        declared = definitions()[name].get("properties", {}).get(field, {})
        zero = _ZEROS.get(schema_type(declared)) if declared else None
        if (go.mark == "!" or (name, field) in _EMPTY_KEYS) and zero is not None:
            found[field] = zero
        elif field in DEFAULT_KEYS:
            found[field] = DEFAULT_KEYS[field]
    return found


def _stated_defaults(schema: Manifest) -> dict[str, Json]:
    properties = schema.get("properties") or {}
    return {name: it["default"] for name, it in properties.items() if it.get("default") is not None}


def _as_resource(schema: Manifest) -> Manifest:
    """The schema with what every resource has, whatever its author wrote about that."""
    text = {"type": "string"}
    head = {"apiVersion": text, "kind": text, "metadata": {"$ref": f"#/$defs/{_OBJECT_META}"}}
    return schema | {"properties": (schema.get("properties") or {}) | head}


def _reference(schema: dict[str, Any], *, preserves: bool) -> FieldType:
    """The type of a part, which may be elsewhere; whoever refers to a definition may say that it is one piece."""
    name = referenced(schema)
    if name is None:
        if schema.get("x-kubernetes-embedded-resource"):
            schema = _as_resource(schema)
        return _type(schema, _stated_defaults(schema), preserves=preserves)
    found, how = definition_type(name), schema.get("x-kubernetes-map-type")
    if how is None or found.fields is None:
        return found
    return FieldType(found.scalar, found.items, found.fields.in_one_piece(atomic=how == "atomic"))


def _type(schema: dict[str, Any], defaults: dict[str, Json], *, preserves: bool) -> FieldType:
    preserves = preserves or schema.get(_PRESERVES) is True
    match schema_type(schema):
        case "":
            return FieldType("untyped", _list(schema, preserves), _map(schema, defaults, preserves))
        case "object":
            return FieldType(fields=_map(schema, defaults, preserves))
        case "array":
            return FieldType(items=_list(schema, preserves))
        case "string":
            return FieldType("string" if schema.get("format", "") in ("", "byte") else "untyped")
        case name:
            return FieldType(_SCALARS.get(name, "untyped"))


def _late(schema: dict[str, Any], preserves: bool) -> Callable[[], FieldType]:
    return lambda: _reference(schema, preserves=preserves)


def _map(schema: dict[str, Any], defaults: dict[str, Json], preserves: bool) -> MapType:
    properties: dict[str, Any] = schema.get("properties") or {}
    additional = schema.get("additionalProperties")
    deduced = False
    if isinstance(additional, dict):
        other: Callable[[], FieldType] | None = _late(additional, preserves)
        deduced = referenced(additional) is None and _reference(additional, preserves=preserves).scalar == "untyped"
    elif additional is True or (additional is None and (preserves or not properties)):
        other, deduced = (lambda: DEDUCED), not properties
    else:
        other = None
    return MapType(
        {name: _late(it, preserves) for name, it in properties.items()},
        other,
        atomic=schema.get("x-kubernetes-map-type") == "atomic",
        defaults=defaults,
        deduced=deduced and not properties,
    )


def _list(schema: dict[str, Any], preserves: bool) -> ListType:
    item = _late(schema["items"], preserves) if isinstance(schema.get("items"), dict) else lambda: UNTYPED
    declared = schema.get("x-kubernetes-list-type")
    if declared is not None:
        keys = tuple(schema.get("x-kubernetes-list-map-keys") or ()) if declared == "map" else ()
        return ListType(item, atomic=declared not in ("set", "map"), keys=keys)
    strategies = cast("str", schema.get("x-kubernetes-patch-strategy") or "").split(",")
    key = schema.get("x-kubernetes-patch-merge-key")
    return ListType(item, atomic="merge" not in strategies, keys=(key,) if key and "merge" in strategies else ())
