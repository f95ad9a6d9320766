"""Parts of built-in kinds inside custom ones: the published schema of a definition, in the form a custom kind needs.

What is left is what a server acts on: types, required fields, formats, list types. Descriptions stay behind: one pod
template with them is larger than all other kinds of ours together. Made when a definition is, not when it is imported.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

import msgspec

from allhands.api.field_types import QUANTITY_PATTERN
from allhands.api.schema.definitions import META, definitions, referenced, schema_type

if TYPE_CHECKING:
    from allhands.api.document import Manifest

_INT_OR_STRING: Final[Manifest] = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "x-kubernetes-int-or-string": True,
}
_TEXTS: Final[Manifest] = {"type": "object", "additionalProperties": {"type": "string"}}
_SPECIAL: Final[dict[str, Manifest]] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": _INT_OR_STRING | {"pattern": QUANTITY_PATTERN},
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": _INT_OR_STRING,
    f"{META}ObjectMeta": {
        "type": "object",
        "properties": {
            "annotations": _TEXTS,
            "finalizers": {"type": "array", "items": {"type": "string"}},
            "labels": _TEXTS,
            "name": {"type": "string"},
            "namespace": {"type": "string"},
        },
    },
}
"""What the published schema says otherwise, or says of whole objects only: what is made from a template has the rest of
its metadata from the server."""
_LIST_TYPE: Final = "x-kubernetes-list-type"
_LIST_KEYS: Final = "x-kubernetes-list-map-keys"
_KEPT: Final = ("format", "x-kubernetes-map-type", _LIST_TYPE, _LIST_KEYS)
DEFAULT_KEYS: Final = {"protocol": "TCP"}
"""A key of a list that is a map must be required or have a default; these are the ones that Go fills."""


def built_in_schema(definition: str) -> Manifest:
    """The structural schema of a published definition, such as `io.k8s.api.core.v1.PodTemplateSpec`; new every time."""
    return msgspec.json.decode(_text(definition))  # type: ignore[no-any-return]


@functools.cache
def _text(definition: str) -> bytes:
    return msgspec.json.encode(_schema({"$ref": f"#/$defs/{definition}"}, ()))


def _schema(published: dict[str, Any], around: tuple[str, ...]) -> Manifest:
    name = referenced(published)
    if name is None:
        return _plain(published, around)
    if name in around:
        raise TypeError(f"{name} holds itself, which a structural schema cannot say")
    if name in _SPECIAL:
        return _SPECIAL[name]
    return _plain(definitions()[name], (*around, name))


def _plain(published: dict[str, Any], around: tuple[str, ...]) -> Manifest:
    schema: Manifest = {"type": schema_type(published)}
    schema |= {word: published[word] for word in _KEPT if word in published}
    match schema["type"]:
        case "object" if "properties" in published:
            schema["properties"] = {name: _schema(it, around) for name, it in published["properties"].items()}
            if published.get("required"):
                schema["required"] = list(published["required"])
        case "object" if "additionalProperties" in published:
            schema["additionalProperties"] = _schema(published["additionalProperties"], around)
        case "array":
            schema["items"] = _with_keys(_schema(published["items"], around), schema.get(_LIST_KEYS, ()))
    return schema


def _with_keys(item: Manifest, keys: list[str] | tuple[str, ...]) -> Manifest:
    """The items of a list that is a map: each has all of its keys."""
    missing = [key for key in keys if key not in item.get("required", ())]
    if not missing:
        return item
    filled = {key: item["properties"][key] | {"default": DEFAULT_KEYS.get(key, "")} for key in missing}
    return item | {"properties": item["properties"] | filled}
