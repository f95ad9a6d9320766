"""The two ways to write, over typed values: an update takes over what it changes, an apply says all that it wants.

`Typing` knows the object's type in each version; between versions only the type differs. An owner whose version is
not known any more is dropped, as the real server does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from allhands.api.apply.comparing import Comparison, compare
from allhands.api.apply.conflicts import ConflictsError
from allhands.api.apply.field_set import NOTHING, FieldSet
from allhands.api.apply.merging import merged
from allhands.api.apply.owners import Owned, Owner
from allhands.api.apply.removing import without
from allhands.api.apply.set_types import following, with_structs
from allhands.api.apply.typed import field_set_of
from allhands.api.apply.values import same

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from allhands.api.apply.field_type import FieldType
    from allhands.api.document import Manifest

Holdings: TypeAlias = dict[Owner, Owned]


class Typing:
    """The types of one kind, and the fields that a write through this door cannot change."""

    def __init__(
        self, types: Mapping[str, Callable[[], FieldType]], ignored: Mapping[str, FieldSet], version: str
    ) -> None:
        """`types` and `ignored` by version; `version` is the one of the request."""
        self._types = types
        self._ignored = ignored
        self.version = version
        self.type = types[version]()

    def of(self, version: str) -> FieldType | None:
        """The type in a version; None if there is no such version."""
        found = self._types.get(version)
        return None if found is None else found()

    def compare(self, version: str, old: Manifest, new: Manifest) -> Comparison:
        return compare(self._types[version](), old, new).without(self._ignored.get(version, NOTHING))

    @property
    def ignored(self) -> FieldSet:
        """What a writer through this door cannot change, in the version of the request."""
        return self._ignored.get(self.version, NOTHING)

    def claimed(self, fields: FieldSet) -> FieldSet:
        """What of these fields a writer through this door can own."""
        return fields.without_branches(self.ignored)


def update(typing: Typing, old: Manifest, new: Manifest, holdings: Holdings, writer: Owner) -> Holdings:
    """Who owns what after `writer` has put `new` in the place of `old`."""
    holdings = _of_known_versions(typing, holdings)
    changes = typing.compare(typing.version, old, new)
    holdings = _taken(typing, old, new, changes, holdings, writer, force=True)
    before = holdings[writer].fields if writer in holdings else NOTHING
    fields = typing.claimed(before - changes.removed | changes.modified | changes.added)
    return held(holdings, writer, Owned(fields, typing.version))


def apply(
    typing: Typing, old: Manifest, config: Manifest, holdings: Holdings, writer: Owner, *, force: bool
) -> tuple[Manifest | None, Holdings]:
    """The object after `writer` has applied `config`, and who owns what then. None: the object stays as it is. Raises
    ConflictsError if that would change what somebody else owns, unless by `force`."""
    holdings = _of_known_versions(typing, holdings)
    new = merged(typing.type, old, config)
    last = holdings.get(writer)
    fields = typing.claimed(field_set_of(typing.type, config))
    holdings = holdings | {writer: Owned(fields, typing.version)}
    new = _pruned(typing, new, holdings, last) or {}
    changes = typing.compare(typing.version, old, new)
    holdings = _taken(typing, old, new, changes, holdings, writer, force=force)
    return None if same(old, new) else new, holdings


def held(holdings: Holdings, writer: Owner, owned: Owned) -> Holdings:
    """The holdings in which the writer has this, or is not named if that is nothing."""
    others = {owner: each for owner, each in holdings.items() if owner != writer}
    return others | {writer: owned} if owned.fields else others


def _of_known_versions(typing: Typing, holdings: Holdings) -> Holdings:
    """Without owners of versions that are gone, and following what became of the types."""
    found: Holdings = {}
    for owner, owned in holdings.items():
        known = typing.of(owned.api_version)
        if known is not None:
            found[owner] = Owned(following(owned.fields, known), owned.api_version)
    return found


def _taken(
    typing: Typing,
    old: Manifest,
    new: Manifest,
    changes: Comparison,
    holdings: Holdings,
    writer: Owner,
    *,
    force: bool,
) -> Holdings:
    """What is left to the others: not what was changed, nor what is gone."""
    by_version = {typing.version: changes}
    conflicts: dict[Owner, FieldSet] = {}
    found: Holdings = {}
    for owner, owned in holdings.items():
        if owner == writer:
            found[owner] = owned
            continue
        if owned.api_version not in by_version:
            by_version[owned.api_version] = typing.compare(owned.api_version, old, new)
        seen = by_version[owned.api_version]
        lost = owned.fields & (seen.modified | seen.added)
        if lost:
            conflicts[owner] = lost
        found[owner] = owned.less(lost).less(seen.removed)
    if conflicts and not force:
        raise ConflictsError(conflicts)
    return {owner: owned for owner, owned in found.items() if owned.fields}


def _pruned(typing: Typing, new: Manifest, holdings: Holdings, last: Owned | None) -> Any:
    """The merged object without what the writer applied the last time, and neither it nor anybody else wants now."""
    then = None if last is None else typing.of(last.api_version)
    if last is None or not last.fields or then is None:
        return new
    mine = with_structs(last.fields, then)
    pruned = without(then, new, mine)
    versions = sorted({owned.api_version for owned in holdings.values()}, key=lambda each: each != last.api_version)
    for version in versions:
        managed = NOTHING
        for owned in holdings.values():
            if owned.api_version == version:
                managed |= owned.fields
        pruned = _with_owned(typing.of(version), new, pruned, managed)
    whole, left = with_structs(field_set_of(then, new), then), with_structs(field_set_of(then, pruned), then)
    return without(then, new, (whole - left) & mine)


def _with_owned(type: FieldType | None, new: Manifest, pruned: Any, managed: FieldSet) -> Any:
    """What was pruned, with the fields back in it that somebody owns."""
    if type is None:
        return pruned
    whole, left = with_structs(field_set_of(type, new), type), with_structs(field_set_of(type, pruned), type)
    return without(type, new, whole - (left | with_structs(managed, type)))
