"""A set of fields: some paths of an object, as a tree. To hold a field is not to hold what is below it, nor above it.

Sets are never changed after they are made; an operation makes a new one, and may share branches with the old.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from allhands.api.apply.path_element import MalformedElementError, PathElement, canonical, sort_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from allhands.api.document import Json, Manifest

Path: TypeAlias = tuple[PathElement, ...]

SELF: Final = "."
"""In FieldsV1: the place itself belongs to the set, beside what is below it."""
MAX_DEPTH: Final = 200


class MalformedSetError(ValueError):
    """A text that is no FieldsV1."""


class FieldSet:
    """`members` are in the set; `children` lead to what is in it further down. No child is empty."""

    __slots__ = ("children", "members")

    def __init__(
        self, members: Iterable[PathElement] = (), children: Mapping[PathElement, FieldSet] | None = None
    ) -> None:
        self.members = frozenset(members)
        self.children = {step: child for step, child in (children or {}).items() if child}

    @staticmethod
    def of(paths: Iterable[Path]) -> FieldSet:
        """The set of these paths. The empty path stands for the whole object, which nobody owns."""
        members: set[PathElement] = set()
        below: dict[PathElement, list[Path]] = {}
        for path in paths:
            if len(path) == 1:
                members.add(path[0])
            elif path:
                below.setdefault(path[0], []).append(path[1:])
        return FieldSet(members, {step: FieldSet.of(rest) for step, rest in below.items()})

    def __bool__(self) -> bool:
        return bool(self.members or self.children)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FieldSet) and self.members == other.members and self.children == other.children

    __hash__ = None  # type: ignore[assignment]

    def __contains__(self, path: Path) -> bool:
        if not path:
            return False
        if len(path) == 1:
            return path[0] in self.members
        child = self.children.get(path[0])
        return child is not None and path[1:] in child

    def __or__(self, other: FieldSet) -> FieldSet:
        if not self or not other:
            return self or other
        children = dict(self.children)
        for step, child in other.children.items():
            children[step] = children[step] | child if step in children else child
        return FieldSet(self.members | other.members, children)

    def __and__(self, other: FieldSet) -> FieldSet:
        shared = self.children.keys() & other.children.keys()
        return FieldSet(
            self.members & other.members, {step: self.children[step] & other.children[step] for step in shared}
        )

    def __sub__(self, other: FieldSet) -> FieldSet:
        if not other:
            return self
        children = {
            step: child - other.children[step] if step in other.children else child
            for step, child in self.children.items()
        }
        return FieldSet(self.members - other.members, children)

    def without_branches(self, other: FieldSet) -> FieldSet:
        """Without the fields of `other` and everything below them."""
        if not other:
            return self
        children = {
            step: child.without_branches(other.children[step]) if step in other.children else child
            for step, child in self.children.items()
            if step not in other.members
        }
        return FieldSet(self.members - other.members, children)

    def below(self, step: PathElement) -> FieldSet:
        return self.children.get(step, NOTHING)

    def paths(self) -> Iterator[Path]:
        """In the order in which the server tells them: those that end here first, then what is below."""
        for step in sorted(self.members, key=sort_key):
            yield (step,)
        for step in sorted(self.children, key=sort_key):
            for path in self.children[step].paths():
                yield (step, *path)

    def fields_v1(self) -> Manifest:
        """The set as FieldsV1."""
        found: Manifest = {}
        for step in sorted(self.members | self.children.keys(), key=sort_key):
            child = self.children.get(step)
            inside = {} if child is None else child.fields_v1()
            found[step] = {SELF: {}} | inside if inside and step in self.members else inside
        return found


NOTHING: Final = FieldSet()


def read_fields_v1(document: Json) -> FieldSet:
    """The set that FieldsV1 stands for. Steps of an unknown sort are dropped, as a later server may know them."""
    if document is None:
        return NOTHING
    return _read(document, 0)[0]


def _read(document: Json, depth: int) -> tuple[FieldSet, bool]:
    """What is below a place, and whether the place itself is in the set."""
    if not isinstance(document, dict):
        raise MalformedSetError("ReadMapCB: expect { or n")
    if depth > MAX_DEPTH:
        raise MalformedSetError("exceeded max depth")
    members: set[PathElement] = set()
    children: dict[PathElement, FieldSet] = {}
    for text, inside in document.items():
        if text == SELF:
            continue
        try:
            step = canonical(text)
        except MalformedElementError as error:
            raise MalformedSetError(f"parsing key as path element: {error}") from None
        if step is None:
            continue
        child, is_member = _read({} if inside is None else inside, depth + 1)
        if is_member:
            members.add(step)
        if child:
            children[step] = child
    found = FieldSet(members, children)
    return found, SELF in document or not found
