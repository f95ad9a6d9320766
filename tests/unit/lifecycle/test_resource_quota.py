"""What objects take from a quota, by name and by scope, and what the quota says is used."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.lifecycle.quota_charges import Charged, claim_charge, object_charge, pod_charge, service_charge
from allhands.lifecycle.resource_quota import Ledger, Quota, status_of
from tests.depth import examples

COUNTED = frozenset({"count/pods", "count/jobs.batch"}).__contains__


def pod(phase: str = "Running", resources: dict[str, Any] | None = None, **spec: Any) -> Charged:
    containers = [{"name": "c", "resources": resources or {}}]
    manifest = {
        "metadata": {"name": "p", "namespace": "ns"},
        "spec": {"containers": containers, **spec},
        "status": {"phase": phase},
    }
    return pod_charge(msgspec.json.encode(manifest))


def quota(hard: dict[str, Any], status: dict[str, Any] | None = None, **spec: Any) -> Quota:
    metadata = {"name": "q", "namespace": "ns"}
    return msgspec.convert({"metadata": metadata, "spec": {"hard": hard, **spec}, "status": status or {}}, Quota)


def used(quota: Quota, *charged: Charged) -> dict[str, str]:
    ledger = Ledger()
    for it in charged:
        ledger.change(None, it)
    status = status_of(quota, ledger, COUNTED)
    assert status is not None
    told: dict[str, str] = status["used"]
    return told


BIG = {"requests": {"cpu": "1500m", "memory": "1Gi", "nvidia.com/gpu": 2}, "limits": {"cpu": "2", "memory": "2Gi"}}


def test_a_pods_requests_and_limits_are_summed_under_all_their_names() -> None:
    names = ("pods", "cpu", "requests.cpu", "limits.cpu", "memory", "limits.memory", "requests.nvidia.com/gpu")
    hard = dict.fromkeys(names, "100")
    assert used(quota(hard), pod(resources=BIG), pod(resources=BIG)) == {
        "pods": "2",
        "cpu": "3",
        "requests.cpu": "3",
        "limits.cpu": "4",
        "memory": "2Gi",
        "limits.memory": "4Gi",
        "requests.nvidia.com/gpu": "4",
    }


def test_a_pod_that_is_over_takes_nothing_but_its_name() -> None:
    hard = {"pods": "9", "requests.cpu": "9", "count/pods": "9"}
    told = used(quota(hard), pod("Succeeded", BIG), pod("Failed", BIG))
    assert told == {"pods": "0", "requests.cpu": "0", "count/pods": "2"}


def test_init_containers_count_by_the_largest_and_overhead_beside_limits_only() -> None:
    spec: dict[str, Any] = {
        "initContainers": [{"name": "i", "resources": {"limits": {"cpu": "5"}}}],
        "overhead": {"cpu": "1", "memory": "1Gi"},
    }
    told = used(quota({"limits.cpu": "9", "limits.memory": "9"}), pod(resources={"limits": {"cpu": "2"}}, **spec))
    assert told == {"limits.cpu": "6", "limits.memory": "0"}


@pytest.mark.parametrize(
    ("scopes", "expected"),
    [
        (["BestEffort"], "1"),
        (["NotBestEffort"], "3"),
        (["Terminating"], "1"),
        (["NotTerminating", "NotBestEffort"], "2"),
        (["PriorityClass"], "1"),
        (["CrossNamespacePodAffinity"], "1"),
    ],
)
def test_scopes_choose_the_pods_that_count(scopes: list[str], expected: str) -> None:
    term = {"topologyKey": "zone", "namespaces": ["other"]}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    pods = (
        pod(),
        pod(resources=BIG, activeDeadlineSeconds=5),
        pod(resources=BIG, priorityClassName="high"),
        pod(resources=BIG, affinity=affinity),
    )
    assert used(quota({"pods": "9"}, scopes=scopes), *pods) == {"pods": expected}


@pytest.mark.parametrize(
    ("operator", "values", "expected"),
    [
        ("In", ["high"], "1"),
        ("NotIn", ["high"], "2"),
        ("Exists", None, "2"),
        ("DoesNotExist", None, "1"),
        ("Huh", None, "0"),
    ],
)
def test_priority_classes_can_be_chosen_by_name(operator: str, values: list[str] | None, expected: str) -> None:
    expression = {"scopeName": "PriorityClass", "operator": operator, "values": values}
    pods = (pod(), pod(priorityClassName="high"), pod(priorityClassName="low"))
    chosen = quota({"pods": "9"}, scopeSelector={"matchExpressions": [expression]})
    assert used(chosen, *pods) == {"pods": expected}


def test_claims_services_and_plain_objects_are_counted() -> None:
    claim = {
        "metadata": {"namespace": "ns"},
        "spec": {"storageClassName": "fast", "resources": {"requests": {"storage": "5Gi"}}},
    }
    service = {"metadata": {"namespace": "ns"}, "spec": {"type": "LoadBalancer", "ports": [{"nodePort": 1}, {}]}}
    job = object_charge("ns", ("count/jobs.batch",))
    names = (
        "persistentvolumeclaims",
        "requests.storage",
        "fast.storageclass.storage.k8s.io/requests.storage",
        "services",
        "services.loadbalancers",
        "services.nodeports",
        "count/jobs.batch",
        "count/unknown.example.com",
    )
    told = used(
        quota(dict.fromkeys(names, "9")),
        claim_charge(msgspec.json.encode(claim)),
        service_charge(msgspec.json.encode(service)),
        job,
    )
    assert told == {
        "persistentvolumeclaims": "1",
        "requests.storage": "5Gi",
        "fast.storageclass.storage.k8s.io/requests.storage": "5Gi",
        "services": "1",
        "services.loadbalancers": "1",
        "services.nodeports": "2",
        "count/jobs.batch": "1",
    }


def test_other_namespaces_do_not_count() -> None:
    elsewhere = msgspec.structs.replace(pod(), namespace="other")
    assert used(quota({"pods": "9"}), elsewhere) == {"pods": "0"}


def test_equal_amounts_written_differently_are_no_change_and_what_is_no_longer_limited_is_taken_out() -> None:
    status = {"hard": {"memory": "1024Mi"}, "used": {"memory": "0"}}
    assert status_of(quota({"memory": "1Gi"}, status), Ledger(), COUNTED) is None
    assert status_of(quota({"pods": "1"}, status), Ledger(), COUNTED) == {"hard": {"pods": "1"}, "used": {"pods": "0"}}


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["Running", "Succeeded", ""]), st.booleans())))
@settings(max_examples=examples(50))
def test_sums_kept_up_to_date_are_those_of_what_is_there(changes: list[tuple[int, str, bool]]) -> None:
    kept = Ledger()
    there: dict[int, Charged | None] = {}
    for name, phase, is_big in changes:
        new = pod(phase, BIG if is_big else None) if phase else None
        kept.change(there.get(name), new)
        there[name] = new
    fresh = Ledger()
    for charged in there.values():
        fresh.change(None, charged)
    names = ("pods", "requests.cpu", "limits.memory", "count/pods")
    assert kept.used(quota({}), names) == fresh.used(quota({}), names)
