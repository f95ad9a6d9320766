"""A value held against its type: whether it fits, and which fields it has."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from allhands.api.apply.field_set import FieldSet
from allhands.api.apply.field_type import ListType, MapType, UnidentifiableItemError
from allhands.api.apply.path_element import field, shown
from allhands.api.apply.values import as_list, as_map
from allhands.api.errors import go_quote
from allhands.api.patch.values import go_text, go_type

if TYPE_CHECKING:
    from allhands.api.apply.field_set import Path
    from allhands.api.apply.field_type import FieldType, Scalar
    from allhands.api.document import Json


class TypedError(ValueError):
    """A value that does not fit its type; the text is the real server's."""


def check(type: FieldType, value: Json, *, duplicates: bool) -> None:
    """Refuses a value that does not fit. `duplicates`: whether a list may have an item twice."""
    found: list[str] = []
    _check(type, value, "", found, duplicates=duplicates)
    if len(found) == 1:
        raise TypedError(found[0])
    if found:
        raise TypedError("errors:\n" + "\n".join(f"  {each}" for each in found))


def _check(type: FieldType, value: Json, path: str, found: list[str], *, duplicates: bool) -> None:
    form = type.form_of(value)
    if form is None or value is None:
        return
    if isinstance(form, MapType):
        if not isinstance(value, dict):
            found.append(_at(path, f"expected map, got &{{{go_text(value)}}}"))
            return
        for name, inside in value.items():
            below = form.type_of(name)
            if below is None:
                found.append(_at(f"{path}.{name}", "field not declared in schema"))
                return
            _check(below, inside, f"{path}.{name}", found, duplicates=duplicates)
    elif isinstance(form, ListType):
        if not isinstance(value, list):
            found.append(_at(path, f"expected list, got &{{{go_text(value)}}}"))
            return
        _check_items(form, value, path, found, duplicates=duplicates)
    elif wrong := _wrong_scalar(form, value):
        found.append(_at(path, wrong))


def _check_items(form: ListType, value: list[Json], path: str, found: list[str], *, duplicates: bool) -> None:
    seen: set[str] = set()
    for index, item in enumerate(value):
        place = f"[{index}]"
        if not form.atomic:
            try:
                step = form.place_of(item)
            except UnidentifiableItemError as error:
                found.append(_at(path, f"element {index}: {error}"))
                return
            place = shown(step)
            if step in seen and not duplicates:
                found.append(_at(path, f"duplicate entries for key {place}"))
            seen.add(step)
        _check(form.item, item, path + place, found, duplicates=duplicates)


def _at(path: str, message: str) -> str:
    return f"{path}: {message}" if path else message


def _wrong_scalar(scalar: Scalar, value: Json) -> str:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match scalar:
        case "numeric" if not is_number:
            return f"expected numeric (int or float), got {go_type(value)}"
        case "string" if not isinstance(value, str):
            return f"expected string, got &value.valueUnstructured{{Value:{_go_syntax(value)}}}"
        case "boolean" if not isinstance(value, bool):
            return f"expected boolean, got &{{{go_text(value)}}}"
        case "untyped" if isinstance(value, dict | list):
            return f"expected any scalar, got &{{{go_text(value)}}}"
    return ""


def is_wrong_scalar(scalar: Scalar, value: Json) -> bool:
    """Whether a plain type does not allow this value, which is not null."""
    return bool(_wrong_scalar(scalar, value))


def _go_syntax(value: Json) -> str:
    """As Go prints it with `%#v`."""
    if isinstance(value, str):
        return go_quote(value)
    if isinstance(value, dict):
        inside = ", ".join(f"{go_quote(name)}:{_go_syntax(value[name])}" for name in sorted(value))
        return f"map[string]interface {{}}{{{inside}}}"
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(map(_go_syntax, value))}}}"
    return go_text(value)


def field_set_of(type: FieldType, value: Json) -> FieldSet:
    """The fields that a value has: its leaves, its items, and the entries of its maps."""
    found: list[Path] = []
    _gather(type, value, (), found)
    return FieldSet.of(found)


def _gather(type: FieldType | None, value: Json, path: Path, found: list[Path]) -> None:
    form = None if type is None else type.form_of(value)
    if isinstance(form, MapType):
        if form.atomic:
            found.append(path)
            return
        for name, inside in (as_map(value) or {}).items():
            below = (*path, field(name))
            _gather(form.type_of(name), inside, below, found)
            if inside is None or inside == {} or not form.declares(name):
                found.append(below)
    elif isinstance(form, ListType):
        if form.atomic:
            found.append(path)
            return
        _gather_items(form, as_list(value) or [], path, found)
    else:
        found.append(path)


def _gather_items(form: ListType, items: list[Json], path: Path, found: list[Path]) -> None:
    """An item that is there several times is owned as one piece."""
    places = [form.place_of(item) for item in items]
    times = Counter(places)
    for step, item in zip(places, items, strict=True):
        found.append((*path, step))
        if times[step] == 1:
            _gather(form.item, item, (*path, step), found)
