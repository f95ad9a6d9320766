"""Which nodes already have which images, by name, as a column of sizes when a name is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from allhands.core.columns import Column, NodeColumns, Rows

LARGEST_BYTES: Final = 1 << 50
"""No image is larger, whatever a node says; sums stay far from 64 bits."""
_MOST_COLUMNS: Final = 64
"""Pods of few images are most of all pods; the columns of so many are kept."""


class NodeImages:
    def __init__(self, columns: NodeColumns) -> None:
        self._count = len(columns)
        self._by_name: dict[str, dict[int, int]] = {}
        self._names_of_row: dict[int, tuple[str, ...]] = {}
        self._sizes: dict[str, Column] = {}
        for row in range(len(columns)):
            self._set_row(columns, row)

    def update(self, columns: NodeColumns, rows: Rows) -> None:
        """These nodes changed; rows are the same as before."""
        self._sizes.clear()
        for row in rows.tolist():
            for name in self._names_of_row.pop(row, ()):
                del self._by_name[name][row]
                if not self._by_name[name]:
                    del self._by_name[name]
            self._set_row(columns, row)

    def bytes_of(self, name: str) -> Column:
        """The size of an image on each node, 0 where it is not. Nobody writes to it."""
        sizes = self._sizes.get(name)
        if sizes is None:
            if len(self._sizes) >= _MOST_COLUMNS:
                self._sizes.clear()
            sizes = self._sizes[name] = np.zeros(self._count, dtype=np.int64)
            held = self._by_name.get(name)
            if held:
                sizes[list(held)] = list(held.values())
        return sizes

    def _set_row(self, columns: NodeColumns, row: int) -> None:
        images = columns.nodes[row].images
        if not images:
            return
        sizes = {name: min(max(0, image.size_bytes), LARGEST_BYTES) for image in images for name in image.names}
        for name, size in sizes.items():
            self._by_name.setdefault(name, {})[row] = size
        self._names_of_row[row] = tuple(sizes)
