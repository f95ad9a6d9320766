"""Score plugins, one file each. To add one: a file here, a line in a list below, a test, a row in docs/plugins.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.core.scores.allocated import BinPack, LeastAllocated, MostAllocated
from allhands.core.scores.balanced import Balanced
from allhands.core.scores.image_locality import ImageLocality
from allhands.core.scores.node_affinity import NodeAffinity
from allhands.core.scores.pod_affinity import PodAffinity
from allhands.core.scores.resourcestrategy import ResourceStrategy
from allhands.core.scores.scarce import Scarce
from allhands.core.scores.spread import Spread
from allhands.core.scores.taints import Taints

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allhands.core.extension import NeighbourScore, StaticScore

SCORES: Final = {
    "binpack": BinPack,
    "leastallocated": LeastAllocated,
    "mostallocated": MostAllocated,
    "balanced": Balanced,
    "resourcestrategy": ResourceStrategy,
}
"""Every score by what a node would have left, by its registered name."""

STATIC_SCORES: Final[Mapping[str, type[StaticScore]]] = {
    "imagelocality": ImageLocality,
    "nodeaffinity": NodeAffinity,
    "scarce": Scarce,
    "taints": Taints,
}
"""Every score by what a node is."""

NEIGHBOUR_SCORES: Final[Mapping[str, type[NeighbourScore]]] = {
    "podaffinity": PodAffinity,
    "spread": Spread,
}
"""Every score by which pods are where; `Neighbours.score` weighs them equally."""
