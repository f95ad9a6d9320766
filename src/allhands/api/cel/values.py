"""How a document looks to a rule: fields by names that CEL can write, only those that the schema knows.

A rule sees no field that the schema does not name, no metadata but the names, and numbers of the type that the schema
gives them. Lists that are sets or maps are equal whatever their order: the old one is put into the order of the new.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allhands.api.document import Json

    Schema = Mapping[str, Any]

_RESERVED: Final = frozenset(
    word
    for line in (
        "true false null in as break const continue else for function if import",
        "let loop package namespace return var void while",
    )
    for word in line.split()
)
_ESCAPES: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_NAME: Final = re.compile(r"[A-Za-z_./-][A-Za-z0-9_./-]*")
_TO_ESCAPE: Final = re.compile(r"__|[-./]")
_TEXT: Final = {"type": "string"}
_METADATA: Final = {"type": "object", "properties": {"name": _TEXT, "generateName": _TEXT}}


@functools.lru_cache(maxsize=4096)
def escaped(name: str) -> str | None:
    """The name of a field in a rule; None for one that no rule can name."""
    if name in _RESERVED:
        return f"__{name}__"
    if not _NAME.fullmatch(name):
        return None
    return _TO_ESCAPE.sub(lambda found: _ESCAPES[found[0]], name)


def of_resource(schema: Schema) -> Schema:
    """The schema of a whole object, or of one embedded in another: what every object has can be read too."""
    properties = {**(schema.get("properties") or {}), "apiVersion": _TEXT, "kind": _TEXT, "metadata": _METADATA}
    return {**schema, "type": "object", "properties": properties}


def as_seen(value: Json, schema: Schema) -> Json:
    """The value as a rule sees it."""
    match value:
        case dict():
            return _fields(value, schema)
        case list():
            items = schema.get("items")
            return [as_seen(item, items) for item in value] if isinstance(items, dict) else value
        case bool():
            return value
        case int() if schema.get("type") == "number":
            return float(value)
        case float() if schema.get("type") == "integer":
            return int(value)
    return value


def _fields(value: dict[str, Json], schema: Schema) -> dict[str, Json]:
    if schema.get("x-kubernetes-embedded-resource"):
        schema = of_resource(schema)
    additional = schema.get("additionalProperties")
    if isinstance(additional, dict):
        return {key: as_seen(item, additional) for key, item in value.items()}
    seen = {}
    for name, child in (schema.get("properties") or {}).items():
        if name in value and (written := escaped(name)) is not None:
            seen[written] = as_seen(value[name], child)
    return seen


def ordered_like(old: Json, new: Json, schema: Schema) -> Json:
    """The old value with its sets and maps in the order of the new one, so that only what differs is unequal."""
    if isinstance(old, dict) and isinstance(new, dict):
        properties, additional = schema.get("properties") or {}, schema.get("additionalProperties")
        rest = additional if isinstance(additional, dict) else {}
        return {name: ordered_like(item, new.get(name), properties.get(name) or rest) for name, item in old.items()}
    if not (isinstance(old, list) and isinstance(new, list)):
        return old
    identity = _identity(schema)
    if identity is None:
        return old
    places = {identity(item): place for place, item in enumerate(new)}
    found = sorted(old, key=lambda item: places.get(identity(item), len(new)))
    return [
        ordered_like(item, new[places[identity(item)]], schema.get("items") or {}) if identity(item) in places else item
        for item in found
    ]


def _identity(schema: Schema) -> Any:
    """What makes an item of the list the same item later; None for a list whose items are known by their places."""
    match schema.get("x-kubernetes-list-type"):
        case "set":
            return repr
        case "map":
            keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())
            return lambda item: repr([item.get(key) for key in keys]) if isinstance(item, dict) else repr(item)
    return None


def partner(item: Json, olds: Json, schema: Schema) -> Json:
    """The item of the old list that was this one; None if there was none, or if nobody can know."""
    if schema.get("x-kubernetes-list-type") != "map" or not isinstance(olds, list):
        return None
    identity = _identity(schema)
    wanted = identity(item)
    return next((old for old in olds if identity(old) == wanted), None)
