"""Which limits of distance in the network make sense, for Jobs, their partitions and PodGroups. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allhands.api.errors import FieldError, forbidden, required
from allhands.api.volcano.network_topology import NO_TIER, TWO_TIERS, NetworkTopologyMode

if TYPE_CHECKING:
    from allhands.api.document import Manifest


def topology_errors(topology: Manifest | None, path: str) -> list[FieldError]:
    """What is wrong with a `networkTopology`; nothing if there is none."""
    if topology is None:
        return []
    by_number, by_name = topology.get("highestTierAllowed") is not None, bool(topology.get("highestTierName"))
    if by_number and by_name:
        return [forbidden(f"{path}.highestTierName", TWO_TIERS)]
    is_hard = topology.get("mode", NetworkTopologyMode.HARD) == NetworkTopologyMode.HARD
    return [required(f"{path}.highestTierAllowed", NO_TIER)] if is_hard and not by_number and not by_name else []
