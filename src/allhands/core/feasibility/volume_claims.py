"""Claims that get their volume when their pod gets its node, and what this cycle has promised them so far.

A free volume is promised to one claim only, and pods that share a claim must all be able to use what the first of them
chose. Promises are counted by the pods that rely on them; the last one to go takes the promise back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from allhands.core.feasibility.volume_classes import NONE
from allhands.core.feasibility.volume_reach import NOWHERE
from allhands.core.plan_volumes import BindClaim, PrepareVolume, SelectNode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allhands.core.columns import Column, Mask, Rows
    from allhands.core.feasibility.volume_storage import VolumeStorage
    from allhands.model.volume import PersistentVolumeClaim

Claims = tuple["PersistentVolumeClaim", ...]


class Promise(NamedTuple):
    """A volume of the claim's class by its number, or, with NONE, one that is to be made for the node.

    Fewer than no users: pods that ran with the claim before it was bound are thought away. That promises nothing.
    """

    volume: int
    row: int
    users: int


class WaitingClaims:
    def __init__(self, storage: VolumeStorage) -> None:
        self._storage = storage
        self._promises: dict[str, Promise] = {}
        self._taken: dict[str, Mask] = {}
        self._changes = 0
        self._last: tuple[Claims, int, list[Column | None]] = ((), -1, [])

    def allowed(self, claims: Claims) -> Iterator[tuple[str, Mask]]:
        """For each claim of a pod, by key, the nodes on which it would get a volume."""
        for claim, choice in zip(claims, self._choices(claims), strict=True):
            mask: Mask = np.zeros(len(self._storage.columns), dtype=np.bool_)
            if choice is None:
                mask[self._rows_of_decided(claim)] = True
            else:
                mask[self._storage.rows_of_makers(claim)] = True
                mask |= choice != NONE
            yield claim.key, mask

    def count(self, claims: Claims, row: int, sign: int) -> None:
        """One pod more or less that has these claims is on a node."""
        choices = self._choices(claims)
        for claim, choice in zip(claims, choices, strict=True):
            promise = self._promises.get(claim.key)
            if promise is None:
                volume = NONE if choice is None or sign < 0 else int(choice[row])
                self._promise(claim, Promise(volume, row, sign))
            else:
                self._promise(claim, promise._replace(users=promise.users + sign))
        self._changes += 1

    def prepare(self, claims: Claims, row: int) -> tuple[PrepareVolume, ...]:
        """What to do for these claims of a pod on a node, ordered by claim."""
        steps = []
        for claim, choice in zip(claims, self._choices(claims), strict=True):
            promise = self._promised(claim)
            number = promise.volume if promise is not None else NONE if choice is None else int(choice[row])
            steps.append(self._step(claim, number, row))
        return tuple(sorted(steps, key=lambda step: step.claim))

    def _step(self, claim: PersistentVolumeClaim, number: int, row: int) -> PrepareVolume:
        if number == NONE:
            node = self._storage.columns.names[row]
            return SelectNode(claim.key, claim.uid, node, selected=claim.selected_node is not None)
        volume = self._storage.volumes_of_class(claim.class_name).volumes[number]
        return BindClaim(claim.key, claim.uid, volume.name, kept=volume.claim is not None)

    def _promise(self, claim: PersistentVolumeClaim, promise: Promise) -> None:
        if promise.users:
            self._promises[claim.key] = promise
        else:
            del self._promises[claim.key]
        if promise.volume != NONE:
            taken = self._taken.get(claim.class_name)
            if taken is None:
                count = len(self._storage.volumes_of_class(claim.class_name).volumes)
                taken = self._taken[claim.class_name] = np.zeros(count, dtype=np.bool_)
            taken[promise.volume] = promise.users != 0

    def _promised(self, claim: PersistentVolumeClaim) -> Promise | None:
        promise = self._promises.get(claim.key)
        return promise if promise is not None and promise.users > 0 else None

    def _rows_of_decided(self, claim: PersistentVolumeClaim) -> Rows:
        """The nodes of a claim whose volume or node is settled, by a promise or by its annotation."""
        promise = self._promised(claim)
        if promise is not None and promise.volume != NONE:
            return self._storage.volumes_of_class(claim.class_name).reach(promise.volume)
        if promise is not None and claim.selected_node is None:
            row: int | None = promise.row
        else:
            row = self._storage.columns.row_by_name.get(claim.selected_node or "")
        if row is None:
            return NOWHERE
        makers = self._storage.rows_of_makers(claim)
        at_row: Rows = makers[makers == row]
        return at_row

    def _choices(self, claims: Claims) -> list[Column | None]:
        """For each claim the volume that it would get on each node; None where that is settled already."""
        if self._last[1] == self._changes and self._last[0] == claims:
            return self._last[2]
        found: list[Column | None] = []
        by_class: dict[str, list[Column]] = {}
        for claim in claims:
            if claim.selected_node is not None or self._promised(claim) is not None:
                found.append(None)
                continue
            before = by_class.setdefault(claim.class_name, [])
            volumes = self._storage.volumes_of_class(claim.class_name)
            before.append(volumes.choices(claim, self._taken.get(claim.class_name), before))
            found.append(before[-1])
        self._last = (claims, self._changes, found)
        return found
