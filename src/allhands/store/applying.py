"""Server-side apply: a client says all that it wants of an object, and the rest stays whose it is.

What becomes of the object and of its owners is worked out by `api.apply`; the result takes the way of every other
write, so that it is defaulted, admitted and validated like them. An object that is not there is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allhands.api.apply import tracking
from allhands.api.apply.tracking import Write, shown_object
from allhands.api.errors import StatusError, Telling, bad_request, conflict, no_such_object
from allhands.store import bodies
from allhands.store.ownership import empty_object, typing_of
from allhands.store.record import shown_manifest
from allhands.store.writing import check_name, create_applied, replace, settle_namespace

if TYPE_CHECKING:
    from allhands.api.apply.structured import Typing
    from allhands.api.document import Manifest
    from allhands.api.kinds import Kind
    from allhands.ports import Document, WriteOptions
    from allhands.store.store import Store


def apply(
    store: Store, kind: Kind, name: str, config: Manifest, namespace: str, options: WriteOptions, subresource: str
) -> Document:
    record = store.collection(kind).get((namespace if kind.namespaced else "", name))
    if record is None and subresource:
        raise no_such_object(kind.group, kind.resource.plural, name)
    check_stated_kind(config, kind.api_version, kind.kind)
    empty = empty_object(kind)
    old = empty if record is None else shown_manifest(kind, record)
    write = Write(options.field_manager, store.now(), subresource)
    applied = merge(typing_of(kind, subresource), old, empty, config, write, force=options.force)
    document = _normal_form(kind, applied.document, config)
    metadata = document["metadata"]
    if record is None and metadata.get("uid"):
        why = f"uid mismatch: the provided object specified uid {metadata['uid']}, and no existing object was found"
        raise conflict(kind.group, kind.resource.plural, name, why)
    settle_namespace(kind, metadata, namespace)
    check_name(metadata.get("name", ""), name)
    if record is None:
        return create_applied(store, kind, document, namespace, options, applied.entries)
    with Telling(()):
        return replace(store, kind, record, document, (), options, subresource, owners=applied.entries)


def merge(
    typing: Typing, old: Manifest, empty: Manifest, config: Manifest, write: Write, *, force: bool
) -> tracking.Applied:
    """`tracking.apply`, of documents of any depth."""
    try:
        return tracking.apply(typing, old, empty, config, write, force=force)
    except RecursionError:
        raise bad_request("error decoding YAML: exceeded max depth") from None


def check_stated_kind(config: Manifest, api_version: str, kind: str) -> None:
    """What is applied says itself what it is; nothing is taken from the path."""
    stated, named = (each if isinstance(each, str) else "" for each in map(config.get, ("apiVersion", "kind")))
    if (stated, named) != (api_version, kind):
        group, _, version = stated.rpartition("/")
        if "/" in group:
            group, version, named = "", "", ""
        raise bad_request(f"invalid object type: {group}/{version}, Kind={named}")


def _normal_form(kind: Kind, document: Manifest, config: Manifest) -> Manifest:
    """What was merged, as an object of its kind. Its fields have been checked; their values may still be wrong."""
    try:
        return bodies.in_normal_form(kind, document, "Ignore")[0]
    except StatusError as refusal:
        fault = refusal.message.partition(f"cannot be handled as a {kind.kind}: ")[2] or refusal.message
        target = f"{kind.group}/{kind.resource.version}, Kind={kind.kind}"
        fault = f"unable to convert unstructured object to {target}: {fault}"
        message = f"failed to convert new object ({shown_object(config)}) to proper version: {fault}"
        raise StatusError(500, "", message) from None
