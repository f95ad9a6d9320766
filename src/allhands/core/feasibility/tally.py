"""All counts of one cycle, each made when it is first asked for, and kept right by every pod that comes or goes.

A count that is made late still includes what was placed before: net movements since the snapshot are remembered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from allhands.core.feasibility.counts import Occupants

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from numpy.typing import NDArray

    from allhands.core.feasibility.counts import Count
    from allhands.core.rivals import Rivals
    from allhands.core.snapshot import PodTable
    from allhands.model.shape import PodShape


class Tally:
    def __init__(self, pods: PodTable, node_count: int) -> None:
        self._pods = pods
        self._node_count = node_count
        self._occupants: Occupants | None = None
        self._own_domains: NDArray[np.int32] | None = None
        self._counts: dict[Hashable, Count] = {}
        self._touched: dict[str, list[tuple[Count, int]]] = {}
        self._moved: dict[tuple[str, int, bool], int] = {}
        self._moved_shapes: dict[str, PodShape] = {}
        self._held: dict[tuple[str, int], int] = {}
        """Of those that came, who are yet to come."""

    @property
    def occupants(self) -> Occupants:
        if self._occupants is None:
            self._occupants = Occupants(self._pods)
        return self._occupants

    @property
    def own_domains(self) -> NDArray[np.int32]:
        """Every node a domain of its own, for what is counted by node; there are one more numbers than nodes."""
        if self._own_domains is None:
            self._own_domains = np.arange(1, self._node_count + 1, dtype=np.int32)
        return self._own_domains

    def count(self, key: Hashable, make: Callable[[], Count]) -> Count:
        """The count with this key, made and filled if it is new."""
        found = self._counts.get(key)
        if found is None:
            found = make()
            self.occupants.fill(found)
            for (digest, row, leaving), net in self._moved.items():
                if found.includes_leaving or not leaving:
                    found.add(row, net * found.weight(self._moved_shapes[digest]))
            for (digest, row), number in self._held.items():
                if weight := found.weight(self._moved_shapes[digest]):
                    found.hold(row, number * weight)
            self._counts[key] = found
            self._touched.clear()
        return found

    def move(self, shape: PodShape, row: int, sign: int, *, leaving: bool) -> None:
        """A pod came or went; one that was being deleted is counted only where such pods are."""
        for count, weight in self._touched_by(shape):
            if count.includes_leaving or not leaving:
                count.add(row, sign * weight)
        key = (shape.digest, row, leaving)
        net = self._moved.get(key, 0) + sign
        if net:
            self._moved[key] = net
            self._moved_shapes[shape.digest] = shape
        else:
            del self._moved[key]

    def hold(self, shape: PodShape, row: int, sign: int) -> None:
        """A pod that came is yet to come (1), or is not any more (-1)."""
        for count, weight in self._touched_by(shape):
            count.hold(row, sign * weight)
        key = (shape.digest, row)
        self._moved_shapes[shape.digest] = shape
        self._held[key] = self._held.get(key, 0) + sign
        if not self._held[key]:
            del self._held[key]

    def _touched_by(self, shape: PodShape) -> list[tuple[Count, int]]:
        touched = self._touched.get(shape.digest)
        if touched is None:
            touched = [(count, weight) for count in self._counts.values() if (weight := count.weight(shape))]
            self._touched[shape.digest] = touched
        return touched

    @staticmethod
    def nominations(rivals: Rivals, counts: tuple[Count, ...]) -> dict[int, list[tuple[Count, int]]]:
        """For each row with nominated pods that count now, what they would add to these counts."""
        found: dict[int, list[tuple[Count, int]]] = {}
        for rival in rivals.counting if counts else ():
            for count in counts:
                if weight := count.weight_if_nominated(rival.shape):
                    found.setdefault(rival.row, []).append((count, weight))
        return dict(sorted(found.items()))
