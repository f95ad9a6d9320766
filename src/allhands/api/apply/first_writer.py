"""The fields of an object that is new, as FieldsV1, in one walk: what the general way finds by comparing it with an
empty one, checking both, and building sets. Most objects are created once and never applied to.

It only saves work: whatever is not plain (a value of another form than its type, forms that changed) is left to the
general way, by an `UnusualError`. Never decides what is refused.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from allhands.api.apply.field_set import SELF
from allhands.api.apply.field_type import ListType, MapType, UnidentifiableItemError
from allhands.api.apply.path_element import key, sort_key
from allhands.api.apply.typed import TypedError, check, is_wrong_scalar
from allhands.api.apply.values import same

if TYPE_CHECKING:
    from allhands.api.apply.field_set import FieldSet
    from allhands.api.apply.field_type import FieldType
    from allhands.api.apply.path_element import PathElement
    from allhands.api.document import Json, Manifest


class UnusualError(Exception):
    """This is for the general way."""


def fields_of_new(type: FieldType, empty: Manifest, new: Manifest, ignored: FieldSet, never: FieldSet) -> Manifest:
    """What the writer of `new` owns of it: all that `empty` has not, or has otherwise, without the branches that are
    `ignored` and the fields that are `never` owned."""
    try:
        check(type, empty, duplicates=True)
        found = _changed(type, empty, new) or {}
    except (TypedError, UnidentifiableItemError, RecursionError):
        raise UnusualError from None
    _drop_branches(found, ignored)
    _drop_fields(found, never)
    return found


def _whole(type: FieldType, value: Json) -> Manifest:
    """All of a value that was not there: what stands below its place, which itself is owned."""
    if value is None or (value.__class__ is str and type.scalar == "string"):
        return {}
    form = type.form_of(value)
    if isinstance(form, MapType):
        if not isinstance(value, dict):
            raise UnusualError
        if form.atomic:
            check(type, value, duplicates=True)
            return {}
        return {SELF: {}} | _entries(form, value) if value else {}
    if isinstance(form, ListType):
        if not isinstance(value, list):
            raise UnusualError
        if form.atomic:
            check(type, value, duplicates=True)
            return {}
        return {SELF: {}} | _items(form, value) if value else {}
    if form is None or is_wrong_scalar(form, value):
        raise UnusualError
    return {}


def _entries(form: MapType, value: dict[str, Any]) -> Manifest:
    found: Manifest = {}
    for name in sorted(value):
        below = form.type_of(name)
        if below is None:
            raise UnusualError
        found[f"f:{name}"] = _whole(below, value[name])
    return found


def _items(form: ListType, value: list[Any]) -> Manifest:
    """An item that is there several times is owned as one piece."""
    names, item_type = form.keys, form.item
    placed: list[tuple[Any, PathElement, Json]] = []
    for item in value:
        if len(names) == 1 and isinstance(item, dict) and isinstance(name := item.get(names[0]), str):
            order, step = _place(names[0], name)
        else:
            step = form.place_of(item)
            order = sort_key(step)
        placed.append((order, step, item))
    placed.sort(key=_order)
    found: Manifest = {}
    for _, step, item in placed:
        inside = _whole(item_type, item)
        found[step] = {} if step in found else inside
    return found


def _order(placed: tuple[Any, PathElement, Json]) -> Any:
    return placed[0]


@functools.lru_cache(maxsize=1 << 14)
def _place(name: str, value: str) -> tuple[Any, PathElement]:
    """Names come again and again: of containers, variables, volumes."""
    step = key({name: value})
    return sort_key(step), step


def _changed(type: FieldType, old: Json, new: Json) -> Manifest | None:
    """What stands below a place that was there: None if nothing of it is different, {} if it is one piece that is."""
    form = type.form_of(new)
    if form is not type.form_of(old) or form is None:
        raise UnusualError
    if isinstance(form, MapType) and not form.atomic and (old or new):
        return _changed_map(form, old, new)
    if isinstance(form, ListType) and not form.atomic and (old or new):
        if old or not isinstance(new, list):
            raise UnusualError
        return _items(form, new)
    check(type, new, duplicates=True)
    return None if same(old, new) else {}


def _changed_map(form: MapType, old: Json, new: Json) -> Manifest | None:
    before, after = {} if old is None else old, {} if new is None else new
    if not isinstance(before, dict) or not isinstance(after, dict):
        raise UnusualError
    found: Manifest = {}
    for name in sorted(after):
        below = form.type_of(name)
        if below is None:
            raise UnusualError
        inside = _changed(below, before[name], after[name]) if name in before else _whole(below, after[name])
        if inside is not None:
            found[f"f:{name}"] = inside
    return found or None


def _drop_branches(found: Manifest, dropped: FieldSet) -> None:
    for step in dropped.members:
        found.pop(step, None)
    for step, child in dropped.children.items():
        if found.get(step):
            _drop_branches(found[step], child)
            _tidy(found, step)


def _drop_fields(found: Manifest, dropped: FieldSet) -> None:
    """What stands below them stays."""
    for step in dropped.members:
        if step in found and not found[step]:
            del found[step]
        elif step in found:
            found[step].pop(SELF, None)
    for step, child in dropped.children.items():
        if found.get(step):
            _drop_fields(found[step], child)
            _tidy(found, step)


def _tidy(found: Manifest, step: PathElement) -> None:
    """A place of which nothing is left is not there; one that is itself owned needs no more words."""
    if not found[step]:
        del found[step]
    elif found[step].keys() == {SELF}:
        found[step] = {}
