"""A node that falls silent, is ill or is gone: what it is called then, who is kept away, and what becomes of its pods.

One thing at a time, in the order of its weight: first the node's conditions, then its taints, then its pods; each look
sees what the one before has written. When a pod has to go is counted from the moment written into the taint, so a new
controller does not start the clock anew.
"""

import datetime
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from allhands.api.document import Manifest
from allhands.api.kinds import Resource
from allhands.lifecycle.changes import object_reference, time_text
from allhands.lifecycle.instructions import Delete, Instruction, Outcome, Patch, Record
from allhands.lifecycle.observed import Node, NodeCondition, NodeTaint, Pod, seconds_of

NODES: Final = Resource("", "v1", "nodes")
PODS: Final = Resource("", "v1", "pods")
GRACE_SECONDS: Final = 40.0
STARTUP_GRACE_SECONDS: Final = 60.0
GONE_SECONDS: Final = 40.0
"""So long a node may be missing before its pods are given up."""
SOON_SECONDS: Final = 0.001
PODS_AT_ONCE: Final = 200
NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
_UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
_REPORTED: Final = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
_TAINT_OF_CONDITION: Final = {
    "MemoryPressure": "node.kubernetes.io/memory-pressure",
    "DiskPressure": "node.kubernetes.io/disk-pressure",
    "PIDPressure": "node.kubernetes.io/pid-pressure",
    "NetworkUnavailable": "node.kubernetes.io/network-unavailable",
}
_OURS: Final = frozenset({NOT_READY, UNREACHABLE, _UNSCHEDULABLE, *_TAINT_OF_CONDITION.values()})


def grace_seconds(node: Node, lease_duration_seconds: int | None) -> float:
    """How long this node may be silent. One that never said anything is given the time to start."""
    usual = max(GRACE_SECONDS, float(lease_duration_seconds or 0))
    return usual if node.condition("Ready") is not None else max(usual, STARTUP_GRACE_SECONDS)


def reconcile(
    node: Node,
    pods: Iterable[Pod],
    silent_seconds: float,
    now_seconds: float,
    lease_duration_seconds: int | None = None,
    *,
    nobody_is_well: bool = False,
) -> Outcome:
    """`silent_seconds`: how long ago the last sign of life was seen. `pods` are those bound to the node.

    `nobody_is_well`: not one node of the cluster is ready. Then the trouble is more likely on our side, and there is
    nowhere to go: no pod is driven away.
    """
    grace = grace_seconds(node, lease_duration_seconds)
    overdue_at = now_seconds + grace - silent_seconds
    if silent_seconds >= grace:
        unknown = _unknown(node, now_seconds)
        if unknown:
            return Outcome(tuple(unknown), now_seconds)
    # The two clocks may differ in their last digits: who is a hair too early looks again, and is not forgotten.
    wake = max(overdue_at, now_seconds + SOON_SECONDS) if silent_seconds < grace else None
    taints = _wanted_taints(node, now_seconds, evicts=not nobody_is_well)
    if taints != tuple(node.spec.taints or ()):
        body = {"spec": {"taints": [msgspec.to_builtins(it) for it in taints] or None}}
        return Outcome((Patch(NODES, "", node.metadata.name, body, version=node.metadata.resource_version),), wake)
    instructions, next_eviction = _pods(node, pods, now_seconds)
    return Outcome(tuple(instructions), min((it for it in (wake, next_eviction) if it is not None), default=None))


# -- the node itself


def _unknown(node: Node, now_seconds: float) -> list[Instruction]:
    """All that the node used to report is unknown from now on."""
    now = time_text(now_seconds)
    conditions = [_builtin(it) for it in node.status.conditions or ()]
    changed = False
    for reported in _REPORTED:
        present = node.condition(reported)
        if present is not None and present.status == "Unknown":
            continue
        changed = True
        never = present is None
        condition = {
            "type": reported,
            "status": "Unknown",
            "reason": "NodeStatusNeverUpdated" if never else "NodeStatusUnknown",
            "message": f"Kubelet {'never posted' if never else 'stopped posting'} node status.",
            "lastTransitionTime": now,
            "lastHeartbeatTime": (present.last_heartbeat_time if present else None)
            or time_text(node.metadata.created_seconds),
        }
        conditions = [condition if it["type"] == reported else it for it in conditions]
        if never:
            conditions.append(condition)
    if not changed:
        return []
    metadata = node.metadata
    body = {"status": {"conditions": conditions}}
    event = Record(
        object_reference("v1", "Node", metadata),
        "Normal",
        "NodeNotReady",
        f"Node {metadata.name} status is now: NodeNotReady",
    )
    return [Patch(NODES, "", metadata.name, body, "status", metadata.resource_version), event]


def _builtin(condition: NodeCondition) -> Manifest:
    return {key: value for key, value in msgspec.to_builtins(condition).items() if value not in ("", None)}


def _wanted_taints(node: Node, now_seconds: float, *, evicts: bool) -> tuple[NodeTaint, ...]:
    """Everybody else's taints as they are, and ours as the conditions say. Each that evicts says since when."""
    now = time_text(now_seconds)
    wanted = _taints_of_conditions(node, evicts=evicts)
    kept = []
    for taint in node.spec.taints or ():
        pair = (taint.key, taint.effect)
        is_ours = taint.key in _OURS and taint.effect in ("NoSchedule", "NoExecute")
        if is_ours and pair not in wanted:
            continue
        wanted.pop(pair, None)
        if taint.effect == "NoExecute" and not taint.time_added:
            taint = msgspec.structs.replace(taint, time_added=now)  # noqa: PLW2901 (the same, with its time)
        kept.append(taint)
    added = (NodeTaint(key, effect, time_added=now if effect == "NoExecute" else None) for key, effect in wanted)
    return (*kept, *added)


def _taints_of_conditions(node: Node, *, evicts: bool) -> dict[tuple[str, str], None]:
    wanted: dict[tuple[str, str], None] = {}
    ready = node.condition("Ready")
    if ready is None:
        # It takes no pods until it says that it is ready, as admission has decided; nobody is evicted for it.
        if any((it.key, it.effect) == (NOT_READY, "NoSchedule") for it in node.spec.taints or ()):
            wanted[NOT_READY, "NoSchedule"] = None
    elif ready.status != "True":
        key = UNREACHABLE if ready.status == "Unknown" else NOT_READY
        wanted[key, "NoSchedule"] = None
        if evicts:
            wanted[key, "NoExecute"] = None
    for pressure, key in _TAINT_OF_CONDITION.items():
        condition = node.condition(pressure)
        if condition is not None and condition.status == "True":
            wanted[key, "NoSchedule"] = None
    if node.spec.unschedulable:
        wanted[_UNSCHEDULABLE, "NoSchedule"] = None
    return wanted


# -- its pods


def _pods(node: Node, pods: Iterable[Pod], now_seconds: float) -> tuple[list[Instruction], float | None]:
    ready = node.condition("Ready")
    evicting = [it for it in node.spec.taints or () if it.effect == "NoExecute"]
    is_lost = ready is not None and ready.status == "Unknown"
    if not evicting and not is_lost:
        return [], None
    is_healthy = ready is not None and ready.status == "True"
    abandoned = not is_healthy and any(it.key == OUT_OF_SERVICE for it in node.spec.taints or ())
    instructions: list[Instruction] = []
    next_eviction: float | None = None
    for pod in pods:
        if pod.metadata.is_going:
            if abandoned:
                instructions += _given_up(pod, now_seconds, target=None)
            continue
        if pod.has_ended:
            continue
        due = evicted_at_seconds(pod, evicting)
        if due is not None and due <= now_seconds:
            instructions += _eviction(pod, now_seconds)
            continue
        if due is not None:
            next_eviction = due if next_eviction is None else min(due, next_eviction)
        if is_lost and pod.ready is not None:
            instructions.append(_not_ready(pod, now_seconds))
    return instructions, next_eviction


def evicted_at_seconds(pod: Pod, evicting: Sequence[NodeTaint]) -> float | None:
    """When these taints drive the pod away: at once if it does not tolerate one, else after the time it asked for.

    None if it may stay for ever.
    """
    earliest: float | None = None
    for taint in evicting:
        since = _seconds(taint.time_added)
        matching = [it for it in pod.spec.tolerations or () if it.tolerates(taint.plain)]
        if not matching:
            return 0.0
        limits = [it.toleration_seconds for it in matching if it.toleration_seconds is not None]
        if limits:
            due = since + max(0, min(limits))
            earliest = due if earliest is None else min(due, earliest)
    return earliest


def _seconds(text: str | None) -> float:
    try:
        return seconds_of(datetime.datetime.fromisoformat(text or ""))
    except (ValueError, TypeError):
        return 0.0


def _eviction(pod: Pod, now_seconds: float) -> list[Instruction]:
    metadata = pod.metadata
    why = ("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")
    event = Record(
        object_reference("v1", "Pod", metadata),
        "Normal",
        "TaintManagerEviction",
        f"Marking for deletion Pod {metadata.key}",
    )
    return [
        *_disruption(pod, why, now_seconds, failed=False),
        Delete(PODS, metadata.namespace, metadata.name, metadata.uid),
        event,
    ]


def _disruption(pod: Pod, target: tuple[str, str] | None, now_seconds: float, *, failed: bool) -> list[Instruction]:
    """Tells the pod's owner why it goes, before it goes. Told once: the next look finds it."""
    status: Manifest = {}
    if failed and not pod.has_ended:
        status["phase"] = "Failed"
    told = any(it.type == "DisruptionTarget" and it.status == "True" for it in pod.status.conditions or ())
    if target is not None and not told:
        others = [_condition(it) for it in pod.status.conditions or () if it.type != "DisruptionTarget"]
        reason, message = target
        mark = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}
        status["conditions"] = [*others, {**mark, "lastTransitionTime": time_text(now_seconds)}]
    if not status:
        return []
    metadata = pod.metadata
    return [Patch(PODS, metadata.namespace, metadata.name, {"status": status}, "status", metadata.resource_version)]


def _condition(condition: object) -> Manifest:
    return msgspec.to_builtins(condition)  # type: ignore[no-any-return]


def _not_ready(pod: Pod, now_seconds: float) -> Patch:
    """Nobody knows whether it still serves: it counts as not ready until its node says so again."""
    conditions = [_condition(it) for it in pod.status.conditions or ()]
    for condition in conditions:
        if condition["type"] == "Ready":
            condition |= {"status": "False", "lastTransitionTime": time_text(now_seconds)}
    metadata = pod.metadata
    body = {"status": {"conditions": conditions}}
    return Patch(PODS, metadata.namespace, metadata.name, body, "status", metadata.resource_version)


# -- nodes that are gone


def reconcile_gone(pods: Iterable[Pod], gone_seconds: float, now_seconds: float) -> Outcome:
    """Pods on a node that has been missing for so long. After a while they are given up: nobody else would end them."""
    if gone_seconds < GONE_SECONDS:
        return Outcome((), now_seconds + GONE_SECONDS - gone_seconds)
    instructions: list[Instruction] = []
    for count, pod in enumerate(pods):
        if count == PODS_AT_ONCE:
            return Outcome(tuple(instructions), now_seconds)
        instructions += _given_up(pod, now_seconds, ("DeletionByPodGC", "PodGC: node no longer exists"))
    return Outcome(tuple(instructions))


def _given_up(pod: Pod, now_seconds: float, target: tuple[str, str] | None) -> list[Instruction]:
    metadata = pod.metadata
    mark = target if not pod.has_ended else None
    return [
        *_disruption(pod, mark, now_seconds, failed=True),
        Delete(PODS, metadata.namespace, metadata.name, metadata.uid, grace_seconds=0),
    ]
