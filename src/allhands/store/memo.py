"""What became of a spec the last time: gangs are made of pods with equal specs, and one of them pays for all.

Holds a bounded number of finished specs, keyed by the text of the spec as it came in and by the state of the priority
classes, the only other objects that decide about it. Specs that differ in environment values alone (each worker is told
its rank) count as equal: the values are taken out of the key and put back into the finished text.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from allhands.api.kinds import Resource
from allhands.store.envelope import filled, pieces_around, stored, without_values

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.api.kinds import Kind
    from allhands.store.record import Record
    from allhands.store.store import Store

MAX_SPECS = 1024
_PRIORITY_CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses")

MemoKey: TypeAlias = tuple[Resource, bytes, int]


class Twin(msgspec.Struct, frozen=True):
    """A spec that was defaulted, admitted and validated, and the first status of an object with it."""

    pieces: tuple[bytes, ...]
    """The finished spec, cut where environment values belong; one piece if the whole spec was the key."""
    status: bytes
    fields: tuple[str, ...]
    """The object's selectable fields."""


class Known(msgspec.Struct, frozen=True):
    """What the memo says about a spec: how to remember it, and what became of its like."""

    key: MemoKey
    values: list[str]
    """The environment values that are not part of the key."""
    twin: Twin | None

    def spec(self) -> bytes:
        assert self.twin is not None
        return filled(self.twin.pieces, self.values)


class SpecMemo:
    """Finished specs by what was asked for: to the letter, or but for environment values."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._finished: OrderedDict[MemoKey, Twin] = OrderedDict()
        self._seen: OrderedDict[int, None] = OrderedDict()
        """Hashes of keys that came once: what never comes again is not worth remembering."""

    def look_up(self, kind: Kind, spec: bytes) -> Known:
        """What is known of a spec, as it came in."""
        classes = self._store.collection(self._store.kind(_PRIORITY_CLASSES)).version
        key = (kind.resource, spec, classes)
        twin = self._finished.get(key)
        blank = None if twin is not None or hash(key) in self._seen else without_values(spec)
        if blank is None:
            return Known(key, [], twin)
        self._see(key)
        # No JSON begins so: a spec that itself holds what marks a hole is not taken for one with holes.
        key = (kind.resource, b"\0" + blank[0], classes)
        return Known(key, blank[1], self._finished.get(key))

    def _see(self, key: MemoKey) -> bool:
        """Whether the key came before."""
        sight = hash(key)
        if sight in self._seen:
            return True
        self._seen[sight] = None
        if len(self._seen) > MAX_SPECS:
            self._seen.popitem(last=False)
        return False

    def put(self, known: Known, kind: Kind, document: Manifest, record: Record) -> None:
        """Remembers what was stored when its like came for the second time, if the spec alone made it so."""
        if not self._see(known.key) or not kind.rules.spec_decides(document):
            return
        envelope = stored(record.raw)
        pieces: tuple[bytes, ...] = (bytes(envelope.spec),)
        if known.values:
            blank = without_values(pieces[0])
            if blank is None or blank[1] != known.values:
                return
            pieces = pieces_around(blank[0])
            if len(pieces) != len(known.values) + 1:
                return
        self._finished[known.key] = Twin(pieces, bytes(envelope.status), record.fields)
        if len(self._finished) > MAX_SPECS:
            self._finished.popitem(last=False)
