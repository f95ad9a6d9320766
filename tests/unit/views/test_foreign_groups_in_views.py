"""PodGroups of other systems are shown like Jobs: who belongs to them, why they wait, and by which name to ask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allhands.dialects.group_kinds import COSCHEDULING, VOLCANO
from allhands.model.reason import Reason, explain
from allhands.views.groups import groups_named, groups_of
from allhands.views.queues import queue_rows
from allhands.views.rows import GroupState, row_of
from allhands.views.story import group_story, pod_story
from tests.unit.views.view_objects import NOW, event, foreign_group, job, picture, pod, pod_group, queue, said

if TYPE_CHECKING:
    from allhands.views.picture import PodSeen
    from allhands.views.rows import GroupRow


def rows(*objects: Any, **more: Any) -> list[GroupRow]:
    return [row_of(group) for group in groups_of(picture(*objects, **more))]


def volcano_pod(name: str, group: str, **more: Any) -> PodSeen:
    return pod(name, annotations={"scheduling.k8s.io/group-name": group}, **more)


def coscheduling_pod(name: str, group: str, **more: Any) -> PodSeen:
    return pod(name, labels={"scheduling.x-k8s.io/pod-group": group}, **more)


def test_groups_of_every_system_are_one_list() -> None:
    shown = rows(
        job("a"),
        pod_group("ring"),
        foreign_group(VOLCANO, "train", queue="blue"),
        foreign_group(COSCHEDULING, "serve"),
        volcano_pod("t-0", "train", node="n1", phase="Running"),
        volcano_pod("t-1", "train", node="n1", phase="Running"),
        coscheduling_pod("s-0", "serve", told="No room."),
        coscheduling_pod("s-1", "serve", told="No room."),
        queues=(queue("blue"), queue("default")),
    )
    assert [(it.label, it.api_group, it.queue, it.state.value, it.ready, it.total, it.why) for it in shown] == [
        ("job/a", "batch", "default", "Waiting", 0, 2, "0 of the 2 pods that must start together exist."),
        (
            "podgroup/ring",
            "scheduling.k8s.io",
            "default",
            "Waiting",
            0,
            2,
            "0 of the 2 pods that must start together exist.",
        ),
        ("podgroup/serve", "scheduling.x-k8s.io", "default", "Waiting", 0, 2, "No room."),
        ("podgroup/train", "scheduling.volcano.sh", "blue", "Running", 2, 2, ""),
    ]


def test_a_name_that_several_systems_use_is_said_in_full() -> None:
    objects = [pod_group("x"), foreign_group(VOLCANO, "x"), foreign_group(COSCHEDULING, "x"), pod_group("y")]
    assert [row.label for row in rows(*objects)] == [
        "podgroup.scheduling.k8s.io/x",
        "podgroup.scheduling.volcano.sh/x",
        "podgroup.scheduling.x-k8s.io/x",
        "podgroup/y",
    ]
    shown = picture(*objects)
    assert len(groups_named(shown, "default", "podgroup", "x")) == 3
    (one,) = groups_named(shown, "default", "podgroup", "x", "scheduling.volcano.sh")
    assert one.declared.group_name == "volcano:x"
    assert groups_named(shown, "elsewhere", "", "x") == []


def test_pods_are_in_the_group_of_their_own_system() -> None:
    shown = rows(
        foreign_group(VOLCANO, "x", need=1),
        foreign_group(COSCHEDULING, "x", need=1),
        volcano_pod("v", "x", node="n1", phase="Running"),
        coscheduling_pod("c", "x"),
    )
    assert [(it.api_group, it.state) for it in shown] == [
        ("scheduling.volcano.sh", GroupState.RUNNING),
        ("scheduling.x-k8s.io", GroupState.WAITING),
    ]


def test_a_job_whose_pods_name_a_volcano_group_is_one_line_and_answers_to_both_names() -> None:
    in_ring = {"scheduling.k8s.io/group-name": "ring"}
    shown = picture(
        job("a", gang=False),
        foreign_group(VOLCANO, "ring", need=2, annotations=said(explain(Reason.QUEUE_CLOSED, queue="blue"))),
        pod("a-0", job="a", annotations=in_ring),
        pod("a-1", job="a", annotations=in_ring),
    )
    (group,) = groups_of(shown)
    assert (group.label, group.is_gang, row_of(group).why) == ("job/a", True, 'Queue "blue" is closed.')
    for kind, name in (("", "a"), ("job", "a"), ("", "ring"), ("podgroup", "ring")):
        assert [it.label for it in groups_named(shown, "default", kind, name)] == ["job/a"]
    assert groups_named(shown, "default", "job", "ring") == []


def test_why_it_waits_and_until_when_is_told_as_of_a_job() -> None:
    shown = picture(
        foreign_group(
            VOLCANO,
            "train",
            annotations=said(explain(Reason.INSUFFICIENT_RESOURCES, fits=0, need=2, resource="cpu", short=4), NOW + 60),
        ),
        volcano_pod("t-0", "train"),
        volcano_pod("t-1", "train"),
        event("volcano:train", "FailedScheduling", "0 of the 2 pods fit now.", kind="PodGroup"),
    )
    (group,) = groups_of(shown)
    story = group_story(group, shown, NOW)
    sections = {it.heading: it.lines for it in story.sections}
    assert story.title == 'podgroup/train in namespace "default"'
    assert {it.name: it.value for it in story.facts}["Kind"] == "PodGroup of scheduling.volcano.sh"
    assert sections["Why it waits"][0].startswith("0 of the 2 pods fit now; cpu is short by 4.")
    assert sections["When it starts"][0].startswith("It is expected to start in 1m")
    assert "FailedScheduling" in sections["What happened"][0]
    told = pod_story(shown.pods[0], shown, NOW)
    assert {it.name: it.value for it in told.facts}["Belongs to"] == "podgroup/train (Waiting)"


def test_what_volcano_itself_says_is_repeated_where_we_said_nothing() -> None:
    condition = {"type": "Unschedulable", "status": "True", "message": "3/3 tasks unschedulable"}
    (row,) = rows(foreign_group(VOLCANO, "train", status={"phase": "Pending", "conditions": [condition, "odd"]}))
    assert row.why == "3/3 tasks unschedulable"
    (row,) = rows(foreign_group(VOLCANO, "train", status="odd"))
    assert row.state is GroupState.WAITING


def test_a_group_that_ended_stays_ended_when_its_pods_are_gone() -> None:
    ends = [(VOLCANO, "Completed"), (COSCHEDULING, "Finished"), (COSCHEDULING, "Failed")]
    shown = [rows(foreign_group(kind, "x", status={"phase": phase}))[0].state.value for kind, phase in ends]
    assert shown == ["Succeeded", "Succeeded", "Failed"]


def test_sub_groups_are_shown_with_what_is_asked_of_them_and_what_each_waits_for() -> None:
    policy = {
        "name": "worker",
        "labelSelector": {"matchLabels": {"role": "w"}},
        "matchLabelKeys": ["part"],
        "subGroupSize": 2,
        "minSubGroups": 2,
        "networkTopology": {"mode": "hard", "highestTierName": "rack"},
    }
    soft = {"name": "all", "networkTopology": {"mode": "soft", "highestTierAllowed": 2}}
    objects = [
        foreign_group(VOLCANO, "train", need=4, subGroupPolicy=[policy, soft]),
        volcano_pod("t-0", "train", labels={"role": "w", "part": "0"}, node="n1", phase="Running"),
        volcano_pod("t-1", "train", labels={"role": "w", "part": "0"}),
        volcano_pod("t-2", "train", labels={"role": "w", "part": "1"}),
        volcano_pod("t-3", "train"),
    ]
    shown = picture(*objects)
    (group,) = groups_of(shown)
    sections = {it.heading: it.lines for it in group_story(group, shown, NOW).sections}
    assert sections["Its sub-groups"] == (
        (
            "worker: sub-groups by part, each of which starts with 2 pods or not at all, in one rack; at least 2 of "
            "them must start"
        ),
        "worker/0: 1 of 2 pods on nodes or done; it waits for room for 1 in one rack, beside those",
        "worker/1: 0 of 1 pods on nodes or done; it waits for 1 more pods, since it starts with 2",
        "all: one sub-group, which starts with 1 pod or not at all, if possible in one domain of tier 2 at most",
        "all/*: 0 of 1 pods on nodes or done; it waits for room for 1 if possible in one domain of tier 2 at most",
    )
    told = pod_story(shown.pods[2], shown, NOW)
    assert {it.name: it.value for it in told.facts}["Sub-group"] == "worker/1"


def test_a_group_that_is_not_let_in_says_why_and_one_that_is_says_so() -> None:
    condition = {"type": "Unschedulable", "status": "True", "message": 'Queue "blue" is closed.'}
    said_before = said(explain(Reason.GANG_INCOMPLETE, have=0, need=2))
    for status, why, when in (
        ({"phase": "Pending", "conditions": [condition]}, 'Queue "blue" is closed.', "once its queue lets it in"),
        ({"phase": "Inqueue"}, "0 of the 2 pods that must start together exist.", "Its queue has let it in"),
    ):
        shown = picture(foreign_group(VOLCANO, "train", status=status, annotations=said_before))
        (group,) = groups_of(shown)
        sections = {it.heading: it.lines for it in group_story(group, shown, NOW).sections}
        assert sections["Why it waits"][0] == why
        assert when in sections["When it starts"][0]


def test_who_is_in_the_way_may_be_a_group_of_another_system() -> None:
    text = 'No room. No start can be expected: nobody knows when "default/volcano:big" ends.'
    shown = picture(
        foreign_group(COSCHEDULING, "small", need=1),
        coscheduling_pod("s-0", "small", told=text),
        foreign_group(VOLCANO, "big", need=1),
        volcano_pod("b-0", "big", node="n1", phase="Running"),
    )
    (group,) = groups_named(shown, "default", "podgroup", "small")
    sections = {it.heading: it.lines for it in group_story(group, shown, NOW).sections}
    assert sections["In its way"][0].startswith("podgroup/big in default: Running")


def test_a_group_that_makes_no_sense_says_so() -> None:
    (row,) = rows(foreign_group(VOLCANO, "bad", need=-1))
    assert (row.reason, row.why) == ("Invalid", "spec.minMember: -1 is less than none")


def test_queues_count_groups_of_every_system() -> None:
    shown = picture(
        foreign_group(VOLCANO, "train", queue="blue", need=1),
        volcano_pod("t-0", "train", node="n1", phase="Running"),
        foreign_group(COSCHEDULING, "serve", annotations={"allhands.dev/queue": "blue"}),
        queues=(queue("blue"),),
    )
    (row,) = queue_rows(shown)
    assert (row.running, row.waiting) == (1, 1)
