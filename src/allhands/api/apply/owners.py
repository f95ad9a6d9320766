"""Who owns which fields: `metadata.managedFields`, read and written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec

from allhands.api.apply.field_set import FieldSet, MalformedSetError, read_fields_v1
from allhands.api.errors import go_quote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allhands.api.document import Json, Manifest

Operation: TypeAlias = Literal["Apply", "Update"]

MAX_UPDATERS: Final = 10
"""Beyond these the oldest who did not apply are counted as one."""
_ANCIENT: Final = "ancient-changes"
_FIELDS_TYPE: Final = "FieldsV1"


class MalformedOwnersError(ValueError):
    """No list of owners; the text says why."""


class Owner(msgspec.Struct, frozen=True):
    """Who wrote, how, and through which part of the object. One who applies is the same in every version."""

    name: str
    operation: Operation
    api_version: str = ""
    """Empty of those who apply."""
    subresource: str = ""

    def identifier(self) -> str:
        """The text by which the real server sorts them."""
        parts = {
            "manager": self.name,
            "operation": self.operation,
            "apiVersion": self.api_version,
            "subresource": self.subresource,
        }
        return msgspec.json.encode({name: part for name, part in parts.items() if part}).decode()

    def shown(self) -> str:
        """As refusals name them."""
        text = go_quote(self.name)
        if self.subresource:
            text += f" with subresource {go_quote(self.subresource)}"
        return f"{text} using {self.api_version}" if self.operation == "Update" else text


class Owned(msgspec.Struct, frozen=True):
    """Fields, and the version in which they are written."""

    fields: FieldSet
    api_version: str

    def less(self, others: FieldSet) -> Owned:
        return Owned(self.fields - others, self.api_version)


class Owners(msgspec.Struct, frozen=True):
    """All owners of an object, and when each last changed something."""

    owned: dict[Owner, Owned]
    times: dict[Owner, str]

    def __bool__(self) -> bool:
        return bool(self.owned)


def applier(name: str, subresource: str = "") -> Owner:
    return Owner(name, "Apply", "", subresource)


def updater(name: str, api_version: str, subresource: str = "") -> Owner:
    return Owner(name or "unknown", "Update", api_version, subresource)


def nobody() -> Owners:
    return Owners({}, {})


def read_owners(entries: Json) -> Owners:
    found = nobody()
    for index, entry in enumerate(entries or ()):
        owner, owned = _read_entry(index, entry)
        found.owned[owner] = owned
        if entry.get("time"):
            found.times[owner] = entry["time"]
    return found


def _read_entry(index: int, entry: Manifest) -> tuple[Owner, Owned]:
    operation = entry.get("operation", "")
    if operation not in ("Apply", "Update"):
        raise MalformedOwnersError("operation must be `Apply` or `Update`")
    version = entry.get("apiVersion") or ""
    if not version:
        raise MalformedOwnersError("apiVersion must not be empty")
    fields_type = entry.get("fieldsType") or ""
    if fields_type != _FIELDS_TYPE:
        what = f"invalid fieldsType {go_quote(fields_type)}" if fields_type else "missing fieldsType"
        raise MalformedOwnersError(f"{what} in managed fields entry {index}")
    try:
        fields = read_fields_v1(entry.get("fieldsV1"))
    except MalformedSetError as error:
        raise MalformedOwnersError(f"error decoding set: {error}") from None
    known_as = "" if operation == "Apply" else version
    owner = Owner(entry.get("manager") or "", operation, known_as, entry.get("subresource") or "")
    return owner, Owned(fields, version)


def is_reset(entries: Json) -> bool:
    """Whether a client asks to forget all owners: by a list that is empty, or that has one empty entry."""
    return isinstance(entries, list) and (not entries or entries == [{}])


def owners_after(stated: Json, present: Json, *, ignore_stated: bool) -> Owners:
    """The owners that a write starts from: those that it states, if it may and they make sense; else the present."""
    if not ignore_stated:
        if is_reset(stated):
            return nobody()
        try:
            found = read_owners(stated)
        except MalformedOwnersError:
            found = nobody()
        if found:
            return found
    try:
        return read_owners(present)
    except MalformedOwnersError:
        return nobody()


def entries_of(owners: Owners) -> list[Manifest]:
    """`managedFields`: those who apply first, then by time and name."""
    entries = [
        (owner, entry_of(owner, owned.api_version, owners.times.get(owner, ""), owned.fields.fields_v1()))
        for owner, owned in owners.owned.items()
    ]
    entries.sort(key=lambda each: _order(*each))
    return [entry for _, entry in entries]


def _order(owner: Owner, entry: Manifest) -> tuple[Any, ...]:
    return owner.operation, entry.get("time", ""), owner.name, entry["apiVersion"], owner.subresource


def entry_of(owner: Owner, api_version: str, time: str, fields_v1: Manifest) -> Manifest:
    """One of them, who has these fields in this version."""
    entry: Manifest = {
        "manager": owner.name,
        "operation": owner.operation,
        "apiVersion": api_version,
        "time": time,
        "fieldsType": _FIELDS_TYPE,
        "fieldsV1": fields_v1,
        "subresource": owner.subresource,
    }
    return {name: value for name, value in entry.items() if value or name == "fieldsV1"}


def capped(owners: Owners) -> Owners:
    """At most so many who did not apply: the oldest of a version become one."""
    updaters = [owner for owner in owners.owned if owner.operation == "Update"]
    excess = len(updaters) - MAX_UPDATERS
    if excess <= 0:
        return owners
    updaters.sort(key=lambda owner: (owners.times.get(owner, ""), owner.identifier()))
    owned, times = dict(owners.owned), dict(owners.times)
    first: dict[str, Owner] = {}
    for owner in updaters:
        if excess == 0:
            break
        version = owned[owner].api_version
        if version not in first:
            first[version] = owner
            continue
        bucket = updater(_ANCIENT, version)
        if bucket not in owned:
            owned[bucket] = owned.pop(first[version])
        if owner != bucket:
            owned[bucket] = Owned(owned[owner].fields | owned[bucket].fields, version)
            del owned[owner]
        excess -= 1
        _take_time(times, bucket, owner)
    return Owners(owned, times)


def _take_time(times: dict[Owner, str], owner: Owner, later: Owner) -> None:
    if later in times:
        times[owner] = times[later]


def without_times(entries: Json) -> list[Mapping[str, Any]]:
    """For comparison: a write that changes nothing but times, and so their order, changes nothing."""
    found = [{name: value for name, value in entry.items() if name != "time"} for entry in entries or ()]
    return sorted(found, key=lambda it: [str(it.get(each)) for each in ("manager", "operation", "subresource")])
