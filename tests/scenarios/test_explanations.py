"""What people read while they wait: why, with numbers that they can check, said once and again only when it changes."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from allhands.model.group_status import GroupStatus
from allhands.model.node import Taint
from allhands.model.podgroup import SubGroup, TopologyMode, TopologyRule
from allhands.model.queue import Queue, QueueOrder
from allhands.model.reason import Reason
from tests.scenarios.cluster import BEGIN, STEP_SECONDS, Cluster, cpu

RACK = TopologyRule(TopologyMode.HARD, highest_tier=1)


class Case(NamedTuple):
    sentence: str
    gang: dict[str, Any]
    reason: Reason
    text: str


# Two nodes of four cores and one GPU each; a gang of two cores runs on n1 for another 100 seconds, say its owners.
CASES = [
    Case(
        "who lacks room is told how many fit, what is short, and after whom it can start",
        {"count": 2, "cpu": 4},
        Reason.INSUFFICIENT_RESOURCES,
        "1 of the 2 pods fit now; cpu is short by 4. "
        'It can start once "default/runs" has ended, expected at 1970-01-01T02:48:20Z.',
    ),
    Case(
        "who asks for more than any node has is told how much the largest has",
        {"count": 1, "cpu": 5},
        Reason.NEVER_FITS,
        "A pod asks for 5 of cpu, but the largest node has 4.",
    ),
    Case(
        "memory is written as people write it",
        {"count": 1, "memory": 65},
        Reason.NEVER_FITS,
        "A pod asks for 65Gi of memory, but the largest node has 64Gi.",
    ),
    Case(
        "the resource that is short is named, and not another one",
        {"count": 3, "cpu": 1, "gpu": 1},
        Reason.GROUP_NEVER_FITS,
        "2 of the 3 pods fit now; example.com/gpu is short by 1. "
        "It asks for 3 example.com/gpu in all, and all nodes together have 2: "
        "it can never start on these nodes.",
    ),
    Case(
        "who selects no node is told of how many",
        {"count": 1, "node_selector": {"disk": "ssd"}},
        Reason.NO_MATCHING_NODE,
        "None of 2 nodes matches the pod's node selector and affinity.",
    ),
    Case(
        "who waits for a time is told which",
        {"count": 1, "group": {"not_before_seconds": BEGIN + 3600}},
        Reason.NOT_BEFORE,
        "It must not start before 1970-01-01T03:46:40Z.",
    ),
    Case(
        "who pauses after a failed start is told how long",
        {"count": 1, "status": GroupStatus(failed_starts=2, retry_at_seconds=BEGIN + 3600)},
        Reason.BACKING_OFF,
        "Its last start failed; attempt 3 comes at 1970-01-01T03:46:40Z.",
    ),
]


def busy() -> Cluster:
    it = Cluster("n1 n2", gpu=1)
    return it.gang("runs", 1, cpu=2, on="n1", group={"expected_duration_seconds": 100})


@pytest.mark.parametrize("case", CASES, ids=[case.sentence for case in CASES])
def test_reasons(case: Case) -> None:
    it = busy().gang("it", **case.gang)
    it.step()
    assert it.why("it") == case.text
    assert it.reason("it") is case.reason


def test_taints_are_counted_and_the_commonest_is_named() -> None:
    it = Cluster().nodes("n1 n2", taints=(Taint("team", "NoSchedule", "a"),))
    it.nodes("n3", taints=(Taint("team", "NoSchedule", "b"),)).gang("g", 1).settle()
    assert it.why("g") == "3 of 3 nodes have a taint that the pod does not tolerate (team=a:NoSchedule)."


def test_who_waits_for_a_rack_is_told_what_the_best_rack_holds_and_when_one_could_serve() -> None:
    it = Cluster("n1 n2 n3 n4").domain("hall", tier=2).domain("r1", "n1 n2", "hall").domain("r2", "n3 n4", "hall")
    it.gang("train-7", 1, cpu=4, on="n1", group={"expected_duration_seconds": 300})
    it.gang("train-8", 1, cpu=4, on="n3", group={"expected_duration_seconds": 900})
    it.gang("it", 2, cpu=4, members=SubGroup(min_count=2, topology=RACK)).step()
    assert it.why("it") == (
        "No domain of tier 1 has room for 2 pods; the best of 2 holds 1. "
        '1 could hold it once "default/train-7" has ended, expected at 1970-01-01T02:51:40Z.'
    )
    assert it.wait("it").expected_start_seconds == BEGIN + 300


def test_who_waits_for_somebody_without_a_known_end_is_told_whom() -> None:
    it = Cluster("n1").gang("endless", 1, cpu=4, on="n1").gang("it", 1).settle()
    assert it.wait("it").expected_start_seconds is None
    assert it.wait("it").unknown_because_of == "default/endless"


def test_who_waits_behind_another_in_a_strict_queue_expects_its_start_after_that_one() -> None:
    it = Cluster("n1").know(Queue("q", order=QueueOrder.FIFO_STRICT, default_duration_seconds=100))
    it.gang("runs", 1, cpu=4, on="n1").gang("first", 1, cpu=4).gang("second", 1, cpu=4).step()
    first, second = it.wait("first"), it.wait("second")
    assert (first.expected_start_seconds, second.expected_start_seconds) == (BEGIN + 100, BEGIN + 200)
    assert it.why("second") == 'The group is number 2 of 2 in queue "q".'


def test_who_waits_for_quota_expects_it_when_its_queue_gets_some_back() -> None:
    it = Cluster("n1").know(Queue("q", quotas=(cpu(capability=2),)))
    it.gang("runs", 1, cpu=2, on="n1", group={"expected_duration_seconds": 100}).gang("it", 1).step()
    assert it.wait("it").expected_start_seconds == BEGIN + 100


# -- said once


def test_what_has_not_changed_is_not_said_again() -> None:
    it = Cluster("n1").gang("runs", 1, cpu=4, on="n1").gang("it", 1).settle()
    assert [plan.waits[0].say for plan in it.plans] == [True, *[False] * (len(it.plans) - 1)]


def test_a_new_reason_is_said_at_once() -> None:
    it = Cluster("n1").gang("runs", 1, cpu=4, on="n1").gang("it", 1).settle()
    it.change("it", suspended=True)
    it.step()
    assert it.wait("it").say
    assert it.why("it") == "It is suspended."


def test_numbers_that_change_within_the_same_reason_are_not_news() -> None:
    it = Cluster("n1 n2").gang("runs", 1, cpu=4, on="n1").gang("too", 1, cpu=4, on="n2").gang("it", 2, cpu=4).settle()
    it.finish("too")
    it.step()
    assert it.why("it").startswith("1 of the 2 pods fit now")
    assert not it.wait("it").say


def test_an_expected_start_that_moves_a_little_is_not_news_and_one_that_moves_much_is() -> None:
    it = Cluster("n1").gang("runs", 1, cpu=4, on="n1", group={"expected_duration_seconds": 1000}).gang("it", 1)
    it.step()
    assert it.wait("it").expected_start_seconds == BEGIN + 1000
    it.change("runs", expected_duration_seconds=1050)
    it.step()
    assert (it.wait("it").expected_start_seconds, it.wait("it").say) == (BEGIN + 1050, False)
    it.change("runs", expected_duration_seconds=1200)
    it.step()
    assert (it.wait("it").expected_start_seconds, it.wait("it").say) == (BEGIN + 1200, True)


def test_the_closer_the_start_the_more_a_difference_matters() -> None:
    it = Cluster("n1").gang("runs", 1, cpu=4, on="n1", group={"expected_duration_seconds": 1000}).gang("it", 1)
    it.step()
    it.change("runs", expected_duration_seconds=1050)
    said = [it.step().waits[0].say for _ in range(60)]
    # Fifty seconds are a tenth of the wait when five hundred are left.
    assert said.count(True) == 1
    assert abs(said.index(True) * STEP_SECONDS - 500) <= 2 * STEP_SECONDS


def test_a_lone_pod_is_told_once_too() -> None:
    it = Cluster("n1").pod("lone", cpu=9).settle()
    assert it.why("pod:lone") == "A pod asks for 9 of cpu, but the largest node has 4."
    assert not it.wait("pod:lone").say


def test_everybody_who_waits_is_told_something() -> None:
    it = Cluster("n1").know(Queue("q", order=QueueOrder.FIFO_STRICT), Queue("r"))
    it.gang("big", 9).gang("behind", 1).gang("lacking", 1, minimum=2, queue="r").gang("lost", 1, queue="nowhere")
    it.gang("elastic", 9, minimum=1, queue="r").pod("lone", node_selector={"x": "y"}).settle()
    assert sorted(it.waiting) == ["behind", "big", "elastic", "lacking", "lost", "pod:lone"]
    assert all(str(wait.explanation) for wait in it.plan.waits)


def test_a_gang_whose_avoided_nodes_are_all_that_would_serve_is_told_which_they_are() -> None:
    status = GroupStatus(failed_starts=1, retry_at_seconds=BEGIN - 1, avoid_nodes=("n1", "n2"))
    it = Cluster("n1 n2").gang("it", 1, status=status)
    it.step()
    assert it.why("it").startswith("0 of the 1 pods fit now;")
    assert "Nodes on which its last start failed are left out (n1, n2)." in it.why("it")


def test_who_is_evicted_hears_for_whom_until_its_pods_are_gone_and_then_what_it_lacks() -> None:
    it = Cluster("a", leave_after=3).gang("low", 2, on="a a", cpu=2, group={"priority": 1})
    it.gang("high", cpu=4, group={"priority": 9}).step()
    assert it.reason("low") is Reason.PREEMPTED
    assert it.why("low") == (
        'Gang "default/low" must leave for "default/high", whose priority is 9 over 1 in queue "q"; this frees 4 cpu.'
    )
    it.step()
    assert it.reason("low") is Reason.PREEMPTED
    assert not it.wait("low").say
    it.settle()
    assert it.reason("low") is Reason.INSUFFICIENT_RESOURCES


def test_who_is_evicted_by_share_hears_that_it_was_reclaimed() -> None:
    it = Cluster("a").know(Queue("q", quotas=(cpu(deserved=2),)), Queue("other", quotas=(cpu(deserved=2),)))
    for number in range(4):
        it.gang(f"own-{number}", on="a", queue="other", cpu=1)
    it.gang("owed", cpu=2).step()
    evicted = [evict.group.partition("/")[2] for evict in it.plan.evictions]
    assert len(evicted) == 2
    assert {it.reason(name) for name in evicted} == {Reason.RECLAIMED}
    assert {evict.why.reason for evict in it.plan.evictions} == {Reason.RECLAIMED}


# -- who can never start is told so, and nobody waits for it


def racks() -> Cluster:
    """Two racks of two nodes with four cores each."""
    it = Cluster("a0 a1 b0 b1").domain("hall", tier=2, tier_name="hall")
    return it.domain("a", "a0 a1", "hall", tier_name="rack").domain("b", "b0 b1", "hall", tier_name="rack")


def test_a_gang_that_no_rack_could_hold_is_told_so_although_its_queue_refuses_it_first() -> None:
    it = racks().know(Queue("q", quotas=(cpu(capability=16),)), Queue("other", quotas=(cpu(guarantee=4),)))
    it.gang("runs", 2, cpu=4, on="a0 a1", group={"expected_duration_seconds": 50})
    it.gang("huge", 3, cpu=4, members=SubGroup(min_count=3, topology=RACK)).gang("next", 3, cpu=4)
    it.step()
    assert it.why("huge") == (
        'Its 3 pods must be in one domain of tier 1 (rack), and the largest of 2, "a", holds 2 of them when it is '
        "empty: it can never start on these nodes."
    )
    assert it.reason("huge") is Reason.GROUP_NEVER_FITS
    waits = {wait.group: wait.expected_start_seconds for wait in it.plans[-1].waits}
    assert waits["default/huge"] is None
    assert waits["default/next"] == BEGIN + 50


def test_a_gang_that_no_rack_could_hold_is_told_of_the_largest_although_there_is_no_room_now_either() -> None:
    it = racks().gang("huge", 3, cpu=4, members=SubGroup(min_count=3, topology=RACK))
    it.step()
    assert it.why("huge") == (
        "No domain of tier 1 has room for 3 pods; the best of 2 holds 2. "
        'Its 3 pods must be in one domain of tier 1 (rack), and the largest of 2, "a", holds 2 of them when it is '
        "empty: it can never start on these nodes."
    )


def test_a_sub_group_that_no_rack_could_hold_is_named() -> None:
    parts = (SubGroup("p/0", min_count=1, topology=RACK), SubGroup("p/1", min_count=3, topology=RACK))
    it = racks().know(Queue("q", quotas=(cpu(capability=4),)))
    it.gang("g", 4, cpu=4, parts="p/0 p/1 p/1 p/1", members=SubGroup(children=parts))
    it.step()
    assert it.why("g").startswith(
        'The 3 pods of sub-group "p/1" must be in one domain of tier 1 (rack), and the largest of 2, "a", holds 2'
    )


def test_a_gang_that_all_nodes_together_could_not_hold_is_told_so_although_its_queue_refuses_it_first() -> None:
    it = Cluster("n1 n2").know(Queue("q", quotas=(cpu(capability=8),))).gang("runs", 1, cpu=4, on="n1")
    it.gang("huge", 3, cpu=3)
    it.step()
    assert it.why("huge") == (
        "It asks for 9 cpu in all, and all nodes together have 8: it can never start on these nodes."
    )


def test_a_gang_that_its_quota_could_never_allow_is_told_so_and_who_could_is_not() -> None:
    it = Cluster("n1 n2").know(Queue("q", quotas=(cpu(capability=5),))).gang("runs", 1, cpu=2, on="n1")
    it.gang("much", 6, cpu=1).gang("fine", 5, cpu=1)
    it.step()
    assert it.why("much") == (
        'Queue "q" uses 2 of its capability of 5 cpu; the group asks for 6. '
        "It can never start with these quotas, even if nothing else ran."
    )
    assert "never" not in it.why("fine")
    explanations = {wait.group: wait.explanation for wait in it.plans[-1].waits}
    assert explanations["default/much"].is_never
    assert not explanations["default/fine"].is_never


def test_who_holds_it_back_is_named() -> None:
    it = Cluster("n1 n2").know(Queue("q"), Queue("other", quotas=(cpu(guarantee=3),)))
    it.gang("runs", 1, cpu=3, on="n1").gang("g", 3, cpu=1)
    it.step()
    assert it.why("g") == (
        'Queue "q" uses 3 cpu and deserves 0; the group asks for 3, but 3 cpu are kept free for queue "other" '
        "(guarantee 3)."
    )
    assert it.reason("g") is Reason.QUEUE_OVER_DESERVED


def test_what_another_queue_gives_back_may_be_waited_for_too() -> None:
    it = Cluster("n1 n2").know(Queue("q"), Queue("other", quotas=(cpu(guarantee=3),)), Queue("third"))
    it.gang("runs", 1, cpu=3, on="n1", queue="third", group={"expected_duration_seconds": 50}).gang("g", 3, cpu=1)
    it.step()
    assert it.reason("g") is Reason.QUEUE_OVER_DESERVED
    assert it.plans[-1].waits[0].expected_start_seconds == BEGIN + 50
