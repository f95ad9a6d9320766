"""How many pods of a budget may be taken away right now. Evictions are allowed or refused by what is written here.

The server itself takes one off at every eviction and notes the pod; until that pod is seen to go, or two minutes are
over, it counts as gone. Whoever cannot be counted is an error that allows nothing.
"""

import datetime
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from allhands.api.document import Manifest
from allhands.api.kinds import Resource
from allhands.lifecycle.changes import (
    condition_of,
    is_scalable,
    merge_patch,
    object_reference,
    scaled,
    time_text,
    without_condition,
)
from allhands.lifecycle.instructions import Instruction, Outcome, Patch, Record
from allhands.lifecycle.observed import Metadata, OwnerReference, Pod, seconds_of

BUDGETS: Final = Resource("policy", "v1", "poddisruptionbudgets")
DELETION_SECONDS: Final = 120.0
"""So long an evicted pod may take to be seen going; then it counts as staying."""


class BudgetSpec(msgspec.Struct, frozen=True, rename="camel"):
    selector: Manifest | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None


class Budget(msgspec.Struct, frozen=True):
    metadata: Metadata = Metadata()
    spec: BudgetSpec = BudgetSpec()
    status: Manifest = {}


class Scale(msgspec.Struct, frozen=True):
    """How many pods somebody wants to have."""

    uid: str
    replicas: int


class UncountableError(ValueError):
    """Why nobody can say how many pods there should be."""


FindScale = Callable[[OwnerReference, str], Scale | None]


def reconcile(budget: Budget, pods: Sequence[Pod], scale_of: FindScale, now_seconds: float) -> Outcome:
    """`pods` are all that the budget selects; `scale_of` finds how large their manager in a namespace wants to be."""
    status: Manifest
    problems: list[Instruction] = []
    recheck: float | None = None
    try:
        expected, desired, unmanaged = _expectation(budget, pods, scale_of)
    except UncountableError as error:
        status = _failed(budget, str(error), now_seconds)
        text = f"Failed to calculate the number of expected pods: {error}"
        problems = [_warning(budget, "CalculateExpectedPodCountFailed", text)]
    else:
        disrupted, recheck = _disrupted(budget, pods, now_seconds)
        status = _status(budget, pods, expected, desired, disrupted, now_seconds)
        if unmanaged:
            names = ", ".join(unmanaged[:5])
            text = f"Pods without a manager cannot be counted ({names}); set .spec.minAvailable to a number"
            problems = [_warning(budget, "UnmanagedPods", text)]
    patch = merge_patch(budget.status, status)
    if not patch:
        return Outcome((), recheck)
    metadata = budget.metadata
    write = Patch(BUDGETS, metadata.namespace, metadata.name, {"status": patch}, "status", metadata.resource_version)
    return Outcome((write, *problems), recheck)


def _warning(budget: Budget, reason: str, message: str) -> Record:
    return Record(object_reference("policy/v1", "PodDisruptionBudget", budget.metadata), "Warning", reason, message)


def _expectation(budget: Budget, pods: Sequence[Pod], scale_of: FindScale) -> tuple[int, int, list[str]]:
    """How many pods there should be, how many of them healthy, and the names of those that nobody manages."""
    unavailable, available = budget.spec.max_unavailable, budget.spec.min_available
    if unavailable is not None:
        if not is_scalable(unavailable):
            raise UncountableError(f"spec.maxUnavailable: {unavailable!r} is neither a number nor a percentage")
        expected, unmanaged = _scales(pods, scale_of)
        return expected, max(0, expected - scaled(unavailable, expected, round_up=True)), unmanaged
    if isinstance(available, str):
        if not is_scalable(available):
            raise UncountableError(f"spec.minAvailable: {available!r} is neither a number nor a percentage")
        expected, unmanaged = _scales(pods, scale_of)
        return expected, scaled(available, expected, round_up=True), unmanaged
    return (len(pods), max(0, available), []) if available is not None else (0, 0, [])


def _scales(pods: Iterable[Pod], scale_of: FindScale) -> tuple[int, list[str]]:
    scales: dict[str, int] = {}
    known: set[str] = set()
    unmanaged = []
    for pod in pods:
        controller = pod.metadata.controller
        if controller is None:
            unmanaged.append(pod.metadata.name)
        elif controller.uid not in known:
            scale = scale_of(controller, pod.metadata.namespace)
            if scale is None:
                raise UncountableError(f'found no controllers for pod "{pod.metadata.name}"')
            known.add(controller.uid)
            scales[scale.uid] = max(0, scale.replicas)
    return sum(scales.values()), unmanaged


def _disrupted(budget: Budget, pods: Iterable[Pod], now_seconds: float) -> tuple[dict[str, str], float | None]:
    """The evicted pods that are still to be seen going, and when the first of them has had its time."""
    noted: dict[str, str] = budget.status.get("disruptedPods") or {}
    kept: dict[str, str] = {}
    for pod in pods if noted else ():
        since = noted.get(pod.metadata.name)
        if since is not None and not pod.metadata.is_going and _seconds(since) + DELETION_SECONDS > now_seconds:
            kept[pod.metadata.name] = since
    return kept, min((_seconds(it) + DELETION_SECONDS for it in kept.values()), default=None)


def _seconds(text: str) -> float:
    try:
        return seconds_of(datetime.datetime.fromisoformat(text))
    except (ValueError, TypeError):
        return 0.0


def _status(
    budget: Budget, pods: Iterable[Pod], expected: int, desired: int, disrupted: dict[str, str], now_seconds: float
) -> Manifest:
    healthy = sum(
        pod.ready is not None and not pod.metadata.is_going and pod.metadata.name not in disrupted for pod in pods
    )
    allowed = max(0, healthy - desired) if expected > 0 else 0
    verdict = ("True", "SufficientPods") if allowed else ("False", "InsufficientPods")
    generation = budget.metadata.generation
    return {
        **budget.status,
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": expected,
        "disruptionsAllowed": allowed,
        "disruptedPods": disrupted,
        "observedGeneration": generation,
        "conditions": _conditions(budget, *verdict, "", generation, now_seconds),
    }


def _failed(budget: Budget, message: str, now_seconds: float) -> Manifest:
    """Nothing is allowed while nobody knows."""
    observed = int(budget.status.get("observedGeneration") or 0)
    conditions = _conditions(budget, "False", "SyncFailed", message, observed, now_seconds)
    return {**budget.status, "disruptionsAllowed": 0, "conditions": conditions}


def _conditions(
    budget: Budget, verdict: str, reason: str, message: str, generation: int, now_seconds: float
) -> list[Manifest]:
    present = list(budget.status.get("conditions") or ())
    old = condition_of(present, "DisruptionAllowed")
    since = time_text(now_seconds)
    if old is not None and old.get("status") == verdict:
        since = old.get("lastTransitionTime", since)
    condition: Manifest = {
        "type": "DisruptionAllowed",
        "status": verdict,
        "reason": reason,
        "message": message,
        "lastTransitionTime": since,
        "observedGeneration": generation,
    }
    if not generation:
        del condition["observedGeneration"]
    if old == condition:
        return present
    return [*without_condition(present, "DisruptionAllowed"), condition]
