"""Which pods of a DaemonSet go, and which nodes get another, so that the new template comes to all of them.

Without surge an old pod goes first and its node is without one for a while: on so many nodes at a time. With surge the
new pod is there, and available, before the old one goes. Nodes are taken in the order of their names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from allhands.lifecycle.daemon_set import status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from allhands.lifecycle.daemon_set.kinds import DaemonPod, DaemonSet


class Changes(msgspec.Struct):
    """Pods to end and nodes to make one for."""

    ended: list[DaemonPod] = msgspec.field(default_factory=list)
    nodes: list[str] = msgspec.field(default_factory=list)


class Rollout(msgspec.Struct, frozen=True):
    """`wanted` says of each node that there is whether there should be a pod."""

    daemon: DaemonSet
    wanted: Mapping[str, bool]
    by_node: Mapping[str, Sequence[DaemonPod]]
    is_updated: Callable[[DaemonPod], bool]
    now_seconds: float

    def changes(self) -> Changes:
        desired = sum(self.wanted.values())
        surge, unavailable = self.daemon.bounds(desired)
        return self._surging(surge, desired) if surge else self._replacing(unavailable)

    def _nodes(self) -> list[str]:
        return sorted({*self.by_node, *(node for node, should_run in self.wanted.items() if should_run)})

    def _pair(self, pods: Iterable[DaemonPod]) -> tuple[DaemonPod | None, DaemonPod | None] | None:
        """The new and the old pod of a node; None if there are several of either, whom others have to sort out."""
        new: DaemonPod | None = None
        old: DaemonPod | None = None
        for pod in pods:
            if pod.metadata.is_going:
                continue
            if self.is_updated(pod):
                if new is not None:
                    return None
                new = pod
            elif old is not None:
                return None
            else:
                old = pod
        return new, old

    def _is_available(self, pod: DaemonPod) -> bool:
        return status.is_available(pod, self.daemon.spec.min_ready_seconds, self.now_seconds)

    def _replacing(self, most_unavailable: int) -> Changes:
        """An old pod that does no good goes in any case; of the others as many as may be missing."""
        found = Changes()
        unavailable = 0
        candidates: list[DaemonPod] = []
        for node in self._nodes():
            new, old = self._pair(self.by_node.get(node, ())) or (None, None)
            if (new is None) == (old is None):
                unavailable += 1
            elif new is not None:
                unavailable += not self._is_available(new)
            elif old is not None and self._is_available(old):
                candidates.append(old)
            elif old is not None:
                unavailable += 1
                found.ended.append(old)
        found.ended += candidates[: max(0, most_unavailable - unavailable)]
        return found

    def _surging(self, most_surge: int, desired: int) -> Changes:
        found = Changes()
        surging = available = 0
        candidates: list[str] = []
        misplaced: list[DaemonPod] = []
        for node in self._nodes():
            pair = self._pair(self.by_node.get(node, ()))
            if pair is None:
                surging += 1
                continue
            new, old = pair
            counts = old or new
            available += counts is not None and self._is_available(counts)
            if old is None:
                continue
            if new is not None:
                if self._is_available(new):
                    found.ended.append(old)
                else:
                    surging += 1
            elif not self.wanted.get(node, False):
                if node in self.wanted:
                    (misplaced if self._is_available(old) else found.ended).append(old)
            elif self._is_available(old):
                candidates.append(node)
            else:
                found.nodes.append(node)
        # Those in the wrong place stay as long as they are needed elsewhere.
        found.ended += misplaced[: max(0, available - desired)]
        found.nodes += candidates[: max(0, most_surge - surging)]
        return found
