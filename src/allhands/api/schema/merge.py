"""Merge keys of built-in kinds, for strategic-merge patches: a view of the published definitions."""

from __future__ import annotations

import functools
from typing import Any

from allhands.api.patch.strategic import FieldMerge
from allhands.api.schema.definitions import definitions, referenced, schema_type


class DefinitionMerge:
    """How the fields of one definition are merged."""

    def __init__(self, definition: str) -> None:
        self._definition = definition
        self._fields: dict[str, FieldMerge | None] = {}

    def field(self, name: str) -> FieldMerge | None:
        """How to merge the named field; None if the definition has no such field."""
        if name not in self._fields:
            schema = definitions()[self._definition].get("properties", {}).get(name)
            self._fields[name] = None if schema is None else _field_merge(schema)
        return self._fields[name]


def _field_merge(schema: dict[str, Any]) -> FieldMerge:
    strategies = schema.get("x-kubernetes-patch-strategy", "")
    return FieldMerge(
        strategies=frozenset(strategies.split(",")) if strategies else frozenset(),
        merge_key=schema.get("x-kubernetes-patch-merge-key", ""),
        child=_child(schema),
    )


@functools.cache
def _merge_of(definition: str) -> DefinitionMerge:
    return DefinitionMerge(definition)


def _child(schema: dict[str, Any]) -> DefinitionMerge | None:
    """The definition of an object field, of a list's items or of a map's values."""
    name = referenced(schema)
    if name is None and schema_type(schema) == "array":
        name = referenced(schema["items"])
    if name is None and isinstance(schema.get("additionalProperties"), dict):
        name = referenced(schema["additionalProperties"])
    if name is None or "properties" not in definitions()[name]:
        return None
    return _merge_of(name)
