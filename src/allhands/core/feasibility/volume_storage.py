"""Storage over the nodes, as far as it stays the same during a cycle: reach of volumes, makers of volumes, limits.

Everything is worked out when it is first asked for, and handed on to the next cycle as long as neither the storage
objects nor the labels of nodes have changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from allhands.core.feasibility.volume_classes import ClassVolumes
from allhands.core.feasibility.volume_needs import VolumeNeeds, VolumeUse, needs_of, use_of
from allhands.core.feasibility.volume_reach import NOWHERE, NodeReach
from allhands.core.feasibility.volume_running import ShapeUses

if TYPE_CHECKING:
    from allhands.core.columns import Column, Mask, NodeColumns, Rows
    from allhands.model.shape import PodShape
    from allhands.model.volume import PersistentVolume, PersistentVolumeClaim, VolumeFacts

UNLIMITED: Final = 2**62
MOST_REMEMBERED_SHAPES: Final = 1 << 18


class VolumeStorage:
    def __init__(self, facts: VolumeFacts, columns: NodeColumns, reach: NodeReach) -> None:
        self.facts = facts
        self.columns = columns
        self.reach = reach
        self._uses: dict[str, VolumeUse] = {}
        self._needs: dict[str, VolumeNeeds] = {}
        self._by_class: dict[str, list[PersistentVolume]] | None = None
        self._classes: dict[str, ClassVolumes] = {}
        self._makers: dict[tuple[str, int | None], Rows] = {}
        self._migrated: dict[str, Mask] = {}
        self._limits: dict[str, Column] | None = None
        self.shape_uses = ShapeUses(self)

    @staticmethod
    def build(facts: VolumeFacts, columns: NodeColumns, before: VolumeStorage | None) -> VolumeStorage:
        """Takes over from an earlier cycle what still holds."""
        if before is None or not before.reach.holds_for(columns.nodes):
            return VolumeStorage(facts, columns, NodeReach(columns.nodes))
        if facts is not before.facts:
            return VolumeStorage(facts, columns, before.reach)
        before.columns = columns
        return before

    def use(self, shape: PodShape) -> VolumeUse:
        found = self._uses.get(shape.digest)
        if found is None:
            if len(self._uses) >= MOST_REMEMBERED_SHAPES:
                self._uses.clear()
            found = self._uses[shape.digest] = use_of(shape, self.facts)
        return found

    def needs(self, shape: PodShape) -> VolumeNeeds:
        found = self._needs.get(shape.digest)
        if found is None:
            if len(self._needs) >= MOST_REMEMBERED_SHAPES:
                self._needs.clear()
            found = self._needs[shape.digest] = needs_of(shape, self.use(shape), self.facts)
        return found

    def volumes_of_class(self, name: str) -> ClassVolumes:
        """Those that an unbound claim of the class could be given."""
        found = self._classes.get(name)
        if found is None:
            volumes = self._volumes_by_class().get(name, [])
            found = self._classes[name] = ClassVolumes(volumes, self._plain_reach, len(self.columns))
        return found

    def rows_of_volume(self, volume: PersistentVolume) -> Rows:
        """The nodes on which a bound volume can be used, by its node affinity."""
        rows = self._plain_reach(volume)
        if not volume.plugin or (taken_over := self._taken_over(volume.plugin)) is None:
            return rows
        if volume.attachment is None:
            # Its driver cannot name it.
            return rows[~taken_over[rows]]
        translated = self.reach.of_affinity(volume.migrated_affinity)
        return np.union1d(rows[~taken_over[rows]], translated[taken_over[translated]])

    def rows_of_makers(self, claim: PersistentVolumeClaim) -> Rows:
        """The nodes for which a volume for the claim can be made."""
        storage_class = self.facts.classes[claim.class_name]
        if not storage_class.provisions:
            return NOWHERE
        driver = self.facts.drivers.get(storage_class.provisioner)
        measured = driver is not None and driver.tracks_capacity and claim.request_bytes is not None
        key = (claim.class_name, claim.request_bytes if measured else None)
        found = self._makers.get(key)
        if found is None:
            found = self.reach.of_topologies(storage_class.allowed_topologies)
            if measured:
                found = np.intersect1d(found, self._rows_with_room(*key), assume_unique=True)
            self._makers[key] = found
        return found

    def limits(self) -> dict[str, Column]:
        """Driver -> how many volumes each node can attach, UNLIMITED where it does not say. None that never does."""
        if self._limits is None:
            self._limits = {}
            for name, node in self.facts.nodes.items():
                row = self.columns.row_by_name.get(name)
                if row is None:
                    continue
                for driver, limit in node.drivers:
                    if limit is not None:
                        self._limit(driver)[row] = min(max(limit, 0), UNLIMITED)
        return self._limits

    def _limit(self, driver: str) -> Column:
        assert self._limits is not None
        column = self._limits.get(driver)
        if column is None:
            column = self._limits[driver] = np.full(len(self.columns), UNLIMITED, dtype=np.int64)
        return column

    def _rows_with_room(self, class_name: str, request_bytes: int | None) -> Rows:
        parts = [
            self.reach.of_selector(it.node_topology)
            for it in self.facts.capacities
            if it.class_name == class_name and it.limit_bytes is not None and it.limit_bytes >= (request_bytes or 0)
        ]
        return np.unique(np.concatenate(parts)) if parts else NOWHERE

    def _plain_reach(self, volume: PersistentVolume) -> Rows:
        return self.reach.of_affinity(volume.node_affinity)

    def _taken_over(self, plugin: str) -> Mask | None:
        """The nodes where a driver has taken over from a plugin; None for none."""
        found = self._migrated.get(plugin)
        if found is None:
            found = self._migrated[plugin] = np.zeros(len(self.columns), dtype=np.bool_)
            for name, node in self.facts.nodes.items():
                if plugin in node.migrated_plugins and (row := self.columns.row_by_name.get(name)) is not None:
                    found[row] = True
        return found if found.any() else None

    def _volumes_by_class(self) -> dict[str, list[PersistentVolume]]:
        """Without the volumes of claims that are bound already, or that do not exist."""
        if self._by_class is None:
            self._by_class = {}
            for volume in self.facts.volumes.values():
                if (owner := volume.claim) is not None:
                    claim = self.facts.claims.get(f"{owner.namespace}/{owner.name}")
                    if claim is None or claim.is_bound:
                        continue
                self._by_class.setdefault(volume.class_name, []).append(volume)
        return self._by_class
