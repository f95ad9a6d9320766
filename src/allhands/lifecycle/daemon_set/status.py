"""What a DaemonSet says: on how many nodes it should run, does run, is ready, and is up to date."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.lifecycle.changes import merge_patch
from allhands.lifecycle.daemon_set.kinds import DAEMON_SETS
from allhands.lifecycle.instructions import Patch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from allhands.api.document import Manifest
    from allhands.lifecycle.daemon_set.kinds import DaemonPod, DaemonSet

_ALWAYS_TOLD: Final = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")


def by_age(pod: DaemonPod) -> tuple[bool, float, str]:
    """Those on a node first, then the oldest."""
    return not pod.spec.node_name, pod.metadata.created_seconds, pod.metadata.name


def is_available(pod: DaemonPod, min_ready_seconds: int, now_seconds: float) -> bool:
    since = pod.available_at_seconds(min_ready_seconds)
    return since is not None and since <= now_seconds


def counted(
    daemon: DaemonSet,
    wanted: Mapping[str, bool],
    by_node: Mapping[str, Sequence[DaemonPod]],
    is_updated: Callable[[DaemonPod], bool],
    now_seconds: float,
) -> Manifest:
    """`wanted` says of each node whether there should be a pod. Of several on a node the oldest counts."""
    count = dict.fromkeys((*_ALWAYS_TOLD, "updatedNumberScheduled", "numberAvailable"), 0)
    for node, should_run in wanted.items():
        pods = by_node.get(node)
        if not should_run:
            count["numberMisscheduled"] += bool(pods)
            continue
        count["desiredNumberScheduled"] += 1
        if not pods:
            continue
        pod = min(pods, key=by_age)
        count["currentNumberScheduled"] += 1
        count["updatedNumberScheduled"] += is_updated(pod)
        count["numberReady"] += pod.ready is not None
        count["numberAvailable"] += is_available(pod, daemon.spec.min_ready_seconds, now_seconds)
    return {
        **daemon.status,
        **count,
        "numberUnavailable": count["desiredNumberScheduled"] - count["numberAvailable"],
        "observedGeneration": daemon.metadata.generation,
    }


def patch_of(daemon: DaemonSet, status: Manifest) -> list[Patch]:
    patch = merge_patch(daemon.status, status)
    if not patch:
        return []
    # The server wants these numbers, even if they are zero.
    patch |= {field: status.get(field, 0) for field in _ALWAYS_TOLD}
    metadata = daemon.metadata
    return [Patch(DAEMON_SETS, metadata.namespace, metadata.name, {"status": patch}, "status")]
