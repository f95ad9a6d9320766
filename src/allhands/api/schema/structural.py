"""The normal form of custom kinds: what the server makes of a document under a structural OpenAPI schema.

Unknown fields go, nulls that may not be go or become the default, absent fields get theirs, and metadata takes the form
of ObjectMeta, also inside embedded resources. The schema is compiled once; checking walks the document once and builds
a new one. Whether the values are right is not asked here but in `values`. The input is never changed.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

import msgspec

from allhands.api.errors import OMITTED, invalid
from allhands.api.kinds import Checked
from allhands.api.schema.definitions import META
from allhands.api.schema.diagnosis import Diagnosis
from allhands.api.schema.typed import TypedSchema, drop_nulls

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allhands.api.document import Json, Manifest

OBJECT_META: Final = META + "ObjectMeta"
_META_FIELDS: Final = frozenset({"apiVersion", "kind", "metadata"})
_NO_DEFAULT: Final = object()
_CONTAINERS: Final = (dict, list)


class StructuralShape:
    """The shape of one version of a custom kind. It is compiled when the first object comes."""

    def __init__(self, schema: Manifest | None) -> None:
        self._schema = schema or {}

    @functools.cached_property
    def _root(self) -> _Node:
        return _Node(self._schema, root=True)

    def check(self, document: Manifest) -> Checked:
        metadata = coerce_metadata(document.get("metadata"))
        if metadata.mismatch:
            return metadata
        notes: list[_Note] = []
        try:
            formed = self._root.form_object(document, notes)
        except RecursionError:
            return Checked({}, mismatch="exceeded max depth")
        formed["metadata"] = metadata.document
        if not notes and not metadata.unknown:
            return Checked(formed)
        for note in notes:
            if note.malformed is not OMITTED:
                return Checked({}, mismatch=str(invalid(note.path, note.malformed, note.detail)))
        unknown = [f"metadata.{path}" for path in metadata.unknown]
        unknown += sorted(note.path for note in notes if not note.in_metadata)
        unknown += sorted(note.path for note in notes if note.in_metadata)
        return Checked(formed, unknown)

    def decoded(self, body: bytes) -> Manifest | None:
        del body  # nothing is won by decoding apart from checking
        return None

    def encoded(self, document: Manifest) -> bytes:
        return msgspec.json.encode(document)

    def worked_form(self, stored: Manifest) -> Manifest:
        return dict(stored)


@functools.cache
def _object_meta() -> TypedSchema:
    return TypedSchema(OBJECT_META)


def coerce_metadata(metadata: Json) -> Checked:
    """Metadata as ObjectMeta would decode and encode it."""
    if metadata is None:
        return Checked({})
    if not isinstance(metadata, dict):
        name = {list: "array", str: "string", bool: "bool"}.get(type(metadata), "number")
        return Checked({}, mismatch=f"json: cannot unmarshal {name} into Go value of type v1.ObjectMeta")
    try:
        return Checked(_object_meta().normal_form(metadata))
    except msgspec.ValidationError:
        diagnosis = Diagnosis(metadata, OBJECT_META)
    if diagnosis.mismatch:
        return Checked({}, mismatch=diagnosis.mismatch)
    return Checked(_object_meta().normal_form(drop_nulls(diagnosis.pruned)), diagnosis.unknown)


class _Note(msgspec.Struct):
    """A field that was dropped, or a value that cannot be decoded. Its path grows on the way up from where it was."""

    path: str
    in_metadata: bool = False
    malformed: Json = OMITTED
    detail: str = ""


def _below(part: str, notes: list[_Note], first: int, *, key_of_map: bool = False) -> None:
    """Puts the name of the parent in front of the notes that came up from it."""
    for note in notes[first:]:
        parent = f"[{part}]" if key_of_map and note.malformed is not OMITTED else part
        joint = "" if note.path.startswith("[") else "."
        note.path = f"{parent}{joint}{note.path}"


def _copied(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copied(item) for item in value]
    return value


class _Node:
    """One level of a schema, compiled."""

    __slots__ = ("additional", "children", "default", "defaults", "embedded", "items", "nullable", "preserves", "root")

    def __init__(self, schema: Mapping[str, Any], *, root: bool = False, preserves: bool = False) -> None:
        self.root = root
        self.nullable = bool(schema.get("nullable"))
        self.preserves = preserves or bool(schema.get("x-kubernetes-preserve-unknown-fields"))
        self.embedded = bool(schema.get("x-kubernetes-embedded-resource"))
        nodes = {name: _Node(child) for name, child in (schema.get("properties") or {}).items()}
        self.defaults = [(name, node.default) for name, node in nodes.items() if node.default is not _NO_DEFAULT]
        # What a resource always has is not pruned by what its schema says of it.
        self.children = {n: node for n, node in nodes.items() if not ((root or self.embedded) and n in _META_FIELDS)}
        # A list that keeps unknown fields keeps those of its items.
        items = schema.get("items")
        self.items = None if items is None else _Node(items, preserves=self.preserves)
        additional = schema.get("additionalProperties")
        self.additional = _Node(additional) if isinstance(additional, dict) else None
        if isinstance(additional, bool):
            self.additional = _NOTHING
        default = schema.get("default")
        self.default: Any = _NO_DEFAULT if default is None else self.form(default, [])

    def form(self, value: Json, notes: list[_Note]) -> Json:
        if isinstance(value, dict):
            return self.form_object(value, notes)
        if isinstance(value, list):
            return self._form_list(value, notes)
        return value

    def form_object(self, value: dict[str, Any], notes: list[_Note]) -> dict[str, Any]:
        children = self.children
        formed: dict[str, Any] = {}
        for key, item in value.items():
            child = children.get(key)
            if child is None:
                self._form_other(key, item, formed, notes)
            elif item is None:
                if child.nullable:
                    formed[key] = None
            elif isinstance(item, _CONTAINERS):
                before = len(notes)
                formed[key] = child.form(item, notes)
                if len(notes) > before:
                    _below(key, notes, before)
            else:
                formed[key] = item
        for key, default in self.defaults:
            if key not in formed:
                formed[key] = _copied(default)
        if self.embedded and not self.root:
            _coerce_embedded(formed, notes)
        return formed

    def _form_other(self, key: str, item: Json, formed: dict[str, Any], notes: list[_Note]) -> None:
        """A field that the schema does not name."""
        if (self.root or self.embedded) and key in _META_FIELDS:
            formed[key] = item
        elif self.additional is not None:
            self._form_additional(self.additional, key, item, formed, notes)
        elif self.preserves:
            formed[key] = _copied(item)
        else:
            notes.append(_Note(key))

    @staticmethod
    def _form_additional(node: _Node, key: str, item: Json, formed: dict[str, Any], notes: list[_Note]) -> None:
        if item is not None:
            before = len(notes)
            formed[key] = node.form(item, notes)
            if len(notes) > before:
                _below(key, notes, before, key_of_map=True)
        elif node.nullable or node is _NOTHING:
            formed[key] = None
        elif node.default is not _NO_DEFAULT:
            formed[key] = _copied(node.default)

    def _form_list(self, value: list[Any], notes: list[_Note]) -> list[Any]:
        node = self.items
        if node is None:
            if self.preserves:
                return [_copied(item) for item in value]
            node = _NOTHING
        formed: list[Any] = []
        for index, item in enumerate(value):
            if isinstance(item, _CONTAINERS):
                before = len(notes)
                formed.append(node.form(item, notes))
                if len(notes) > before:
                    _below(f"[{index}]", notes, before)
            elif item is None and not node.nullable and node.default is not _NO_DEFAULT:
                formed.append(_copied(node.default))
            else:
                formed.append(item)
        return formed


_NOTHING: Final[_Node] = _Node({})
"""The schema of what is allowed to be there, but not to have fields of its own: `additionalProperties: true`."""


def _coerce_embedded(resource: dict[str, Any], notes: list[_Note]) -> None:
    notes += [
        _Note(name, malformed=resource[name], detail="must be a string")
        for name in ("apiVersion", "kind")
        if name in resource and not isinstance(resource[name], str)
    ]
    if "metadata" not in resource:
        return
    checked = coerce_metadata(resource["metadata"])
    if checked.mismatch:
        notes.append(_Note("metadata", malformed=resource["metadata"], detail=checked.mismatch))
        return
    resource["metadata"] = checked.document
    notes += [_Note(f"metadata.{path}", in_metadata=True) for path in checked.unknown]
