"""Create and update: the path that every change of an object takes.

Read the body, take over what only the server may set, apply defaults and admission, validate, store. Steps and their
order are the real server's, because errors overtake each other in that order and clients see which comes first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from allhands.api.builtin.pod_warnings import pod_warnings, warns
from allhands.api.builtin.service_warnings import service_warnings
from allhands.api.errors import (
    FieldError,
    StatusError,
    Telling,
    already_exists,
    bad_request,
    conflict,
    go_quote,
    invalid,
    invalid_object,
    no_such_object,
)
from allhands.api.names import path_segment_name
from allhands.api.rules import never
from allhands.ports import DEFAULT_WRITE, Document, WriteOptions
from allhands.store import bodies
from allhands.store.admission import (
    admit_create,
    admit_custom_update,
    admit_namespace,
    admit_update,
    admit_valid,
    admit_valid_update,
)
from allhands.store.deleting import delete_followers
from allhands.store.envelope import closed, in_order, opened, stored
from allhands.store.metadata_checks import errors_of_change, errors_of_new
from allhands.store.ownership import after_change, after_create, after_update, own, stated_owners
from allhands.store.record import Record, answered, make_record, shown_manifest, stored_manifest
from allhands.store.resizing import admit_resize
from allhands.store.service_numbers import SERVICES

if TYPE_CHECKING:
    from collections.abc import Callable

    from allhands.api.document import Json, Manifest
    from allhands.api.kinds import Kind
    from allhands.lifecycle.quota_admission import Charging
    from allhands.store.collection import Collection
    from allhands.store.memo import Known, Twin
    from allhands.store.store import Store

MAX_GENERATED_PREFIX = 58
NAME_TRIES = 8
_MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"
_NULL = b":null"
_MARKS = ("deletionTimestamp", "deletionGracePeriodSeconds")
_NOT_YET = "0"
"""The version of an object that is not stored yet; it keeps the field's place."""


class _Draft(msgspec.Struct):
    """A new object on its way: from a body that was read whole, or from a twin that was finished before."""

    document: Manifest
    warnings: tuple[str, ...] = ()
    twin: Twin | None = None
    known: Known | None = None
    """Under which to remember what becomes of it."""
    owners: list[Manifest] | None = None
    """Of its fields, if they are known."""


def _draft(store: Store, kind: Kind, body: Manifest | bytes, ns: str, options: WriteOptions) -> _Draft:
    known: Known | None = None
    worth_it = kind.rules.spec_decides is not never and not options.tracked
    envelope = opened(kind, body) if worth_it else None
    if envelope is not None and not kind.rules.metadata_decides(envelope.metadata) and ns not in store.limited:
        known = store.memo.look_up(kind, bytes(envelope.spec))
        if known.twin is not None:
            return _Draft(closed(kind, envelope.metadata, known.spec(), known.twin.status), twin=known.twin)
    document, warnings = bodies.read(kind, body, options.field_validation)
    # A spec with unknown fields must be complained about every time.
    return _Draft(document, warnings, known=None if warnings or options.field_validation == "Ignore" else known)


def create(
    store: Store, kind: Kind, body: Manifest | bytes, namespace: str, options: WriteOptions = DEFAULT_WRITE
) -> Document:
    draft = _draft(store, kind, body, namespace, options)
    with Telling(draft.warnings):
        return _create(store, kind, draft, namespace, options)


def create_applied(
    store: Store, kind: Kind, document: Manifest, namespace: str, options: WriteOptions, owners: list[Manifest]
) -> Document:
    """An object that came into being because somebody applied it."""
    return _create(store, kind, _Draft(document, owners=owners), namespace, options, by_update=True)


def _create(
    store: Store, kind: Kind, draft: _Draft, namespace: str, options: WriteOptions, *, by_update: bool = False
) -> Document:
    document, metadata = draft.document, draft.document["metadata"]
    settle_namespace(kind, metadata, namespace)
    collection = store.collection(kind)
    if options.tracked and draft.owners is None:
        draft.owners = after_create(store, kind, document, options, () if by_update else _MARKS)
    _name(store, collection, metadata)
    admit_namespace(kind, document, store.lookup)
    stated_version = metadata.get("resourceVersion")
    _birth(store, kind, metadata, by_update=by_update)
    errors = errors_of_new(kind, document) if draft.twin else _complete(store, kind, document, options)
    _refuse_if(kind, document, errors)
    draft.warnings += _odd_values(kind, document, None, options)
    admit_valid(kind, document, store.lookup)
    if options.submitter is not None:
        store.check_submitter(kind, document, None, options.submitter, by_update=by_update)
    charged: list[Charging] | None = None
    if metadata.get("namespace") in store.limited:
        store.limits.check_ranges(kind, document)
        charged = store.limits.charge(kind, document)
    if stated_version and not by_update and not options.dry_run and _is_number(stated_version):
        raise StatusError(500, "", "resourceVersion should not be set on objects to be created")
    present = collection.get((metadata.get("namespace", ""), metadata["name"]))
    if present is not None:
        refusal = already_exists(kind.group, kind.resource.plural, metadata["name"])
        if present.is_marked:
            refusal.message = f"object is being deleted: {refusal.message}"
        raise refusal
    finished = draft.twin is not None
    if draft.owners:
        metadata["managedFields"] = draft.owners
    if options.dry_run:
        metadata.pop("resourceVersion")
        if stated_version:
            metadata["resourceVersion"] = stated_version  # a dry run gives back what it was given
        raw = msgspec.json.encode(document) if finished else kind.shape.encoded(document)
        return Document(raw, draft.warnings, created=True)
    fields = draft.twin.fields if draft.twin else None
    record = store.commit(collection, None, stored_manifest(kind, document), fields, finished=finished)
    if charged:
        store.limits.note_charged(charged)
    if draft.known is not None:
        store.memo.put(draft.known, kind, document, record)
    return answered(kind, record, draft.warnings, created=True)


def _complete(store: Store, kind: Kind, document: Manifest, options: WriteOptions) -> list[FieldError]:
    """Everything the server adds to a new object, and what it says against it."""
    if kind.has_status and not kind.keeps_first_status:
        document.pop("status", None)
    kind.rules.default(document)
    if document["metadata"].get("namespace") in store.limited:
        store.limits.complete(kind, document)
    admit_create(kind, document, store.lookup)
    if kind.resource == SERVICES:
        store.service_numbers.allocate(document, None, dry_run=options.dry_run)
    errors = errors_of_new(kind, document)
    kind.rules.prepare_create(document)
    own = kind.rules.validate_create(document)
    # Kinds whose own rules leave metadata alone have it checked only once those rules are content.
    return own if own and kind.name_check is path_segment_name else errors + own


def _odd_values(kind: Kind, new: Manifest, old: Manifest | None, options: WriteOptions) -> tuple[str, ...]:
    """Warnings about what was accepted, when something was asked for anew; the cluster's own parts do not read them."""
    if options.tracked and kind.resource == SERVICES:
        return service_warnings(new)
    if not options.tracked or kind.custom or not warns(kind.kind):
        return ()
    if old is not None and _desired_state(kind, new) == _desired_state(kind, old):
        return ()
    return pod_warnings(kind.kind, new)


def settle_namespace(kind: Kind, metadata: Manifest, namespace: str) -> None:
    """The namespace of the URL goes into the object; one that says otherwise is refused. Where there are no namespaces,
    one that is stated means nothing."""
    if not kind.namespaced:
        metadata.pop("namespace", None)
        return
    stated = metadata.get("namespace") or namespace
    if stated != namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    if namespace:
        metadata["namespace"] = namespace


def _name(store: Store, collection: Collection, metadata: Manifest) -> None:
    prefix = metadata.get("generateName", "")
    if metadata.get("name") or not prefix:
        return
    namespace = metadata.get("namespace", "")
    for _ in range(NAME_TRIES):
        metadata["name"] = prefix[:MAX_GENERATED_PREFIX] + store.ids.suffix()
        if collection.get((namespace, metadata["name"])) is None:
            return


def _birth(store: Store, kind: Kind, metadata: Manifest, *, by_update: bool) -> None:
    """What the server alone says of a new object. One that an update or an apply makes may say that it is to go."""
    metadata["uid"] = store.ids.uid()
    metadata["creationTimestamp"] = store.now()
    metadata["resourceVersion"] = _NOT_YET
    for owned in ("selfLink", "managedFields", *(() if by_update else _MARKS)):
        metadata.pop(owned, None)
    if kind.has_generation:
        metadata["generation"] = 1


def update(
    store: Store,
    kind: Kind,
    name: str,
    body: Manifest | bytes,
    namespace: str,
    options: WriteOptions = DEFAULT_WRITE,
    *,
    subresource: str = "",
) -> Document:
    collection = store.collection(kind)
    record = collection.get((namespace if kind.namespaced else "", name))
    stated = stated_owners(body)
    if record is not None and not subresource and kind.rules.spec_decides is not never and stated is None:
        done = _update_metadata(store, kind, record, body, namespace, options)
        if done is not None:
            return done
    document, warnings = bodies.read(kind, body, options.field_validation)
    with Telling(warnings):
        _check_address(kind, document["metadata"], name, namespace)
        if record is None:
            if not kind.allow_create_on_update or subresource:
                raise no_such_object(kind.group, kind.resource.plural, name)
            if document["metadata"].get("uid"):
                key = (document["metadata"].get("namespace", ""), name)
                raise _wrong_uid(kind, key, document["metadata"]["uid"], "", dry_run=options.dry_run)
            _refuse_odd_version(document["metadata"].get("resourceVersion"))
            return _create(store, kind, _Draft(document, warnings), namespace, options, by_update=True)
        check_uid(kind, document["metadata"].get("uid", ""), record, dry_run=options.dry_run)
        return replace(store, kind, record, document, warnings, options, subresource, stated=stated)


def _check_address(kind: Kind, metadata: Manifest, name: str, namespace: str) -> None:
    """The object must be the one that the URL names."""
    settle_namespace(kind, metadata, namespace)
    check_name(metadata.get("name", ""), name)


def check_name(stated: str, name: str) -> None:
    """The name that an object states must be that of the URL."""
    if not stated:
        raise bad_request(f"the name of the object ({name} based on URL) was undeterminable: name must be provided")
    if stated != name:
        raise bad_request(f"the name of the object ({stated}) does not match the name on the URL ({name})")


def _update_metadata(
    store: Store, kind: Kind, record: Record, body: Manifest | bytes, namespace: str, options: WriteOptions
) -> Document | None:
    """The update, if the body's spec is the stored one to the letter and the rules do not read its metadata."""
    if options.submitter is not None:
        return None  # whose rights are looked at, the whole object is
    new, old = opened(kind, body), stored(record.raw)
    if new is None or bytes(new.spec) != bytes(old.spec) or "managedFields" in old.metadata:
        return None
    if kind.rules.metadata_decides(new.metadata) or kind.rules.metadata_decides(old.metadata):
        return None
    metadata = new.metadata
    _check_address(kind, metadata, record.key[1], namespace)
    check_uid(kind, metadata.get("uid", ""), record, dry_run=options.dry_run)
    document = closed(kind, metadata, bytes(old.spec), bytes(old.status))
    _check_version(kind, document, record)
    keep_server_metadata(metadata, old.metadata)
    _refuse_if(kind, document, errors_of_change(kind, {"metadata": metadata}, {"metadata": old.metadata}))
    if metadata == old.metadata:
        return answered(kind, record)
    document["metadata"] = in_order(metadata)
    return put(store, kind, record, document, (), options, record.fields)


def replace(
    store: Store,
    kind: Kind,
    record: Record,
    new: Manifest,
    warnings: tuple[str, ...],
    options: WriteOptions,
    subresource: str,
    *,
    stated: Json = None,
    owners: list[Manifest] | None = None,
) -> Document:
    """Puts `new` in the place of `record`, as far as a client may. `stated` are the owners of fields that the request
    names; `owners` those that are known already."""
    _check_version(kind, new, record)
    if owners is None:
        owners = after_update(store, kind, record, new, stated, options, subresource)
    old = shown_manifest(kind, record)
    if _NULL in record.raw:
        old = kind.shape.worked_form(old)
    if not subresource:
        admit_custom_update(kind, new, store.lookup)
    if subresource == "status":
        errors = _update_status(kind, new, old)
    elif subresource:
        errors = _update_part(kind, new, old, subresource)
    else:
        errors = _update_object(store, kind, new, old, options)
    if errors:
        _refuse_if(kind, new, errors)
    charged: list[Charging] | None = None
    if not subresource:
        warnings += _odd_values(kind, new, old, options)
        admit_valid_update(kind, new, old, store.lookup)
        if options.submitter is not None:
            store.check_submitter(kind, new, old, options.submitter, by_update=True)
        if record.key[0] in store.limited:
            charged = store.limits.charge_change(kind, new, old)
    elif subresource == "resize":
        admit_resize(store, kind, new, old)
        if record.key[0] in store.limited:
            charged = store.limits.charge(kind, new, old, resized=True)
    own(new, old, owners)
    if new == old:
        return answered(kind, record, warnings)
    document = put(store, kind, record, new, warnings, options, finished=False)
    if charged and not options.dry_run:
        store.limits.note_charged(charged)
    return document


def put(
    store: Store,
    kind: Kind,
    record: Record,
    new: Manifest,
    warnings: tuple[str, ...],
    options: WriteOptions,
    fields: tuple[str, ...] | None = None,
    *,
    finished: bool = True,
) -> Document:
    """Stores what was accepted; an object that only waited for its last finalizer goes."""
    collection = store.collection(kind)
    goes = _is_finished(new["metadata"])
    if goes and not options.dry_run:
        store.commit(collection, record, None)
        delete_followers(store, collection, record)
    if goes or options.dry_run:
        return Document(make_record(kind, new, record.version, fields, finished=finished).raw, warnings)
    committed = store.commit(collection, record, stored_manifest(kind, new), fields, finished=finished)
    return answered(kind, committed, warnings)


def check_uid(kind: Kind, uid: str, record: Record, *, dry_run: bool) -> None:
    """An update that names a uid means that object and no other of the same name."""
    if uid and uid != record.uid:
        raise _wrong_uid(kind, record.key, uid, record.uid, dry_run=dry_run)


def _wrong_uid(kind: Kind, key: tuple[str, str], uid: str, present: str, *, dry_run: bool) -> StatusError:
    where = "/".join(part for part in (kind.resource.plural, *key) if part)
    why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {present}"
    root = "" if dry_run else "/registry"
    fault = f"StorageError: invalid object, Code: 4, Key: {root}/{where}, ResourceVersion: 0"
    return conflict(kind.group, kind.resource.plural, key[1], f"{fault}, AdditionalErrorMsg: {why}")


def _check_version(kind: Kind, new: Manifest, record: Record) -> None:
    stated = new["metadata"].get("resourceVersion")
    if stated == str(record.version):
        return
    if not stated or stated == "0":
        if not kind.allow_unconditional_update:
            missing = invalid("metadata.resourceVersion", 0, "must be specified for an update")
            raise invalid_object(kind.group, kind.resource.plural, record.key[1], [missing])
        return
    _refuse_odd_version(stated)
    raise conflict(kind.group, kind.resource.plural, record.key[1], _MODIFIED)


def _is_number(version: str) -> bool:
    return version.isascii() and version.isdecimal() and int(version) > 0


def _refuse_odd_version(version: str | None) -> None:
    if version and not (version.isascii() and version.isdecimal()):
        raise StatusError(500, "", f"strconv.ParseUint: parsing {go_quote(version)}: invalid syntax")


def _update_object(store: Store, kind: Kind, new: Manifest, old: Manifest, options: WriteOptions) -> list[FieldError]:
    keep_server_metadata(new["metadata"], old["metadata"])
    if kind.has_status:
        new.pop("status", None)
        if "status" in old:
            new["status"] = old["status"]
    kind.rules.default(new)
    admit_update(kind, new, old)
    if kind.resource == SERVICES:
        store.service_numbers.allocate(new, old, dry_run=options.dry_run)
    kind.rules.prepare_update(new, old)
    if kind.has_generation and kind.generation_rises and _desired_state(kind, new) != _desired_state(kind, old):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
    return errors_of_change(kind, new, old) + kind.rules.validate_update(new, old)


def _update_part(kind: Kind, new: Manifest, old: Manifest, subresource: str) -> list[FieldError]:
    """Through a sub-resource that changes one thing of the object itself."""
    rules = kind.rules.parts[subresource]
    keep_server_metadata(new["metadata"], old["metadata"])
    new.pop("status", None)
    if "status" in old:
        new["status"] = old["status"]
    kind.rules.default(new)
    rules.prepare(new, old)
    if _desired_state(kind, new) != _desired_state(kind, old):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
    return errors_of_change(kind, new, old) + rules.validate(new, old)


def _update_status(kind: Kind, new: Manifest, old: Manifest) -> list[FieldError]:
    """Through the status sub-resource only the status changes; built-in kinds let labels and the like pass too."""
    status, metadata = new.get("status"), new["metadata"]
    new.clear()
    new |= old
    new["metadata"] = dict(old["metadata"]) if kind.custom else metadata
    new.pop("status", None)
    if status is not None:
        new["status"] = status
    keep_server_metadata(new["metadata"], old["metadata"])
    kind.rules.default(new)
    kind.rules.prepare_status(new, old)
    return errors_of_change(kind, new, old, "status") + kind.rules.validate_status(new, old)


def keep_server_metadata(new: Manifest, old: Manifest) -> None:
    """What a client may leave out or try to set, and the server decides."""
    new["resourceVersion"] = old["resourceVersion"]
    for owned in ("uid", "deletionTimestamp", "deletionGracePeriodSeconds"):
        if owned in old:
            new.setdefault(owned, old[owned])
    for owned in ("creationTimestamp", "generation", "selfLink"):
        new.pop(owned, None)
        if owned in old:
            new[owned] = old[owned]
    new.pop("managedFields", None)


def _desired_state(kind: Kind, document: Manifest) -> list[Any]:
    """What a client wants, as opposed to what is: the changes that the generation counts."""
    observed = ("metadata", "status") if kind.has_status or not kind.custom else ("metadata",)
    wanted = {name: value for name, value in document.items() if name not in observed}
    return [wanted, *(document["metadata"].get(field) for field in kind.generation_follows)]


def _refuse_if(kind: Kind, document: Manifest, errors: list[FieldError]) -> None:
    if errors:
        name = document["metadata"].get("name") or document["metadata"].get("generateName", "")
        raise invalid_object((kind.storage or kind.resource).group, kind.kind, name, errors)


def _is_finished(metadata: Manifest) -> bool:
    """Marked for deletion, and nobody has to be waited for any more."""
    marked = "deletionTimestamp" in metadata
    return marked and not metadata.get("finalizers") and not metadata.get("deletionGracePeriodSeconds")


def change(
    store: Store,
    collection: Collection,
    record: Record,
    edit: Callable[[Manifest], None],
    *,
    manager: str = "",
    subresource: str = "",
) -> Record:
    """An edit by the server itself: no validation, no event if nothing changes, the end with the last finalizer. With a
    `manager`, it is one of the server's parts that does it as others would, and owns what it changes."""
    document, before = record.manifest(), record.manifest()
    edit(document)
    if document == before:
        return record
    if manager and record.is_tracked:
        own(document, before, after_change(store, collection.kind, before, document, manager, subresource))
    if not _is_finished(document["metadata"]):
        return store.commit(collection, record, document)
    gone = store.commit(collection, record, None)
    delete_followers(store, collection, record)
    return gone
