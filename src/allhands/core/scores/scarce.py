"""Keeps pods off nodes with something scarce (say GPUs) that they do not ask for, so that it stays for those who do.

Each listed resource that a node has and the pod does not want costs its weight's part of the score. A name may end in
`*`; `*` alone means every extended resource. Only what nodes are is looked at, not what is in use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import numpy as np
from msgspec import Meta

from allhands.core.extension import SCORE_SCALE
from allhands.core.scores.resourcestrategy import check_pattern

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from allhands.core.columns import Column, NodeColumns
    from allhands.model.shape import PodShape

EVERY: Final = "*"
ANY_EXTENDED: Final[Mapping[str, int]] = {EVERY: 1}


class Scarce:
    name = "scarce"

    def __init__(self, resources: Mapping[str, Annotated[int, Meta(ge=0, le=1_000_000)]] = ANY_EXTENDED) -> None:
        for pattern in resources:
            if pattern != EVERY:
                check_pattern(pattern)
        self._weights = sorted((pattern, weight) for pattern, weight in resources.items() if weight > 0)

    def static_score(self, shape: PodShape, columns: NodeColumns) -> Column:
        wasted = np.zeros(len(columns), dtype=np.int64)
        for pattern, weight in self._weights:
            unasked = [
                column
                for column, name in enumerate(columns.resources)
                if _matches(pattern, name) and shape.requests.get(name) <= 0
            ]
            if unasked:
                wasted += weight * (columns.allocatable[unasked] > 0).any(axis=0)
        whole = max(1, sum(weight for _, weight in self._weights))
        return SCORE_SCALE - wasted * SCORE_SCALE // whole

    def looks_at(self, shape: PodShape) -> Hashable:
        return tuple(name for name, units in shape.requests.entries if units > 0)


def _matches(pattern: str, resource: str) -> bool:
    if pattern == EVERY:
        return "/" in resource and not resource.startswith("kubernetes.io/")
    return resource.startswith(pattern[:-1]) if pattern.endswith("*") else resource == pattern
