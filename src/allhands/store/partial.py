"""Merge patches that leave most of an object as it is: the status alone, or the metadata alone.

This is nearly all that a running cluster writes: kubelets report, controllers count, finalizers go. What the patch does
not touch stays the text that it is. Only what is plainly fine is done here; for anything else the answer is None, and
the whole object goes the long way, which knows every refusal.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

import msgspec

from allhands.api.metadata import validate_metadata_update
from allhands.api.patch.merge_patch import merge_patch
from allhands.api.schema.definitions import definitions, referenced
from allhands.api.schema.typed import TypedSchema, drop_nulls
from allhands.ports import Document
from allhands.store.envelope import closed, in_order, stored
from allhands.store.record import shown
from allhands.store.writing import keep_server_metadata, put

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.api.kinds import Kind
    from allhands.ports import WriteOptions
    from allhands.store.record import Record
    from allhands.store.store import Store

_PRECONDITIONS: Final = frozenset({"uid", "resourceVersion"})
_NULL: Final = b"null"


@functools.cache
def _status_schema(definition: str) -> TypedSchema | None:
    status = definitions().get(definition, {}).get("properties", {}).get("status")
    name = referenced(status) if status is not None else None
    return None if name is None else TypedSchema(name)


def _stands(metadata: Any, record: Record) -> bool:
    """Whether what the patch says of the object's identity is so, and it says nothing else about metadata."""
    if not isinstance(metadata, dict) or not metadata.keys() <= _PRECONDITIONS:
        return False
    version = metadata.get("resourceVersion", str(record.version))
    return bool(metadata.get("uid", record.uid) == record.uid and version == str(record.version))


def patch_status(store: Store, kind: Kind, record: Record, changes: Any, options: WriteOptions) -> Document | None:
    schema = None if kind.custom else _status_schema(kind.definition)
    if schema is None or not isinstance(changes, dict) or not isinstance(changes.get("status"), dict):
        return None
    if not changes.keys() <= {"status", "metadata"} or not _stands(changes.get("metadata", {}), record):
        return None
    try:
        envelope = stored(record.raw)
    except msgspec.MsgspecError:
        return None
    old = _document(kind, envelope.metadata, _worked(bytes(envelope.spec)), _worked(bytes(envelope.status)))
    try:
        status = schema.normal_form(merge_patch(old["status"], changes["status"]))
    except msgspec.ValidationError:
        return None
    new = _document(kind, envelope.metadata, old["spec"], status)
    kind.rules.default(new)
    kind.rules.prepare_status(new, old)
    if kind.rules.validate_status(new, old):
        return None
    if new["status"] == old["status"]:
        return Document(shown(kind, record.raw))
    fields = tuple(kind.select(new))
    document = closed(kind, dict(envelope.metadata), bytes(envelope.spec), schema.encoded(new["status"]))
    return put(store, kind, record, document, (), options, fields)


def _worked(text: bytes) -> Any:
    decoded = msgspec.json.decode(text)
    return drop_nulls(decoded) if _NULL in text else decoded


def _document(kind: Kind, metadata: Manifest, spec: Any, status: Any) -> Manifest:
    return {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata, "spec": spec, "status": status}


def patch_metadata(store: Store, kind: Kind, record: Record, changes: Any, options: WriteOptions) -> Document | None:
    if kind.custom or not isinstance(changes, dict) or changes.keys() != {"metadata"} or kind.generation_follows:
        return None
    if not isinstance(changes["metadata"], dict):
        return None
    identity = {name: value for name, value in changes["metadata"].items() if name in _PRECONDITIONS}
    if not _stands(identity, record):
        return None
    try:
        envelope = stored(record.raw)
        metadata = in_order(merge_patch(envelope.metadata, changes["metadata"]))
    except msgspec.MsgspecError:
        return None
    old = envelope.metadata
    if kind.rules.metadata_decides(metadata) or kind.rules.metadata_decides(old):
        return None
    keep_server_metadata(metadata, old)
    if validate_metadata_update({"metadata": metadata}, {"metadata": old}):
        return None
    if metadata == old:
        return Document(shown(kind, record.raw))
    document = closed(kind, in_order(metadata), bytes(envelope.spec), bytes(envelope.status))
    return put(store, kind, record, document, (), options, record.fields)
