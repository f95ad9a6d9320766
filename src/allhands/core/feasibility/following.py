"""Keeps what is derived from nodes right while they change: only the changed rows are told, a new layout starts anew.

For plugins, which are handed columns and must not care which ones they saw before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from allhands.core.columns import NodeColumns, Rows


class Derived(Protocol):
    def update(self, columns: NodeColumns, rows: Rows) -> object: ...


DerivedT = TypeVar("DerivedT", bound=Derived)


class Following(Generic[DerivedT]):
    def __init__(self, derive: Callable[[NodeColumns], DerivedT]) -> None:
        self._derive = derive
        self._latest: tuple[NodeColumns, DerivedT] | None = None

    def of(self, columns: NodeColumns) -> DerivedT:
        if self._latest is None or not _same_rows(self._latest[0], columns):
            self._latest = columns, self._derive(columns)
            return self._latest[1]
        known, derived = self._latest
        if known is not columns:
            rows = np.flatnonzero(known.static_generation != columns.static_generation)
            if rows.size:
                derived.update(columns, rows)
            self._latest = columns, derived
        return derived


def _same_rows(known: NodeColumns, columns: NodeColumns) -> bool:
    # A world keeps the very same tuple as long as its rows stand for the same nodes.
    return known.names is columns.names
