"""Scores nodes by the taints that ask a pod to stay away if it can: none is best, each one more counts less."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allhands.core.extension import SCORE_SCALE
from allhands.core.feasibility.following import Following
from allhands.core.feasibility.taints import NodeTaints

if TYPE_CHECKING:
    from collections.abc import Hashable

    from allhands.core.columns import Column, NodeColumns
    from allhands.model.shape import PodShape


class Taints:
    name = "taints"

    def __init__(self) -> None:
        self._taints = Following(NodeTaints)

    def static_score(self, shape: PodShape, columns: NodeColumns) -> Column:
        return SCORE_SCALE // (1 + self._taints.of(columns).disliked(shape.tolerations))

    def looks_at(self, shape: PodShape) -> Hashable:
        return shape.tolerations
