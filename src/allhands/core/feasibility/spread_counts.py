"""Topology spreading: how many pods like it each domain holds, and where one more keeps the skew within its bound.

Only nodes that a constraint looks at are counted: those that have all topology keys of the pod's hard (or soft)
constraints and pass its policies on node affinity and taints. Pods that are being deleted do not count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from allhands.core.feasibility.counts import Count, selects, sure_pair
from allhands.core.feasibility.labels import ABSENT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from allhands.core.columns import Column, Mask
    from allhands.core.feasibility.counts import Occupants
    from allhands.core.feasibility.labels import LabelColumn
    from allhands.core.feasibility.static import StaticFeasibility
    from allhands.model.affinity import SpreadConstraint
    from allhands.model.selector import LabelSelector
    from allhands.model.shape import PodShape


class Likes:
    """Watches the pods of one namespace that a selector matches. An empty selector counts nobody."""

    def __init__(self, namespace: str, selector: LabelSelector | None) -> None:
        self._namespace = namespace
        self._selector = selector

    def weight(self, shape: PodShape) -> int:
        if self._selector is None or self._selector.is_empty or shape.namespace != self._namespace:
            return 0
        return int(self._selector.matches(dict(shape.labels)))

    def candidates(self, occupants: Occupants) -> Iterable[int]:
        if self._selector is None or self._selector.is_empty:
            return ()
        return occupants.having(sure_pair(self._selector))


class SpreadCount(Count):
    """The pods of one constraint by domain, for one shape."""

    def __init__(self, constraint: SpreadConstraint, shape: PodShape, column: LabelColumn, counted: Mask) -> None:
        watch = Likes(shape.namespace, constraint.selector)
        super().__init__((watch,), column.ids, column.size, counted=counted, leaving=False)
        self.constraint = constraint
        self._namespace = shape.namespace
        self._domains = np.unique(column.ids[counted])
        self._adds_itself = int(selects(constraint.selector, dict(shape.labels)))

    def weight_if_nominated(self, shape: PodShape) -> int:
        # An empty selector counts no pod that is there, but kube-scheduler does not ask that of nominated ones.
        if self.constraint.selector is not None and self.constraint.selector.is_empty:
            return int(shape.namespace == self._namespace)
        return self.weight(shape)

    def allowed_domains(self) -> Mask:
        """Where one more pod of the shape keeps the constraint, with those who are yet to come and without them."""
        allowed = self._allowed(self.values)
        if self.held is not None:
            allowed &= self._allowed(self.there)
        allowed[ABSENT] = False
        return allowed

    def _allowed(self, pods: Column) -> Mask:
        lowest = 0
        # With fewer domains than it asks for, those that are missing count as empty ones.
        if self._domains.size >= max(1, self.constraint.min_domains or 1):
            lowest = int(pods[self._domains].min())
        allowed: Mask = pods <= self.constraint.max_skew + lowest - self._adds_itself
        return allowed


class SoftSpread:
    """What a score needs to know of one soft constraint: pods like it in each node's domain."""

    def __init__(self, constraint: SpreadConstraint, pods: Column, column: LabelColumn) -> None:
        self.constraint = constraint
        self.pods = pods
        self.column = column


def counted_nodes(
    constraint: SpreadConstraint, shape: PodShape, keys: Iterable[str], static: StaticFeasibility
) -> Mask:
    """The nodes that a constraint looks at; `keys` are those that a node must have."""
    mask = np.ones(len(static.columns), dtype=np.bool_)
    for key in keys:
        mask &= static.labels.column(key).ids != ABSENT
    if constraint.honor_node_affinity and (shape.node_selector or shape.node_affinity.required is not None):
        mask &= static.matching(shape.node_selector, shape.node_affinity.required)
    if constraint.honor_node_taints:
        mask &= static.tolerated(shape.tolerations, cordon=False)
    return mask
