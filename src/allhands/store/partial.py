"""Patches that leave most of an object as it is: the status alone, the metadata alone, or the spec of a lease.

This is nearly all that a running cluster writes: kubelets report, controllers count, finalizers go. What the patch does
not touch stays the text that it is. Only what is plainly fine is done here; for anything else the answer is None, and
the whole object goes the long way, which knows every refusal.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

import msgspec

from allhands.api.errors import StatusError
from allhands.api.patch.merge_patch import merge_patch
from allhands.api.patch.strategic import strategic_merge_patch
from allhands.api.schema.definitions import definitions, referenced
from allhands.api.schema.typed import TypedSchema, drop_nulls
from allhands.store.admission import admit_update
from allhands.store.envelope import closed, in_order, rewritten, texts_of, with_metadata
from allhands.store.metadata_checks import errors_of_change
from allhands.store.record import answered
from allhands.store.writing import keep_server_metadata, put

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.api.kinds import Kind
    from allhands.ports import Document, WriteOptions
    from allhands.store.record import Record
    from allhands.store.store import Store

_PRECONDITIONS: Final = frozenset({"uid", "resourceVersion"})
_PLAIN_METADATA: Final = _PRECONDITIONS | {"labels", "annotations", "finalizers", "ownerReferences"}
"""What a client may say of metadata, and the server does not know better."""
_INDEXED_METADATA: Final = frozenset({"labels", "ownerReferences"})
_NULL: Final = b"null"
_NEVER_PROBED: Final = b'"lastProbeTime":null,'
KNOWN_SPECS: Final = 1024


@functools.cache
def _part_schema(definition: str, part: str) -> TypedSchema | None:
    declared = definitions().get(definition, {}).get("properties", {}).get(part)
    name = referenced(declared) if declared is not None else None
    return None if name is None else TypedSchema(name)


def _stands(metadata: Any, record: Record) -> bool:
    """Whether what the patch says of the object's identity is so, and it says nothing else about metadata."""
    if not isinstance(metadata, dict) or not metadata.keys() <= _PRECONDITIONS:
        return False
    if "resourceVersion" in metadata and metadata["resourceVersion"] != str(record.version):
        return False
    return bool(metadata.get("uid", record.uid) == record.uid)


def patch_status(
    store: Store, kind: Kind, record: Record, changes: Any, options: WriteOptions, *, strategic: bool = False
) -> Document | None:
    schema = None if kind.custom else _part_schema(kind.definition, "status")
    if schema is None or not isinstance(changes, dict) or not isinstance(changes.get("status"), dict):
        return None
    if not changes.keys() <= {"status", "metadata"} or not _stands(changes.get("metadata", {}), record):
        return None
    try:
        texts = texts_of(record.raw)
    except msgspec.MsgspecError:
        return None
    metadata, spec = msgspec.json.decode(texts.metadata), bytes(texts.spec)
    rules = kind.rules
    knows = rules.default_status is not None
    old = _document(kind, metadata, known_spec(spec) if knows else _worked(spec), _worked(bytes(texts.status) or b"{}"))
    try:
        if strategic:
            before, wanted = {"status": old["status"]}, {"status": changes["status"]}
            merged = strategic_merge_patch(before, wanted, kind.merge_schema)["status"]
        else:
            merged = _merged(old["status"], changes["status"])
        status = schema.normal_form(merged)
    except (msgspec.ValidationError, StatusError, KeyError):
        return None  # also where a directive leaves no status
    new = _document(kind, metadata, old["spec"], status)
    (rules.default_status or rules.default)(new)
    rules.prepare_status(new, old)
    if rules.validate_status(new, old):
        return None
    if new["status"] == old["status"]:
        return answered(kind, record)
    fields = tuple(kind.select(new))
    text = schema.encoded_finished(new["status"])
    at = None if options.dry_run or "deletionTimestamp" in metadata else rewritten(texts, spec, text)
    if at is None:
        return put(store, kind, record, closed(kind, metadata, spec, text), (), options, fields)
    return answered(kind, store.commit_text(store.collection(kind), record, at, fields))


def patch_spec(store: Store, kind: Kind, record: Record, changes: Any, options: WriteOptions) -> Document | None:
    """Of kinds that are nothing but a spec, such as leases, which every node renews all the time."""
    if kind.custom or kind.has_status or kind.has_generation or options.dry_run:
        return None
    schema = _part_schema(kind.definition, "spec")
    if schema is None or not isinstance(changes, dict) or changes.keys() != {"spec"}:
        return None
    if not isinstance(changes["spec"], dict):
        return None
    try:
        texts = texts_of(record.raw)
    except msgspec.MsgspecError:
        return None
    metadata = msgspec.json.decode(texts.metadata)
    if texts.status or "deletionTimestamp" in metadata:
        return None
    head = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata}
    old = head | {"spec": _worked(bytes(texts.spec))}
    try:
        new = head | {"spec": schema.normal_form(_merged(old["spec"], changes["spec"]))}
    except msgspec.ValidationError:
        return None
    kind.rules.default(new)
    admit_update(kind, new, old)
    kind.rules.prepare_update(new, old)
    if kind.rules.validate_update(new, old):
        return None
    if new["spec"] == old["spec"]:
        return answered(kind, record)
    at = rewritten(texts, schema.encoded_finished(new["spec"]), b"")
    if at is None:
        return None
    fields = tuple(kind.select(new))
    return answered(kind, store.commit_text(store.collection(kind), record, at, fields))


def _merged(target: Manifest, patch: Manifest) -> Manifest:
    """A merge patch without a copy of what it leaves, for a schema to work on: that makes new values of everything, and
    drops nulls inside of lists."""
    merged = dict(target)
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, dict):
            before = merged.get(name)
            merged[name] = _merged(before if isinstance(before, dict) else {}, value)
        else:
            merged[name] = value
    return merged


def _worked(text: bytes) -> Any:
    # Nearly all nulls are these, and no JSON text reads so but for a field that is null.
    text = text.replace(_NEVER_PROBED, b"")
    decoded = msgspec.json.decode(text)
    return drop_nulls(decoded) if _NULL in text else decoded


@functools.lru_cache(maxsize=KNOWN_SPECS)
def known_spec(text: bytes) -> Any:
    """A stored spec for rules to read, and for nobody to change: the next report about the pod, or about one like it,
    comes soon."""
    return _worked(text)


def _document(kind: Kind, metadata: Manifest, spec: Any, status: Any) -> Manifest:
    return {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata, "spec": spec, "status": status}


def patch_metadata(store: Store, kind: Kind, record: Record, changes: Any, options: WriteOptions) -> Document | None:
    if kind.custom or not isinstance(changes, dict) or changes.keys() != {"metadata"} or kind.generation_follows:
        return None
    if not isinstance(changes["metadata"], dict) or "managedFields" in changes["metadata"]:
        return None
    identity = {name: value for name, value in changes["metadata"].items() if name in _PRECONDITIONS}
    if not _stands(identity, record):
        return None
    try:
        texts = texts_of(record.raw)
        old = msgspec.json.decode(texts.metadata)
        metadata = merge_patch(old, changes["metadata"])
        if not changes["metadata"].keys() <= _PLAIN_METADATA:
            metadata = in_order(metadata)  # whatever it says, it must have the right shape
        keep_server_metadata(metadata, old)
        metadata = in_order(metadata)
    except msgspec.MsgspecError:
        return None
    if kind.rules.metadata_decides(metadata) or kind.rules.metadata_decides(old):
        return None
    if errors_of_change(kind, {"metadata": metadata}, {"metadata": old}):
        return None
    if metadata == old:
        return answered(kind, record)
    if options.dry_run or "deletionTimestamp" in metadata or not _INDEXED_METADATA.isdisjoint(changes["metadata"]):
        if not texts.status:
            return None
        document = closed(kind, metadata, bytes(texts.spec), bytes(texts.status))
        return put(store, kind, record, document, (), options, record.fields)
    at = with_metadata(record.raw, texts, metadata)
    return answered(kind, store.commit_text(store.collection(kind), record, at, record.fields))
