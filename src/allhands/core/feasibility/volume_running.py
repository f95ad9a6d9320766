"""What the pods that run use of storage, counted by shape and by node with numpy, however many pods there are.

What a shape uses is worked out once and handed on to later cycles; who runs where is counted anew in each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from allhands.core.snapshot import PodFlag

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allhands.core.columns import Column, Rows
    from allhands.core.feasibility.volume_storage import VolumeStorage
    from allhands.core.snapshot import PodTable
    from allhands.model.pod_volume import Attachment, InlineVolume
    from allhands.model.shape import PodShape


class ShapeUses:
    """What each shape of a table of pods uses, by its number there. Only volumes of limited drivers are kept."""

    def __init__(self, storage: VolumeStorage) -> None:
        self._storage = storage
        self._forget()

    def _forget(self) -> None:
        self._shapes: tuple[PodShape, ...] = ()
        self.number_of: dict[Attachment, int] = {}
        self.for_one_pod: dict[int, tuple[str, ...]] = {}
        self.disks: dict[int, tuple[InlineVolume, ...]] = {}
        self._lengths: list[int] = []
        self._flat: list[int] = []
        self._arrays()

    def _arrays(self) -> None:
        self.lengths: Column = np.array(self._lengths, dtype=np.int64)
        self.begins: Column = np.cumsum(self.lengths) - self.lengths
        self.attachments: Column = np.array(self._flat, dtype=np.int64)
        """Their numbers, those of a shape from its place in `begins` on."""
        self.in_use = self.lengths > 0
        self.in_use[[*self.for_one_pod, *self.disks]] = True

    def follow(self, shapes: tuple[PodShape, ...]) -> None:
        """Brings it up to date with a table whose shapes are the known ones and perhaps more."""
        if shapes is self._shapes:
            return
        known = len(self._shapes)
        if shapes[:known] != self._shapes:
            self._forget()
            known = 0
        limits = self._storage.limits()
        for number in range(known, len(shapes)):
            shape = shapes[number]
            length = 0
            if shape.claims or shape.volumes:
                use = self._storage.use(shape)
                if use.for_one_pod:
                    self.for_one_pod[number] = use.for_one_pod
                if use.disks:
                    self.disks[number] = use.disks
                limited = [it for it, _ in use.attachments if it.driver in limits]
                self._flat.extend(self.number_of.setdefault(it, len(self.number_of)) for it in limited)
                length = len(limited)
            self._lengths.append(length)
        self._shapes = shapes
        self._arrays()


class RunningVolumes:
    def __init__(self, uses: ShapeUses, pods: PodTable, size: int) -> None:
        uses.follow(pods.shapes)
        self._uses = uses
        self._size = size
        rows = np.flatnonzero((pods.node >= 0) & uses.in_use[pods.shape])
        self._node: Rows = pods.node[rows].astype(np.int64)
        self._shape: Rows = pods.shape[rows].astype(np.int64)
        self._is_bound = (pods.flags[rows] & PodFlag.NOMINATED) == 0
        self._count_attachments()

    def _count_attachments(self) -> None:
        """A volume on a node is one number; `_codes` ascend, `_pods` says how many share it."""
        uses = self._uses
        each = uses.lengths[self._shape]
        place = np.arange(int(each.sum())) - np.repeat(np.cumsum(each) - each, each)
        volume = uses.attachments[np.repeat(uses.begins[self._shape], each) + place]
        codes = volume * self._size + np.repeat(self._node, each)
        self._codes, self._pods = np.unique(codes, return_counts=True)

    def users(self, attachment: Attachment) -> dict[int, int]:
        """Row -> how many pods there use the volume."""
        number = self._uses.number_of.get(attachment)
        if number is None:
            return {}
        first, last = np.searchsorted(self._codes, (number * self._size, (number + 1) * self._size))
        rows = self._codes[first:last] - number * self._size
        return dict(zip(rows.tolist(), self._pods[first:last].tolist(), strict=True))

    def volumes_of_driver(self) -> Iterator[tuple[str, Column]]:
        """For each driver how many of its volumes are in use on each node."""
        if not self._codes.size:
            return
        drivers = sorted({attachment.driver for attachment in self._uses.number_of})
        number_of_driver = {driver: number for number, driver in enumerate(drivers)}
        driver_of = np.array([number_of_driver[it.driver] for it in self._uses.number_of], dtype=np.int64)
        volume, row = np.divmod(self._codes, self._size)
        for driver, number in number_of_driver.items():
            yield driver, np.bincount(row[driver_of[volume] == number], minlength=self._size)

    def users_of_claims(self) -> Iterator[tuple[str, int]]:
        """How many pods have a claim that is for one. A pod that is only nominated keeps no claim from others."""
        counts = np.bincount(self._shape[self._is_bound], minlength=len(self._uses.lengths))
        for shape, keys in self._uses.for_one_pod.items():
            if counts[shape]:
                yield from ((key, int(counts[shape])) for key in keys)

    def disks(self) -> Iterator[tuple[InlineVolume, int]]:
        """Every disk that a pod has, with its node."""
        with_disks = np.array(sorted(self._uses.disks), dtype=np.int64)
        for at in np.flatnonzero(np.isin(self._shape, with_disks)).tolist():
            for disk in self._uses.disks[int(self._shape[at])]:
                yield disk, int(self._node[at])
