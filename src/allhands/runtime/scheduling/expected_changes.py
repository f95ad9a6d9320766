"""Changes of pods that were expected, so that nobody can start for them: no cycle need begin at once.

What is not plainly so is a surprise. What is in use is still counted by them, a moment later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from allhands.model.pod import PodPhase

if TYPE_CHECKING:
    from allhands.core.world import World
    from allhands.dialects.pods import PodRecord
    from allhands.model.pod import Pod


def is_expected(before: Pod, after: Pod, world: World) -> bool:
    """Whether it only shows a bind of ours, which has counted since it was sent; or that a pod which has a node has
    begun to run."""
    if not after.node_name or after.deleting or before.deleting:
        return False
    if not before.node_name:
        return before.phase is after.phase and world.assumed_node(after.uid) == after.node_name
    if before.phase is not PodPhase.PENDING or after.phase is not PodPhase.RUNNING:
        return False
    begun = msgspec.structs.replace(
        before,
        phase=after.phase,
        started_at_seconds=after.started_at_seconds,
        bound_at_seconds=after.bound_at_seconds,
    )
    return begun == after


def has_only_gone_on(before: PodRecord, after: PodRecord) -> bool:
    """Whether it is what it was, but for being bound or having begun to run: then it belongs where it did."""
    pod = msgspec.structs.replace(
        before.pod,
        node_name=after.pod.node_name,
        phase=after.pod.phase,
        started_at_seconds=after.pod.started_at_seconds,
        bound_at_seconds=after.pod.bound_at_seconds,
    )
    return msgspec.structs.replace(before, pod=pod, is_told=after.is_told) == after
