"""Scores by how full a node would be: fullest first (pack), emptiest first (spread), with a weight for each resource.

Packing keeps whole nodes free for gangs; spreading keeps noise apart. A resource that a pod does not ask for counts
only if it is among the weighted ones, as kube-scheduler has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import numpy as np
from msgspec import Meta

from allhands.core.extension import SCORE_SCALE
from allhands.model.resources import CPU, MEMORY

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from allhands.core.columns import Column
    from allhands.core.view import Asks, NodeView
    from allhands.model.shape import PodShape

CPU_AND_MEMORY: Final[Mapping[str, int]] = {CPU: 1, MEMORY: 1}


class LeastAllocated:
    """Emptiest node first: the more a node would have left, resource by resource with their weights, the better."""

    name = "leastallocated"

    def __init__(self, resources: Mapping[str, Annotated[int, Meta(ge=0, le=1_000_000)]] = CPU_AND_MEMORY) -> None:
        self._weights = {name: weight for name, weight in sorted(resources.items()) if weight > 0}

    def score(self, view: NodeView) -> Column:
        return _mean_free(view, self._weights)

    def score_of_one(self, asks: Asks) -> Callable[[Sequence[float]], int]:
        return _mean_free_of_one(asks, self._weights)

    def looks_at(self, _: PodShape) -> Hashable:
        return None


class MostAllocated(LeastAllocated):
    """Fullest node first: the less a node would have left, resource by resource with their weights, the better."""

    name = "mostallocated"

    def score(self, view: NodeView) -> Column:
        return SCORE_SCALE - _mean_free(view, self._weights)

    def score_of_one(self, asks: Asks) -> Callable[[Sequence[float]], int]:
        mean_free = _mean_free_of_one(asks, self._weights)
        return lambda shares: SCORE_SCALE - mean_free(shares)


class BinPack(MostAllocated):
    """Fullest node first, by what the pod asks for alone, so that a node is full of what matters to the pod."""

    name = "binpack"

    def score(self, view: NodeView) -> Column:
        return SCORE_SCALE - _mean_free(view, self._counting(view))

    def score_of_one(self, asks: Asks) -> Callable[[Sequence[float]], int]:
        mean_free = _mean_free_of_one(asks, self._counting(asks))
        return lambda shares: SCORE_SCALE - mean_free(shares)

    def looks_at(self, shape: PodShape) -> Hashable:
        return tuple(name for name, units in shape.requests.entries if units > 0 and name in self._weights)

    def _counting(self, asks: NodeView | Asks) -> Mapping[str, int]:
        asked = {name: weight for name, weight in self._weights.items() if asks.asks_for(name)}
        return asked or self._weights


def _mean_free(view: NodeView, weights: Mapping[str, int]) -> Column:
    total = None
    whole = 0
    for name, weight in weights.items():
        column = view.column(name)
        if column is None:
            continue
        part = view.free_share_after(column)
        total = part * weight if total is None else total + (part if weight == 1 else part * weight)
        whole += weight
    if total is None:
        return np.zeros(view.size, dtype=np.int64)
    if whole > 1:
        total *= 1 / whole
    return total.astype(np.int64)


def _mean_free_of_one(asks: Asks, weights: Mapping[str, int]) -> Callable[[Sequence[float]], int]:
    """The same steps in the same order, so that the result is the same to the bit."""
    counting = [(column, weight) for name, weight in weights.items() if (column := asks.column(name)) is not None]
    if not counting:
        return lambda _: 0
    whole = sum(weight for _, weight in counting)
    if len(counting) == 1:
        ((only, weight),) = counting
        return lambda shares: int(shares[only] * weight * (1 / whole) if whole > 1 else shares[only])
    if len(counting) == 2 and whole == 2:
        (first, _), (second, _) = counting
        return lambda shares: int((shares[first] + shares[second]) * 0.5)

    def mean_free(shares: Sequence[float]) -> int:
        total = 0.0
        for column, weight in counting:
            total += shares[column] * weight
        return int(total * (1 / whole))

    return mean_free
