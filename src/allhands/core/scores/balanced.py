"""Scores nodes higher the more evenly their resources would be used, so that none runs out while others lie idle."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from allhands.core.extension import SCORE_SCALE
from allhands.model.resources import CPU, MEMORY

if TYPE_CHECKING:
    from allhands.core.columns import Column
    from allhands.core.view import NodeView


class Balanced:
    name = "balanced"

    def __init__(self, resources: tuple[str, ...] = (CPU, MEMORY)) -> None:
        self._resources = tuple(sorted(resources))

    def score(self, view: NodeView) -> Column:
        columns = [column for name in self._resources if (column := view.column(name)) is not None]
        if len(columns) < 2:
            return np.full(view.size, SCORE_SCALE, dtype=np.int64)
        highest = lowest = view.free_share_after(columns[0])
        for column in columns[1:]:
            share = view.free_share_after(column)
            highest, lowest = np.maximum(highest, share), np.minimum(lowest, share)
        return SCORE_SCALE - (highest - lowest).astype(np.int64)
