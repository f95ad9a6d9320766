"""How objects go: at once, after their finalizers, or (pods) after their node agent said so.

A delete only marks what somebody still has to finish. Dependents are never touched here: that is the garbage
collector's work, and which way it takes is written into finalizers, as on a real server.
"""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

import msgspec

from allhands.api.errors import StatusError, conflict, no_such_object
from allhands.api.kinds import Resource
from allhands.api.schema import timestamps
from allhands.ports import DEFAULT_DELETE, Deleted, DeleteOptions, Document, Page, Query
from allhands.store.admission import NAMESPACES_THAT_STAY, admit_delete
from allhands.store.collection import Filter
from allhands.store.record import make_record, shown
from allhands.store.service_numbers import SERVICES

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.api.kinds import Kind
    from allhands.store.collection import Collection
    from allhands.store.record import Record
    from allhands.store.store import Store

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"
DEFAULT_POD_GRACE_SECONDS = 30
_PRESERVED_PODS = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove "
    "them or set propagationPolicy=Orphan to suppress this warning"
)
NAMESPACES = Resource("", "v1", "namespaces")
DEFINITIONS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions")
ENDPOINTS = Resource("", "v1", "endpoints")
_ONLY_MARKED = frozenset({NAMESPACES, DEFINITIONS})
"""Kinds that the real server deletes in a way of its own: no grace, no new generation."""
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
"""Holds a definition until its objects are gone."""


def delete(store: Store, kind: Kind, name: str, namespace: str, options: DeleteOptions = DEFAULT_DELETE) -> Deleted:
    collection = store.collection(kind)
    record = collection.get((namespace if kind.namespaced else "", name))
    if record is None:
        raise no_such_object(kind.group, kind.resource.plural, name)
    _check_preconditions(kind, record, options)
    if kind.resource == NAMESPACES and name in NAMESPACES_THAT_STAY:
        raise StatusError(
            403,
            "Forbidden",
            f'namespaces "{name}" is forbidden: this namespace may not be deleted',
            {"name": name, "kind": "namespaces"},
        )
    admit_delete(kind, record, store.lookup)
    deleted = delete_record(store, collection, record, options)
    if kind.storage is None:
        return deleted
    document = msgspec.structs.replace(deleted.document, raw=shown(kind, deleted.document.raw))
    return msgspec.structs.replace(deleted, document=document)


def _check_preconditions(kind: Kind, record: Record, options: DeleteOptions) -> None:
    why = ""
    if options.uid and options.uid != record.uid:
        why = (
            f"the UID in the precondition ({options.uid}) does not match the UID in record ({record.uid}). "
            "The object might have been deleted and then recreated"
        )
    elif options.version and options.version != str(record.version):
        why = (
            f"the ResourceVersion in the precondition ({options.version}) does not match the ResourceVersion in record "
            f"({record.version}). The object might have been modified"
        )
    if why:
        raise conflict(kind.group, kind.kind, record.key[1], why)


def delete_record(store: Store, collection: Collection, record: Record, options: DeleteOptions) -> Deleted:
    kind = collection.kind
    document = record.manifest()
    metadata = document["metadata"]
    finalizers = _finalizers_after(kind, metadata.get("finalizers", []), options)
    if finalizers:
        metadata["finalizers"] = finalizers
    else:
        metadata.pop("finalizers", None)
    grace = _grace_seconds(kind, document, options)
    if kind.resource == DEFINITIONS and CLEANUP not in finalizers:
        finalizers = [*finalizers, CLEANUP]
        metadata["finalizers"] = finalizers
        _announce_end(store, document)
    waits_for_namespace = kind.resource == NAMESPACES and bool(document["spec"].get("finalizers"))
    if not finalizers and not grace and not waits_for_namespace:
        return _remove(store, collection, record, document, options)
    already = "deletionTimestamp" in metadata
    if already and grace >= metadata.get("deletionGracePeriodSeconds", 0) and document == record.manifest():
        return Deleted(Document(record.raw, _warnings(kind, options)), gone=False)
    _mark(store, kind, document, grace)
    if options.dry_run:
        raw = make_record(kind, document, record.version).raw
    else:
        raw = store.commit(collection, record, document).raw
    return Deleted(Document(raw, _warnings(kind, options)), gone=False)


def _remove(
    store: Store, collection: Collection, record: Record, document: Manifest, options: DeleteOptions
) -> Deleted:
    """Takes an object away now. One that might have had time to end is marked first, as its watchers expect."""
    kind = collection.kind
    if kind.graceful_deletion:
        _mark(store, kind, document, 0)
        if not options.dry_run:
            record = store.commit(collection, record, document)
    if not options.dry_run:
        store.commit(collection, record, None)
    document["metadata"]["resourceVersion"] = str(store.version)
    if not options.dry_run:
        delete_followers(store, collection, record)
    gone = Document(msgspec.json.encode(document), _warnings(kind, options))
    return Deleted(gone, gone=True, as_status=not kind.returns_deleted)


def delete_followers(store: Store, collection: Collection, record: Record) -> None:
    """With a service go the endpoints of its name, so that the next of that name does not begin with them."""
    if collection.home != SERVICES:
        return
    endpoints = store.collection(store.kind(ENDPOINTS))
    found = endpoints.get(record.key)
    if found is not None:
        delete_record(store, endpoints, found, DEFAULT_DELETE)


def _announce_end(store: Store, definition: Manifest) -> None:
    condition = {
        "type": "Terminating",
        "status": "True",
        "lastTransitionTime": store.now(),
        "reason": "InstanceDeletionPending",
        "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
    }
    definition.setdefault("status", {}).setdefault("conditions", []).append(condition)


def _warnings(kind: Kind, options: DeleteOptions) -> tuple[str, ...]:
    if kind.kind == "Job" and kind.orphans_by_default and options.propagation is None:
        return (_PRESERVED_PODS,)
    return ()


def _mark(store: Store, kind: Kind, document: Manifest, grace: int) -> None:
    metadata = document["metadata"]
    if kind.resource in _ONLY_MARKED:
        metadata.setdefault("deletionTimestamp", store.now())
        if kind.resource == NAMESPACES:
            document.setdefault("status", {})["phase"] = "Terminating"
        return
    if "deletionTimestamp" not in metadata and metadata.get("generation"):
        metadata["generation"] += 1
    earlier = metadata.get("deletionGracePeriodSeconds")
    if "deletionTimestamp" not in metadata or (earlier is not None and grace < earlier):
        metadata["deletionTimestamp"] = timestamps.seconds(_after(store.clock.now(), grace))
        metadata["deletionGracePeriodSeconds"] = grace


def _after(now: datetime.datetime, seconds: int) -> datetime.datetime:
    """The moment so much later, or the last one there is."""
    try:
        return now + datetime.timedelta(seconds=seconds)
    except OverflowError:
        return datetime.datetime.max.replace(tzinfo=now.tzinfo)


def _grace_seconds(kind: Kind, document: Manifest, options: DeleteOptions) -> int:
    """How long the node agent may take; 0 for everything that no node agent knows."""
    if not kind.graceful_deletion:
        return 0
    spec, status = document["spec"], document.get("status", {})
    if not spec.get("nodeName") or status.get("phase") in ("Succeeded", "Failed"):
        return 0
    if options.grace_seconds is not None:
        wanted = options.grace_seconds
    else:
        wanted = spec.get("terminationGracePeriodSeconds", DEFAULT_POD_GRACE_SECONDS)
    earlier = document["metadata"].get("deletionGracePeriodSeconds")
    wanted = max(wanted, 1) if wanted < 0 else wanted
    return wanted if earlier is None else min(wanted, earlier)


def _finalizers_after(kind: Kind, finalizers: list[str], options: DeleteOptions) -> list[str]:
    """The finalizers once the wish for the dependents is written down among them."""
    others = [each for each in finalizers if each not in (ORPHAN, FOREGROUND)]
    match options.propagation:
        case "Orphan":
            return [*others, ORPHAN]
        case "Foreground":
            return [*others, FOREGROUND]
        case "Background":
            return others
        case None if kind.orphans_by_default and ORPHAN not in finalizers and FOREGROUND not in finalizers:
            return [*others, ORPHAN]
        case None:
            return finalizers


def delete_all(store: Store, kind: Kind, query: Query, options: DeleteOptions) -> Page:
    """Deletes what the query selects; answers with the objects as they were."""
    collection = store.collection(kind)
    records, _ = collection.page(Filter(kind, query), 0, None, None)
    for record in records:
        admit_delete(kind, record, store.lookup)
        delete_record(store, collection, record, options)
    return Page([shown(kind, record.raw) for record in records], str(store.version))
