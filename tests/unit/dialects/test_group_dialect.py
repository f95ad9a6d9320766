"""Native PodGroups and batch/v1 Jobs become pod-groups; what they say wrongly becomes the problem of their group."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.core.sanity import group_object
from allhands.dialects.annotations import MOST_SECONDS
from allhands.dialects.groups import GroupRecord, job_group_name, pod_group_of, read_job, read_pod_group
from allhands.dialects.topology_labels import DEFAULT_LABELS
from allhands.model.podgroup import TopologyMode, TopologyRule
from tests.depth import examples

CREATED = "2026-01-31T12:00:00Z"


def _metadata(annotations: dict[str, str] | None = None) -> dict[str, Any]:
    named = {f"allhands.dev/{name}": text for name, text in (annotations or {}).items()}
    return {"name": "x", "namespace": "ns", "uid": "u", "creationTimestamp": CREATED, "annotations": named or None}


def _job(annotations: dict[str, str] | None = None, conditions: Any = None, **spec: Any) -> GroupRecord:
    document = {"metadata": _metadata(annotations), "spec": spec, "status": {"conditions": conditions}}
    return read_job(json.dumps(document).encode())


def _group(annotations: dict[str, str] | None = None, **spec: Any) -> GroupRecord:
    return read_pod_group(json.dumps({"metadata": _metadata(annotations), "spec": spec}).encode())


def test_a_job_without_anything_leaves_the_choice_to_its_queue() -> None:
    record = _job(parallelism=4)
    assert (record.is_gang, record.min_count, record.size, record.queue, record.problem) == (None, 4, 4, "", "")
    assert record.created_at_seconds == 1769860800


@pytest.mark.parametrize(
    ("spec", "size"),
    [
        ({}, 1),
        ({"parallelism": None}, 1),
        ({"parallelism": 0}, 0),
        ({"parallelism": 5, "completions": 3}, 3),
        ({"parallelism": 2, "completions": 9}, 2),
        ({"parallelism": 5, "completions": 0}, 0),
        ({"parallelism": 2**31 - 1}, 2**31 - 1),
    ],
)
def test_no_more_pods_than_completions_run_at_a_time(spec: dict[str, Any], size: int) -> None:
    assert _job(**spec).size == size


def test_a_job_is_a_gang_by_one_annotation() -> None:
    assert _job({"min-available": "3"}, parallelism=4).min_count == 3
    everyone = _job({"min-available": "all"}, parallelism=4)
    assert (everyone.is_gang, everyone.min_count) == (True, 4)


def test_more_than_run_at_a_time_can_never_start_together() -> None:
    record = _job({"min-available": "9"}, parallelism=4)
    assert record.problem == "allhands.dev/min-available: 9 pods must start together, but at most 4 run"


@pytest.mark.parametrize(
    "annotations",
    [{"min-available": "many"}, {"min-available": "0"}, {"expected-duration": "soon"}, {"expected-duration": "-1"}],
)
def test_what_a_job_says_wrongly_is_the_problem_of_its_group(annotations: dict[str, str]) -> None:
    record = _job(annotations, parallelism=4)
    (name,) = annotations
    assert record.problem.startswith(f"allhands.dev/{name}: ")
    group, problem = pod_group_of(record, "job:x", {}, DEFAULT_LABELS)
    assert problem == record.problem
    assert group_object(group, record.status, (), problem).problem is not None


@pytest.mark.parametrize(
    ("expected", "job_limit", "pod_limit", "seconds"),
    [
        (None, None, None, None),
        ("1h", None, None, 3600),
        (None, 600, None, 600),
        (None, None, 60, 60),
        ("1h", 600, None, 600),
        ("1m", 600, 300, 60),
        (None, 2**63 - 1, None, None),
        ("1h", 2**63 - 1, 2**63 - 1, 3600),
        (None, MOST_SECONDS, None, MOST_SECONDS),
        (None, -5, None, None),
    ],
)
def test_a_duration_is_what_is_expected_within_the_limits(
    expected: str | None, job_limit: int | None, pod_limit: int | None, seconds: int | None
) -> None:
    record = _job(
        {"expected-duration": expected} if expected else None,
        activeDeadlineSeconds=job_limit,
        template={"spec": {"activeDeadlineSeconds": pod_limit}},
    )
    assert record.expected_duration_seconds == seconds
    group, problem = pod_group_of(record, "job:x", {}, DEFAULT_LABELS)
    assert group_object(group, record.status, (), problem).problem is None


def test_the_queue_may_stand_on_the_job_or_on_its_template() -> None:
    template = {"metadata": {"annotations": {"allhands.dev/queue": "b"}}, "spec": {}}
    assert _job(template=template).queue == "b"
    assert _job({"queue": "a"}, template=template).queue == "a"
    assert _job(template={"metadata": None, "spec": {}}).queue == ""
    theirs = {"metadata": {"annotations": {"scheduling.volcano.sh/queue-name": "c"}}, "spec": {}}
    assert _job(template=theirs).queue == "c"


def test_a_suspended_job_is_a_suspended_group() -> None:
    record = _job(suspend=True)
    assert pod_group_of(record, "job:x", {}, DEFAULT_LABELS)[0].suspended


@pytest.mark.parametrize(
    ("conditions", "ended"),
    [
        (None, False),
        ([{"type": "Complete", "status": "True"}], True),
        ([{"type": "Failed", "status": "True"}], True),
        ([{"type": "Failed", "status": "False"}], False),
        ([{"type": "FailureTarget", "status": "True"}], False),
    ],
)
def test_a_job_has_ended_when_it_says_so(conditions: Any, ended: bool) -> None:
    assert _job(conditions=conditions).has_ended is ended


def test_a_job_may_wait_for_others() -> None:
    assert _job({"after": "a, b,a"}).after == ("a", "b")
    assert _job().after == ()


@pytest.mark.parametrize("text", ["", ",", "a,", "a b", "A", "ns/a", "x", "a," * 200, "a" * 99_999])
def test_who_waits_for_what_cannot_be_a_job_is_told_so(text: str) -> None:
    record = _job({"after": text})
    assert record.problem.startswith("allhands.dev/after: ")
    assert (record.after, len(record.problem) < 200) == ((), True)


def test_a_native_group_says_its_minimum_topology_and_priority() -> None:
    record = _group(
        {"queue": "team", "expected-duration": "90"},
        schedulingPolicy={"gang": {"minCount": 5}},
        schedulingConstraints={"topology": [{"key": "topology.kubernetes.io/zone"}]},
        priorityClassName="high",
    )
    group, problem = pod_group_of(record, "x", {"high": 9}, DEFAULT_LABELS)
    assert problem == ""
    assert (group.key, group.queue, group.priority, group.required_count) == ("ns/x", "team", 9, 5)
    assert group.expected_duration_seconds == 90
    assert group.members.topology == TopologyRule(TopologyMode.HARD, tier_name="topology.kubernetes.io/zone")


def test_a_native_group_without_a_gang_is_none() -> None:
    assert not _group(schedulingPolicy={"basic": {}}).is_gang
    assert not _group().is_gang


def test_its_own_priority_goes_before_that_of_its_class() -> None:
    record = _group(priorityClassName="high", priority=3)
    assert pod_group_of(record, "x", {"high": 9}, DEFAULT_LABELS)[0].priority == 3


def test_our_annotation_asks_for_a_topology_and_a_wrong_one_is_a_problem() -> None:
    group, problem = pod_group_of(_job({"topology": "soft:rack"}), "job:x", {}, DEFAULT_LABELS)
    assert (group.members.topology, problem) == (
        TopologyRule(TopologyMode.SOFT, tier_name="topology.allhands.dev/rack"),
        "",
    )
    group, problem = pod_group_of(_job({"topology": "row"}), "job:x", {}, DEFAULT_LABELS)
    assert group.members.topology is None
    assert "one of the tiers rack, zone, region" in problem


def test_the_first_problem_is_the_one_that_is_told() -> None:
    record = _job({"topology": "row", "min-available": "x"})
    assert "min-available" in pod_group_of(record, "job:x", {}, DEFAULT_LABELS)[1]


def test_names_of_jobs_and_pod_groups_never_meet() -> None:
    assert job_group_name("x") == "job:x"


@given(
    st.dictionaries(
        st.sampled_from(["queue", "min-available", "expected-duration", "topology", "scheduling", "after"]),
        st.text(max_size=20) | st.sampled_from(["all", "3", "1h", "soft:rack", "{}"]),
    ),
    st.none() | st.integers(0, 2**31 - 1),
    st.none() | st.integers(0, 2**31 - 1),
)
@settings(max_examples=examples(150))
def test_whatever_people_annotate_gives_a_group(
    annotations: dict[str, str], parallelism: int | None, completions: int | None
) -> None:
    record = _job(annotations, parallelism=parallelism, completions=completions)
    group, _ = pod_group_of(record, "job:x", {}, DEFAULT_LABELS)
    assert group.required_count >= 0
