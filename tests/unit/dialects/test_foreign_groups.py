"""PodGroups of the coscheduling plugin and of Volcano become pod-groups, and are told how far they are in its words."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.core.sanity import group_object
from allhands.dialects import coscheduling, volcano_groups
from allhands.dialects.group_kinds import GROUP_KINDS, GroupKind
from allhands.dialects.group_progress import Progress
from allhands.dialects.groups import GroupRecord, pod_group_of
from allhands.dialects.pods import read_pod, read_pod_use
from allhands.dialects.topology_labels import DEFAULT_LABELS
from allhands.model.podgroup import TaskMinimum, TopologyMode, TopologyRule
from tests.depth import examples

NOW = "2026-02-01T00:00:00Z"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def _document(spec: Any, status: Any = None, annotations: dict[str, str] | None = None) -> bytes:
    metadata = {
        "name": "x",
        "namespace": "ns",
        "uid": "u",
        "creationTimestamp": "2026-01-31T12:00:00Z",
        "annotations": annotations,
    }
    return json.dumps({"metadata": metadata, "spec": spec, "status": status}).encode()


def _volcano(status: Any = None, annotations: dict[str, str] | None = None, **spec: Any) -> GroupRecord:
    return volcano_groups.read_group(_document(spec, status, annotations))


def _coscheduling(status: Any = None, annotations: dict[str, str] | None = None, **spec: Any) -> GroupRecord:
    return coscheduling.read_group(_document(spec, status, annotations))


def _pod(annotations: dict[str, str] | None = None, labels: dict[str, str] | None = None, **spec: Any) -> bytes:
    metadata = {"name": "p", "namespace": "ns", "uid": "u", "annotations": annotations, "labels": labels}
    return json.dumps({"metadata": metadata, "spec": spec}).encode()


# -- which group a pod names


@pytest.mark.parametrize(
    ("annotations", "labels", "spec", "group"),
    [
        ({"scheduling.k8s.io/group-name": "g"}, None, {}, "volcano:g"),
        ({"scheduling.volcano.sh/group-name": "g"}, None, {}, "volcano:g"),
        (None, {"scheduling.x-k8s.io/pod-group": "g"}, {}, "coscheduling:g"),
        ({"scheduling.k8s.io/group-name": ""}, {"scheduling.x-k8s.io/pod-group": ""}, {}, ""),
        (
            {"scheduling.k8s.io/group-name": "v"},
            {"scheduling.x-k8s.io/pod-group": "c"},
            {"schedulingGroup": {"podGroupName": "n"}},
            "n",
        ),
        ({"scheduling.k8s.io/group-name": "v"}, {"scheduling.x-k8s.io/pod-group": "c"}, {}, "volcano:v"),
    ],
)
def test_a_pod_names_its_group_in_the_way_of_its_kind(
    annotations: dict[str, str] | None, labels: dict[str, str] | None, spec: dict[str, Any], group: str
) -> None:
    raw = _pod(annotations, labels, **spec)
    assert read_pod(raw).group_name == group
    assert read_pod_use(raw).group_name == group


def test_a_pod_of_volcano_names_its_task() -> None:
    assert read_pod(_pod({"volcano.sh/task-spec": "ps"})).task == "ps"
    assert read_pod(_pod()).task == ""


# -- what a group asks for


def test_a_coscheduling_group_is_a_gang_of_its_minimum() -> None:
    record = _coscheduling(minMember=3, minResources={"cpu": "3"}, scheduleTimeoutSeconds=10)
    assert (record.group_name, record.is_gang, record.min_count, record.problem) == ("coscheduling:x", True, 3, "")
    assert _coscheduling(annotations={"allhands.dev/queue": "blue"}).queue == "blue"
    assert "spec.minMember" in _coscheduling(minMember=0).problem


def test_a_volcano_group_in_full() -> None:
    record = _volcano(
        minMember=3,
        minTaskMember={"worker": 2, "ps": 1},
        queue="blue",
        priorityClassName="high",
        minResources={"cpu": "3"},
        networkTopology={"mode": "soft", "highestTierName": "rack"},
        annotations={"volcano.sh/preemptable": "false"},
    )
    group, problem = pod_group_of(record, record.group_name, {"high": 7}, DEFAULT_LABELS)
    assert (group.key, group.queue, group.priority, group.preemptible) == ("ns/volcano:x", "blue", 7, False)
    assert (group.members.min_count, problem) == (3, "")
    assert group.members.task_minimums == (TaskMinimum("ps", 1), TaskMinimum("worker", 2))
    assert group.members.topology == TopologyRule(TopologyMode.SOFT, tier_name="topology.allhands.dev/rack")


def test_an_elastic_volcano_job_needs_only_its_minimum() -> None:
    assert _volcano(minMember=1, minTaskMember={"worker": 8}).task_minimums == ()


def test_the_default_queue_is_where_everybody_is_who_names_none() -> None:
    assert (_volcano(queue="default").queue, _volcano().queue) == ("", "")
    assert _volcano(annotations={"allhands.dev/queue": "blue"}).queue == "blue"


@pytest.mark.parametrize(
    ("spec", "where"),
    [
        ({"minMember": -1}, "spec.minMember"),
        ({"minMember": "three"}, "spec.minMember"),
        ({"minTaskMember": {"a": -1}}, "spec.minTaskMember[a]"),
        ({"minTaskMember": [1]}, "spec.minTaskMember"),
        ({"networkTopology": {"mode": "tight"}}, "spec.networkTopology.mode"),
        ({"networkTopology": {"highestTierAllowed": 0}}, "spec.networkTopology.highestTierAllowed"),
        ({"networkTopology": {"highestTierAllowed": 1, "highestTierName": "rack"}}, "spec.networkTopology"),
        ({"subGroupPolicy": [{"name": "a"}]}, "spec.subGroupPolicy"),
    ],
)
def test_what_makes_no_sense_is_said_with_its_field(spec: dict[str, Any], where: str) -> None:
    record = _volcano(**spec)
    assert record.problem.startswith(where)
    assert record.is_gang


def test_an_unknown_tier_is_a_problem_and_no_freedom() -> None:
    record = _volcano(networkTopology={"highestTierName": "hall"})
    _, problem = pod_group_of(record, record.group_name, {}, DEFAULT_LABELS)
    assert '"hall" is not one of the tiers rack, zone, region' in problem


@pytest.mark.parametrize("kind", GROUP_KINDS, ids=lambda kind: kind.prefix or "native")
@settings(max_examples=examples(200))
@given(spec=JSON, status=JSON)
def test_whatever_an_object_says_becomes_a_group_that_the_core_takes(kind: GroupKind, spec: Any, status: Any) -> None:
    record = kind.read(_document(spec, status))
    group, problem = pod_group_of(record, record.group_name, {}, DEFAULT_LABELS)
    group_object(group, record.status, (), problem, None)
    if kind.status_of is not None:
        kind.status_of(record, Progress(pods=2, bound=1, running=1, waits="because"), NOW)


FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "minMember": st.integers(-2, 9) | JSON,
        "minTaskMember": st.dictionaries(st.sampled_from(["a", "b"]), st.integers(-1, 5)) | JSON,
        "queue": st.text(max_size=5) | JSON,
        "networkTopology": st.fixed_dictionaries(
            {}, optional={"mode": st.sampled_from(["hard", "soft", "x"]), "highestTierAllowed": st.integers(-1, 5)}
        )
        | JSON,
    },
)


@settings(max_examples=examples(200))
@given(spec=FIELDS)
def test_nearly_right_volcano_groups_are_taken_too(spec: Any) -> None:
    record = volcano_groups.read_group(_document(spec))
    group, problem = pod_group_of(record, record.group_name, {}, DEFAULT_LABELS)
    group_object(group, record.status, (), problem, None)


# -- what it is told


@pytest.mark.parametrize(
    ("progress", "phase"),
    [
        (Progress(pods=2), "Pending"),
        (Progress(pods=3), "Scheduling"),
        (Progress(pods=3, bound=3), "Scheduling"),
        (Progress(pods=3, bound=3, running=3), "Running"),
        (Progress(pods=3, running=2, bound=2, succeeded=1), "Running"),
        (Progress(pods=3, succeeded=3), "Finished"),
        (Progress(pods=3, running=2, bound=2, failed=1), "Failed"),
    ],
)
def test_phases_of_coscheduling(progress: Progress, phase: str) -> None:
    status = coscheduling.status_of(_coscheduling(minMember=3), progress, NOW)
    assert status["phase"] == phase
    assert ("scheduleStartTime" in status) == (phase != "Pending")


@pytest.mark.parametrize(
    ("progress", "before", "phase"),
    [
        (Progress(pods=3), "", "Pending"),
        (Progress(pods=3), "Inqueue", "Inqueue"),
        (Progress(pods=3, bound=2), "", "Pending"),
        (Progress(pods=3, bound=3), "", "Running"),
        (Progress(pods=4, bound=2), "Running", "Unknown"),
        (Progress(pods=4, bound=2, was_whole=True), "", "Unknown"),
        (Progress(pods=3, succeeded=3), "Running", "Completed"),
        (Progress(pods=4, succeeded=3, bound=1, running=1), "Running", "Running"),
    ],
)
def test_phases_of_volcano(progress: Progress, before: str, phase: str) -> None:
    record = _volcano({"phase": before}, minMember=3)
    status = volcano_groups.status_of(record, progress, NOW)
    assert status.get("phase", before) == phase


def test_conditions_of_volcano_say_why_and_keep_those_of_others() -> None:
    others = {"type": "Odd", "status": "True"}
    record = _volcano({"conditions": [others]}, minMember=3)
    waiting = volcano_groups.status_of(record, Progress(pods=3, waits="No room."), NOW)
    assert [it["type"] for it in waiting["conditions"]] == ["Odd", "Unschedulable"]
    told = waiting["conditions"][1]
    assert (told["status"], told["reason"], told["message"]) == ("True", "NotEnoughResources", "No room.")
    few = volcano_groups.status_of(record, Progress(pods=2, waits="Too few."), NOW)
    assert few["conditions"][1]["reason"] == "NotEnoughTasks"
    record = _volcano({"phase": "Pending", **waiting}, minMember=3)
    assert volcano_groups.status_of(record, Progress(pods=3, waits="No room."), "later") == {}
    whole = volcano_groups.status_of(record, Progress(pods=3, bound=3, was_whole=True), NOW)
    assert [(it["type"], it["status"]) for it in whole["conditions"]] == [
        ("Odd", "True"),
        ("Unschedulable", "False"),
        ("Scheduled", "True"),
    ]


@pytest.mark.parametrize("kind", GROUP_KINDS, ids=lambda kind: kind.prefix or "native")
@settings(max_examples=examples(100))
@given(counts=st.lists(st.integers(0, 4), min_size=4, max_size=4), waits=st.sampled_from(["", "why"]))
def test_what_is_written_needs_no_second_write(kind: GroupKind, counts: list[int], waits: str) -> None:
    if kind.status_of is None:
        return
    bound, running, succeeded, failed = counts
    running = min(running, bound)
    progress = Progress(bound + succeeded + failed, bound, running, succeeded, failed, waits=waits)
    first = kind.status_of(kind.read(_document({"minMember": 2})), progress, NOW)
    again = kind.read(_document({"minMember": 2}, first))
    assert kind.status_of(again, progress, "later") == {}
