"""Which rule of a pod failure policy decides about a pod."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from allhands.lifecycle.job.documents import JobDocument, decode_job
from allhands.lifecycle.job.failure_policy import judge_failure
from allhands.lifecycle.job.pod import JobPod


def job(*rules: Any) -> JobDocument:
    return decode_job(msgspec.json.encode({"metadata": {}, "spec": {"podFailurePolicy": {"rules": rules}}}))


def codes(action: str, operator: str, *values: int, container: str | None = None) -> Any:
    return {"action": action, "onExitCodes": {"operator": operator, "values": values, "containerName": container}}


def condition(action: str, type: str, status: str = "True") -> Any:
    return {"action": action, "onPodConditions": [{"type": type, "status": status}]}


FAILED = JobPod(
    name="p",
    uid="u",
    namespace="team",
    phase="Failed",
    exits=(("main", 3), ("side", 0), ("setup", 7)),
    conditions=(("Ready", "False"), ("DisruptionTarget", "True")),
)


@pytest.mark.parametrize(
    ("rules", "action"),
    [
        ([], None),
        ([codes("FailJob", "In", 3)], "FailJob"),
        ([codes("FailJob", "In", 4)], None),
        ([codes("Ignore", "In", 7)], "Ignore"),
        ([codes("Ignore", "In", 7, container="main")], None),
        ([codes("Ignore", "In", 0)], None),
        ([codes("FailIndex", "NotIn", 3, 7)], None),
        ([codes("FailIndex", "NotIn", 3)], "FailIndex"),
        ([codes("Ignore", "Sideways", 3)], None),
        ([condition("Ignore", "DisruptionTarget")], "Ignore"),
        ([condition("Ignore", "DisruptionTarget", "False")], None),
        ([codes("Count", "In", 3), condition("Ignore", "DisruptionTarget")], "Count"),
        ([condition("Unheard", "DisruptionTarget"), codes("Ignore", "In", 3)], "Ignore"),
        ([{"action": "FailJob"}], None),
    ],
)
def test_the_first_rule_that_fits_decides(rules: list[Any], action: str | None) -> None:
    assert judge_failure(job(*rules), FAILED).action == action


def test_only_ignored_failures_do_not_count() -> None:
    assert not judge_failure(job(codes("Ignore", "In", 3)), FAILED).counts
    assert judge_failure(job(codes("Count", "In", 3)), FAILED).counts
    assert judge_failure(job(), FAILED).counts


def test_the_message_says_which_rule_and_why() -> None:
    judgement = judge_failure(job(codes("Ignore", "In", 99), condition("FailJob", "DisruptionTarget")), FAILED)
    assert judgement.message == "Pod team/p has condition DisruptionTarget matching FailJob rule at index 1"
