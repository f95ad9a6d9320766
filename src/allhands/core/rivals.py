"""Pods that other schedulers mean to put on nodes. They count for everybody but for those who outrank them.

The world counts them on their nodes for all. Who asks for room with a higher priority than theirs looks past them, for
as long as it is asked: what they would take is free to it, and what they forbid is allowed. As kube-scheduler has it.
"""

from __future__ import annotations

from bisect import bisect_left
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from allhands.core.pod_state import units_counted
from allhands.core.snapshot import PodFlag

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from allhands.core.columns import NodeColumns, Request
    from allhands.core.feasibility.volumes import VolumeFeasibility
    from allhands.core.room import Room
    from allhands.core.snapshot import PodTable, Snapshot
    from allhands.model.shape import PodShape


class Rival(NamedTuple):
    priority: int
    row: int
    """Of the node that it is nominated for."""
    shape: PodShape


class Rivals:
    """Those of one snapshot. `level` is how many of them are looked past just now: the lowest ones."""

    def __init__(self, found: list[Rival], columns: NodeColumns) -> None:
        self._all = sorted(found, key=lambda it: (it.priority, it.row, it.shape.digest))
        self._priorities = [it.priority for it in self._all]
        self._columns = columns
        self.shapes = {it.shape.digest: it.shape for it in self._all}
        self.level = 0

    def level_of(self, priority: int) -> int:
        """How many of them a group of this priority looks past."""
        return bisect_left(self._priorities, priority)

    @property
    def counting(self) -> list[Rival]:
        """Those that count just now, by rising priority."""
        return self._all[self.level :]

    @contextmanager
    def seen_by(self, priority: int, room: Room, volumes: Callable[[], VolumeFeasibility]) -> Iterator[None]:
        """In here, the room is what a group of this priority sees of it. What is placed meanwhile stays placed."""
        before, self.level = self.level, self.level_of(priority)
        self._count(before, self.level, room, volumes)
        try:
            yield
        finally:
            self._count(self.level, before, room, volumes)
            self.level = before

    def _count(self, before: int, after: int, room: Room, volumes: Callable[[], VolumeFeasibility]) -> None:
        """From one level to another: those between are given back, or count again."""
        sign = 1 if after < before else -1
        for it in self._all[min(before, after) : max(before, after)]:
            room.take(_request(it.shape, self._columns), [it.row], sign)
            if it.shape.claims or it.shape.volumes:
                volumes().nominated(it.shape, it.row, sign)


def rivals_of(snapshot: Snapshot) -> Rivals | None:
    """None where no pod is nominated by others, as nearly always."""
    pods = snapshot.pods
    if pods.nominated == ():
        return None
    found = [
        Rival(int(pods.priority[at]), int(pods.node[at]), pods.shapes[int(pods.shape[at])])
        for at in _nominated(pods)
        if pods.node[at] >= 0
    ]
    return Rivals(found, snapshot.columns) if found else None


def looked_past(snapshot: Snapshot, row: int, priority: int) -> dict[int, int]:
    """Column -> units that are counted on a node for nominated pods, but not for those of this priority."""
    pods = snapshot.pods
    units: dict[int, int] = {}
    for at in _nominated(pods):
        if int(pods.node[at]) == row and int(pods.priority[at]) < priority:
            for column, amount in _request(pods.shapes[int(pods.shape[at])], snapshot.columns):
                units[column] = units.get(column, 0) + amount
    return units


def _nominated(pods: PodTable) -> tuple[int, ...]:
    if pods.nominated is not None:
        return pods.nominated
    found: list[int] = np.flatnonzero((pods.flags & PodFlag.NOMINATED) != 0).tolist()
    return tuple(found)


def _request(shape: PodShape, columns: NodeColumns) -> Request:
    return tuple(sorted(units_counted(shape, columns)))
