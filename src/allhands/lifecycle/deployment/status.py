"""What a Deployment says about itself: counts, whether enough of it is available, whether its rollout moves.

`kubectl rollout status` and everything that waits for a rollout reads exactly this.
"""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

from allhands.lifecycle.changes import condition_of, time_text, with_condition, without_condition
from allhands.lifecycle.observed import seconds_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allhands.api.document import Manifest
    from allhands.lifecycle.deployment.kinds import Deployment
    from allhands.lifecycle.replica_set import ReplicaSet

AVAILABLE = "NewReplicaSetAvailable"
TIMED_OUT = "ProgressDeadlineExceeded"
CREATED = "NewReplicaSetCreated"
PAUSED = "DeploymentPaused"
RESUMED = "DeploymentResumed"


def counted(deployment: Deployment, new: ReplicaSet | None, sets: Sequence[ReplicaSet]) -> Manifest:
    """The status with fresh counts and the condition of availability; the rest as it is."""
    available = sum(it.count("availableReplicas") for it in sets)
    return {
        **deployment.status,
        "observedGeneration": deployment.metadata.generation,
        "replicas": sum(it.count("replicas") for it in sets),
        "updatedReplicas": 0 if new is None else new.count("replicas"),
        "readyReplicas": sum(it.count("readyReplicas") for it in sets),
        "availableReplicas": available,
        "unavailableReplicas": max(0, sum(it.spec.replicas for it in sets) - available),
        "terminatingReplicas": sum(it.count("terminatingReplicas") for it in sets),
    }


def with_availability(deployment: Deployment, status: Manifest, now_seconds: float) -> Manifest:
    if status["availableReplicas"] >= deployment.spec.replicas - deployment.max_unavailable:
        verdict = ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    else:
        verdict = ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    return _with(status, "Available", *verdict, now_seconds)


def with_pause(deployment: Deployment, status: Manifest, now_seconds: float) -> Manifest:
    """A pause stops the clock of the progress deadline, and its end starts it anew."""
    present = progressing(status)
    reason = "" if present is None else present.get("reason", "")
    if deployment.deadline_seconds is None or reason == TIMED_OUT:
        return status
    if deployment.spec.paused and reason != PAUSED:
        return _with(status, "Progressing", "Unknown", PAUSED, "Deployment is paused", now_seconds)
    if not deployment.spec.paused and reason == PAUSED:
        return _with(status, "Progressing", "Unknown", RESUMED, "Deployment is resumed", now_seconds)
    return status


def with_progress(deployment: Deployment, status: Manifest, new: ReplicaSet | None, now_seconds: float) -> Manifest:
    """How the rollout is getting on. A finished one is not looked at again until the template changes."""
    if deployment.deadline_seconds is None:
        return {**status, "conditions": without_condition(_conditions(status), "Progressing")}
    present = progressing(status)
    subject = f'Deployment "{deployment.metadata.name}"' if new is None else f'ReplicaSet "{new.metadata.name}"'
    done = f"{subject} has successfully progressed."
    if is_complete(deployment, status):
        if present is not None and (present.get("reason"), present.get("message")) == (AVAILABLE, done):
            return status
        return _told_anew(status, AVAILABLE, done, now_seconds)
    is_finished = present is not None and present.get("reason") == AVAILABLE
    if is_finished and status["replicas"] == status["updatedReplicas"]:
        return status
    if _has_moved(deployment, status):
        return _told_anew(status, "ReplicaSetUpdated", f"{subject} is progressing.", now_seconds)
    if _is_overdue(deployment, present, now_seconds):
        message = f"{subject} has timed out progressing."
        return _with(status, "Progressing", "False", TIMED_OUT, message, now_seconds)
    return status


def with_new_set(status: Manifest, name: str, now_seconds: float) -> Manifest:
    return _with(status, "Progressing", "True", CREATED, f'Created new replica set "{name}"', now_seconds)


def with_found_set(deployment: Deployment, status: Manifest, new: ReplicaSet, now_seconds: float) -> Manifest:
    """A rollout that nobody has followed so far is followed from now on."""
    if deployment.deadline_seconds is None or progressing(status) is not None:
        return status
    message = f'Found new replica set "{new.metadata.name}"'
    return _with(status, "Progressing", "True", "FoundNewReplicaSet", message, now_seconds)


def with_refusal(status: Manifest, name: str, message: str, now_seconds: float) -> Manifest:
    text = f'Failed to create new replica set "{name}": {message}'
    return _with(status, "Progressing", "False", "ReplicaSetCreateError", text, now_seconds)


def with_failures(status: Manifest, new: ReplicaSet | None, sets: Sequence[ReplicaSet]) -> Manifest:
    """The trouble of a ReplicaSet is the Deployment's, the present one's first."""
    for each in (*([new] if new else ()), *sets):
        failure = condition_of(list(each.status.get("conditions") or ()), "ReplicaFailure")
        if failure is not None:
            moved = {**failure, "lastUpdateTime": failure.get("lastTransitionTime")}
            conditions = with_condition(_conditions(status), moved, str(failure.get("lastTransitionTime")))
            return {**status, "conditions": conditions}
    return {**status, "conditions": without_condition(_conditions(status), "ReplicaFailure")}


def progressing(status: Manifest) -> Manifest | None:
    return condition_of(_conditions(status), "Progressing")


def is_complete(deployment: Deployment, status: Manifest) -> bool:
    wanted = deployment.spec.replicas
    counts = (int(status.get(it) or 0) for it in ("updatedReplicas", "replicas", "availableReplicas"))
    observed = int(status.get("observedGeneration") or 0)
    return all(it == wanted for it in counts) and observed >= deployment.metadata.generation


def overdue_at_seconds(deployment: Deployment, status: Manifest) -> float | None:
    """When the rollout will have gone without progress for too long, if it is still under way."""
    present = progressing(status)
    deadline = deployment.deadline_seconds
    if present is None or deadline is None or deployment.spec.paused or is_complete(deployment, status):
        return None
    if present.get("reason") in (AVAILABLE, TIMED_OUT):
        return None
    return _last_update_seconds(present) + deadline


def _is_overdue(deployment: Deployment, present: Manifest | None, now_seconds: float) -> bool:
    if present is None or deployment.deadline_seconds is None or present.get("reason") == AVAILABLE:
        return False
    if present.get("reason") == TIMED_OUT:
        return True
    return _last_update_seconds(present) + deployment.deadline_seconds <= now_seconds


def _last_update_seconds(condition: Manifest) -> float:
    text = condition.get("lastUpdateTime") or condition.get("lastTransitionTime") or ""
    try:
        return seconds_of(datetime.datetime.fromisoformat(text))
    except (ValueError, TypeError):
        return 0.0


def _has_moved(deployment: Deployment, status: Manifest) -> bool:
    """More new pods, fewer old ones, more ready or available ones than the last time."""
    count = deployment.count
    old_before = count("replicas") - count("updatedReplicas")
    return bool(
        status["updatedReplicas"] > count("updatedReplicas")
        or status["replicas"] - status["updatedReplicas"] < old_before
        or status["readyReplicas"] > count("readyReplicas")
        or status["availableReplicas"] > count("availableReplicas")
    )


def _told_anew(status: Manifest, reason: str, message: str, now_seconds: float) -> Manifest:
    """Told at every move, since the time of the last one is what the deadline counts from."""
    now = time_text(now_seconds)
    present = progressing(status)
    since = now
    if present is not None and present.get("status") == "True":
        since = present.get("lastTransitionTime", now)
    condition = {
        "type": "Progressing",
        "status": "True",
        "reason": reason,
        "message": message,
        "lastUpdateTime": now,
        "lastTransitionTime": since,
    }
    return {**status, "conditions": [*without_condition(_conditions(status), "Progressing"), condition]}


def _conditions(status: Manifest) -> list[Manifest]:
    return list(status.get("conditions") or ())


def _with(status: Manifest, type: str, verdict: str, reason: str, message: str, now_seconds: float) -> Manifest:
    now = time_text(now_seconds)
    condition = {"type": type, "status": verdict, "reason": reason, "message": message, "lastUpdateTime": now}
    return {**status, "conditions": with_condition(_conditions(status), condition, now)}
