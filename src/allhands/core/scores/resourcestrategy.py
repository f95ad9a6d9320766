"""Scores nodes by how full they would be, with a strategy for each resource: pack the scarce, spread the rest.

A name may end in `*`; the exact name counts before the longest beginning. Only what a pod asks for is looked at; a pod
that asks for nothing listed is indifferent.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import numpy as np

from allhands.core.extension import SCORE_SCALE
from allhands.model.resources import CPU, MEMORY

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from allhands.core.columns import Column
    from allhands.core.view import Asks, NodeView
    from allhands.model.shape import PodShape


class StrategyType(enum.StrEnum):
    MOST_ALLOCATED = "MostAllocated"
    LEAST_ALLOCATED = "LeastAllocated"


class Strategy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    type: StrategyType = StrategyType.LEAST_ALLOCATED
    weight: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 1


SPREAD_BOTH: Final[Mapping[str, Strategy]] = {CPU: Strategy(), MEMORY: Strategy()}


class ResourceStrategy:
    name = "resourcestrategy"

    def __init__(self, resources: Mapping[str, Strategy] = SPREAD_BOTH) -> None:
        for pattern in resources:
            check_pattern(pattern)
        self._exact = {name: it for name, it in resources.items() if not name.endswith("*")}
        beginnings = [(name[:-1], it) for name, it in resources.items() if name.endswith("*")]
        self._beginnings = sorted(beginnings, key=lambda pair: (-len(pair[0]), pair[0]))

    def score(self, view: NodeView) -> Column:
        total = np.zeros(view.size, dtype=np.float64)
        whole = 0
        for name, units in view.shape.requests.entries:
            strategy, column = self._strategy(name), view.column(name)
            if strategy is None or column is None or units <= 0:
                continue
            free = view.free_share_after(column)
            packs = strategy.type is StrategyType.MOST_ALLOCATED
            total += (SCORE_SCALE - free if packs else free) * strategy.weight
            whole += strategy.weight
        return (total / max(1, whole)).astype(np.int64)

    def score_of_one(self, asks: Asks) -> Callable[[Sequence[float]], int]:
        counting = [
            (column, strategy.type is StrategyType.MOST_ALLOCATED, strategy.weight)
            for name, units in asks.shape.requests.entries
            if units > 0
            and (strategy := self._strategy(name)) is not None
            and (column := asks.column(name)) is not None
        ]
        whole = max(1, sum(weight for _, _, weight in counting))

        def fullness(shares: Sequence[float]) -> int:
            total = 0.0
            for column, packs, weight in counting:
                total += (SCORE_SCALE - shares[column] if packs else shares[column]) * weight
            return int(total / whole)

        return fullness

    def looks_at(self, shape: PodShape) -> Hashable:
        return tuple(name for name, units in shape.requests.entries if units > 0)

    def _strategy(self, resource: str) -> Strategy | None:
        found = self._exact.get(resource)
        if found is None:
            found = next((it for beginning, it in self._beginnings if resource.startswith(beginning)), None)
        return found


def check_pattern(pattern: str) -> None:
    """A resource's name, or the beginning of one and a `*`."""
    if not pattern.rstrip("*") or "*" in pattern[:-1]:
        raise ValueError(f'resources: "{pattern}" is neither a name nor a beginning that ends in one "*"')
