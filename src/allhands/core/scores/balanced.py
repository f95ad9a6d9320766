"""Scores nodes higher the more evenly their resources would be used, so that none runs out while others lie idle."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from allhands.core.extension import SCORE_SCALE
from allhands.model.resources import CPU, MEMORY

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from allhands.core.columns import Column
    from allhands.core.view import Asks, NodeView
    from allhands.model.shape import PodShape


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

    def score_of_one(self, asks: Asks) -> Callable[[Sequence[float]], int]:
        columns = [column for name in self._resources if (column := asks.column(name)) is not None]
        if len(columns) < 2:
            return lambda _: SCORE_SCALE
        if len(columns) == 2:
            first, second = columns
            return lambda shares: SCORE_SCALE - int(abs(shares[first] - shares[second]))

        def evenness(shares: Sequence[float]) -> int:
            parts = [shares[column] for column in columns]
            return SCORE_SCALE - int(max(parts) - min(parts))

        return evenness

    def looks_at(self, _: PodShape) -> Hashable:
        return None
