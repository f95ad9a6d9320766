"""What became of a spec the last time: gangs are made of pods with equal specs, and one of them pays for all.

Holds a bounded number of finished specs, keyed by the text of the spec as it came in and by the state of the priority
classes, the only other objects that decide about it. A finished spec is text, shared by all objects that have it.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from allhands.api.kinds import Resource
from allhands.store.envelope import stored

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.api.kinds import Kind
    from allhands.store.envelope import Envelope
    from allhands.store.record import Record
    from allhands.store.store import Store

MAX_SPECS = 1024
_PRIORITY_CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses")

MemoKey: TypeAlias = tuple[Resource, bytes, int]


class Twin(msgspec.Struct, frozen=True):
    """A spec that was defaulted, admitted and validated, and the first status of an object with it."""

    spec: bytes
    status: bytes
    fields: tuple[str, ...]
    """The object's selectable fields."""


class SpecMemo:
    """Finished specs by what was asked for."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._finished: OrderedDict[MemoKey, Twin] = OrderedDict()
        self._seen: OrderedDict[int, None] = OrderedDict()
        """Hashes of keys that came once: what never comes again is not worth remembering."""

    def key(self, kind: Kind, envelope: Envelope) -> MemoKey:
        classes = self._store.collection(self._store.kind(_PRIORITY_CLASSES))
        return kind.resource, bytes(envelope.spec), classes.version

    def get(self, key: MemoKey) -> Twin | None:
        return self._finished.get(key)

    def put(self, key: MemoKey, kind: Kind, document: Manifest, record: Record) -> None:
        """Remembers what was stored when its spec came for the second time, if the spec alone made it so."""
        sight = hash(key)
        if sight not in self._seen:
            self._seen[sight] = None
            if len(self._seen) > MAX_SPECS:
                self._seen.popitem(last=False)
            return
        if not kind.rules.spec_decides(document):
            return
        envelope = stored(record.raw)
        self._finished[key] = Twin(bytes(envelope.spec), bytes(envelope.status), record.fields)
        if len(self._finished) > MAX_SPECS:
            self._finished.popitem(last=False)
