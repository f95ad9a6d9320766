"""An object without some of its fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allhands.api.apply.field_type import ListType, MapType
from allhands.api.apply.path_element import field

if TYPE_CHECKING:
    from allhands.api.apply.field_set import FieldSet
    from allhands.api.apply.field_type import FieldType
    from allhands.api.document import Json


def without(type: FieldType | None, value: Json, removed: FieldSet) -> Any:
    """What is left; null where nothing is. What is one piece goes whole as soon as a part of it goes."""
    form = None if type is None else type.form_of(value)
    if isinstance(form, MapType):
        if not isinstance(value, dict) or form.atomic:
            return None
        return _without_fields(form, value, removed) or None
    if isinstance(form, ListType):
        if not isinstance(value, list) or form.atomic:
            return None
        return _without_items(form, value, removed) or None
    return value


def _without_fields(form: MapType, value: dict[str, Any], removed: FieldSet) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, inside in value.items():
        step = field(name)
        if step not in removed.members:
            below = removed.below(step)
            found[name] = without(form.type_of(name), inside, below) if below else inside
    return found


def _without_items(form: ListType, value: list[Any], removed: FieldSet) -> list[Any]:
    found: list[Any] = []
    for item in value:
        step = form.place_of(item)
        if step not in removed.members:
            below = removed.below(step)
            found.append(without(form.item, item, below) if below else item)
    return found
