"""What became of a spec the last time: gangs are made of pods with equal specs, and one of them pays for all.

Holds a bounded number of finished specs, keyed by the text of the spec as it came in and by the state of the priority
classes, the only other objects that decide about it. Finished specs are shared by many objects and never changed.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from allhands.api.kinds import Resource

if TYPE_CHECKING:
    from allhands.api.document import Json, Manifest
    from allhands.api.kinds import Kind
    from allhands.store.store import Store

MAX_SPECS = 1024
_PRIORITY_CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses")
_encoder = msgspec.json.Encoder()

MemoKey: TypeAlias = tuple[Resource, bytes, int] | None


class SpecMemo:
    """Finished (spec, first status) by what was asked for."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._finished: OrderedDict[MemoKey, tuple[Json, Json]] = OrderedDict()

    def key(self, kind: Kind, document: Manifest) -> MemoKey:
        """The key of a new object in normal form; None if more than its spec decides about it."""
        if not kind.rules.spec_decides(document):
            return None
        classes = self._store.collection(self._store.kind(_PRIORITY_CLASSES))
        return kind.resource, _encoder.encode(document["spec"]), classes.version

    def get(self, key: MemoKey) -> tuple[Json, Json] | None:
        return None if key is None else self._finished.get(key)

    def put(self, key: MemoKey, document: Manifest) -> None:
        if key is None:
            return
        self._finished[key] = (document["spec"], document.get("status", {}))
        if len(self._finished) > MAX_SPECS:
            self._finished.popitem(last=False)
