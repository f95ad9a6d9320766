"""Scores nodes by preferred inter-pod affinity: the pod's own preferences and those of pods that are there, weighed.

As in kube-scheduler, a required affinity of a pod that is there counts as a light preference of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from allhands.core.extension import SCORE_SCALE

if TYPE_CHECKING:
    from allhands.core.columns import Column, Mask
    from allhands.core.feasibility.neighbours import Neighbours
    from allhands.model.shape import PodShape


class PodAffinity:
    name = "podaffinity"

    def neighbour_score(self, shape: PodShape, neighbours: Neighbours, among: Mask | None = None) -> Column | None:
        """None if no node is preferred to another; else the worst of `among` gets 0 and the best SCORE_SCALE."""
        points = neighbours.affinity_points(shape)
        if points is None:
            return None
        compared = points if among is None else points[among]
        lowest, highest = (int(compared.min()), int(compared.max())) if compared.size else (0, 0)
        if lowest == highest:
            return None
        stretched: Column = (np.clip(points, lowest, highest) - lowest) * SCORE_SCALE // (highest - lowest)
        return stretched
