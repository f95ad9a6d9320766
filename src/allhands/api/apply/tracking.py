"""What a write makes of an object's owners: the steps around the merge, in the real server's order.

An object is tracked from its creation, or not at all until somebody applies to it: then all that it has belongs to
`before-first-apply`.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

import msgspec

from allhands.api.apply import structured
from allhands.api.apply.conflicts import ConflictsError, conflict_refusal
from allhands.api.apply.field_set import FieldSet
from allhands.api.apply.first_writer import UnusualError, fields_of_new
from allhands.api.apply.last_applied import KUBECTL, renew_note, taken_over
from allhands.api.apply.owners import (
    MalformedOwnersError,
    Owned,
    Owner,
    Owners,
    applier,
    capped,
    entries_of,
    entry_of,
    nobody,
    owners_after,
    read_owners,
    updater,
)
from allhands.api.apply.typed import TypedError, check
from allhands.api.errors import StatusError, bad_request

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allhands.api.apply.structured import Typing
    from allhands.api.document import Json, Manifest

_BEFORE: Final = "before-first-apply"
_NOW: Final = Owner("current-operation", "Update")
_NEVER_OWNED: Final = FieldSet.of(
    [
        ("f:apiVersion",),
        ("f:kind",),
        ("f:metadata",),
        *(
            ("f:metadata", f"f:{name}")
            for name in (
                "name",
                "namespace",
                "creationTimestamp",
                "selfLink",
                "uid",
                "clusterName",
                "generation",
                "managedFields",
                "resourceVersion",
            )
        ),
    ]
)


class Write(msgspec.Struct, frozen=True):
    """Who writes, through which part of the object, and when."""

    manager: str
    now: str
    subresource: str = ""


class Applied(msgspec.Struct, frozen=True):
    """What an apply makes of an object; without its owners, which are beside it."""

    document: Manifest
    entries: list[Manifest]


def _metadata(document: Manifest) -> Manifest:
    found = document.get("metadata")
    return found if isinstance(found, dict) else {}


def without_owners(document: Manifest) -> Manifest:
    metadata = _metadata(document)
    if "managedFields" not in metadata:
        return document
    return {**document, "metadata": {name: it for name, it in metadata.items() if name != "managedFields"}}


def owners_of_update(typing: Typing, old: Manifest, new: Manifest, stated: Json, write: Write) -> list[Manifest]:
    """The owners after `new` came in the place of `old`, whose owners are in it; `stated` are those that the request
    named. None at all if the object is not tracked, or is no object of its type."""
    present = _metadata(old).get("managedFields")
    owners = owners_after(stated, present, ignore_stated=bool(write.subresource))
    if not owners:
        return []
    try:
        return entries_of(_updated(typing, without_owners(old), without_owners(new), owners, write))
    except (TypedError, RecursionError):
        return []


def owners_of_new(typing: Typing, empty: Manifest, new: Manifest, stated: Json, write: Write) -> list[Manifest]:
    """The owners of an object that was created: who made it has all that was said of it, and what goes without saying.
    Those that the request `stated` come first."""
    owners = owners_after(stated, None, ignore_stated=False)
    empty, new = without_owners(empty), without_owners(new)
    if not owners:
        with contextlib.suppress(UnusualError):
            fields = fields_of_new(typing.type, empty, new, typing.ignored, _NEVER_OWNED)
            writer = updater(write.manager, typing.version, write.subresource)
            return [entry_of(writer, typing.version, write.now, fields)] if fields else []
    try:
        return entries_of(_updated(typing, empty, new, owners, write))
    except (TypedError, RecursionError):
        return []


def _updated(typing: Typing, old: Manifest, new: Manifest, owners: Owners, write: Write) -> Owners:
    for document in (new, old):
        check(typing.type, document, duplicates=True)
    holdings = structured.update(typing, old, new, owners.owned, _NOW)
    taken = holdings.pop(_NOW, None)
    times = dict(owners.times)
    fields = taken.fields - _NEVER_OWNED if taken is not None else FieldSet()
    if fields:
        writer = updater(write.manager, typing.version, write.subresource)
        before = holdings[writer].fields if writer in holdings else FieldSet()
        holdings[writer] = Owned(fields | before, typing.version)
        times[writer] = write.now
    return capped(Owners(holdings, times))


def apply(typing: Typing, old: Manifest, empty: Manifest, config: Manifest, write: Write, *, force: bool) -> Applied:
    """The object after `config` was applied to `old`, which is `empty` (a bare object of its kind) if it is new."""
    try:
        owners = read_owners(_metadata(old).get("managedFields"))
    except MalformedOwnersError as error:
        raise _failed(f"failed to decode managed fields: {error}") from None
    old = without_owners(old)
    try:
        owners = owners or _updated(typing, without_owners(empty), old, nobody(), _before(write))
    except TypedError as error:
        raise _failed(f"failed to create manager for existing fields: {error}") from None
    if isinstance(_metadata(config).get("managedFields"), list):
        raise bad_request("metadata.managedFields must be nil")
    _check(typing, config, old)
    try:
        applied = _applied(typing, old, config, owners, write, force=force)
    except ConflictsError as conflicts:
        left = _left(typing, old, conflicts, write)
        if left:
            raise conflict_refusal(left) from None
        applied = _applied(typing, old, config, owners, write, force=True)
    if write.manager == KUBECTL:
        renew_note(applied.document, config)
    return applied


def _before(write: Write) -> Write:
    return Write(_BEFORE, write.now, write.subresource)


def _applied(typing: Typing, old: Manifest, config: Manifest, owners: Owners, write: Write, *, force: bool) -> Applied:
    writer = applier(write.manager, write.subresource)
    new, holdings = structured.apply(typing, old, config, owners.owned, writer, force=force)
    if writer in holdings:
        fields = holdings[writer].fields - _NEVER_OWNED
        holdings = structured.held(holdings, writer, Owned(fields, typing.version))
    times = owners.times if new is None else owners.times | {writer: write.now}
    return Applied(dict(old if new is None else new), entries_of(Owners(holdings, times)))


def _left(typing: Typing, old: Manifest, conflicts: ConflictsError, write: Write) -> Mapping[Owner, FieldSet]:
    """The conflicts that remain if kubectl takes over what it had applied before."""
    if write.manager != KUBECTL:
        return conflicts.fields
    allowed = taken_over(typing, old)
    found = {owner: fields - allowed for owner, fields in conflicts.fields.items()}
    return {owner: fields for owner, fields in found.items() if fields}


def _check(typing: Typing, config: Manifest, old: Manifest) -> None:
    for what, document, duplicates in (("patch", config, False), ("live", old, True)):
        try:
            check(typing.type, document, duplicates=duplicates)
        except TypedError as error:
            raise _failed(f"failed to create typed {what} object ({shown_object(document)}): {error}") from None


def shown_object(document: Manifest) -> str:
    """An object as the server names it when a conversion fails."""
    metadata = _metadata(document)
    group, _, version = str(document.get("apiVersion", "")).rpartition("/")
    where = f"{metadata.get('namespace') or ''}/{metadata.get('name') or ''}"
    return f"{where}; {group}/{version}, Kind={document.get('kind', '')}"


def _failed(message: str) -> StatusError:
    return StatusError(500, "", message)
