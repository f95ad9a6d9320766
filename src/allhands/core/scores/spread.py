"""Scores nodes by soft topology spreading: the fewer pods like it in a node's domains, the better the node.

Domains of keys with many values weigh more, by their logarithm, worked out in whole numbers to be the same everywhere.
Kube-scheduler's system defaults (3 by host, 5 by zone) hold here for pods that were given `system_default_spread`;
which services, replica sets or stateful sets select a pod is known only to whoever reads the API.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from allhands.core.extension import SCORE_SCALE
from allhands.model.affinity import SpreadConstraint

if TYPE_CHECKING:
    from allhands.core.columns import Column, Mask
    from allhands.core.feasibility.neighbours import Neighbours
    from allhands.core.feasibility.spread_counts import SoftSpread
    from allhands.model.selector import LabelSelector
    from allhands.model.shape import PodShape

HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
_BITS: Final = 10
"""Costs are whole numbers of 1/1024."""
_LN_2: Final = 710
"""In the same unit."""


def system_default_spread(selector: LabelSelector) -> tuple[SpreadConstraint, ...]:
    """What kube-scheduler adds to a pod without constraints of its own, with the selector of those that manage it."""
    return (
        SpreadConstraint(max_skew=3, topology_key=HOSTNAME, hard=False, selector=selector),
        SpreadConstraint(max_skew=5, topology_key=ZONE, hard=False, selector=selector),
    )


def is_system_default(constraints: tuple[SpreadConstraint, ...]) -> bool:
    """Those ask of no node to have all topology keys."""
    selector = constraints[0].selector if constraints else None
    return selector is not None and constraints == system_default_spread(selector)


class Spread:
    name = "spread"

    def neighbour_score(self, shape: PodShape, neighbours: Neighbours, among: Mask | None = None) -> Column | None:
        """None if it has no soft constraint. Nodes that lack a topology key get 0."""
        soft = neighbours.soft_spread(shape)
        if not soft:
            return None
        ignored = np.zeros(len(soft[0].pods), dtype=np.bool_)
        if not is_system_default(tuple(it.constraint for it in soft)):
            for it in soft:
                ignored |= it.column.ids == 0
        compared = ~ignored if among is None else among & ~ignored
        cost = np.zeros(len(ignored), dtype=np.int64)
        for it in soft:
            cost += _cost(it, compared)
        of_compared = cost[compared]
        lowest, highest = (int(of_compared.min()), int(of_compared.max())) if of_compared.size else (0, 0)
        if highest == 0:
            return np.where(ignored, 0, SCORE_SCALE)
        score: Column = (highest + lowest - np.clip(cost, lowest, highest)) * SCORE_SCALE // highest
        return np.where(ignored, 0, score)


def _cost(it: SoftSpread, compared: Mask) -> Column:
    if it.constraint.topology_key == HOSTNAME:
        size = int(compared.sum())
    else:
        present = np.bincount(it.column.ids[compared], minlength=1)
        size = int(np.count_nonzero(present))
    cost = it.pods * _logarithm(size + 2) + ((it.constraint.max_skew - 1) << _BITS)
    return np.where(it.column.ids == 0, 0, cost)


def _logarithm(number: int) -> int:
    """The natural logarithm of a number from 1 on, in units of 1/1024, by squaring."""
    whole = number.bit_length() - 1
    fraction = (number << 32) >> whole
    binary = whole
    for _ in range(_BITS):
        binary <<= 1
        fraction = fraction * fraction >> 32
        if fraction >> 33:
            fraction >>= 1
            binary += 1
    return binary * _LN_2 >> _BITS
