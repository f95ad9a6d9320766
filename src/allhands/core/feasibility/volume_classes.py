"""The volumes of one storage class that a claim could still be given, as columns; and which of them each node gets.

The smallest that fits is taken, ties by name, as kube-scheduler does on each node alone. All nodes are answered at
once: volumes of equal reach are one question, since on such nodes the first of them that fits wins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from allhands.core.columns import Column, Mask, Rows
    from allhands.model.selector import LabelSelector
    from allhands.model.volume import PersistentVolume, PersistentVolumeClaim

NONE: Final = -1
"""No volume."""
AVAILABLE: Final = "Available"


class ClassVolumes:
    """Volumes are known by their number here: ascending by size, then by name."""

    def __init__(
        self, volumes: Sequence[PersistentVolume], reach_of: Callable[[PersistentVolume], Rows], node_count: int
    ) -> None:
        usable = [it for it in volumes if not it.deleting and (it.claim is not None or it.phase == AVAILABLE)]
        self.volumes = tuple(sorted(usable, key=lambda it: (it.capacity_bytes, it.name)))
        self._node_count = node_count
        self._capacity: Column = np.array([it.capacity_bytes for it in self.volumes], dtype=np.int64)
        self._free: Mask = np.array([it.claim is None for it in self.volumes], dtype=np.bool_)
        self._access: dict[str, Mask] = {}
        self._kinds: dict[tuple[str, str], Mask] = {}
        self._selected: dict[LabelSelector, Mask] = {}
        self._kept: dict[tuple[str, str], list[int]] = {}
        for number, volume in enumerate(self.volumes):
            if volume.claim is not None:
                self._kept.setdefault((volume.claim.namespace, volume.claim.name), []).append(number)
        self._spread(reach_of)

    def _spread(self, reach_of: Callable[[PersistentVolume], Rows]) -> None:
        """Volumes with the same rows share a reach; an entry is one row of one reach."""
        number_by_rows: dict[int, int] = {}
        reaches: list[Rows] = []
        reach_by_volume: list[int] = []
        for volume in self.volumes:
            rows = reach_of(volume)
            # Who answers gives equal questions the same array, and keeps it.
            found = number_by_rows.setdefault(id(rows), len(reaches))
            if found == len(reaches):
                reaches.append(rows)
            reach_by_volume.append(found)
        self._reach: Column = np.array(reach_by_volume, dtype=np.int64)
        self._reaches = reaches
        self._by_reach = np.argsort(self._reach, kind="stable")
        self._begins = np.searchsorted(self._reach[self._by_reach], np.arange(len(reaches)))
        sizes = [len(rows) for rows in reaches]
        self._entry_row: Rows = np.concatenate(reaches) if reaches else np.zeros(0, dtype=np.int64)
        self._entry_reach: Column = np.repeat(np.arange(len(reaches), dtype=np.int64), sizes)

    def reach(self, number: int) -> Rows:
        return self._reaches[int(self._reach[number])]

    def kept_for(self, claim: PersistentVolumeClaim) -> int:
        """The volume that names this claim as its owner: no other will do. NONE if there is none."""
        for number in self._kept.get((claim.namespace, claim.name), ()):
            volume = self.volumes[number]
            if volume.is_for(claim) and self._suits(claim)[number]:
                return number
        return NONE

    def choices(self, claim: PersistentVolumeClaim, taken: Mask | None, before: Sequence[Column]) -> Column:
        """For each node the volume that the claim would get there, or NONE.

        `taken` are volumes that others have got; `before` what earlier claims of the same pod would get on each node.
        """
        found = np.full(self._node_count, len(self.volumes), dtype=np.int64)
        kept = self.kept_for(claim)
        if kept != NONE:
            found[self.reach(kept)] = kept
        else:
            allowed = self._suits(claim) & self._free & self._offers(claim.access_modes)
            if claim.selector is not None:
                allowed &= self._is_selected(claim.selector)
            if taken is not None:
                allowed &= ~taken
            self._first_of_each(allowed, before, found)
        found[found == len(self.volumes)] = NONE
        return found

    def _first_of_each(self, allowed: Mask, before: Sequence[Column], found: Column) -> None:
        """Lowers `found` to the first allowed volume of every node that is not among those of `before`."""
        if not self._reaches:
            return
        for first in self._firsts(allowed, len(before) + 1):
            offered = first[self._entry_reach]
            usable = offered < len(self.volumes)
            for earlier in before:
                usable &= earlier[self._entry_row] != offered
            np.minimum.at(found, self._entry_row[usable], offered[usable])

    def _firsts(self, allowed: Mask, places: int) -> Iterator[Column]:
        """The first allowed volume of each reach, the second, and so on. On a node where so many less one are gone, one
        of these is left, or there is none."""
        none = len(self.volumes)
        numbers = np.where(allowed[self._by_reach], self._by_reach, none)
        first: Column = np.minimum.reduceat(numbers, self._begins)
        yield first
        for _ in range(1, places):
            numbers[numbers == first[self._reach[self._by_reach]]] = none
            first = np.minimum.reduceat(numbers, self._begins)
            yield first

    def _suits(self, claim: PersistentVolumeClaim) -> Mask:
        suits: Mask = self._capacity >= (claim.request_bytes or 0)
        return suits & self._is_kind(claim.volume_mode, claim.attributes_class)

    def _is_kind(self, volume_mode: str, attributes_class: str) -> Mask:
        found = self._kinds.get((volume_mode, attributes_class))
        if found is None:
            equal = [it.volume_mode == volume_mode and it.attributes_class == attributes_class for it in self.volumes]
            found = self._kinds[volume_mode, attributes_class] = np.array(equal, dtype=np.bool_)
        return found

    def _offers(self, access_modes: tuple[str, ...]) -> Mask:
        offers: Mask = np.ones(len(self.volumes), dtype=np.bool_)
        for mode in access_modes:
            found = self._access.get(mode)
            if found is None:
                found = self._access[mode] = np.array([mode in it.access_modes for it in self.volumes], dtype=np.bool_)
            offers &= found
        return offers

    def _is_selected(self, selector: LabelSelector) -> Mask:
        found = self._selected.get(selector)
        if found is None:
            matching = [selector.matches(it.labels) for it in self.volumes]
            found = self._selected[selector] = np.array(matching, dtype=np.bool_)
        return found
