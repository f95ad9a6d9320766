"""Queues, nodes and the cluster at a glance: amounts and counts that a person can check by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allhands.model.resources import ResourceVector
from allhands.views.amounts import amount_text, in_order, percent, vector_text
from allhands.views.moments import ahead_text, span_text
from allhands.views.nodes import node_rows
from allhands.views.picture import Picture, see_event, see_queue
from allhands.views.queues import queue_rows
from allhands.views.top import top_of
from tests.unit.views.view_objects import job, node, picture, pod, queue, raw


def test_use_is_charged_to_the_queue_and_to_those_above_it() -> None:
    shown = picture(
        job("a", size=1, annotations={"allhands.dev/queue": "team"}),
        pod("a-0", job="a", node="n1", phase="Running", cpu="3"),
        node("n1"),
        queues=(queue("org", deserved={"cpu": "4"}), queue("team", parent="org", capability={"cpu": "8"})),
    )
    org, team = queue_rows(shown)
    assert [(it.resource, it.used, it.deserved) for it in org.quotas] == [("cpu", 3000, 4000)]
    assert (org.share_percent, org.running, team.running, team.parent) == (75, 0, 1, "org")
    assert (team.share_percent, team.quotas[0].capability) == (75, 8000)  # it deserves nothing: 3 of the cluster's 4


def test_who_may_not_see_all_pods_is_told_what_the_status_of_a_queue_says() -> None:
    written = {"allocated": {"cpu": "3", "memory": "1Gi"}, "running": 2, "pending": 4, "inqueue": 1}
    told = see_queue(raw({"metadata": {"name": "team"}, "spec": {"deserved": {"cpu": "4"}}, "status": written}))
    (row,) = queue_rows(Picture(queues=(told,), hidden=frozenset({"pods"})))
    assert [(it.resource, it.used) for it in row.quotas] == [("cpu", 3000), ("memory", 1 << 30)]
    assert (row.share_percent, row.running, row.waiting) == (75, 2, 5)


def test_a_circle_of_parents_is_survived() -> None:
    shown = picture(
        job("a", size=1, annotations={"allhands.dev/queue": "x"}),
        pod("a-0", job="a", node="n1", phase="Running"),
        queues=(queue("x", parent="y"), queue("y", parent="x")),
    )
    assert [row.quotas[0].used for row in queue_rows(shown)] == [1000, 1000]


def test_a_queue_that_makes_no_sense_is_shown_with_what_is_wrong() -> None:
    (row,) = queue_rows(picture(queues=(queue("bad", deserved={"cpu": "many"}),)))
    assert row.state == "Invalid"
    assert "deserved" in row.problem


def test_groups_in_a_queue_that_does_not_exist_are_not_lost() -> None:
    (row,) = queue_rows(picture(job("a", annotations={"allhands.dev/queue": "nowhere"}), queues=()))
    assert (row.name, row.state, row.waiting, row.problem) == (
        "nowhere",
        "Missing",
        1,
        'queue "nowhere" does not exist',
    )


def test_nodes_count_pods_that_hold_something_and_no_others() -> None:
    (row,) = node_rows(
        picture(
            node("n1"),
            pod("a", node="n1", phase="Running", cpu="1500m"),
            pod("b", node="n1", phase="Succeeded", cpu="2"),
            pod("c", cpu="2"),
            pod("d", node="n1", phase="Running", cpu="1", deleting=True),
        )
    )
    assert row.pods == 2
    uses = {use.resource: (use.used, use.allocatable, use.percent) for use in row.uses}
    assert uses["cpu"] == (2500, 4000, 62)
    assert uses["pods"] == (2, 10, 20)


@pytest.mark.parametrize(
    ("shown", "state"),
    [
        (node("a"), "Ready"),
        (node("a", ready=False), "NotReady"),
        (node("a", unschedulable=True), "Cordoned"),
        (node("a", taints=[{"key": "k", "effect": "NoSchedule"}]), "Tainted"),
        (node("a", taints=[{"key": "k", "effect": "PreferNoSchedule"}]), "Ready"),
    ],
)
def test_a_node_says_whether_anything_can_start_there(shown: object, state: str) -> None:
    assert node_rows(picture(shown))[0].state == state


def test_the_fullest_nodes_and_the_largest_jobs_come_first() -> None:
    shown = picture(
        node("n1"),
        node("n2"),
        node("n3"),
        job("small", size=1),
        pod("small-0", job="small", node="n2", phase="Running", cpu="1"),
        job("large", size=1),
        pod("large-0", job="large", node="n3", phase="Running", cpu="4"),
        pod("bare", node="n2", phase="Running", cpu="2"),
    )
    top = top_of(shown, 2, 2)
    assert [row.name for row in top.nodes] == ["n3", "n2"]
    assert [(row.group.label, row.share_percent) for row in top.jobs] == [("job/large", 33), ("pod/bare", 16)]
    assert (top.node_count, top.pod_count) == (3, 3)
    assert {use.resource: use.percent for use in top.cluster}["cpu"] == 58


def test_an_empty_cluster_has_a_top_too() -> None:
    top = top_of(picture(), 5, 5)
    assert (top.cluster, top.nodes, top.jobs, top.queues) == ((), (), (), ())


@pytest.mark.parametrize(
    ("resource", "units", "text"),
    [
        ("cpu", 1500, "1.5"),
        ("cpu", 2000, "2"),
        ("cpu", 1, "0"),
        ("cpu", 12_345_000, "12,345"),
        ("memory", 0, "0"),
        ("memory", 1536 << 20, "1.5Gi"),
        ("memory", 1 << 62, "4Ei"),
        ("nvidia.com/gpu", 8, "8"),
    ],
)
def test_amounts_are_short(resource: str, units: int, text: str) -> None:
    assert amount_text(resource, units) == text


def test_cpu_and_memory_come_first_and_pods_last() -> None:
    assert in_order(["pods", "a/gpu", "memory", "cpu"]) == ["cpu", "memory", "a/gpu", "pods"]
    assert vector_text(ResourceVector.of({"memory": 1 << 30, "cpu": 1000, "x": 0})) == "cpu 1, memory 1Gi"


@given(st.integers(-(2**63), 2**63), st.integers(-(2**63), 2**63))
def test_amounts_and_shares_of_any_size_are_told(part: int, whole: int) -> None:
    assert amount_text("memory", part)
    assert amount_text("cpu", part)
    assert percent(part, whole) >= 0
    assert (percent(part, whole) == 0) == (part <= 0)


@pytest.mark.parametrize(
    ("seconds", "text"), [(-5, "0s"), (0, "0s"), (59, "59s"), (61, "1m1s"), (3600, "1h"), (90_061, "1d1h")]
)
def test_spans_are_told_in_two_units(seconds: int, text: str) -> None:
    assert span_text(seconds) == text


def test_a_moment_that_has_passed_is_any_moment_now() -> None:
    assert (ahead_text(5, 5), ahead_text(65, 5)) == ("any moment", "in 1m")


def test_events_of_newer_clients_are_understood() -> None:
    seen = see_event(
        raw(
            {
                "involvedObject": {"kind": "Pod", "name": "a"},
                "eventTime": "2026-11-16T01:00:00.123456Z",
                "series": {"count": 4, "lastObservedTime": "2026-11-16T01:00:09.000000Z"},
                "firstTimestamp": None,
                "lastTimestamp": None,
                "reportingComponent": "default-scheduler",
                "message": "two\nlines",
            }
        )
    )
    assert (seen.count, seen.last_seconds - seen.first_seconds) == (4, 9)
    assert (seen.source, seen.message) == ("default-scheduler", "two lines")
