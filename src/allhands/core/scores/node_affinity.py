"""Scores nodes by preferred node affinity: the share of the pod's weights that a node meets.

Kube-scheduler stretches the sum over the nodes that it compares; here the pod's own sum is the whole, so that a node's
score never depends on other nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from allhands.core.extension import SCORE_SCALE
from allhands.core.feasibility.following import Following
from allhands.core.feasibility.labels import NodeLabels

if TYPE_CHECKING:
    from collections.abc import Hashable

    from allhands.core.columns import Column, NodeColumns
    from allhands.model.shape import PodShape


class NodeAffinity:
    name = "nodeaffinity"

    def __init__(self) -> None:
        self._labels = Following(NodeLabels)

    def static_score(self, shape: PodShape, columns: NodeColumns) -> Column:
        score = np.zeros(len(columns), dtype=np.int64)
        preferred = [it for it in shape.node_affinity.preferred if it.weight > 0 and not it.term.is_empty]
        if not preferred:
            return score
        labels = self._labels.of(columns)
        for it in preferred:
            score += it.weight * labels.term_mask(it.term)
        return score * SCORE_SCALE // sum(it.weight for it in preferred)

    def looks_at(self, shape: PodShape) -> Hashable:
        return shape.node_affinity.preferred
