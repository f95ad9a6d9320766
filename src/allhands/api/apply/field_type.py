"""What is asked of a schema when two states of an object are merged: where it is one piece, and what tells items apart.

A type may allow several forms at once (a text or a number; anything). `scalar`, `items` and `fields` are the forms.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Literal, TypeAlias

from allhands.api.apply.path_element import key, member

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from allhands.api.apply.path_element import PathElement
    from allhands.api.document import Json

Scalar: TypeAlias = Literal["numeric", "string", "boolean", "untyped"]


class UnidentifiableItemError(ValueError):
    """An item that has no place in its list; the text says why."""


class ListType:
    """A list: one piece (`atomic`), a set of plain values, or items told apart by `keys`."""

    def __init__(
        self,
        item: Callable[[], FieldType],
        *,
        atomic: bool = True,
        keys: tuple[str, ...] = (),
    ) -> None:
        """`item` is asked late: a type may hold itself."""
        self._item = item
        self.atomic = atomic
        self.keys = keys

    @functools.cached_property
    def item(self) -> FieldType:
        return self._item()

    def place_of(self, item: Json) -> PathElement:
        """Where an item of an associative list stands."""
        return self._keyed(item) if self.keys else _set_member(item)

    def _keyed(self, item: Json) -> PathElement:
        if item is None:
            raise UnidentifiableItemError("associative list with keys may not have a null element")
        if not isinstance(item, dict):
            raise UnidentifiableItemError("associative list with keys may not have non-map elements")
        fields = self.item.fields
        if fields is None:
            raise UnidentifiableItemError("associative list may not have non-map types")
        values = {name: fields.defaults[name] for name in self.keys if name in fields.defaults}
        values |= {name: item[name] for name in self.keys if name in item}
        if not values:
            shown = " ".join(f'"{name}"' for name in self.keys)
            raise UnidentifiableItemError(
                f"associative list with keys has an element that omits all key fields [{shown}] "
                "(and doesn't have default values for any key fields)"
            )
        return key(values)


def _set_member(item: Json) -> PathElement:
    if isinstance(item, dict):
        raise UnidentifiableItemError("associative list without keys has an element that's a map type")
    if isinstance(item, list):
        raise UnidentifiableItemError("not supported: associative list with lists as elements")
    if item is None:
        raise UnidentifiableItemError("associative list without keys has an element that's an explicit null")
    return member(item)


class MapType:
    """A struct or a map: declared fields, and the type of all others, if there may be others."""

    def __init__(
        self,
        declared: Mapping[str, Callable[[], FieldType]],
        other: Callable[[], FieldType] | None,
        *,
        atomic: bool = False,
        defaults: Mapping[str, Json] | None = None,
        deduced: bool = False,
    ) -> None:
        """`deduced`: nothing is said about it at all."""
        self._declared = declared
        self._other = other
        self._known: dict[str, FieldType] = {}
        self.atomic = atomic
        self.defaults = defaults or {}
        """What declared fields are taken for where they are absent."""
        self.deduced = deduced

    def in_one_piece(self, *, atomic: bool) -> MapType:
        """The same, but one piece or not."""
        return MapType(self._declared, self._other, atomic=atomic, defaults=self.defaults, deduced=self.deduced)

    def declares(self, name: str) -> bool:
        return name in self._declared

    def type_of(self, name: str) -> FieldType | None:
        """The type of a field; None where there may be no such field."""
        known = self._known.get(name)
        if known is not None:
            return known
        declared = self._declared.get(name)
        if declared is None:
            return self.other
        found = self._known[name] = declared()
        return found

    @functools.cached_property
    def other(self) -> FieldType | None:
        return None if self._other is None else self._other()


class FieldType:
    """The forms that a value may have."""

    __slots__ = ("fields", "items", "scalar")

    def __init__(
        self, scalar: Scalar | None = None, items: ListType | None = None, fields: MapType | None = None
    ) -> None:
        self.scalar = scalar
        self.items = items
        self.fields = fields

    def form_of(self, value: Json) -> Form | None:
        """The form that the value has, if it is an allowed one; else, and for null, the first that is allowed."""
        if isinstance(value, dict):
            found: Form | None = self.fields
        elif isinstance(value, list):
            found = self.items
        else:
            found = None if value is None else self.scalar
        return found or self.fields or self.scalar or self.items


Form: TypeAlias = MapType | ListType | Scalar

UNTYPED: FieldType = FieldType("untyped", ListType(lambda: UNTYPED), MapType({}, lambda: UNTYPED, atomic=True))
"""Anything, in one piece."""
DEDUCED: FieldType = FieldType("untyped", ListType(lambda: UNTYPED), MapType({}, lambda: DEDUCED, deduced=True))
"""Anything, its maps field by field."""
