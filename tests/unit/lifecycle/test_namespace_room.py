"""Groups whose pods a quota of their namespace would refuse wait before the first of them, and are told why."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from allhands.lifecycle.enqueueing import Candidate, enqueue
from allhands.lifecycle.namespace_room import Charge, NamespaceRoom, QuotaLeft, charge_of, quota_left
from allhands.lifecycle.resource_quota import Quota
from allhands.model.resources import ResourceVector

GPU = "nvidia.com/gpu"
_read = msgspec.json.Decoder(Quota).decode


def quota(hard: dict[str, Any], used: Any = None, name: str = "q", **spec: Any) -> QuotaLeft | None:
    manifest = {"metadata": {"name": name, "namespace": "team"}, "spec": {"hard": hard, **spec}}
    return quota_left(_read(json.dumps({**manifest, "status": {"used": used}}).encode()))


def asking(cpu: int = 4, pods: int = 2, namespace: str = "team", gpus: int = 0) -> Charge:
    return charge_of(namespace, ResourceVector.of({"cpu": cpu * 1000, GPU: gpus}), pods)


def why(charge: Charge, *quotas: QuotaLeft | None) -> str:
    found = NamespaceRoom([it for it in quotas if it is not None]).why_not(charge)
    return "" if found is None else str(found)


@pytest.mark.parametrize("name", ["cpu", "requests.cpu"])
def test_who_asks_for_more_than_is_left_is_told_by_which_quota(name: str) -> None:
    assert why(asking(), quota({name: "10"}, {name: "6"})) == ""
    assert why(asking(), quota({name: "10"}, {name: "6500m"})) == (
        f'ResourceQuota "q" of its namespace allows 10 {name}, of which 6500m is used or promised; '
        "the group asks for 4."
    )


@pytest.mark.parametrize("name", ["pods", "count/pods"])
def test_pods_are_counted(name: str) -> None:
    assert why(asking(pods=3), quota({name: "3"})) == ""
    assert f"allows 3 {name}, of which 1 is used" in why(asking(pods=3), quota({name: "3"}, {name: "1"}))


def test_extended_resources_are_limited_by_their_requests() -> None:
    assert "allows 2 requests.nvidia.com/gpu" in why(asking(gpus=4), quota({f"requests.{GPU}": 2}))
    assert why(asking(gpus=4), quota({GPU: 2})) == "", "no quota is over that name"


def test_limits_are_limited() -> None:
    limits = [("limits.cpu", "8"), ("limits.memory", "2Gi")]
    charge = charge_of("team", ResourceVector.of({"cpu": 4000}), 2, limits)
    assert why(charge, quota({"limits.cpu": "8", "limits.memory": "2Gi"})) == ""
    assert "allows 2Gi limits.memory, of which 1Mi is used" in why(
        charge, quota({"limits.memory": "2Gi"}, {"limits.memory": "1Mi"})
    )


def test_who_asks_for_more_than_all_can_never_start_and_is_told_so() -> None:
    found = NamespaceRoom([it for it in [quota({"cpu": "3"})] if it]).why_not(asking())
    assert found is not None
    assert found.is_never
    assert "It can never start with these quotas" in str(found)


def test_other_namespaces_and_what_nobody_limits_are_no_matter() -> None:
    assert why(asking(namespace="other"), quota({"cpu": "1"})) == ""
    assert why(asking(), quota({"memory": "1", "limits.cpu": "1", "services": "0"})) == ""


def test_quotas_for_some_pods_only_are_met_when_pods_are_made() -> None:
    assert quota({"cpu": "1"}, scopes=["Terminating"]) is None
    selector = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]}
    assert quota({"cpu": "1"}, scopeSelector=selector) is None


@pytest.mark.parametrize("used", [None, {}, [], "x", {"cpu": None}, {"cpu": "much"}])
def test_what_nobody_has_counted_is_taken_for_unused(used: Any) -> None:
    assert why(asking(), quota({"cpu": "4"}, used)) == ""


def test_what_is_promised_to_one_is_not_promised_to_the_next() -> None:
    room = NamespaceRoom([it for it in [quota({"cpu": "9"})] if it], promised=[asking(1)])
    candidates = [Candidate(name, "", None, 0, at, charge=asking()) for at, name in enumerate("abc")]
    told = enqueue(candidates, [], {}, {}, {}, room)
    assert [key for key, why in told.items() if why is None] == ["a", "b"]
    assert "of which 9 is used or promised" in str(told["c"])


def test_that_a_quota_can_never_be_kept_is_told_before_another_is_used_up() -> None:
    short = quota({"pods": "5", "requests.cpu": "10"}, {"pods": "2", "requests.cpu": "8"})
    told = (
        'ResourceQuota "q" of its namespace allows 10 requests.cpu, of which 8 is used or promised; the group asks for '
        "16. It can never start with these quotas, even if nothing else ran."
    )
    assert why(asking(16, pods=4), short) == told
    first = quota({"pods": "5"}, {"pods": "2"}, name="a")
    assert why(asking(16, pods=4), first, quota({"requests.cpu": "10"}, {"requests.cpu": "8"})) == told


def test_that_a_quota_can_never_be_kept_is_told_before_the_cluster_is_full() -> None:
    left = quota({"requests.cpu": "10"})
    assert left is not None
    asks = ResourceVector.of({"cpu": 16_000})
    big = Candidate("team/big", "", asks, charge=asking(16, pods=4))
    full = {"cpu": 24_000}
    found = enqueue([big], [], {}, full, full, NamespaceRoom([left]))["team/big"]
    assert found is not None
    assert found.is_never
    assert found.number("quota") == "q"
