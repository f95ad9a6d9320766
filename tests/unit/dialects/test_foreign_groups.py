"""PodGroups of the coscheduling plugin and of Volcano become pod-groups, and are told how far they are in its words."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.core.sanity import group_object
from allhands.dialects import coscheduling, native_groups, volcano_groups
from allhands.dialects.group_kinds import GROUP_KINDS, GroupKind
from allhands.dialects.group_parts import part_of
from allhands.dialects.group_progress import Progress
from allhands.dialects.groups import GroupRecord, MembersSeen, pod_group_of, read_pod_group
from allhands.dialects.pods import read_pod, read_pod_use
from allhands.dialects.topology_labels import DEFAULT_LABELS
from allhands.model.podgroup import DisruptionLimit, Slot, SubGroup, TaskMinimum, TopologyMode, TopologyRule
from allhands.model.resources import ResourceVector
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


@pytest.mark.parametrize(
    ("text", "rank"),
    [("7", 7), ("-7", -7), ("+7", 7), ("2147483647", 2**31 - 1), ("2147483648", None), ("7.5", None), ("high", None)],
)
def test_a_pod_says_its_rank_in_its_group_and_one_that_is_alike_has_its_own(text: str, rank: int | None) -> None:
    for _ in range(3):  # the first of its kind is read in another way than those that are alike
        assert read_pod(_pod({"volcano.sh/task-priority": text})).pod.rank == rank
        assert read_pod(_pod({})).pod.rank is None
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


@pytest.mark.parametrize(
    ("text", "seconds"), [("10m", 600), ("1.5s", 2), ("600abc", 0), ("-5s", 0), ("", 0), ("9" * 30 + "h", 2**31 - 1)]
)
def test_a_volcano_group_may_be_left_alone_for_a_while(text: str, seconds: int) -> None:
    record = _volcano(annotations={"volcano.sh/cooldown-time": text})
    group, problem = pod_group_of(record, record.group_name, {}, DEFAULT_LABELS)
    assert (group.min_run_seconds, problem) == (seconds, "")


@pytest.mark.parametrize(
    ("annotations", "seconds"),
    [
        ({}, None),
        ({"volcano.sh/sla-waiting-time": "1h2m3.5s"}, 3724),
        ({"sla-waiting-time": "10m"}, 600),
        ({"sla-waiting-time": "10m", "volcano.sh/sla-waiting-time": "90s"}, 90),
        ({"volcano.sh/sla-waiting-time": "0s"}, None),
        ({"volcano.sh/sla-waiting-time": "-1h"}, None),
        ({"volcano.sh/sla-waiting-time": "soon"}, None),
    ],
)
def test_a_volcano_group_may_say_how_long_it_should_wait_at_most(
    annotations: dict[str, str], seconds: int | None
) -> None:
    record = _volcano(annotations=annotations)
    group, problem = pod_group_of(record, record.group_name, {}, DEFAULT_LABELS)
    assert (group.max_wait_seconds, problem) == (seconds, "")


@pytest.mark.parametrize(
    ("annotations", "limit"),
    [
        ({}, None),
        ({"volcano.sh/jdb-min-available": "3"}, DisruptionLimit(min_available=3)),
        ({"volcano.sh/jdb-max-unavailable": "20%"}, DisruptionLimit(max_unavailable=20, in_percent=True)),
        (
            {"volcano.sh/jdb-max-unavailable": "1", "volcano.sh/jdb-min-available": "50%"},
            DisruptionLimit(min_available=50, in_percent=True),
        ),
        ({"volcano.sh/jdb-min-available": "some"}, None),
    ],
    ids=str,
)
def test_a_volcano_group_may_limit_how_much_of_it_is_disturbed(
    annotations: dict[str, str], limit: DisruptionLimit | None
) -> None:
    record = _volcano(minMember=1, annotations=annotations)
    group, problem = pod_group_of(record, record.group_name, {}, DEFAULT_LABELS)
    assert (group.disruption_limit, problem) == (limit, "")


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
        ({"networkTopology": {"mode": "hard"}}, "spec.networkTopology: mode hard needs a tier"),
        ({"networkTopology": {}}, "spec.networkTopology: mode hard needs a tier"),
        ({"subGroupPolicy": "all"}, "spec.subGroupPolicy"),
        ({"subGroupPolicy": [{"name": 7}]}, "spec.subGroupPolicy[0].name"),
        ({"subGroupPolicy": [{"name": "a/b"}]}, "spec.subGroupPolicy[0].name"),
        ({"subGroupPolicy": [{"name": "a"}, {"name": "a"}]}, "spec.subGroupPolicy[1].name"),
        ({"subGroupPolicy": [{"subGroupSize": 0}]}, "spec.subGroupPolicy[0].subGroupSize"),
        ({"subGroupPolicy": [{"minSubGroups": -1}]}, "spec.subGroupPolicy[0].minSubGroups"),
        ({"subGroupPolicy": [{"minSubGroups": 10**6}]}, "spec.subGroupPolicy[0].minSubGroups"),
        (
            {"subGroupPolicy": [{"labelSelector": {"matchLabels": {"a b": "c"}}}]},
            "spec.subGroupPolicy[0].labelSelector",
        ),
        ({"subGroupPolicy": [{"networkTopology": {"mode": "hard"}}]}, "spec.subGroupPolicy[0].networkTopology: mode"),
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
        "subGroupPolicy": st.lists(
            st.fixed_dictionaries(
                {"name": st.sampled_from(["", "a", "b", "#1"])},
                optional={
                    "subGroupSize": st.integers(-1, 4),
                    "minSubGroups": st.integers(-1, 4),
                    "matchLabelKeys": st.lists(st.sampled_from(["x", "y"]), max_size=2),
                    "networkTopology": st.just({"mode": "hard", "highestTierAllowed": 1}) | JSON,
                },
            ),
            max_size=3,
        )
        | JSON,
    },
)


@settings(max_examples=examples(200))
@given(spec=FIELDS)
def test_nearly_right_volcano_groups_are_taken_too(spec: Any) -> None:
    record = volcano_groups.read_group(_document(spec))
    labels = [{}, {"x": "1"}, {"x": "1", "y": "2"}, {"x": "1"}]
    members = MembersSeen(Counter(part_of(record.parts, it) for it in labels))
    group, problem = pod_group_of(record, record.group_name, {}, DEFAULT_LABELS, members)
    group_object(group, record.status, (), problem, None)
    assert {part.name for part in group.members.walk()} >= set(members.counts)


# -- sub-groups by labels


def _policy(name: str = "workers", **more: Any) -> dict[str, Any]:
    return {"name": name, **more}


def _members(counts: dict[str, int], *policies: dict[str, Any], least: int = 0) -> SubGroup:
    record = _volcano(minMember=least, subGroupPolicy=list(policies))
    group, problem = pod_group_of(record, record.group_name, {}, DEFAULT_LABELS, MembersSeen(counts))
    assert problem == ""
    return group.members


def test_the_first_policy_that_takes_a_pod_says_which_sub_group_it_is_in() -> None:
    rules = _volcano(
        subGroupPolicy=[
            _policy(labelSelector={"matchLabels": {"role": "worker"}}, matchLabelKeys=["volcano.sh/partition-id"]),
            _policy("pairs", matchLabelKeys=["a", "b"]),
            _policy("leaders", labelSelector={"matchExpressions": [{"key": "leader", "operator": "Exists"}]}),
        ]
    ).parts
    for labels, part in (
        ({"role": "worker", "volcano.sh/partition-id": "3"}, "workers/3"),
        ({"role": "worker"}, ""),
        ({"role": "worker", "volcano.sh/partition-id": ""}, ""),
        ({"role": "other", "volcano.sh/partition-id": "3"}, ""),
        ({"a": "x", "b": "y"}, "pairs/x/y"),
        ({"a": "x"}, ""),
        ({"leader": ""}, "leaders/*"),
        ({}, ""),
    ):
        assert part_of(rules, labels) == part


def test_sub_groups_have_a_size_a_number_and_a_place() -> None:
    tier = {"mode": "hard", "highestTierName": "rack"}
    policy = _policy(subGroupSize=4, minSubGroups=2, matchLabelKeys=["p"], networkTopology=tier)
    whole = _members({"workers/0": 4, "workers/1": 2, "": 1}, policy)
    rack = TopologyRule(TopologyMode.HARD, tier_name="topology.allhands.dev/rack")
    assert whole.min_children == 2
    assert whole.children == tuple(SubGroup(f"workers/{it}", min_count=4, topology=rack) for it in (0, 1))
    both = _members({"workers/0": 4, "leaders/*": 1}, policy, _policy("leaders", minSubGroups=1))
    assert [(it.name, it.min_children, len(it.children)) for it in both.children] == [
        ("workers", 2, 2),
        ("leaders", 1, 1),
    ]


def test_sub_groups_that_are_yet_to_come_are_waited_for() -> None:
    members = _members({"workers/0": 2}, _policy(subGroupSize=2, minSubGroups=3, matchLabelKeys=["p"]))
    lacking = members.shortfalls({Slot("workers/0", ""): 2})
    assert [(it.subgroup, it.what, it.have, it.need) for it in lacking] == [
        ("", "sub-groups", 1, 3),
        ("workers/(yet to come 1)", "pods", 0, 2),
        ("workers/(yet to come 2)", "pods", 0, 2),
    ]


def test_more_sub_groups_than_can_be_kept_are_a_problem_of_their_owner_alone() -> None:
    record = _volcano(minMember=1, subGroupPolicy=[_policy(matchLabelKeys=["p"])])
    counts = {f"workers/{number}": 1 for number in range(1001)}
    group, problem = pod_group_of(record, record.group_name, {}, DEFAULT_LABELS, MembersSeen(counts))
    assert problem == "spec.subGroupPolicy: its pods make 1001 sub-groups, and at most 1000 can be kept"
    assert group.members.children == ()


@pytest.mark.parametrize(
    ("least", "counts", "needed"),
    [
        (8, {"workers/0": 4, "workers/1": 4, "workers/2": 4}, 2),
        (6, {"workers/0": 4, "workers/1": 4, "workers/2": 4}, 2),
        (8, {"workers/0": 4, "workers/1": 4, "workers/2": 4, "": 4}, 1),
        (6, {"workers/0": 4, "workers/1": 6}, 1),
        (0, {"workers/0": 4}, 0),
        (99, {"workers/0": 4, "workers/1": 3}, 1),
    ],
)
def test_the_minimum_of_the_group_is_reached_by_whole_sub_groups(
    least: int, counts: dict[str, int], needed: int
) -> None:
    assert _members(counts, _policy(subGroupSize=4, matchLabelKeys=["p"]), least=least).min_children == needed


def test_a_sub_group_in_an_unknown_tier_is_a_problem() -> None:
    record = _volcano(subGroupPolicy=[_policy(networkTopology={"highestTierName": "hall"})])
    _, problem = pod_group_of(record, record.group_name, {}, DEFAULT_LABELS)
    assert '"hall" is not one of the tiers' in problem


# -- priority


def test_a_group_without_a_priority_has_the_highest_of_its_pods() -> None:
    seen = MembersSeen(highest_priority=7)
    native = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    for record, priority in (
        (read_pod_group(_document(native)), 7),
        (read_pod_group(_document({**native, "priority": 3})), 3),
        (read_pod_group(_document({**native, "priorityClassName": "low"})), 1),
        (_coscheduling(minMember=2), 7),
        (_volcano(minMember=2), 5),
    ):
        group, _ = pod_group_of(record, record.group_name, {"low": 1, "": 5}, DEFAULT_LABELS, seen)
        assert group.priority == priority
    without_pods, _ = pod_group_of(_coscheduling(), "x", {"": 5}, DEFAULT_LABELS)
    assert without_pods.priority == 5


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
        (Progress(), "", "Pending"),
        (Progress(is_enqueued=True), "Pending", "Inqueue"),
        (Progress(pods=3, is_enqueued=True), "", "Inqueue"),
        (Progress(pods=3), "Inqueue", "Inqueue"),
        (Progress(pods=3, bound=2, running=2, waits="No room."), "Inqueue", "Unknown"),
        (Progress(pods=3, failed=2, succeeded=1), "Running", "Completed"),
        (Progress(pods=3, failed=3), "Running", "Completed"),
        (Progress(pods=1, succeeded=1), "Completed", "Completed"),
        (Progress(pods=6, failed=3), "Running", "Unknown"),
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


def test_a_volcano_group_that_is_let_in_does_not_say_any_more_that_it_waits() -> None:
    waits = {"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "message": "No room."}
    record = _volcano({"phase": "Pending", "conditions": [waits]}, minMember=3)
    status = volcano_groups.status_of(record, Progress(is_enqueued=True), NOW)
    (condition,) = status["conditions"]
    assert (status["phase"], condition["status"], condition["reason"]) == ("Inqueue", "False", "Inqueue")
    assert condition["transitionID"] == f"u/{NOW}"


def test_a_volcano_group_that_runs_does_not_wait_for_what_it_has_beyond_its_minimum() -> None:
    progress = Progress(pods=4, bound=3, running=3, was_whole=True, waits="No room for one more.")
    status = volcano_groups.status_of(_volcano(minMember=3), progress, NOW)
    assert status["phase"] == "Running"
    assert [(it["type"], it["status"]) for it in status["conditions"]] == [("Scheduled", "True")]
    assert status["conditions"][0]["reason"] == "tasks in gang are ready to be scheduled"


def test_what_volcano_says_of_resources_is_read_as_requests() -> None:
    amounts = {"cpu": "2", "requests.cpu": "2", "limits.cpu": "4", "count/pods": "2", "requests.example.com/gpu": 8}
    asked = _volcano(minResources=amounts).min_resources
    assert asked == ResourceVector.of({"cpu": 2000, "example.com/gpu": 8})
    assert _volcano(minResources={}).min_resources is None
    assert _volcano(minResources={"cpu": "x"}).problem.startswith("spec.minResources.cpu")


def test_a_coscheduling_group_that_ended_stays_so_and_says_whose_it_was() -> None:
    progress = Progress(pods=3, bound=3, owner="web")
    status = coscheduling.status_of(_coscheduling(minMember=3), progress, NOW)
    assert status["occupiedBy"] == "ns/web"
    for phase in ("Finished", "Failed"):
        assert coscheduling.status_of(_coscheduling({"phase": phase}, minMember=3), Progress(pods=1), NOW) == {}


def test_the_native_condition_is_that_of_kube_scheduler() -> None:
    def told(progress: Progress, *conditions: Any) -> Any:
        spec = {"schedulingPolicy": {"gang": {"minCount": 2}}}
        record = read_pod_group(_document(spec, {"conditions": list(conditions)}))
        return native_groups.status_of(record, progress, NOW)

    assert told(Progress(pods=2)) == {}
    (waits,) = told(Progress(pods=2, waits="No room."), {"type": "Odd"})["conditions"]
    assert (waits["status"], waits["reason"], waits["message"]) == ("False", "Unschedulable", "No room.")
    assert waits["observedGeneration"] == 0
    assert told(Progress(pods=2, waits="No room."), waits) == {}
    (whole,) = told(Progress(pods=3, bound=2, waits="No room for one more."), waits)["conditions"]
    assert (whole["status"], whole["reason"]) == ("True", "Scheduled")
    assert told(Progress(pods=3, bound=2, waits="No room for one more."), whole) == {}
    (lost,) = told(Progress(pods=3, bound=1, waits="No room."), whole)["conditions"]
    assert lost["status"] == "False"
    basic = read_pod_group(_document({"schedulingPolicy": {"basic": {}}}))
    assert native_groups.status_of(basic, Progress(pods=1, bound=1), NOW) == {}


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
    bound, running, succeeded, failed = counts
    running = min(running, bound)
    progress = Progress(bound + succeeded + failed, bound, running, succeeded, failed, waits=waits)
    spec = {"minMember": 2, "schedulingPolicy": {"gang": {"minCount": 2}}}
    first = kind.status_of(kind.read(_document(spec)), progress, NOW)
    again = kind.read(_document(spec, first))
    assert kind.status_of(again, progress, "later") == {}
