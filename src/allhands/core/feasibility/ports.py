"""Ports of the node itself: a pod may not go where a pod holds a port that conflicts with one of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from allhands.core.feasibility.counts import Occupants
    from allhands.model.pod import HostPort
    from allhands.model.shape import PodShape


class ConflictingPorts:
    """Watches pods that hold a port which conflicts with one of these."""

    def __init__(self, ports: tuple[HostPort, ...]) -> None:
        self._ports = ports

    def weight(self, shape: PodShape) -> int:
        return int(any(mine.conflicts_with(theirs) for theirs in shape.host_ports for mine in self._ports))

    def candidates(self, occupants: Occupants) -> Iterable[int]:
        return occupants.with_ports
