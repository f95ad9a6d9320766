"""From what a disk has kept to a store that goes on where an earlier one ended.

Definitions come first, since they say which custom kinds there are. What no kind of this release is for stays on disk,
untouched and unseen, and is told of. Nothing is validated again: what was acknowledged once is kept as it is.
"""

from __future__ import annotations

import gc
import itertools
import logging
import sys
from typing import TYPE_CHECKING, Any

import msgspec

from allhands.api.custom import kinds_of
from allhands.store.deleting import DEFINITIONS
from allhands.store.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterable

    from allhands.api.kinds import Kind, Resource
    from allhands.store.disk import Head, Kept
    from allhands.store.store import Store

_LOG = logging.getLogger(__name__)
_NO_LABELS: dict[str, str] = {}
_intern = sys.intern


def resource_name(resource: Resource) -> str:
    """`plural.group`, as definitions are named; the plural alone in the core group."""
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural


def load(store: Store, head: Head, objects: Iterable[Kept]) -> None:
    """Fills a new store. The collector rests meanwhile: all of this stays."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        _load(store, head, objects)
    finally:
        if was_enabled:
            gc.enable()


def _load(store: Store, head: Head, objects: Iterable[Kept]) -> None:
    custom: list[tuple[str, list[Kept]]] = []
    homes = _homes(store)
    first = resource_name(DEFINITIONS)
    for name, group in itertools.groupby(objects, key=lambda kept: kept.resource):
        kind = homes.get(name)
        if kind is None:
            custom.append((name, list(group)))
        else:
            _load_kind(store, kind, head, name, group)
            if name == first:
                _serve_custom_kinds(store)
    homes = _homes(store)
    for name, kept in custom:
        kind = homes.get(name)
        if kind is None:
            _LOG.warning("%d objects of %s are kept and not shown: this release serves no such kind", len(kept), name)
        else:
            _load_kind(store, kind, head, name, kept)
    _load_empty(store, head, homes)
    store.housekeeper.look_for_orphans()


def _load_empty(store: Store, head: Head, homes: dict[str, Kind]) -> None:
    """Kinds without objects: since their last one went, or since they were defined, nothing has happened."""
    definitions = store.collection(store.kind(DEFINITIONS))
    for name, kind in homes.items():
        defined = definitions.get(("", name)) if kind.custom else None
        version = head.touched.get(name, 0 if defined is None else defined.version)
        if version and not len(store.collection(kind)):
            store.load(kind, [], max(head.floor, version))


def _homes(store: Store) -> dict[str, Kind]:
    """By name, the kind under which objects are kept."""
    homes: dict[str, Kind] = {}
    for kind in store.kinds.all():
        home = kind if kind.storage is None else store.kinds.find(kind.storage) or kind
        homes.setdefault(resource_name(home.resource), home)
    return homes


def _load_kind(store: Store, kind: Kind, head: Head, name: str, objects: Iterable[Kept]) -> None:
    stored_version = store.collection(kind).stored_version
    opening = f'{{"kind":"{kind.kind}","apiVersion":"{stored_version}",'.encode()
    read = _Reader(kind, stored_version)
    records = [read(kept.raw if kept.raw.startswith(opening) else read.renamed(kept.raw), kept) for kept in objects]
    newest = max((record.version for record in records), default=0)
    store.load(kind, records, max(head.floor, head.touched.get(name, 0), newest))
    for record in records:
        if record.is_marked or kind.resource == DEFINITIONS:
            store.housekeeper.look_again(store.collection(kind), record)


class _Owner(msgspec.Struct, gc=False):
    uid: str


class _Metadata(msgspec.Struct, rename="camel", gc=False):
    uid: str
    labels: dict[str, str] | None = None
    owner_references: list[_Owner] | None = None
    deletion_timestamp: Any = None


class _Described(msgspec.Struct, gc=False):
    """What of every object must be known."""

    metadata: _Metadata


class _Reader:
    """Makes records of one kind. It decodes only what they are found by: most of an object is never looked at."""

    def __init__(self, kind: Kind, stored_version: str) -> None:
        self._kind = kind
        self._stored_version = stored_version
        self._tops = selected_parts(kind)
        self._decode = msgspec.json.Decoder(_Described if self._tops is None else _view_of(self._tops)).decode
        self._fields: dict[tuple[str, ...], tuple[str, ...]] = {}
        """Many objects have the same; they share them."""

    def renamed(self, raw: bytes) -> bytes:
        """The object in the version that its kind is stored in now."""
        document = msgspec.json.decode(raw)
        document["apiVersion"] = self._stored_version
        return msgspec.json.encode(document)

    def __call__(self, raw: bytes, kept: Kept) -> Record:
        view = self._decode(raw)
        if self._tops is None:
            document = msgspec.json.decode(raw)
        else:
            document = {
                top: msgspec.to_builtins(part) for top in self._tops if (part := getattr(view, top)) is not None
            }
        fields = self._kind.select(document)
        shared = self._fields.get(fields)
        if shared is None:
            shared = self._fields[fields] = tuple(sys.intern(value) for value in fields)
        metadata = view.metadata
        labels, owners = metadata.labels, metadata.owner_references
        return Record(
            kept.key,
            metadata.uid,
            kept.version,
            raw,
            {_intern(name): _intern(value) for name, value in labels.items()} if labels else _NO_LABELS,
            shared,
            tuple([owner.uid for owner in owners]) if owners else (),
            is_marked=metadata.deletion_timestamp is not None,
        )


def selected_parts(kind: Kind) -> dict[str, list[str] | None] | None:
    """By their first name, the second names of the paths that a kind is selected by, None for the whole part. None if
    only the whole object will do."""
    if kind.custom:
        return None
    parts: dict[str, list[str] | None] = {}
    for path in kind.selectable:
        top, _, rest = path.partition(".")
        if top == "metadata":
            return None
        names = parts.setdefault(top, [] if rest else None)
        if names is not None and rest:
            names.append(rest.partition(".")[0])
        elif not rest:
            parts[top] = None
    return parts


def _view_of(parts: dict[str, list[str] | None]) -> type[_Described]:
    fields: list[Any] = [("metadata", _Metadata)]
    for top, names in parts.items():
        if names is None:
            fields.append((top, Any, None))
        else:
            leaves = [(name, Any, None) for name in dict.fromkeys(names)]
            part = msgspec.defstruct(top, leaves, omit_defaults=True)
            fields.append((top, part, msgspec.field(default_factory=part)))
    return msgspec.defstruct("View", fields)  # type: ignore[return-value]


def _serve_custom_kinds(store: Store) -> None:
    for record in store.collection(store.kind(DEFINITIONS)):
        for kind in kinds_of(record.manifest()):
            store.kinds.add(kind)
