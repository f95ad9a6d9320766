"""What the statuses of Deployment, ReplicaSet, StatefulSet and DaemonSet may say: counts that fit together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.api.builtin.fieldchecks import negatives
from allhands.api.errors import FieldError, invalid

if TYPE_CHECKING:
    from allhands.api.document import Manifest

_DEPLOYMENT: Final = (
    "observedGeneration",
    "replicas",
    "updatedReplicas",
    "readyReplicas",
    "availableReplicas",
    "unavailableReplicas",
    "terminatingReplicas",
    "collisionCount",
)
_REPLICA_SET: Final = (
    "replicas",
    "fullyLabeledReplicas",
    "readyReplicas",
    "availableReplicas",
    "observedGeneration",
    "terminatingReplicas",
)
_STATEFUL_SET: Final = (
    "replicas",
    "readyReplicas",
    "currentReplicas",
    "updatedReplicas",
    "availableReplicas",
    "observedGeneration",
    "collisionCount",
)
_DAEMON_SET: Final = (
    "currentNumberScheduled",
    "numberMisscheduled",
    "desiredNumberScheduled",
    "numberReady",
    "observedGeneration",
    "updatedNumberScheduled",
    "numberAvailable",
    "numberUnavailable",
    "collisionCount",
)


def _status(document: Manifest) -> Manifest:
    return document.get("status") or {}


def _beyond_replicas(status: Manifest, fields: tuple[str, ...], ready: str) -> list[FieldError]:
    replicas = status.get("replicas", 0)
    errors = [
        invalid(f"status.{field}", status.get(field, 0), "cannot be greater than status.replicas")
        for field in fields
        if status.get(field, 0) > replicas
    ]
    available = status.get("availableReplicas", 0)
    if available > status.get("readyReplicas", 0):
        errors.append(invalid("status.availableReplicas", available, f"cannot be greater than {ready}"))
    return errors


def _collision_errors(new: Manifest, old: Manifest) -> list[FieldError]:
    before, after = _status(old).get("collisionCount"), _status(new).get("collisionCount")
    if before is None or (after is not None and after >= before):
        return []
    return [invalid("status.collisionCount", after or 0, "cannot be decremented")]


def validate_deployment_status(new: Manifest, old: Manifest) -> list[FieldError]:
    status = _status(new)
    errors = negatives(status, _DEPLOYMENT, "status")
    errors += _beyond_replicas(status, ("updatedReplicas", "readyReplicas", "availableReplicas"), "readyReplicas")
    return errors + _collision_errors(new, old)


def validate_replica_set_status(new: Manifest, _old: Manifest) -> list[FieldError]:
    status = _status(new)
    errors = negatives(status, _REPLICA_SET, "status")
    fields = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")
    return errors + _beyond_replicas(status, fields, "readyReplicas")


def validate_stateful_set_status(new: Manifest, old: Manifest) -> list[FieldError]:
    status = _status(new)
    errors = negatives(status, _STATEFUL_SET, "status")
    fields = ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
    errors += _beyond_replicas(status, fields, "status.readyReplicas")
    return errors + _collision_errors(new, old)


def validate_daemon_set_status(new: Manifest, old: Manifest) -> list[FieldError]:
    return negatives(_status(new), _DAEMON_SET, "status") + _collision_errors(new, old)
