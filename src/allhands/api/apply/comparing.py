"""What is different between two states of an object, as sets of fields."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from allhands.api.apply.field_set import FieldSet
from allhands.api.apply.field_type import ListType, MapType
from allhands.api.apply.path_element import field
from allhands.api.apply.values import ABSENT, as_list, as_map, same

if TYPE_CHECKING:
    from allhands.api.apply.field_set import Path
    from allhands.api.apply.field_type import FieldType, Form
    from allhands.api.apply.path_element import PathElement
    from allhands.api.document import Json


class Comparison(msgspec.Struct, frozen=True):
    """The fields that only the old state has, only the new one, and both with another value."""

    removed: FieldSet
    modified: FieldSet
    added: FieldSet

    def without(self, ignored: FieldSet) -> Comparison:
        """The same, as if these fields and all below them were not there."""
        return Comparison(*(each.without_branches(ignored) for each in (self.removed, self.modified, self.added)))


def compare(type: FieldType, old: Json, new: Json) -> Comparison:
    walk = _Walk()
    walk.visit(type, old, new, ())
    return Comparison(FieldSet.of(walk.removed), FieldSet.of(walk.modified), FieldSet.of(walk.added))


class _Walk:
    def __init__(self) -> None:
        self.removed: list[Path] = []
        self.modified: list[Path] = []
        self.added: list[Path] = []

    def visit(self, type: FieldType | None, old: Json, new: Json, path: Path) -> None:
        was = None if type is None or old is ABSENT else type.form_of(old)
        now = None if type is None or new is ABSENT else type.form_of(new)
        if new is ABSENT:
            is_leaf = self._handle(was, old, new, path)
        else:
            if old is not ABSENT and was is not now:
                self._handle(was, old, new, path)
            is_leaf = self._handle(now, old, new, path)
        if not is_leaf:
            if old is ABSENT:
                self.added.append(path)
            elif new is ABSENT:
                self.removed.append(path)

    def _handle(self, form: Form | None, old: Json, new: Json, path: Path) -> bool:
        """Whether it is a leaf: one piece, or nothing on either side."""
        if isinstance(form, MapType):
            before, after = as_map(old), as_map(new)
            if not form.atomic and (before or after):
                for name in {**(before or {}), **(after or {})}:
                    left, right = (before or {}).get(name, ABSENT), (after or {}).get(name, ABSENT)
                    self.visit(form.type_of(name), left, right, (*path, field(name)))
                return False
        elif isinstance(form, ListType) and not form.atomic and (as_list(old) or as_list(new)):
            self._items(form, as_list(old) or [], as_list(new) or [], path)
            return False
        self._leaf(old, new, path)
        return True

    def _leaf(self, old: Json, new: Json, path: Path) -> None:
        if old is ABSENT:
            self.added.append(path)
        elif new is ABSENT:
            self.removed.append(path)
        elif not same(old, new):
            self.modified.append(path)

    def _items(self, form: ListType, old: list[Json], new: list[Json], path: Path) -> None:
        before, after = _by_place(form, old), _by_place(form, new)
        for step in {**before, **after}:
            lefts, rights = before.get(step, []), after.get(step, [])
            below = (*path, step)
            if len(lefts) <= 1 and len(rights) <= 1:
                self.visit(form.item, (lefts or [ABSENT])[0], (rights or [ABSENT])[0], below)
            elif len(lefts) > 1 and len(rights) > 1:
                if not same(lefts, rights):
                    self.modified.append(below)
            elif len(lefts) > 1:
                if rights:
                    self.visit(form.item, ABSENT, rights[0], below)
                self.removed.append(below)
            else:
                if lefts:
                    self.visit(form.item, lefts[0], ABSENT, below)
                self.added.append(below)


def _by_place(form: ListType, items: list[Json]) -> dict[PathElement, list[Json]]:
    found: dict[PathElement, list[Json]] = {}
    for item in items:
        found.setdefault(form.place_of(item), []).append(item)
    return found
