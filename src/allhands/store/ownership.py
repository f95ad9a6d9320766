"""Owners of stored objects: who is tracked, and what a write makes of `metadata.managedFields`.

Tracked is what was created by somebody who is to be tracked, and what somebody has applied to; all others pay for no
more than the question.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from allhands.api.apply.owners import entries_of, owners_after, without_times
from allhands.api.apply.reset_fields import reset_fields
from allhands.api.apply.scale_owners import SCALE_DEFINITION, SCALE_VERSION, owners_after_scaling, owners_of_scale
from allhands.api.apply.schema_types import definition_type
from allhands.api.apply.structured import Typing
from allhands.api.apply.tracking import Write, owners_of_new, owners_of_update, without_owners
from allhands.store.record import shown_manifest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allhands.api.apply.owners import Owners
    from allhands.api.document import Json, Manifest
    from allhands.api.kinds import Kind
    from allhands.ports import WriteOptions
    from allhands.store.record import Record
    from allhands.store.store import Store

_FIELD = b'"managedFields":'


class _Metadata(msgspec.Struct):
    managed: Any = msgspec.field(name="managedFields", default=None)


class _Tracked(msgspec.Struct):
    metadata: _Metadata


_decoder = msgspec.json.Decoder(_Tracked)


def stated_owners(body: Manifest | bytes) -> Json:
    """The owners that a body names; None if it says nothing of them, an empty list if it says that there are none."""
    if isinstance(body, bytes):
        if _FIELD not in body:
            return None
        try:
            return _decoder.decode(body).metadata.managed
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None  # no object at all, which somebody else will say
    metadata = body.get("metadata")
    return metadata.get("managedFields") if isinstance(metadata, dict) else None


def typing_of(kind: Kind, subresource: str) -> Typing:
    return Typing(kind.field_types, reset_fields(kind, subresource), kind.api_version)


def stored_form(kind: Kind, document: Manifest) -> Manifest:
    """A document as it would be stored: owners are told of that, down to the nulls."""
    return msgspec.json.decode(kind.shape.encoded(document))  # type: ignore[no-any-return]


def empty_object(kind: Kind) -> Manifest:
    """An object of which nothing is said: what Go would make of it. A custom one has nothing but its kind."""
    head: Manifest = {"kind": kind.kind, "apiVersion": kind.api_version}
    return head if kind.custom else stored_form(kind, head)


def after_create(
    store: Store, kind: Kind, new: Manifest, options: WriteOptions, unheeded: Sequence[str]
) -> list[Manifest]:
    """The owners of `new`, as a client sent it: what the server adds to it by itself is nobody's, nor are the fields of
    its metadata that go `unheeded`."""
    stated = new["metadata"].get("managedFields")
    wanted = msgspec.json.decode(msgspec.json.encode(without_owners(new)))
    for field in unheeded:
        wanted["metadata"].pop(field, None)
    kind.rules.default(wanted)
    write = Write(options.field_manager, store.now())
    return owners_of_new(typing_of(kind, ""), empty_object(kind), stored_form(kind, wanted), stated, write)


def after_update(
    store: Store, kind: Kind, record: Record, new: Manifest, stated: Json, options: WriteOptions, subresource: str
) -> list[Manifest]:
    """The owners once `new`, as a client sent it, has taken the place of the record."""
    if stated is None and not record.is_tracked:
        return []
    wanted = msgspec.json.decode(msgspec.json.encode(without_owners(new)))
    kind.rules.default(wanted)
    write = Write(options.field_manager, store.now(), subresource)
    old = shown_manifest(kind, record)
    return owners_of_update(typing_of(kind, subresource), old, stored_form(kind, wanted), stated, write)


def after_change(
    store: Store, kind: Kind, before: Manifest, after: Manifest, manager: str, subresource: str
) -> list[Manifest]:
    """The same for a change that the server makes itself, in the name of one of its parts."""
    write = Write(manager, store.now(), subresource)
    return owners_of_update(typing_of(kind, subresource), before, after, None, write)


def own(new: Manifest, old: Manifest, entries: list[Manifest]) -> None:
    """Writes the owners into an object that is about to be stored. If nothing else changes, neither do their times."""
    metadata = new["metadata"]
    metadata.pop("managedFields", None)
    if not entries:
        return
    before = old["metadata"].get("managedFields")
    if before and without_times(entries) == without_times(before) and without_owners(old) == new:
        entries = before
    metadata["managedFields"] = entries


def scale_typing() -> Typing:
    return Typing({SCALE_VERSION: lambda: definition_type(SCALE_DEFINITION)}, {}, SCALE_VERSION)


def owners_of(document: Manifest) -> Owners:
    return owners_after(None, document["metadata"].get("managedFields"), ignore_stated=True)


def with_scale_owners(scale: Manifest, document: Manifest, kind: Kind) -> Manifest:
    """The scale with its owners, as it is written through."""
    entries = entries_of(owners_of_scale(owners_of(document), kind.scales))
    return scale | {"metadata": scale["metadata"] | {"managedFields": entries}} if entries else scale


def after_scaling(kind: Kind, document: Manifest, entries: list[Manifest]) -> list[Manifest]:
    """The object's owners, given those of its scale after a write."""
    scaled = owners_after(None, entries, ignore_stated=True)
    return entries_of(owners_after_scaling(owners_of(document), scaled, kind.scales, kind.api_version))
