"""Which nodes pods may use by their queue: the node groups that it, or the nearest queue above it that says any, names.

It completes what pods ask of nodes before anybody decides about them. As long as no queue names node groups, and nobody
is to be kept apart, no pod is touched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from allhands.dialects.queues import node_groups_of
from allhands.model.node_groups import NodeGroupRule, NodeGroups, NodeGroupUse, rule_of

if TYPE_CHECKING:
    from allhands.dialects.queues import QueueRecord
    from allhands.model.affinity import NodeAffinity
    from allhands.model.pod import Pod
    from allhands.runtime.informer import Informer

MOST_ALIKE: Final = 4_096


class QueuePlaces:
    def __init__(self, queues: Informer[QueueRecord], use: NodeGroupUse, *, ordered: bool) -> None:
        self._queues = queues
        self._use = use
        self._ordered = ordered
        self._naming = 0
        """How many queues name node groups."""
        self._rules: dict[str, NodeGroupRule | None] = {}
        self._alike: dict[tuple[NodeGroupRule, NodeAffinity], NodeAffinity] = {}

    @property
    def is_active(self) -> bool:
        """Whether any pod is bound to nodes by its queue."""
        return self._naming > 0 or self._use is not NodeGroupUse.FREE

    def see(self, before: QueueRecord | None, after: QueueRecord | None) -> bool:
        """Whether this change of a queue may let pods use other nodes than before."""
        was_active = self.is_active
        self._naming += _names(after) - _names(before)
        self._rules.clear()
        return (was_active or self.is_active) and _said(before) != _said(after)

    def completed(self, pod: Pod, queue: str) -> Pod:
        """The pod as it is to be decided about."""
        rule = self._rule(queue)
        if rule is None:
            return pod
        alike = (rule, pod.node_affinity)
        affinity = self._alike.get(alike)
        if affinity is None:
            if len(self._alike) >= MOST_ALIKE:
                self._alike.clear()
            affinity = self._alike[alike] = rule.applied_to(pod.node_affinity)
        return msgspec.structs.replace(pod, node_affinity=affinity)

    def _rule(self, queue: str) -> NodeGroupRule | None:
        if queue not in self._rules:
            self._rules[queue] = rule_of(node_groups_of(queue, self._queues.get), self._use, ordered=self._ordered)
        return self._rules[queue]


def _names(queue: QueueRecord | None) -> int:
    return int(queue is not None and queue.node_groups is not None)


def _said(queue: QueueRecord | None) -> tuple[NodeGroups | None, str | None] | None:
    return None if queue is None else (queue.node_groups, queue.queue.parent)
