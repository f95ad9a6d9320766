"""A ReplicaSet keeps a number of equal pods: it adopts those that fit, makes what lacks, ends what is too much.

Which pods go first is fixed, so that looking again after a crash never ends more than the surplus. It never touches a
pod that somebody else manages.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

import msgspec

from allhands.api.document import Manifest
from allhands.api.kinds import Resource
from allhands.api.selectors import LabelSelector
from allhands.lifecycle.changes import (
    condition_of,
    merge_patch,
    object_reference,
    owner_reference,
    time_text,
    without_condition,
)
from allhands.lifecycle.instructions import Create, Delete, Instruction, Outcome, Patch, Record
from allhands.lifecycle.observed import NO_LABELS, Metadata, Pod, Template, seconds_of
from allhands.lifecycle.ownership import owned_by
from allhands.lifecycle.selection import managing_selector

PODS: Final = Resource("", "v1", "pods")
REPLICA_SETS: Final = Resource("apps", "v1", "replicasets")
BURST: Final = 500
"""So many pods are made or ended at a time; then others have their turn."""
DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_SortKey: TypeAlias = Callable[[Pod], tuple[bool | int | str, ...]]
_PHASE_ORDER: Final = {"Pending": 0, "Unknown": 1, "Running": 2}


class ReplicaSetSpec(msgspec.Struct, frozen=True, rename="camel"):
    replicas: int = 1
    min_ready_seconds: int = 0
    selector: Manifest | None = None
    template: Template = Template()


class ReplicaSet(msgspec.Struct, frozen=True):
    metadata: Metadata = Metadata()
    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: Manifest = {}

    @property
    def selector(self) -> LabelSelector:
        return managing_selector(self.spec.selector)

    def count(self, field: str) -> int:
        """A number of its status."""
        return int(self.status.get(field) or 0)


class Refusal(msgspec.Struct, frozen=True):
    """What the server said to the last attempt, if it refused."""

    message: str


def reconcile(
    replicas: ReplicaSet,
    pods: Sequence[Pod],
    now_seconds: float,
    siblings: Iterable[Pod] = (),
    refusal: Refusal | None = None,
) -> Outcome:
    """`pods` are those it controls and those in its namespace that nobody does; `siblings` all pods of its owner.

    `refusal` is why the last attempt to make or end pods stopped, while that is so.
    """
    instructions: list[Instruction] = []
    owned, strangers, changed = _claims(replicas, pods)
    if not replicas.metadata.is_going:
        instructions += [_adoption(replicas, pod) for pod in strangers]
        instructions += [_release(replicas, pod) for pod in changed]
        owned += strangers
    active = [pod for pod in owned if pod.is_active]
    going = [pod for pod in owned if not pod.is_active and pod.metadata.is_going and not pod.has_ended]
    status_patch = _status_patch(replicas, active, len(going), refusal, now_seconds)
    if refusal is not None:
        instructions += status_patch  # what is refused again must not keep the reason from being told
    if not replicas.metadata.is_going:
        instructions += _scale(replicas, active, siblings, now_seconds)
    if refusal is None:
        instructions += status_patch
    return Outcome(tuple(instructions), _next_availability(replicas, active, now_seconds))


def _claims(replicas: ReplicaSet, pods: Iterable[Pod]) -> tuple[list[Pod], list[Pod], list[Pod]]:
    """Those it has, those that nobody has and that fit, and those it has and that do not fit any more."""
    owned: list[Pod] = []
    strangers: list[Pod] = []
    changed: list[Pod] = []
    uid, namespace, selector = replicas.metadata.uid, replicas.metadata.namespace, replicas.selector
    for pod in pods:
        controller = pod.metadata.controller
        fits = selector.matches(pod.metadata.labels or NO_LABELS)
        if controller is None:
            if fits and pod.is_active and pod.metadata.namespace == namespace:
                strangers.append(pod)
        elif controller.uid == uid:
            (owned if fits or not pod.is_active else changed).append(pod)
    return owned, strangers, changed


def _adoption(replicas: ReplicaSet, pod: Pod) -> Patch:
    owners = [msgspec.to_builtins(it) for it in pod.metadata.owner_references or ()]
    owners.append(owner_reference("apps/v1", "ReplicaSet", replicas.metadata))
    return owned_by(PODS, pod.metadata, owners)


def _release(replicas: ReplicaSet, pod: Pod) -> Patch:
    """A pod whose labels were changed is let go, as people do to look into one in peace."""
    others = [it for it in pod.metadata.owner_references or () if it.uid != replicas.metadata.uid]
    return owned_by(PODS, pod.metadata, [msgspec.to_builtins(it) for it in others])


def _scale(
    replicas: ReplicaSet, active: Sequence[Pod], siblings: Iterable[Pod], now_seconds: float
) -> list[Instruction]:
    lacking = max(0, replicas.spec.replicas) - len(active)
    if lacking > 0:
        count = min(lacking, BURST)
        creations = [Create(PODS, replicas.metadata.namespace, _pod(replicas))] * count
        return [*creations, _event(replicas, "SuccessfulCreate", f"Created {count} pod{'s' if count > 1 else ''}")]
    if lacking == 0:
        return []
    key = _who_goes_first(active, siblings, now_seconds)
    surplus = [pod.metadata for pod in sorted(active, key=key)[: min(-lacking, BURST)]]
    deletions = [Delete(PODS, it.namespace, it.name, it.uid) for it in surplus]
    events = [_event(replicas, "SuccessfulDelete", f"Deleted pod: {it.name}") for it in surplus]
    return [*deletions, *events]


def _event(replicas: ReplicaSet, reason: str, message: str) -> Record:
    return Record(object_reference("apps/v1", "ReplicaSet", replicas.metadata), "Normal", reason, message)


def _pod(replicas: ReplicaSet) -> Manifest:
    template = replicas.spec.template
    metadata: Manifest = {
        "generateName": f"{replicas.metadata.name}-",
        "labels": dict(template.labels),
        "ownerReferences": [owner_reference("apps/v1", "ReplicaSet", replicas.metadata)],
    }
    for field in ("annotations", "finalizers"):
        if template.metadata.get(field):
            metadata[field] = template.metadata[field]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template.spec}


def _who_goes_first(active: Iterable[Pod], siblings: Iterable[Pod], now_seconds: float) -> _SortKey:
    """A sort key: pods that do the least good first; among equals, those on crowded nodes, then the youngest."""
    crowd: dict[str, int] = {}
    for pod in {it.metadata.uid: it for it in (*active, *siblings)}.values():
        if pod.is_active:
            crowd[pod.spec.node_name] = crowd.get(pod.spec.node_name, 0) + 1

    def key(pod: Pod) -> tuple[bool | int | str, ...]:
        ready = pod.ready
        ready_since = seconds_of(ready.last_transition_time) if ready is not None else 0.0
        return (
            bool(pod.spec.node_name),
            _PHASE_ORDER.get(pod.status.phase, 1),
            ready is not None,
            _deletion_cost(pod),
            -crowd.get(pod.spec.node_name, 0),
            _age_rank(ready_since, now_seconds),
            -pod.restarts,
            _age_rank(pod.metadata.created_seconds, now_seconds),
            pod.metadata.uid,
        )

    return key


def _age_rank(since_seconds: float, now_seconds: float) -> int:
    """Ages on a logarithmic scale: pods of about the same age are alike, so that not always the youngest go."""
    age = now_seconds - since_seconds
    return -1 if since_seconds <= 0 or age < 1 else int(math.log2(age))


def _deletion_cost(pod: Pod) -> int:
    text = pod.metadata.annotation(DELETION_COST)
    digits = text.removeprefix("-").removeprefix("+")
    if not digits.isdecimal() or len(digits) > 10 or (text.startswith("+") and len(digits) < 1):
        return 0
    cost = int(text)
    return cost if -(2**31) <= cost < 2**31 else 0


def _status_patch(
    replicas: ReplicaSet, active: Sequence[Pod], going: int, refusal: Refusal | None, now_seconds: float
) -> list[Instruction]:
    min_ready = replicas.spec.min_ready_seconds
    template_labels = replicas.spec.template.labels.items()
    available_since = [it for pod in active if (it := pod.available_at_seconds(min_ready)) is not None]
    status: Manifest = {
        **replicas.status,
        "replicas": len(active),
        "fullyLabeledReplicas": sum(template_labels <= (it.metadata.labels or NO_LABELS).items() for it in active),
        "readyReplicas": sum(pod.ready is not None for pod in active),
        "availableReplicas": sum(it <= now_seconds for it in available_since),
        "terminatingReplicas": going,
        "observedGeneration": replicas.metadata.generation,
        "conditions": _conditions(replicas, active, refusal, now_seconds),
    }
    patch = merge_patch(replicas.status, status)
    if not patch:
        return []
    patch["replicas"] = status["replicas"]  # the server wants it in every status
    return [Patch(REPLICA_SETS, replicas.metadata.namespace, replicas.metadata.name, {"status": patch}, "status")]


def _conditions(
    replicas: ReplicaSet, active: Sequence[Pod], refusal: Refusal | None, now_seconds: float
) -> list[Manifest]:
    conditions = list(replicas.status.get("conditions") or ())
    if refusal is None:
        return without_condition(conditions, "ReplicaFailure")
    if condition_of(conditions, "ReplicaFailure") is not None:
        return conditions
    reason = "FailedCreate" if len(active) < replicas.spec.replicas else "FailedDelete"
    failure = {"type": "ReplicaFailure", "status": "True", "reason": reason, "message": refusal.message}
    return [*conditions, {**failure, "lastTransitionTime": time_text(now_seconds)}]


def _next_availability(replicas: ReplicaSet, active: Iterable[Pod], now_seconds: float) -> float | None:
    """When the next ready pod will have been ready for long enough."""
    times = [pod.available_at_seconds(replicas.spec.min_ready_seconds) for pod in active]
    return min((it for it in times if it is not None and it > now_seconds), default=None)
