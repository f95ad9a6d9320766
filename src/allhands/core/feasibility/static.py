"""Which nodes a shape may use by what the nodes are: name, labels, taints, being cordoned. Pods play no part here.

Each distinct condition (a node selector, an affinity, a set of tolerations) is worked out once over all nodes and kept
as a mask; of nodes that change, only their rows are worked out again. What it returns is the caller's own array.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from allhands.core.feasibility.labels import ALL, NodeLabels
from allhands.core.feasibility.taints import NodeTaints
from allhands.model.node_groups import said_by
from allhands.model.reason import NODE_GROUPS, Explanation, Reason, explain

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from allhands.core.columns import Mask, NodeColumns, Rows
    from allhands.model.affinity import NodeSelectorTerm
    from allhands.model.node import Toleration
    from allhands.model.shape import Pairs, PodShape

MAX_BYTES: Final = 64 << 20
NOTHING_CHANGED: Final = np.zeros(0, dtype=np.int64)


class StaticCounts(msgspec.Struct, frozen=True):
    """How many nodes are left after each question, for explanations."""

    nodes: int
    matching: int
    """Of these, those that the pod's name, selector and affinity allow."""
    tainted: int
    """Of the matching ones, those with a taint that it does not tolerate."""
    taint: str
    """The one that keeps it from most of them; "" if there is none."""

    @property
    def feasible(self) -> int:
        return self.matching - self.tainted


class StaticFeasibility:
    """For the nodes of one layout; a new layout needs a new one."""

    def __init__(self, columns: NodeColumns, max_bytes: int = MAX_BYTES) -> None:
        self.columns = columns
        self.labels = NodeLabels(columns)
        self.taints = NodeTaints(columns)
        self._masks: OrderedDict[Hashable, tuple[Mask, Callable[[Rows | slice], Mask]]] = OrderedDict()
        self._max_masks = max(8, max_bytes // max(1, len(columns)))

    def mask(self, shape: PodShape) -> Mask:
        if shape.resource_claims:
            return np.zeros(len(self.columns), dtype=np.bool_)
        mask = self.tolerated(shape.tolerations)
        if shape.node_selector or shape.node_affinity.required is not None:
            mask &= self.matching(shape.node_selector, shape.node_affinity.required)
        if shape.node_name:
            mask &= self.labels.name_mask(shape.node_name)
        return mask

    def matching(self, selector: Pairs, required: tuple[NodeSelectorTerm, ...] | None) -> Mask:
        """Which nodes a node selector and required node affinity allow."""
        labels = self.labels
        mask: Mask | None = None
        if selector:
            mask = self._kept(("selector", selector), lambda rows: labels.pairs_mask(selector, rows))
        if required is not None:
            allowed = self._kept(("affinity", required), lambda rows: labels.terms_mask(required, rows))
            mask = allowed if mask is None else mask & allowed
        return np.ones(len(self.columns), dtype=np.bool_) if mask is None else mask.copy()

    def tolerated(self, tolerations: tuple[Toleration, ...], *, cordon: bool = True) -> Mask:
        """Which nodes have no taint that keeps a pod with these tolerations out."""
        taints = self.taints
        return self._kept(
            ("tolerations", tolerations, cordon), lambda rows: taints.tolerated(tolerations, rows, cordon=cordon)
        ).copy()

    def update(self, columns: NodeColumns, rows: Rows) -> None:
        """These nodes are not what they were; the rows stand for the same nodes as before."""
        assert len(columns) == len(self.columns), "nodes that come or go need a new StaticFeasibility"
        self.columns = columns
        if not len(rows):
            return
        labels_changed, taints_changed = self.labels.update(columns, rows), self.taints.update(columns, rows)
        if labels_changed or taints_changed:
            for mask, evaluate in self._masks.values():
                mask[rows] = evaluate(rows)

    def changed_rows(self, columns: NodeColumns) -> Rows | None:
        """What `update` must be told to follow these columns; None if only a new one can."""
        if columns is self.columns:
            return NOTHING_CHANGED
        # A world keeps the very same tuple as long as its rows stand for the same nodes.
        if columns.names is not self.columns.names:
            return None
        return np.flatnonzero(columns.static_generation != self.columns.static_generation)

    def counts(self, shape: PodShape) -> StaticCounts:
        matching = self.matching(shape.node_selector, shape.node_affinity.required)
        if shape.node_name:
            matching &= self.labels.name_mask(shape.node_name)
        lists = np.bincount(self.taints.ids[matching], minlength=len(self.taints.lists))
        tainted: dict[str, int] = {}
        for number in np.flatnonzero(lists).tolist():
            taint = self.taints.repelling(number, shape.tolerations)
            if taint is not None:
                tainted[str(taint)] = tainted.get(str(taint), 0) + int(lists[number])
        most = min(tainted, key=lambda name: (-tainted[name], name)) if tainted else ""
        return StaticCounts(len(self.columns), int(matching.sum()), sum(tainted.values()), most)

    def why(self, shape: PodShape) -> tuple[Explanation, ...]:
        """Why nodes are ruled out, the hardest reason first; empty if none is."""
        if shape.resource_claims:
            problem = "A pod has resource claims, which are not served yet."
            return (explain(Reason.INVALID, problem=problem),)
        found = self.counts(shape)
        if not found.matching:
            none = explain(Reason.NO_MATCHING_NODE, nodes=found.nodes)
            groups = said_by(shape.node_affinity)
            return (none.with_more(NODE_GROUPS, groups=groups) if groups else none,)
        if not found.tainted:
            return ()
        return (
            explain(
                Reason.UNTOLERATED_TAINT,
                tainted=found.tainted,
                nodes=found.matching,
                taint=found.taint,
                all_nodes=found.nodes,
            ),
        )

    def _kept(self, key: Hashable, evaluate: Callable[[Rows | slice], Mask]) -> Mask:
        """The mask of one condition; nobody but `update` writes to it."""
        found = self._masks.get(key)
        if found is not None:
            self._masks.move_to_end(key)
            return found[0]
        mask = evaluate(ALL)
        self._masks[key] = (mask, evaluate)
        if len(self._masks) > self._max_masks:
            self._masks.popitem(last=False)
        return mask
