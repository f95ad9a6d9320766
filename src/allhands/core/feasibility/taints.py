"""The taints of all nodes as one column: the number of each node's list of taints, of which a cluster has few.

Whether a pod tolerates a node is then asked once for each distinct list. Being cordoned counts as one more taint where
pods are let in, but not where topology spreading asks which nodes to count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from allhands.model.node import UNSCHEDULABLE_TAINT, Taint, TaintEffect

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from allhands.core.columns import Column, Mask, NodeColumns, Rows
    from allhands.model.node import Node, Toleration


class TaintList(NamedTuple):
    taints: tuple[Taint, ...]
    cordoned: bool


class NodeTaints:
    def __init__(self, columns: NodeColumns) -> None:
        self.lists: list[TaintList] = []
        """By number."""
        self._number_by_list: dict[TaintList, int] = {}
        self.ids = self._ids(columns)

    def update(self, columns: NodeColumns, rows: Rows) -> bool:
        """These nodes changed; rows are the same as before. Whether any taint did."""
        before = self.ids[rows]
        for row in rows.tolist():
            self.ids[row] = self._number(columns.nodes[row])
        changed = bool((self.ids[rows] != before).any())
        if len(self.lists) > 2 * len(columns) + 64:
            # Lists that come and go must not pile up.
            self.lists.clear()
            self._number_by_list.clear()
            self.ids = self._ids(columns)
        return changed

    def tolerated(self, tolerations: tuple[Toleration, ...], rows: Rows | slice, *, cordon: bool = True) -> Mask:
        """Which nodes have no taint that keeps such a pod out; `cordon` false looks at written taints alone."""
        found = [self.repelling(number, tolerations, cordon=cordon) is None for number in range(len(self.lists))]
        return np.array(found, dtype=np.bool_).take(self.ids[rows])

    def disliked(self, tolerations: tuple[Toleration, ...]) -> Column:
        """How many taints each node has that ask such a pod to stay away if it can."""
        found = [sum(_is_disliked(taint, tolerations) for taint in it.taints) for it in self.lists]
        return np.array(found, dtype=np.int64).take(self.ids)

    def repelling(self, number: int, tolerations: tuple[Toleration, ...], *, cordon: bool = True) -> Taint | None:
        """The first taint of a list that keeps such a pod out."""
        taints, cordoned = self.lists[number]
        for taint in (*taints, UNSCHEDULABLE_TAINT) if cordoned and cordon else taints:
            if taint.repels and not any(toleration.tolerates(taint) for toleration in tolerations):
                return taint
        return None

    def _ids(self, columns: NodeColumns) -> NDArray[np.int32]:
        return np.fromiter((self._number(node) for node in columns.nodes), dtype=np.int32, count=len(columns))

    def _number(self, node: Node) -> int:
        key = TaintList(node.taints, node.unschedulable)
        found = self._number_by_list.get(key)
        if found is None:
            found = self._number_by_list[key] = len(self.lists)
            self.lists.append(key)
        return found


def _is_disliked(taint: Taint, tolerations: tuple[Toleration, ...]) -> bool:
    if taint.effect != TaintEffect.PREFER_NO_SCHEDULE:
        return False
    return not any(toleration.tolerates(taint) for toleration in tolerations)
