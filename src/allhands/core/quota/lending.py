"""How much could be lent to an account at all: the measure that borrowed use is compared with. Fixed for a layout."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allhands.core.quota.forest import NO_PARENT
from allhands.core.quota.limits import NO_LIMIT
from allhands.model.queue import ANY_FLAVOR

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allhands.core.quota.layout import Layout
    from allhands.core.quota.limits import Limits

Measure = tuple[tuple[tuple[int, int], ...], int]
"""Cells with what is deserved there, and what could be lent in all of them together."""


class Lending:
    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._lent = [_lent(layout.parents, limits) for limits in layout.limits]
        self._measures: dict[int, tuple[Measure, ...]] = {}

    def measures(self, row: int) -> tuple[Measure, ...]:
        """For each resource in which its tree deserves anything: the account's cells, and what could be lent to it.

        That is all that the level above has for its accounts, less what is kept; at the top, what the cluster has.
        """
        found = self._measures.get(row)
        if found is None:
            layout, parent = self._layout, self._layout.parents[row]
            found = self._measures[row] = tuple(
                (
                    tuple((at * layout.stride + row, layout.limits[at].deserved[row]) for at in dimensions),
                    sum(self._potential(at, parent) for at in dimensions),
                )
                for dimensions in self._dimensions_of(layout.tops[row])
            )
        return found

    def _dimensions_of(self, top: int) -> list[list[int]]:
        """A resource with quotas by flavor is measured by them; else by its quota for all flavors."""
        layout = self._layout
        by_resource: dict[str, list[int]] = {}
        for (flavor, resource), dimension in sorted(layout.dimensions.items(), reverse=True):
            if dimension < len(layout.limits) and layout.limits[dimension].states_below[top]:
                known = by_resource.setdefault(resource, [])
                if flavor != ANY_FLAVOR or not known:
                    known.append(dimension)
        return [by_resource[name] for name in sorted(by_resource)]

    def _potential(self, dimension: int, row: int) -> int:
        limits, lent = self._layout.limits[dimension], self._lent[dimension]
        if row == NO_PARENT:
            return limits.total or 0
        top, *below = self._layout.path(row)[::-1]
        is_open = limits.borrowing[top] is None and limits.total is not None
        potential = (limits.total or 0) if is_open else lent[top]
        for level in below:
            borrowing = limits.borrowing[level]
            potential = min(
                limits.keep[level] + potential, NO_LIMIT if borrowing is None else limits.deserved[level] + borrowing
            )
        return potential


def _lent(parents: Sequence[int], limits: Limits) -> list[int]:
    """What each account and those below deserve, without what is kept below it."""
    lent = list(limits.deserved)
    held = [0] * len(parents)
    for row in range(len(parents) - 1, -1, -1):
        lent[row] -= held[row]
        if parents[row] != NO_PARENT:
            held[parents[row]] += max(held[row], limits.keep[row])
    return [max(amount, 0) for amount in lent]
