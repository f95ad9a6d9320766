"""Pods that the cluster takes away from a batch job use up no retry; those of plain Jobs count as in Kubernetes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from allhands.dialects.annotations import MIN_AVAILABLE, QUEUE
from allhands.lifecycle.job import decode_pod, displacement
from allhands.lifecycle.job.pod import INDEX_FAILURES, INDEX_IGNORED
from tests.job_world import JobWorld

MANY = 8
CONTAINERS = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "work"}]}


def gang(said: dict[str, str], **spec: Any) -> JobWorld:
    """More pods than the limit of failures, all running."""
    world = JobWorld(parallelism=MANY, completions=MANY, backoffLimit=1, **spec)
    assert world.job is not None
    world.job["metadata"]["annotations"] = said
    world.settle()
    world.run(*world.names())
    return world


@pytest.mark.parametrize(
    ("said", "template"),
    [
        ({MIN_AVAILABLE: "all"}, {"spec": CONTAINERS}),
        ({QUEUE: "team"}, {"spec": CONTAINERS}),
        ({}, {"spec": CONTAINERS, "metadata": {"annotations": {QUEUE: "team"}}}),
        ({}, {"spec": {**CONTAINERS, "schedulingGroup": {"podGroupName": "ring"}}}),
    ],
)
def test_a_batch_job_that_is_preempted_uses_up_no_retry_and_is_whole_again_at_once(
    said: dict[str, str], template: dict[str, Any]
) -> None:
    world = gang(said, template=template)
    world.fail(*world.names(), condition="DisruptionTarget")
    world.settle()
    assert world.conditions == []
    assert len(world.names()) == MANY
    assert "failed" not in world.status
    world.succeed(*world.names())
    world.settle()
    assert world.conditions == ["SuccessCriteriaMet", "Complete"]


def test_a_plain_job_fails_by_it_as_in_kubernetes() -> None:
    world = gang({"example.com/team": "vision"})
    world.fail(*world.names(), condition="DisruptionTarget")
    world.settle()
    assert world.conditions == ["FailureTarget", "Failed"]


def test_a_batch_job_whose_pods_fail_by_themselves_fails() -> None:
    world = gang({MIN_AVAILABLE: "all"})
    world.fail(*world.names()[:2])
    world.settle()
    assert world.conditions == ["FailureTarget"]
    assert world.status["conditions"][0]["reason"] == "BackoffLimitExceeded"


def test_what_the_jobs_own_policy_says_about_it_goes_first() -> None:
    rule = {"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    world = gang({MIN_AVAILABLE: "all"}, podFailurePolicy={"rules": [rule]})
    world.fail(world.names()[0], condition="DisruptionTarget")
    world.settle()
    assert world.status["conditions"][0]["reason"] == "PodFailurePolicy"


def test_an_index_that_is_preempted_is_made_again_at_once_and_keeps_its_count() -> None:
    world = JobWorld(completions=1, completionMode="Indexed", backoffLimitPerIndex=0)
    assert world.job is not None
    world.job["metadata"]["annotations"] = {QUEUE: "team"}
    world.settle()
    for _ in range(3):
        world.fail(world.by_index(0), condition="DisruptionTarget")
        world.settle()
    said = world.pods[world.by_index(0)]["metadata"]["annotations"]
    assert (said[INDEX_FAILURES], said[INDEX_IGNORED]) == ("0", "3")


@pytest.mark.parametrize(
    ("reason", "phase", "taken"),
    [
        ("EvictionByEvictionAPI", "Failed", True),
        ("PreemptionByScheduler", "Failed", True),
        ("DeletionByTaintManager", "Failed", True),
        ("DeletionByPodGC", "Failed", True),
        ("TerminationByKubelet", "Failed", False),
        ("EvictionByEvictionAPI", "Succeeded", False),
        ("EvictionByEvictionAPI", "Running", False),
    ],
)
def test_the_cluster_takes_pods_away_but_a_kubelet_that_is_short_blames_them(
    reason: str, phase: str, taken: bool
) -> None:
    condition = {"type": "DisruptionTarget", "status": "True", "reason": reason}
    pod = {"metadata": {"name": "p", "uid": "u"}, "status": {"phase": phase, "conditions": [condition]}}
    assert decode_pod(msgspec.json.encode(pod)).was_taken_away is taken


def test_the_names_of_the_annotations_are_those_that_people_write() -> None:
    assert (displacement.QUEUE, displacement.MIN_AVAILABLE) == (QUEUE, MIN_AVAILABLE)
