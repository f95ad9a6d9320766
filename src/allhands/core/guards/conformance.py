"""Protects what the cluster itself lives on: pods of `kube-system`, and pods of the system's own priority classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from allhands.core.snapshot import GroupEntry, Snapshot

SYSTEM_NAMESPACE: Final = "kube-system"
SYSTEM_CRITICAL_PRIORITY: Final = 2_000_000_000
"""Of system-cluster-critical; system-node-critical is above it, and users may not go so high."""


class Conformance:
    name = "conformance"
    protection = "being part of the system"

    def may_evict(self, victim: GroupEntry, preemptor: GroupEntry, snapshot: Snapshot, now: int) -> bool:
        del preemptor, now
        group = victim.group
        if group.namespace == SYSTEM_NAMESPACE or group.priority >= SYSTEM_CRITICAL_PRIORITY:
            return False
        # A member may be critical although its group does not say so.
        priority = snapshot.pods.priority
        return not any(priority[row] >= SYSTEM_CRITICAL_PRIORITY for row in victim.bound)
