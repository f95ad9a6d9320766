"""Where a pod may go because of its volumes: equal to kube-scheduler's four volume filters, for whole gangs.

What other pods of the same cycle were given counts as taken, which kube-scheduler sees only from one pod to the next.
A shape without claims and volumes is never looked at. An alpha feature (drivers that must be installed) is not here.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

import msgspec
import numpy as np

from allhands.core.feasibility.volume_claims import WaitingClaims
from allhands.core.feasibility.volume_needs import VolumeProblem, disk_name, not_ready
from allhands.core.feasibility.volume_storage import VolumeStorage
from allhands.core.feasibility.volume_usage import VolumeUsage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allhands.core.columns import Mask, NodeColumns, Rows
    from allhands.core.feasibility.volume_needs import VolumeNeeds
    from allhands.core.plan_volumes import PrepareVolume
    from allhands.core.snapshot import PodTable
    from allhands.model.reason import Explanation
    from allhands.model.shape import PodShape
    from allhands.model.volume import VolumeFacts

Restriction: TypeAlias = "tuple[str, VolumeProblem, Mask]"
"""What stands in the way: of whom, of what kind, and the nodes that it leaves."""


class VolumeFeasibility:
    """Belongs to one cycle. `before` is that of the last cycle, from which it takes over what still holds."""

    def __init__(
        self, facts: VolumeFacts, columns: NodeColumns, pods: PodTable, before: VolumeFeasibility | None = None
    ) -> None:
        self._facts = facts
        self._columns = columns
        self._pods = pods
        self._before: VolumeStorage | None = None if before is None else before._storage or before._before
        self._storage: VolumeStorage | None = None
        self._usage: VolumeUsage | None = None
        self._claims: WaitingClaims | None = None
        self._last_reach: tuple[VolumeNeeds | None, Mask] = (None, np.zeros(0, dtype=np.bool_))

    def concerns(self, shape: PodShape) -> bool:
        """Whether volumes have a say at all; if not, nothing else need be asked."""
        return bool(shape.claims or shape.volumes)

    def is_dynamic(self, shape: PodShape) -> bool:
        """Whether its nodes depend on where others are, or theirs on where it is; then it is placed one at a time."""
        if not self.concerns(shape):
            return False
        needs = self.storage.needs(shape)
        if needs.waiting or needs.use.for_one_pod or needs.use.disks:
            return True
        limits = self.storage.limits() if needs.use.attachments else {}
        return any(attachment.driver in limits for attachment, _ in needs.use.attachments)

    def mask(self, shape: PodShape) -> Mask:
        """The nodes that will do now, with everything that was placed so far. It belongs to the caller."""
        if not self.concerns(shape):
            return np.ones(len(self._columns), dtype=np.bool_)
        needs = self.storage.needs(shape)
        if needs.problem is not None:
            return np.zeros(len(self._columns), dtype=np.bool_)
        mask = self._in_reach(needs).copy()
        for _, _, allowed in self._held_by_others(needs):
            mask &= allowed
        return mask

    def reach(self, shape: PodShape) -> Mask:
        """The nodes that reach the volumes of all its bound claims; `mask` as it is for a shape that is not dynamic.

        It does not change during the cycle, and nobody may write to it.
        """
        needs = self.storage.needs(shape)
        return self._in_reach(needs) if needs.problem is None else np.zeros(len(self._columns), dtype=np.bool_)

    def why(self, shape: PodShape, among: Mask | None = None) -> Explanation | None:
        """Which claim (or disk) keeps such a pod from every node (of these) now; None if some node will do."""
        if not self.concerns(shape):
            return None
        needs = self.storage.needs(shape)
        if needs.problem is not None:
            return needs.problem
        mask: Mask = np.ones(len(self._columns), dtype=np.bool_) if among is None else among.copy()
        for name, problem, allowed in chain(self._out_of_reach(needs), self._held_by_others(needs)):
            mask &= allowed
            if not mask.any():
                return not_ready(name, problem)
        return None

    def placed(self, shape: PodShape, row: int, sign: int) -> None:
        """A pod was put on a node (1) or taken off again (-1), by this cycle or, for a pod that runs, in trying."""
        if not self.is_dynamic(shape):
            return
        needs = self.storage.needs(shape)
        self.usage.count(needs.use, row, sign)
        if needs.waiting:
            self.claims.count(needs.waiting, row, sign)

    def nominated(self, shape: PodShape, row: int, sign: int) -> None:
        """The same for a pod that another scheduler means to put there: no claim is kept for it."""
        use = self.storage.use(shape)
        self.usage.count(msgspec.structs.replace(use, for_one_pod=()), row, sign)

    def prepare(self, shape: PodShape, row: int) -> tuple[PrepareVolume, ...]:
        """What must be done before a pod that is placed there is bound, or any other of its group."""
        if not self.concerns(shape):
            return ()
        needs = self.storage.needs(shape)
        return self.claims.prepare(needs.waiting, row) if needs.waiting else ()

    @property
    def storage(self) -> VolumeStorage:
        if self._storage is None:
            self._storage = VolumeStorage.build(self._facts, self._columns, self._before)
        return self._storage

    @property
    def usage(self) -> VolumeUsage:
        if self._usage is None:
            self._usage = VolumeUsage(self.storage, self._pods)
        return self._usage

    @property
    def claims(self) -> WaitingClaims:
        if self._claims is None:
            self._claims = WaitingClaims(self.storage)
        return self._claims

    def _in_reach(self, needs: VolumeNeeds) -> Mask:
        """The nodes that reach all bound volumes; remembered for the next pod of the same shape."""
        last_needs, mask = self._last_reach
        if last_needs is not needs:
            mask = np.ones(len(self._columns), dtype=np.bool_)
            for _, _, allowed in self._out_of_reach(needs):
                mask &= allowed
            self._last_reach = (needs, mask)
        return mask

    def _out_of_reach(self, needs: VolumeNeeds) -> Iterator[Restriction]:
        for claim in needs.bound:
            yield claim.key, VolumeProblem.OUT_OF_REACH, self._only(self.storage.rows_of_volume(claim.volume))
            if claim.zoned and (zones := claim.volume.zones):
                yield claim.key, VolumeProblem.OUT_OF_REACH, self._only(self.storage.reach.of_zones(zones))

    def _held_by_others(self, needs: VolumeNeeds) -> Iterator[Restriction]:
        """What depends on the pods that are there."""
        for key in needs.use.for_one_pod:
            if self.usage.is_used(key):
                yield key, VolumeProblem.ONE_POD_ONLY, np.zeros(len(self._columns), dtype=np.bool_)
        for disk in needs.use.disks:
            if (allowed := self.usage.without_conflict(disk)) is not None:
                yield disk_name(disk), VolumeProblem.DISK_IN_USE, allowed
        if needs.waiting:
            for key, allowed in self.claims.allowed(needs.waiting):
                yield key, VolumeProblem.NO_ROOM, allowed
        if needs.use.attachments and self.storage.limits():
            for owner, allowed in self.usage.can_attach(needs.use):
                yield owner, VolumeProblem.TOO_MANY_ATTACHED, allowed

    def _only(self, rows: Rows) -> Mask:
        mask: Mask = np.zeros(len(self._columns), dtype=np.bool_)
        mask[rows] = True
        return mask
