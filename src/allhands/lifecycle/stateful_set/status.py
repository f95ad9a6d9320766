"""What a StatefulSet says about its pods: how many there are, are ready, are of the former and of the new revision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.lifecycle.changes import merge_patch
from allhands.lifecycle.controller_revision import HASH_LABEL
from allhands.lifecycle.instructions import Patch
from allhands.lifecycle.stateful_set.kinds import STATEFUL_SETS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from allhands.api.document import Manifest
    from allhands.lifecycle.observed import Pod
    from allhands.lifecycle.stateful_set.kinds import StatefulSet

_ALWAYS_TOLD: Final = ("replicas", "availableReplicas", "collisionCount")


def is_available(pod: Pod, min_ready_seconds: int, now_seconds: float) -> bool:
    """Whether the next in the order may come: it runs, is ready, has been for long enough, and is not going."""
    since = pod.available_at_seconds(min_ready_seconds)
    return not pod.metadata.is_going and pod.status.phase == "Running" and since is not None and since <= now_seconds


def counted(
    stateful: StatefulSet,
    pods: Iterable[Pod],
    revisions: tuple[str, str],
    now_seconds: float,
    ending: Collection[str] = (),
) -> Manifest:
    """The status as it is with these pods. `revisions` are the current and the new one, by name; `ending` the uids of
    pods that this look tells to go."""
    current, update = revisions
    count = dict.fromkeys(("replicas", "readyReplicas", "availableReplicas", "currentReplicas", "updatedReplicas"), 0)
    for pod in pods:
        count["replicas"] += 1
        if pod.status.phase == "Running" and pod.ready is not None:
            count["readyReplicas"] += 1
            since = pod.available_at_seconds(stateful.spec.min_ready_seconds)
            count["availableReplicas"] += since is not None and since <= now_seconds
        if pod.metadata.is_going or pod.metadata.uid in ending:
            continue
        revision = pod.metadata.label(HASH_LABEL)
        count["currentReplicas"] += revision == current
        count["updatedReplicas"] += revision == update
    status: Manifest = {
        **stateful.status,
        **count,
        "currentRevision": current,
        "updateRevision": update,
        "collisionCount": stateful.count("collisionCount"),
        "observedGeneration": stateful.metadata.generation,
    }
    wanted = stateful.spec.replicas
    is_rolling = stateful.spec.update_strategy.type == "RollingUpdate"
    if is_rolling and all(count[it] == wanted for it in ("replicas", "readyReplicas", "updatedReplicas")):
        status |= {"currentRevision": update, "currentReplicas": count["updatedReplicas"]}
    return status


def patch_of(stateful: StatefulSet, status: Manifest) -> list[Patch]:
    patch = merge_patch(stateful.status, status)
    if not patch and "collisionCount" in stateful.status:
        return []
    patch |= {field: status[field] for field in _ALWAYS_TOLD}  # the server wants numbers, even if they are zero
    metadata = stateful.metadata
    return [Patch(STATEFUL_SETS, metadata.namespace, metadata.name, {"status": patch}, "status")]
