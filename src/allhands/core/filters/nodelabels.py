"""Uses only nodes that have all of the given labels: so a cluster can be shared with another scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.core.feasibility.following import Following
from allhands.core.feasibility.labels import NodeLabels

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allhands.core.columns import Mask, NodeColumns
    from allhands.model.shape import PodShape

NO_LABELS: Final[Mapping[str, str]] = {}


class NodeLabelFilter:
    name = "nodelabels"

    def __init__(self, labels: Mapping[str, str] = NO_LABELS) -> None:
        self._pairs = tuple(sorted(labels.items()))
        self._labels = Following(NodeLabels)

    def mask(self, shape: PodShape, columns: NodeColumns) -> Mask:  # noqa: ARG002
        return self._labels.of(columns).pairs_mask(self._pairs)
