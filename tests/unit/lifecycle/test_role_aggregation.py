"""What a role that gathers others holds: their rules, each once, in the order of their names."""

from __future__ import annotations

from typing import Any

import msgspec

from allhands.lifecycle.instructions import NOTHING_TO_DO, Patch
from allhands.lifecycle.role_aggregation import ClusterRole, reconcile


def role(name: str, *resources: str, gathers: dict[str, str] | None = None, **labels: str) -> ClusterRole:
    document: dict[str, Any] = {
        "metadata": {"name": name, "labels": labels, "resourceVersion": "7"},
        "rules": [{"verbs": ["get"], "resources": [it]} for it in resources],
    }
    if gathers is not None:
        document["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": gathers}]}
    return msgspec.convert(document, ClusterRole)


def test_it_holds_what_the_selected_hold_each_rule_once() -> None:
    whole = role("whole", "old", gathers={"to": "whole"})
    others = [
        role("b", "pods", "jobs", to="whole"),
        role("a", "pods", to="whole"),
        role("c", "secrets", to="else"),
        whole,
    ]
    (patch,) = reconcile(whole, others).instructions
    assert isinstance(patch, Patch)
    assert [it["resources"] for it in patch.patch["rules"]] == [["pods"], ["jobs"]]
    assert patch.version == "7"
    done = msgspec.structs.replace(whole, rules=patch.patch["rules"])
    assert reconcile(done, [*others, done]) == NOTHING_TO_DO


def test_a_plain_role_is_left_alone_and_one_that_selects_itself_gains_nothing() -> None:
    assert reconcile(role("plain", "pods"), [role("a", "jobs")]) == NOTHING_TO_DO
    itself = role("itself", "pods", gathers={"to": "me"}, to="me")
    (patch,) = reconcile(itself, [itself]).instructions
    assert isinstance(patch, Patch)
    assert patch.patch == {"rules": []}
