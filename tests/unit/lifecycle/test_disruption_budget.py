"""How many pods may be taken away, for every way to write a budget, and while evictions are under way."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from allhands.lifecycle.disruption_budget import Budget, Scale, reconcile
from allhands.lifecycle.instructions import Outcome, Patch, Record
from allhands.lifecycle.observed import OwnerReference, Pod

NOW = 1_769_860_800.0


def budget(status: dict[str, Any] | None = None, **spec: Any) -> Budget:
    metadata = {"name": "b", "namespace": "ns", "uid": "b", "generation": 1, "resourceVersion": "4"}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status or {}}, Budget)


def pods(ready: int, unready: int = 0, owner: str | None = "rs", first: int = 0) -> list[Pod]:
    owners = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": True}]
    found = []
    for number in range(first, first + ready + unready):
        conditions = [{"type": "Ready", "status": "True" if number < first + ready else "False"}]
        metadata = {"name": f"p{number}", "namespace": "ns", "ownerReferences": owners if owner else None}
        found.append(msgspec.convert({"metadata": metadata, "status": {"conditions": conditions}}, Pod))
    return found


def ten(owner: OwnerReference, _namespace: str) -> Scale | None:
    return Scale(owner.uid, 10)


def status_of(outcome: Outcome) -> dict[str, Any]:
    patch = outcome.instructions[0]
    assert isinstance(patch, Patch)
    assert patch.version == "4"
    status: dict[str, Any] = patch.patch["status"]
    return status


@pytest.mark.parametrize(
    ("rule", "healthy", "expected", "desired", "allowed"),
    [
        ({"minAvailable": 3}, 5, 5, 3, 2),
        ({"minAvailable": 9}, 5, 5, 9, 0),
        ({"minAvailable": 0}, 5, 5, 0, 5),
        ({"minAvailable": "50%"}, 7, 10, 5, 2),
        ({"minAvailable": "33%"}, 7, 10, 4, 3),
        ({"maxUnavailable": 2}, 9, 10, 8, 1),
        ({"maxUnavailable": "25%"}, 9, 10, 7, 2),
        ({"maxUnavailable": 99}, 3, 10, 0, 3),
        ({}, 3, 0, 0, 0),
    ],
)
def test_every_way_to_write_a_budget_allows_what_it_says(
    rule: dict[str, Any], healthy: int, expected: int, desired: int, allowed: int
) -> None:
    status = status_of(reconcile(budget(**rule), pods(healthy), ten, NOW))
    counts = [status.get(it, 0) for it in ("currentHealthy", "expectedPods", "desiredHealthy", "disruptionsAllowed")]
    assert counts == [healthy, expected, desired, allowed]
    (condition,) = status["conditions"]
    wanted = ("True", "SufficientPods") if allowed else ("False", "InsufficientPods")
    assert (condition["status"], condition["reason"]) == wanted
    assert status["observedGeneration"] == 1


def test_a_budget_without_pods_allows_nothing() -> None:
    status = status_of(reconcile(budget(minAvailable=0), [], ten, NOW))
    assert "disruptionsAllowed" not in status


def test_a_deployments_replica_sets_count_as_one() -> None:
    both = [*pods(5, owner="old"), *pods(5, owner="new", first=5)]
    status = status_of(reconcile(budget(maxUnavailable=1), both, lambda _owner, _ns: Scale("deployment", 8), NOW))
    assert status["expectedPods"] == 8


def test_whoever_cannot_be_counted_allows_nothing_and_says_why() -> None:
    outcome = reconcile(budget(maxUnavailable=1), pods(3), lambda _owner, _ns: None, NOW)
    (condition,) = status_of(outcome)["conditions"]
    assert condition["reason"] == "SyncFailed"
    assert condition["message"] == 'found no controllers for pod "p0"'
    assert isinstance(outcome.instructions[1], Record)


@pytest.mark.parametrize("rule", [{"minAvailable": "some"}, {"maxUnavailable": "99999999999999%"}])
def test_a_budget_that_is_no_number_allows_nothing_and_says_where(rule: dict[str, Any]) -> None:
    (condition,) = status_of(reconcile(budget(**rule), pods(3), ten, NOW))["conditions"]
    assert condition["message"].startswith(f"spec.{next(iter(rule))}: ")


def test_pods_without_a_manager_are_told_about() -> None:
    outcome = reconcile(budget(maxUnavailable=1), [*pods(3), *pods(1, owner=None, first=3)], ten, NOW)
    (event,) = outcome.instructions[1:]
    assert isinstance(event, Record)
    assert "p3" in event.message


def test_an_evicted_pod_counts_as_gone_until_it_is_seen_to_stay() -> None:
    evicted = {"disruptedPods": {"p0": "2026-01-31T12:00:00Z", "unknown": "2026-01-31T12:00:00Z"}}
    outcome = reconcile(budget(evicted, minAvailable=1), pods(3), ten, NOW + 10)
    status = status_of(outcome)
    assert status["currentHealthy"] == 2
    assert status["disruptedPods"] == {"unknown": None}
    assert outcome.wake_at_seconds == NOW + 120
    later = reconcile(budget(evicted, minAvailable=1), pods(3), ten, NOW + 120)
    assert status_of(later)["currentHealthy"] == 3
    assert status_of(later)["disruptedPods"] is None
    assert later.wake_at_seconds is None


def test_a_budget_that_is_right_is_not_written() -> None:
    first = status_of(reconcile(budget(minAvailable=1), pods(3), ten, NOW))
    assert reconcile(budget(first, minAvailable=1), pods(3), ten, NOW + 60) == Outcome()
