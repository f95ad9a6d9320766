"""Who deserves how much: what is written, and the rest by weight, level by level down each tree.

Between siblings, a dimension is shared out if one of them (or an account below one) states `deserved` for it, or if
none of them states any and the cluster is known to have it. Elsewhere nobody deserves anything in it, and nobody can
be told that it has too much: who states GPUs alone is not judged by its CPUs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allhands.core.quota.apportion import water_fill
from allhands.core.quota.forest import NO_PARENT
from allhands.model.queue import ANY_FLAVOR

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from allhands.core.quota.layout import Layout
    from allhands.core.quota.limits import Limits


class Entitlements:
    """What each account deserves in each dimension. A value: `replaced` makes another."""

    __slots__ = ("_by_dimension", "_by_row", "_layout", "_replacements")

    def __init__(self, layout: Layout, replacements: Mapping[tuple[int, int], int] | None = None) -> None:
        self._layout = layout
        self._replacements = replacements or {}
        self._by_dimension: dict[int, list[int | None]] = {}
        self._by_row: dict[int, tuple[tuple[int, int], ...]] = {}

    def of(self, dimension: int, row: int) -> int | None:
        """None where the dimension is not shared out between the account and its siblings."""
        if (dimension, row) in self._replacements:
            return self._replacements[dimension, row]
        known = self._by_dimension.get(dimension)
        if known is None:
            known = self._by_dimension[dimension] = share_out(self._layout, dimension, None)
        return known[row]

    def cells(self, row: int) -> tuple[tuple[int, int], ...]:
        """The cells of an account in the dimensions that are shared out, each with what it deserves there."""
        found = self._by_row.get(row)
        if found is None:
            amounts = [(dimension, self.of(dimension, row)) for dimension in range(len(self._layout.dimension_names))]
            stride = self._layout.stride
            found = tuple((dimension * stride + row, amount) for dimension, amount in amounts if amount is not None)
            self._by_row[row] = found
        return found

    def replaced(self, deserved: Mapping[tuple[str, str, str], int]) -> Entitlements:
        """Other amounts, by (account, flavor, resource). What is unknown is ignored."""
        layout = self._layout
        replacements = dict(self._replacements)
        for name, flavor, resource in sorted(deserved):
            dimension, row = layout.dimensions.get((flavor, resource)), layout.row_by_name.get(name)
            if dimension is not None and row is not None:
                replacements[dimension, row] = max(deserved[name, flavor, resource], 0)
        return Entitlements(layout, replacements)


def share_out(layout: Layout, dimension: int, requests: Sequence[int] | None) -> list[int | None]:
    """What each account deserves in one dimension; with requests, no weight brings more than is asked for."""
    limits = layout.limits[dimension] if dimension < len(layout.limits) else None
    asked = None if requests is None else _summed_up(layout.parents, requests)
    deserved: list[int | None] = [None] * len(layout.accounts)
    for parent in sorted(layout.children):
        rows = layout.children[parent]
        room = _room(layout, dimension, limits) if parent == NO_PARENT else deserved[parent]
        if room is not None and _is_shared_out(layout, dimension, limits, rows):
            for row, amount in zip(rows, _siblings(layout, limits, rows, room, asked), strict=True):
                deserved[row] = amount
    return deserved


def _room(layout: Layout, dimension: int, limits: Limits | None) -> int | None:
    if limits is None:
        return layout.total_of(dimension)
    if limits.total is not None:
        return limits.total
    stated = [limits.deserved[row] for row in layout.children.get(NO_PARENT, []) if limits.states_below[row]]
    return sum(stated) if stated else None


def _is_shared_out(layout: Layout, dimension: int, limits: Limits | None, rows: Sequence[int]) -> bool:
    if limits is not None and any(limits.states_below[row] for row in rows):
        return True
    if any(other.states_below[row] for other in layout.limits for row in rows):
        return False
    return layout.flavor_of(dimension) == ANY_FLAVOR and layout.total_of(dimension) is not None


def _siblings(
    layout: Layout, limits: Limits | None, rows: Sequence[int], room: int, asked: Sequence[int] | None
) -> list[int]:
    weights = [layout.accounts[row].weight_millis for row in rows]
    floors: list[int] = []
    caps: list[int | None] = []
    for row in rows:
        floor, cap = (0, None) if limits is None else _bounds(limits, row)
        if asked is not None and (cap is None or cap > asked[row]):
            cap = max(floor, asked[row])
        floors.append(floor)
        caps.append(cap)
    return water_fill(room, weights, floors, caps)


def _bounds(limits: Limits, row: int) -> tuple[int, int | None]:
    """What is written is deserved as it is; else at least what is promised to it or below it, at most its cap."""
    cap = limits.capability[row]
    promised = limits.deserved[row] if cap is None else min(limits.deserved[row], cap)
    if limits.stated[row] is not None:
        return promised, promised
    return max(promised, limits.guarantee[row]), cap


def _summed_up(parents: Sequence[int], own: Sequence[int]) -> list[int]:
    summed = list(own)
    for row in range(len(parents) - 1, -1, -1):
        if parents[row] != NO_PARENT:
            summed[parents[row]] += summed[row]
    return summed
