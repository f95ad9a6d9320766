"""One stored object: its JSON text, and the few values by which it is found without decoding it.

A record is never changed after it is stored: an update makes a new one, so watchers and readers may share it freely.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from allhands.ports import Document, Head

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allhands.api.document import Manifest
    from allhands.api.kinds import Kind

Key: TypeAlias = tuple[str, str]
"""(namespace, name); the namespace of cluster-wide objects is empty."""
Fields: TypeAlias = tuple[str, ...]
"""The values of a kind's selectable fields, in their order."""

_encoder = msgspec.json.Encoder()
_MARK = b'"deletionTimestamp":'
_OWNERS = b'"managedFields":'
_NO_LABELS: dict[str, str] = {}


class Record:
    """An object at one version."""

    __slots__ = ("_head", "_is_marked", "_is_tracked", "fields", "key", "labels", "owners", "raw", "uid", "version")

    def __init__(
        self,
        key: Key,
        uid: str,
        version: int,
        raw: bytes,
        labels: dict[str, str],
        fields: Fields,
        owners: tuple[str, ...],
        *,
        is_marked: bool | None = None,
        is_tracked: bool | None = None,
    ) -> None:
        """`is_marked`, `is_tracked`: see there; None where its text has to be asked."""
        self.key = key
        self.uid = uid
        self.version = version
        self.raw = raw
        self.labels = labels
        self.fields = fields
        self.owners = owners
        """The uids of the owners."""
        self._head: Head | None = None
        self._is_marked = is_marked
        self._is_tracked = is_tracked

    @property
    def is_marked(self) -> bool:
        """Whether somebody asked for its deletion."""
        if self._is_marked is None:
            self._is_marked = _MARK in self.raw and "deletionTimestamp" in self.manifest()["metadata"]
        return self._is_marked

    @property
    def is_tracked(self) -> bool:
        """Whether it is known who owns its fields: somebody has applied to it."""
        if self._is_tracked is None:
            self._is_tracked = _OWNERS in self.raw and bool(self.manifest()["metadata"].get("managedFields"))
        return self._is_tracked

    @property
    def head(self) -> Head:
        """What its text begins with; watchers share it."""
        head = self._head
        if head is None:
            namespace, name = self.key
            head = self._head = Head(f"{namespace}/{name}" if namespace else name, self.uid, self.version)
        return head

    def at_version(self, version: int) -> bytes:
        """Its text at a later version: how a deletion shows the last state."""
        document = self.manifest()
        document["metadata"]["resourceVersion"] = str(version)
        return _encoder.encode(document)

    def restate(self, kind: str, before: str, now: str) -> None:
        """The same object in the version in which its kind is stored from now on; nothing else of it changes."""
        head = _head(kind, before)
        if self.raw.startswith(head):
            self.raw = _head(kind, now) + self.raw[len(head) :]

    def manifest(self) -> Manifest:
        return msgspec.json.decode(self.raw)  # type: ignore[no-any-return]


def make_record(
    kind: Kind, document: Manifest, version: int, fields: Fields | None = None, *, finished: bool = True
) -> Record:
    """The record of a document that is about to be stored at `version`, which is written into the document. Who knows
    its selectable `fields` already may leave its spec undecoded; a document that is not in stored form yet is brought
    into it while it is encoded."""
    metadata = document["metadata"]
    metadata["resourceVersion"] = str(version)
    labels = metadata.get("labels")
    owners = metadata.get("ownerReferences")
    return Record(
        (metadata.get("namespace", ""), metadata["name"]),
        metadata["uid"],
        version,
        _encoder.encode(document) if finished else kind.shape.encoded(document),
        {sys.intern(name): sys.intern(value) for name, value in labels.items()} if labels else _NO_LABELS,
        tuple(sys.intern(value) for value in kind.select(document)) if fields is None else fields,
        tuple(owner["uid"] for owner in owners) if owners else (),
        is_tracked="managedFields" in metadata,
    )


def answered(kind: Kind, record: Record, warnings: tuple[str, ...] = (), *, created: bool = False) -> Document:
    """A stored object as the answer to a request."""
    return Document(shown(kind, record.raw), warnings, created, record.head)


def shown(kind: Kind, raw: bytes) -> bytes:
    """A stored object in the version that was asked for: of a custom kind with several, one is stored, and the others
    differ by their `apiVersion`, which stands right behind the kind. A built-in one may differ in names of fields."""
    if kind.storage is None:
        return raw
    if kind.stored_names:
        names = {stored: name for name, stored in kind.stored_names.items()}
        return kind.shape.encoded(_renamed(msgspec.json.decode(raw), names) | {"apiVersion": kind.api_version})
    return _head(kind.kind, kind.api_version) + raw[len(_head(kind.kind, kind.storage.api_version)) :]


def shown_manifest(kind: Kind, record: Record) -> Manifest:
    """The same, decoded."""
    if kind.stored_names:
        return msgspec.json.decode(shown(kind, record.raw))  # type: ignore[no-any-return]
    return record.manifest() | {"apiVersion": kind.api_version}


def stored_manifest(kind: Kind, document: Manifest) -> Manifest:
    """A document of the kind under the names of fields that are stored."""
    return _renamed(document, kind.stored_names) if kind.stored_names else document


def _renamed(document: Manifest, names: Mapping[str, str]) -> Manifest:
    return {names.get(field, field): value for field, value in document.items()}


def _head(kind: str, api_version: str) -> bytes:
    return f'{{"kind":"{kind}","apiVersion":"{api_version}",'.encode()
