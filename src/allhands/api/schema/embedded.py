"""What holds for values of custom objects beyond their JSON schema: lists that are sets or maps, embedded resources.

Both walk object and schema side by side; give them what `reduced` leaves of a schema, for most that is nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from allhands.api.errors import FieldError, duplicate, invalid, required
from allhands.api.metadata import validate_metadata
from allhands.api.names import dns1035_label, path_segment_name
from allhands.api.schema.numeric import json_text
from allhands.api.schema.structural import coerce_metadata

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from allhands.api.document import Json, Manifest

    Visit = Callable[[str, Mapping[str, Any], Json], Iterator[FieldError]]


_KEYS: Final = "x-kubernetes-list-map-keys"


def reduced(schema: Mapping[str, Any], keyword: str, values: tuple[Json, ...] = (True,)) -> Manifest | None:
    """The parts of a schema on the way to a keyword with one of the values, or with a list; None without any."""
    kept: Manifest = {}
    properties = {name: reduced(child, keyword, values) for name, child in (schema.get("properties") or {}).items()}
    if kept_properties := {name: child for name, child in properties.items() if child is not None}:
        kept["properties"] = kept_properties
    for word in ("items", "additionalProperties"):
        child = reduced(schema[word], keyword, values) if isinstance(schema.get(word), dict) else None
        if child is not None:
            kept[word] = child
    found = schema.get(keyword)
    if found and (isinstance(found, list) or found in values):
        kept[keyword] = found
        kept[_KEYS] = schema.get(_KEYS) or []
    return kept or None


def list_type_errors(schema: Mapping[str, Any], document: Json) -> list[FieldError]:
    """Items that occur twice in a list that is a set, or keys that do in a list that is a map."""
    return list(_walk("", schema, document, _list_errors))


def embedded_resource_errors(schema: Mapping[str, Any], document: Json) -> list[FieldError]:
    """What is wrong with the apiVersion, kind and metadata of resources inside the object."""
    return list(_walk("", schema, document, _resource_errors))


def _walk(path: str, schema: Mapping[str, Any], value: Json, visit: Visit) -> Iterator[FieldError]:
    if isinstance(value, dict):
        yield from visit(path, schema, value)
        properties = schema.get("properties") or {}
        additional = schema.get("additionalProperties")
        for key, item in value.items():
            if key in properties:
                yield from _walk(f"{path}.{key}" if path else key, properties[key], item, visit)
            elif isinstance(additional, dict):
                yield from _walk(f"{path}[{key}]", additional, item, visit)
    elif isinstance(value, list):
        yield from visit(path, schema, value)
        items = schema.get("items")
        if isinstance(items, dict):
            for index, item in enumerate(value):
                yield from _walk(f"{path}[{index}]", items, item, visit)


def _list_errors(path: str, schema: Mapping[str, Any], value: Json) -> Iterator[FieldError]:
    if not isinstance(value, list):
        return
    match schema.get("x-kubernetes-list-type"):
        case "set":
            for index in _repeated(value):
                yield duplicate(f"{path}[{index}]", value[index])
        case "map":
            yield from _map_errors(path, schema.get(_KEYS) or [], value)


def _map_errors(path: str, keys: list[str], items: list[Json]) -> Iterator[FieldError]:
    for index, item in enumerate(items):
        if item is not None and not isinstance(item, dict):
            yield invalid(f"{path}[{index}]", item, "must be an object for an array of list-type map")
            return
    found = [{key: item[key] for key in keys if key in item} if item else {} for item in items]
    for index in _repeated(found):
        yield duplicate(f"{path}[{index}]", found[index])


def _repeated(items: list[Json]) -> list[int]:
    """The first place at which each item that occurs more than once is repeated."""
    times: dict[str, int] = {}
    places = []
    for index, item in enumerate(items):
        text = json_text(_in_order(item))
        times[text] = times.get(text, 0) + 1
        if times[text] == 2:
            places.append(index)
    return places


def _in_order(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _in_order(value[key]) for key in sorted(value)}
    return [_in_order(item) for item in value] if isinstance(value, list) else value


def _resource_errors(path: str, schema: Mapping[str, Any], value: Json) -> Iterator[FieldError]:
    if not schema.get("x-kubernetes-embedded-resource") or not isinstance(value, dict):
        return
    dot = f"{path}." if path else ""
    for name in ("apiVersion", "kind"):
        if name not in value:
            yield required(f"{dot}{name}")
        elif not isinstance(value[name], str):
            yield invalid(f"{dot}{name}", value[name], "must be a string")
        elif not value[name]:
            yield invalid(f"{dot}{name}", "", "must not be empty")
    api_version, kind = value.get("apiVersion"), value.get("kind")
    if isinstance(api_version, str) and api_version.count("/") > 1:
        yield invalid(f"{dot}apiVersion", api_version, f"unexpected GroupVersion string: {api_version}")
    if isinstance(kind, str) and kind and (texts := dns1035_label(kind.lower())):
        text = f"may have mixed case, but should otherwise match: {','.join(texts)}"
        yield invalid(f"{dot}kind", kind, text)
    if "metadata" in value:
        yield from _metadata_errors(f"{dot}metadata", value["metadata"])


def _metadata_errors(path: str, metadata: Json) -> Iterator[FieldError]:
    checked = coerce_metadata(metadata)
    if checked.mismatch:
        yield invalid(path, metadata, checked.mismatch)
        return
    named = {"name": "fakename", **checked.document}
    errors = validate_metadata({"metadata": named}, namespaced="namespace" in named, name_check=path_segment_name)
    for error in errors:
        yield FieldError(error.fault, path + error.path.removeprefix("metadata"), error.value, error.detail)
