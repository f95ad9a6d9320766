"""What the API server is told to ask, and what it does without an answer."""

from __future__ import annotations

from typing import Any

import pytest

from allhands.api.volcano.admission import ADMISSIONS
from allhands.api.volcano.kinds import VOLCANO_KINDS
from allhands.runtime.installation.webhooks import NAME, accounts_of, by_service, by_url, configurations, service_names

MUTATING, VALIDATING = configurations("home", by_service("home"))
EVERY = [*MUTATING["webhooks"], *VALIDATING["webhooks"]]


def reviewed(webhook: dict[str, object]) -> set[tuple[str, str]]:
    rules: object = webhook["rules"]
    assert isinstance(rules, list)
    return {(group, plural) for it in rules for group in it["apiGroups"] for plural in it["resources"]}


@pytest.mark.parametrize("webhook", EVERY, ids=lambda it: str(it["name"]))
def test_each_has_no_side_effects_a_time_limit_and_leaves_the_system_alone(webhook: dict[str, object]) -> None:
    assert webhook["sideEffects"] == "None"
    assert webhook["matchPolicy"] == "Equivalent"
    assert webhook["admissionReviewVersions"] == ["v1"]
    assert webhook["timeoutSeconds"] in range(1, 11)
    (exempt,) = webhook["namespaceSelector"]["matchExpressions"]  # type: ignore[index]
    assert exempt["operator"] == "NotIn"
    assert {"kube-system", "home"} <= set(exempt["values"])
    assert not any("*" in it for rule in webhook["rules"] for it in (*rule["resources"], *rule["apiGroups"]))  # type: ignore[attr-defined]


def test_only_our_own_kinds_are_refused_when_nobody_answers() -> None:
    groups = {it.group for it in VOLCANO_KINDS}
    for webhook in EVERY:
        asked = {group for group, _ in reviewed(webhook)}
        if webhook["failurePolicy"] == "Fail":
            assert asked <= groups
        else:
            assert webhook["failurePolicy"] == "Ignore"
            assert not asked & groups
            assert "names-a-queue" in [it["name"] for it in webhook["matchConditions"]]


def test_every_kind_that_has_rules_is_asked_about() -> None:
    wanted = {(it.group, it.plural) for it in VOLCANO_KINDS if (it.group, it.kind) in ADMISSIONS}
    assert reviewed(MUTATING["webhooks"][0]) == wanted
    assert reviewed(VALIDATING["webhooks"][0]) == wanted | {
        ("flow.volcano.sh", "jobtemplates"),
        ("bus.volcano.sh", "commands"),
    }
    deletions = [it for it in VALIDATING["webhooks"][0]["rules"] if "DELETE" in it["operations"]]
    assert [it["resources"] for it in deletions] == [["queues"]]


def test_they_are_reached_by_the_service_or_by_an_address() -> None:
    service = MUTATING["webhooks"][0]["clientConfig"]["service"]
    assert service == {"namespace": "home", "name": NAME, "path": "/mutate", "port": 443}
    assert f"{NAME}.home.svc" in service_names("home")
    by_address = configurations("home", by_url("https://10.0.0.1:8443/"))
    assert by_address[1]["webhooks"][0]["clientConfig"] == {"url": "https://10.0.0.1:8443/validate"}


def test_exceptions_are_made_for_accounts_and_never_for_what_an_object_says() -> None:
    assert "system:serviceaccount:home:allhands-controllers" in accounts_of("home")
    for webhook in EVERY:
        assert "objectSelector" not in webhook
        for condition in webhook["matchConditions"]:
            assert "labels" not in condition["expression"]


@pytest.mark.parametrize("webhook", EVERY, ids=lambda it: str(it["name"]))
def test_what_our_processes_write_is_not_asked_about_but_for_new_jobs(webhook: dict[str, Any]) -> None:
    (condition,) = [it["expression"] for it in webhook["matchConditions"] if it["name"] == "not-by-us"]
    assert all(it in condition for it in accounts_of("home"))
    assert ("'CREATE'" in condition) == (webhook["failurePolicy"] == "Fail")
