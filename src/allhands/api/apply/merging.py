"""A configuration laid over an object: leaves of the configuration win, maps and associative lists are joined.

Items of a list come in the order of the configuration; those that it does not name keep their place among the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allhands.api.apply.field_type import ListType, MapType
from allhands.api.apply.values import ABSENT, as_list, as_map

if TYPE_CHECKING:
    from allhands.api.apply.field_type import FieldType
    from allhands.api.apply.path_element import PathElement
    from allhands.api.document import Json


def merged(type: FieldType | None, old: Json, new: Json) -> Any:
    """What is there after `new` was laid over `old`; ABSENT if nothing is. Neither is changed."""
    kept = old if new is ABSENT else new
    form = None if type is None else type.form_of(kept)
    if isinstance(form, MapType):
        before, after = as_map(old), as_map(new)
        if not form.atomic and (before or after):
            return _merged_map(form, before or {}, after or {})
    elif isinstance(form, ListType) and not form.atomic and (as_list(old) or as_list(new)):
        return _merged_list(form, as_list(old) or [], as_list(new) or [])
    return kept


def _merged_map(form: MapType, old: dict[str, Any], new: dict[str, Any]) -> Any:
    found = {name: merged(form.type_of(name), old.get(name, ABSENT), new.get(name, ABSENT)) for name in {**old, **new}}
    return {name: value for name, value in found.items() if value is not ABSENT} or ABSENT


def _merged_list(form: ListType, old: list[Json], new: list[Json]) -> Any:
    """The items of both. One that the old list has several times is replaced by the new one, if there is a new one."""
    old_places = [form.place_of(item) for item in old]
    new_items = {form.place_of(item): item for item in new}
    old_items: dict[PathElement, Json] = {}
    for step, item in zip(old_places, old, strict=True):
        old_items[step] = None if step in old_items else item
    order = _merged_order(old_places, list(new_items))
    found: list[Any] = []
    for step, index in order:
        before = old[index] if index is not None else old_items.get(step, ABSENT)
        item = merged(form.item, before, new_items.get(step, ABSENT))
        if item is not ABSENT:
            found.append(item)
    return found or ABSENT


def _merged_order(old: list[PathElement], new: list[PathElement]) -> list[tuple[PathElement, int | None]]:
    """The places of the merged list; of those that only the old one has, also where they stood in it."""
    wanted, present = set(new), set(old)
    shared = iter([step for step in new if step in present])
    next_shared = next(shared, None)
    taken: set[PathElement] = set()
    found: list[tuple[PathElement, int | None]] = []
    left = right = 0
    while left < len(old) or right < len(new):
        if left < len(old) and right < len(new):
            if old[left] == new[right]:
                taken.add(old[left])
                found.append((old[left], None))
                left, right, next_shared = left + 1, right + 1, next(shared, None)
                continue
            if old[left] in wanted and next_shared is not None and next_shared != old[left]:
                left += 1  # shared, but its turn comes later
                continue
        if left < len(old):
            if old[left] not in wanted:
                found.append((old[left], left))
                left += 1
                continue
            if old[left] in taken:
                left += 1
        if right < len(new):
            taken.add(new[right])
            found.append((new[right], None))
            if next_shared == new[right]:
                next_shared = next(shared, None)
            right += 1
    return found
