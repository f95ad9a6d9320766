"""What pods on nodes use of storage: attached volumes by node and driver, claims for one pod, disks for one pod a node.

It counts pods that run and pods that this cycle has placed alike. `count` with the opposite sign is the exact inverse,
in any order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, TypeVar

import numpy as np

from allhands.core.feasibility.volume_running import RunningVolumes
from allhands.model.pod_volume import Attachment, InlineVolume

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allhands.core.columns import Column, Mask
    from allhands.core.feasibility.volume_needs import VolumeUse
    from allhands.core.feasibility.volume_storage import VolumeStorage
    from allhands.core.snapshot import PodTable

Key = TypeVar("Key", int, str)
Users: TypeAlias = dict[int, int]
"""Row -> how many pods there; no zeros."""


class VolumeUsage:
    def __init__(self, storage: VolumeStorage, pods: PodTable) -> None:
        self._size = len(storage.columns)
        self._limits = storage.limits()
        self._attached: dict[Attachment, Users] = {}
        self._counts: dict[str, Column] = {
            driver: np.zeros(self._size, dtype=np.int64) for driver in sorted(self._limits)
        }
        self._users_of_claim: dict[str, int] = {}
        self._disks: dict[tuple[str, tuple[str, ...]], dict[InlineVolume, Users]] = {}
        self._held = frozenset(_attachments_of_nodes(storage))
        """What the API says is attached to nodes, whether or not a pod there still uses it."""
        self._running = RunningVolumes(storage.shape_uses, pods, self._size)
        for driver, counts in self._running.volumes_of_driver():
            self._counts[driver] += counts
        for key, count in self._running.users_of_claims():
            _add(self._users_of_claim, key, count)
        for disk, row in self._running.disks():
            self._count_disk(disk, row, 1)
        for attachment, row in self._held:
            if row not in self.users(attachment):
                self._counts[attachment.driver][row] += 1

    def count(self, use: VolumeUse, row: int, sign: int) -> None:
        """One pod more or less on a node."""
        for attachment, _ in use.attachments:
            if attachment.driver in self._limits:
                self._count_attachment(attachment, row, sign)
        for disk in use.disks:
            self._count_disk(disk, row, sign)
        for key in use.for_one_pod:
            _add(self._users_of_claim, key, sign)

    def users(self, attachment: Attachment) -> Users:
        """The pods on each node that use a volume of a limited driver."""
        users = self._attached.get(attachment)
        if users is None:
            users = self._attached[attachment] = self._running.users(attachment)
        return users

    def is_used(self, claim: str) -> bool:
        return self._users_of_claim.get(claim, 0) > 0

    def can_attach(self, use: VolumeUse) -> Iterator[tuple[str, Mask]]:
        """For each limited driver of the pod, named by its first claim or disk: the nodes that can attach the rest."""
        by_driver: dict[str, list[tuple[Attachment, str]]] = {}
        for attachment, owner in use.attachments:
            if attachment.driver in self._limits:
                by_driver.setdefault(attachment.driver, []).append((attachment, owner))
        for driver, attachments in by_driver.items():
            more = np.full(self._size, len(attachments), dtype=np.int64)
            for attachment, _ in attachments:
                more[[row for row, users in self.users(attachment).items() if users > 0]] -= 1
            yield attachments[0][1], (more == 0) | (self._counts[driver] + more <= self._limits[driver])

    def without_conflict(self, disk: InlineVolume) -> Mask | None:
        """The nodes where no pod has a disk that cannot be together with this one; None is all."""
        rows = [
            row
            for other, users in self._disks.get((disk.kind, disk.source), {}).items()
            if disk.conflicts_with(other)
            for row, count in users.items()
            if count > 0
        ]
        if not rows:
            return None
        mask = np.ones(self._size, dtype=np.bool_)
        mask[rows] = False
        return mask

    def _count_attachment(self, attachment: Attachment, row: int, sign: int) -> None:
        users = self.users(attachment)
        was_attached = users.get(row, 0) > 0
        _add(users, row, sign)
        is_attached = users.get(row, 0) > 0
        if was_attached != is_attached and (attachment, row) not in self._held:
            self._counts[attachment.driver][row] += sign

    def _count_disk(self, disk: InlineVolume, row: int, sign: int) -> None:
        same = self._disks.setdefault((disk.kind, disk.source), {})
        users = same.setdefault(disk, {})
        _add(users, row, sign)
        if not users:
            del same[disk]
        if not same:
            del self._disks[disk.kind, disk.source]


def _add(counts: dict[Key, int], key: Key, by: int) -> None:
    total = counts.get(key, 0) + by
    if total:
        counts[key] = total
    else:
        del counts[key]


def _attachments_of_nodes(storage: VolumeStorage) -> Iterator[tuple[Attachment, int]]:
    limits, facts = storage.limits(), storage.facts
    for it in facts.attachments:
        row = storage.columns.row_by_name.get(it.node_name)
        volume = facts.volumes.get(it.volume_name)
        # Only volumes that a driver has had from the start count while no pod uses them.
        if row is None or volume is None or volume.attachment is None or volume.old_kind or it.driver not in limits:
            continue
        yield Attachment(it.driver, volume.attachment.handle), row
