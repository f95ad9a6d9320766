"""Patch: an update whose new state is computed from the present one.

A patch that does not apply, or whose result is no object of the kind, is refused as the real server refuses it: with
the whole result quoted, because that is what a person needs to find the mistake.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from allhands.api.errors import StatusError, Telling, bad_request, go_quote, invalid, invalid_object, no_such_object
from allhands.api.patch.json_patch import json_patch
from allhands.api.patch.merge_patch import merge_patch, sort_fields_where_patched
from allhands.api.patch.strategic import strategic_merge_patch
from allhands.api.patch.values import go_text
from allhands.api.schema.diagnosis import Diagnosis
from allhands.ports import DEFAULT_WRITE, Document, PatchType, WriteOptions
from allhands.store import bodies
from allhands.store.ownership import stated_owners
from allhands.store.partial import patch_metadata, patch_spec, patch_status
from allhands.store.record import shown_manifest
from allhands.store.writing import check_name, replace, settle_namespace

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.api.kinds import Kind
    from allhands.ports import FieldValidation
    from allhands.store.record import Record
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
    try:
        return _patch(store, kind, record, patch_type, changes, options, subresource)
    except RecursionError:  # nothing is stored by then: what is put together is as deep as the patch
        raise bad_request("the patch is nested too deeply") from None


def _patch(
    store: Store,
    kind: Kind,
    record: Record,
    patch_type: PatchType,
    changes: Any,
    options: WriteOptions,
    subresource: str,
) -> Document:
    namespace, name = record.key
    if (done := _patch_part(store, kind, record, patch_type, changes, options, subresource)) is not None:
        return done
    patched = _apply(kind, shown_manifest(kind, record), patch_type, changes)
    if patch_type == "strategic":
        _ignore_stated_kind(kind, patched)
    elif not kind.custom and patched.get("apiVersion", "") == "":
        raise _without_version(patched, name, options.field_validation)
    shown = go_text(changes) if patch_type == "strategic" else _shown(patched)
    try:
        bodies.check_kind(kind, patched)
        document, warnings = bodies.in_normal_form(kind, patched, options.field_validation)
    except StatusError as refusal:
        if kind.custom:
            raise
        fault = refusal.message.partition(f"cannot be handled as a {kind.kind}: ")[2] or refusal.message
        found = Diagnosis(patched, kind.definition) if patch_type == "strategic" else None
        if found is None or found.conversion or found.unknown or not found.mismatch:
            # Of a strategic patch the result is converted, not decoded; the server words the same fault differently.
            fault = (found.conversion if found is not None else "") or fault
            raise invalid_object("", "", "", [invalid("patch", shown, fault)]) from None
        document, warnings = bodies.in_normal_form(kind, found.pruned, options.field_validation)
    with Telling(warnings):
        check_name(document["metadata"].get("name", ""), name)
        settle_namespace(kind, document["metadata"], namespace)
        return replace(store, kind, record, document, warnings, options, subresource, stated=stated_owners(patched))


def _patch_part(
    store: Store,
    kind: Kind,
    record: Record,
    patch_type: PatchType,
    changes: Any,
    options: WriteOptions,
    subresource: str,
) -> Document | None:
    """The answer, if the patch is about one part alone and plainly fine, and nobody's fields are tracked."""
    if record.is_tracked:
        return None
    if subresource == "status":
        if patch_type == "json":
            return None
        return patch_status(store, kind, record, changes, options, strategic=patch_type == "strategic")
    if patch_type != "merge" or options.submitter is not None:
        return None
    done = patch_metadata(store, kind, record, changes, options)
    return patch_spec(store, kind, record, changes, options) if done is None else done


def _apply(kind: Kind, document: Manifest, patch_type: PatchType, changes: Any) -> Manifest:
    match patch_type:
        case "json":
            patched = json_patch(document, changes)
        case "merge":
            patched = merge_patch(document, changes)
            sort_fields_where_patched(patched, changes)
        case "strategic" if kind.merge_schema is not None:
            patched = strategic_merge_patch(document, changes, kind.merge_schema)
        case _:
            raise unsupported_patch(kind)
    if not isinstance(patched, dict):
        raise bad_request("the patch does not leave an object")
    return patched


def _ignore_stated_kind(kind: Kind, patched: Manifest) -> None:
    """The server converts the result of a strategic patch into its own kind, whatever the patch said of it."""
    for field, own in (("apiVersion", kind.api_version), ("kind", kind.kind)):
        if isinstance(patched.get(field, ""), str):
            patched[field] = own


def _without_version(patched: Manifest, name: str, validation: FieldValidation) -> StatusError:
    """What is left without a version is read by the real server as if it knew none of its fields, its name neither."""
    unknown = [f"unknown field {go_quote(field)}" for field in sorted(patched) if field not in ("kind", "apiVersion")]
    if unknown and validation == "Strict":
        fault = f"strict decoding error: {', '.join(unknown)}"
        return invalid_object("", "", "", [invalid("patch", _shown(patched), fault)])
    refusal = bad_request(f"the name of the object ({name} based on URL) was undeterminable: name must be provided")
    refusal.warnings = () if validation == "Ignore" else tuple(unknown)
    return refusal


def unsupported_patch(kind: Kind) -> StatusError:
    accepted = ["application/json-patch+json", "application/merge-patch+json"]
    if kind.merge_schema is not None:
        accepted.append("application/strategic-merge-patch+json")
    message = f"the body of the request was in an unknown format - accepted media types include: {', '.join(accepted)}"
    return StatusError(415, "UnsupportedMediaType", message, {})


def _shown(patched: Manifest) -> str:
    """The result as the server quotes it: its top fields sorted, the rest as it was stored."""
    return msgspec.json.encode({name: patched[name] for name in sorted(patched)}).decode()
