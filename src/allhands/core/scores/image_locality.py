"""Scores nodes by how much of a pod's images they already have, in bytes, within kube-scheduler's bounds.

Kube-scheduler also lowers an image that few nodes have, to keep pods from crowding there; here a node's score depends
on the node alone, and other scores keep pods from crowding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from allhands.core.extension import SCORE_SCALE
from allhands.core.feasibility.following import Following
from allhands.core.feasibility.images import NodeImages

if TYPE_CHECKING:
    from collections.abc import Hashable

    from allhands.core.columns import Column, NodeColumns
    from allhands.model.shape import PodShape

_MIB: Final = 1024 * 1024
SMALLEST_BYTES: Final = 23 * _MIB
"""Less is not worth looking at."""
LARGEST_BYTES: Final = 1000 * _MIB
"""For each container; more makes no difference."""


class ImageLocality:
    name = "imagelocality"

    def __init__(self) -> None:
        self._images = Following(NodeImages)

    def static_score(self, shape: PodShape, columns: NodeColumns) -> Column:
        held = np.zeros(len(columns), dtype=np.int64)
        if not shape.images:
            return held
        images = self._images.of(columns)
        for name in shape.images:
            held += images.bytes_of(name)
        most = LARGEST_BYTES * max(1, shape.container_count)
        scaled: Column = (np.clip(held, SMALLEST_BYTES, most) - SMALLEST_BYTES) * SCORE_SCALE
        return scaled // (most - SMALLEST_BYTES)

    def looks_at(self, shape: PodShape) -> Hashable:
        return (shape.images, shape.container_count) if shape.images else None
