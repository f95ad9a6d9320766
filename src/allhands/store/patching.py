"""Patch: an update whose new state is computed from the present one.

A patch that does not apply, or whose result is no object of the kind, is refused as the real server refuses it: with
the whole result quoted, because that is what a person needs to find the mistake.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from allhands.api.errors import StatusError, bad_request, invalid, invalid_object, no_such_object
from allhands.api.patch.json_patch import json_patch
from allhands.api.patch.merge_patch import merge_patch
from allhands.api.patch.strategic import strategic_merge_patch
from allhands.api.patch.values import go_text
from allhands.api.schema.definitions import definitions
from allhands.ports import DEFAULT_WRITE, Document, PatchType, WriteOptions
from allhands.store import bodies
from allhands.store.writing import replace, settle_namespace

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.api.kinds import Kind
    from allhands.store.store import Store


def patch(
    store: Store,
    kind: Kind,
    name: str,
    patch_type: PatchType,
    changes: Any,
    namespace: str,
    options: WriteOptions = DEFAULT_WRITE,
    *,
    subresource: str = "",
) -> Document:
    record = store.collection(kind).get((namespace if kind.namespaced else "", name))
    if record is None:
        raise no_such_object(kind.group, kind.resource.plural, name)
    patched = _apply(kind, record.manifest() | {"apiVersion": kind.api_version}, patch_type, changes)
    shown = go_text(changes) if patch_type == "strategic" else _shown(patched)
    try:
        bodies.check_kind(kind, patched)
        document, warnings = bodies.in_normal_form(kind, patched, options.field_validation)
    except StatusError as refusal:
        if kind.custom:
            raise
        fault = refusal.message.partition(f"cannot be handled as a {kind.kind}: ")[2] or refusal.message
        if patch_type == "strategic":
            fault = _as_conversion(fault)
        raise invalid_object("", "", "", [invalid("patch", shown, fault)]) from None
    stated = document["metadata"].get("name", "")
    if stated != name:
        raise bad_request(f"the name of the object ({stated}) does not match the name on the URL ({name})")
    settle_namespace(kind, document["metadata"], namespace)
    return replace(store, kind, record, document, warnings, options, subresource)


def _apply(kind: Kind, document: Manifest, patch_type: PatchType, changes: Any) -> Manifest:
    match patch_type:
        case "json":
            patched = json_patch(document, changes)
        case "merge":
            patched = merge_patch(document, changes)
        case "strategic" if kind.merge_schema is not None:
            patched = strategic_merge_patch(document, changes, kind.merge_schema)
        case _:
            raise unsupported_patch(kind)
    if not isinstance(patched, dict):
        raise bad_request("the patch does not leave an object")
    return patched


def unsupported_patch(kind: Kind) -> StatusError:
    accepted = ["application/json-patch+json", "application/merge-patch+json"]
    if kind.merge_schema is not None:
        accepted.append("application/strategic-merge-patch+json")
    message = f"the body of the request was in an unknown format - accepted media types include: {', '.join(accepted)}"
    return StatusError(415, "UnsupportedMediaType", message, {})


def _shown(patched: Manifest) -> str:
    """The result as the server quotes it: its top fields sorted, the rest as it was stored."""
    return msgspec.json.encode({name: patched[name] for name in sorted(patched)}).decode()


_DECODING_FAULT = re.compile(r"json: cannot unmarshal (\w+)(?: (\S+))? into Go struct field \S+ of type (\S+)$")
_GO_NAMES = {"number": "int64", "array": "slice", "object": "map"}
_GO_NUMBERS = frozenset({"int32", "int64", "uint8", "float64"})


def _as_conversion(fault: str) -> str:
    """The result of a strategic patch is converted, not decoded, and the server words the same fault differently."""
    found = _DECODING_FAULT.match(fault)
    if found is None:
        return fault
    given, literal, wanted = found.groups("")
    source = "float64" if "." in literal else _GO_NAMES.get(given, given)
    if wanted.startswith(("[]", "map[")):
        return f"cannot restore {'slice' if wanted.startswith('[]') else 'map'} from {source}"
    if any(name.endswith(f".{wanted}") for name in definitions()):
        return f"cannot restore struct from: {source}"
    # What is left are plain types, and names for texts.
    kind = wanted if wanted in _GO_NUMBERS or wanted == "bool" else "string"
    if (source == "int64" and kind == "string") or (source == "float64" and kind in _GO_NUMBERS):
        return f"cannot convert {source} to {wanted}"
    return f"unrecognized type: {kind}"
