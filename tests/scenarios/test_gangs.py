"""Gangs as their owners see them: whole or not at all, in every part, and what counts as being there."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from allhands.model.group_status import GroupStatus
from allhands.model.pod import PodPhase
from allhands.model.podgroup import SubGroup, TaskMinimum
from allhands.model.queue import Queue
from allhands.model.reason import Reason
from tests.scenarios.cluster import BEGIN, Cluster, cpu, nodes_of, started

WORKERS = SubGroup("workers", min_count=2)
MASTERS = SubGroup("masters", min_count=1)


class Case(NamedTuple):
    sentence: str
    gang: dict[str, Any]
    runs: int
    reason: Reason | None = None
    text: str = ""


def gang(count: int, **fields: Any) -> dict[str, Any]:
    return {"count": count, **fields}


# Three nodes of four cores each.
WHOLE_OR_NOT_AT_ALL = [
    Case("a gang that fits starts with all of its pods", gang(4, cpu=3, minimum=3), 3, Reason.INSUFFICIENT_RESOURCES),
    Case("a gang that fits exactly starts", gang(12), 12),
    Case(
        "a gang with one pod too many starts with none of them",
        gang(4, cpu=3),
        0,
        Reason.GROUP_NEVER_FITS,
        "3 of the 4 pods fit now; cpu is short by 3. "
        "Empty nodes hold 3 of its 4 pods: it can never start on these nodes.",
    ),
    Case("an elastic gang starts with its minimum and what else fits", gang(20, minimum=2), 12),
    Case(
        "a gang with fewer pods than its minimum waits for them",
        gang(3, minimum=5),
        0,
        Reason.GANG_INCOMPLETE,
        "3 of the 5 pods that must start together exist.",
    ),
    Case("a gang without a minimum starts with whatever fits", gang(20, minimum=0), 12),
    Case("a gang that has a maximum stops there", gang(6, members=SubGroup(min_count=1, max_count=4)), 4),
    Case(
        "every task has its own minimum, and one that is short holds back all",
        gang(
            5,
            tasks="master master worker worker worker",
            members=SubGroup(min_count=1, task_minimums=(TaskMinimum("master", 3),)),
        ),
        0,
        Reason.SUB_GROUP_INCOMPLETE,
        'It has 2 of the 3 pods of task "master" that it must start with.',
    ),
    Case(
        "with all task minimums met the rest of the pods is elastic",
        gang(
            14,
            tasks="master " + "worker " * 13,
            members=SubGroup(task_minimums=(TaskMinimum("master", 1), TaskMinimum("worker", 2))),
        ),
        12,
    ),
    Case(
        "every sub-group must be whole",
        gang(3, parts="masters workers workers", members=SubGroup(children=(MASTERS, WORKERS))),
        3,
    ),
    Case(
        "a sub-group that is short holds back the others",
        gang(2, parts="masters workers", members=SubGroup(children=(MASTERS, WORKERS))),
        0,
        Reason.SUB_GROUP_INCOMPLETE,
        'Sub-group "workers" has 1 of the 2 pods that it must start with.',
    ),
    Case(
        "where one whole sub-group of two is enough the other may come later",
        gang(3, parts="masters masters workers", members=SubGroup(children=(MASTERS, WORKERS), min_children=1)),
        2,
    ),
    Case(
        "sub-groups nest, and the minimum of the outer one counts all below it",
        gang(
            4,
            parts="left left right right",
            members=SubGroup(
                children=(
                    SubGroup(
                        "both", min_count=4, children=(SubGroup("left", min_count=1), SubGroup("right", min_count=1))
                    ),
                )
            ),
        ),
        4,
    ),
    Case(
        "a sub-group of a sub-group that is short holds back everything",
        gang(
            3,
            parts="left left right",
            members=SubGroup(
                children=(SubGroup("both", children=(SubGroup("left", min_count=2), SubGroup("right", min_count=2))),)
            ),
        ),
        0,
        Reason.SUB_GROUP_INCOMPLETE,
    ),
]


@pytest.mark.parametrize("case", WHOLE_OR_NOT_AT_ALL, ids=[case.sentence for case in WHOLE_OR_NOT_AT_ALL])
def test_whole_or_not_at_all(case: Case) -> None:
    it = Cluster("n1 n2 n3").gang("it", **case.gang).settle()
    assert it.running("it") == case.runs
    waiting = len(it.members("it")) - case.runs
    assert ("it" in it.waiting) == (waiting > 0)
    if case.reason is not None:
        assert it.reason("it") is case.reason
    if case.text:
        assert it.why("it") == case.text


def test_two_gangs_that_fit_only_one_at_a_time_run_one_after_the_other() -> None:
    it = Cluster("n1 n2").gang("first", 2, cpu=3).gang("second", 2, cpu=3).settle()
    assert (it.running("first"), it.running("second")) == (2, 0)
    it.finish("first").settle()
    assert it.running("second") == 2


# -- who counts


def test_pods_that_run_count_and_only_the_missing_ones_are_placed() -> None:
    it = Cluster("n1 n2").gang("it", 4, cpu=2, on="n1 n1").settle()
    assert len(it.plans[0].binds) == 2
    assert it.where("it") == ["n1", "n1", "n2", "n2"]


def test_pods_that_have_succeeded_count_and_their_room_is_free() -> None:
    it = Cluster("n1", cpu=2).gang("it", 3, minimum=3, on="n1 n1").settle()
    assert it.reason("it") is Reason.PARTLY_BOUND
    it.alter("it-0", phase=PodPhase.SUCCEEDED).settle()
    assert it.running("it") == 2


def test_pods_that_have_failed_do_not_count() -> None:
    it = Cluster("n1").gang("it", 2, minimum=2, on="n1").alter("it-0", phase=PodPhase.FAILED).settle()
    assert it.running("it") == 0
    assert it.why("it") == "1 of the 2 pods that must start together exist."


def test_terminating_pods_hold_their_room_until_they_are_gone() -> None:
    it = Cluster("n1").gang("old", 1, cpu=4, on="n1", owner="").alter("old-0", deleting=True).gang("new", 1, cpu=4)
    it.run(4)
    assert it.running("new") == 0
    it.world.delete_pod("uid-old-0")
    it.step()
    assert nodes_of(it.plan, "new") == ["n1"]


def test_terminating_pods_do_not_count_towards_the_minimum() -> None:
    it = Cluster("n1 n2").gang("it", 3, cpu=2, on="n1 n1").alter("it-0", deleting=True).run(3)
    assert it.running("it") == 1
    assert it.why("it") == "2 of the 3 pods that must start together exist."


def test_pods_of_unknown_phase_hold_their_room() -> None:
    it = Cluster("n1").gang("lost", 1, cpu=4, on="n1", phase=PodPhase.UNKNOWN).gang("new", 1, cpu=4).settle()
    assert it.running("new") == 0


# -- elastic members


def test_elastic_members_come_after_every_minimum() -> None:
    it = Cluster("n1 n2").gang("elastic", 8, minimum=1).gang("late", 4).settle()
    assert (it.running("elastic"), it.running("late")) == (4, 4)


def test_elastic_members_join_when_room_comes() -> None:
    it = Cluster("n1").gang("elastic", 6, minimum=2).settle()
    assert it.running("elastic") == 4
    it.nodes("n2").settle()
    assert it.running("elastic") == 6


def test_elastic_members_stay_within_the_quota() -> None:
    it = Cluster("n1 n2").know(Queue("q", quotas=(cpu(capability=3),))).gang("elastic", 6, minimum=2).settle()
    assert it.running("elastic") == 3
    assert it.why("elastic") == 'Queue "q" uses 3 of its capability of 3 cpu; the group asks for 3.'


def test_a_running_gang_whose_elastic_members_do_not_fit_is_told_why() -> None:
    it = Cluster("n1").gang("elastic", 6, minimum=2).settle()
    assert it.reason("elastic") is Reason.INSUFFICIENT_RESOURCES
    assert it.why("elastic") == "0 of the 2 pods fit now; cpu is short by 2."


def test_a_gang_at_its_maximum_is_told_so() -> None:
    it = Cluster("n1").gang("elastic", 6, members=SubGroup(min_count=1, max_count=3)).settle()
    assert it.running("elastic") == 3
    assert it.why("elastic") == "It runs with 3 pods, which is the most that it may have; 3 more exist."


def test_a_further_sub_group_joins_whole_or_not_at_all() -> None:
    parts = SubGroup(children=(SubGroup("a", min_count=2), SubGroup("b", min_count=2)), min_children=1)
    it = Cluster("n1", cpu=3).gang("it", 4, parts="a a b b", members=parts).settle()
    assert it.running("it") == 2
    it.nodes("n1", cpu=4).settle()
    assert it.running("it") == 4


# -- who comes first


def test_a_partly_bound_gang_is_completed_before_anybody_of_any_priority_starts() -> None:
    it = Cluster("n1 n2").gang("rich", 2, cpu=2, group={"priority": 100}).gang("begun", 2, cpu=4, on="n1").step()
    assert [start.group for start in it.starts] == ["default/begun"]


def test_partly_bound_comes_before_admitted_and_admitted_before_waiting() -> None:
    it = Cluster("n1 n2 n3", cpu=3)
    it.gang("waiting", 1, cpu=3, group={"priority": 10})
    it.gang("admitted", 1, cpu=3, status=GroupStatus(admitted_at_seconds=BEGIN))
    it.gang("begun", 2, cpu=3, on="n1")
    assert started(it.decide()) == ["begun", "admitted"]
    it.nodes("n4", cpu=3)
    assert started(it.decide()) == ["begun", "admitted", "waiting"]


def test_a_partly_bound_gang_keeps_its_quota_even_if_its_queue_is_full_by_now() -> None:
    it = Cluster("n1 n2").know(Queue("q", quotas=(cpu(capability=4),)))
    it.gang("other", 1, cpu=2, on="n2").gang("begun", 2, cpu=1, on="n1").gang("late", 1, cpu=2).settle()
    assert (it.running("begun"), it.running("late")) == (2, 0)


def test_a_gang_damaged_by_a_dead_node_is_repaired_before_newcomers_of_the_same_rank() -> None:
    it = Cluster("n1 n2").gang("gang", 2, cpu=4, on="n1 n2").gang("newcomer", 1, cpu=4, group={"created_at_seconds": 0})
    it.settle()
    it.world.delete_node("n2")
    it.lose("gang-1").settle()
    assert (it.running("gang"), it.running("newcomer")) == (1, 0)
    assert it.reason("gang") is Reason.PARTLY_BOUND
    it.nodes("n3").settle()
    assert it.where("gang") == ["n1", "n3"]
    assert it.evicted == []


def test_pods_on_a_node_that_is_gone_do_not_count_even_before_they_are_deleted() -> None:
    it = Cluster("n1 n2 n3").gang("gang", 2, cpu=4, on="n1 n2").settle()
    it.world.delete_node("n2")
    it.step()
    assert it.set_aside == {"Pod default/gang-1": 'It is on node "n2", which is unknown.'}
    it.lose("gang-1").settle()
    assert it.where("gang") == ["n1", "n3"]


# -- partly bound, and no room for the rest


def test_a_begun_gang_that_has_no_room_for_the_rest_and_has_not_started_is_taken_back() -> None:
    it = Cluster("n1 n2").gang("rival", 1, cpu=4, on="n2").gang("begun", 2, cpu=3, on="n1", phase=PodPhase.PENDING)
    it.gang("small", 1, cpu=4).settle()
    assert it.evicted == ["begun-0"]
    assert it.plans[0].evictions[0].why.reason is Reason.PARTLY_BOUND
    assert (it.running("begun"), it.running("small")) == (0, 1)
    assert it.reason("begun") is Reason.INSUFFICIENT_RESOURCES
    it.finish("rival").finish("small").settle()
    assert it.where("begun") == ["n1", "n2"]


def test_a_begun_gang_with_members_that_run_keeps_its_place_and_says_so() -> None:
    it = Cluster("n1 n2").gang("rival", 1, cpu=4, on="n2").gang("begun", 2, cpu=3, on="n1").settle()
    assert it.evicted == []
    assert it.why("begun").startswith("1 of the 2 pods that must run together are bound; the rest has no room now.")
    it.finish("rival").settle()
    assert it.where("begun") == ["n1", "n2"]


def test_a_begun_gang_of_bare_pods_is_never_deleted() -> None:
    it = Cluster("n1 n2").gang("rival", 1, cpu=4, on="n2")
    it.gang("begun", 2, cpu=3, on="n1", phase=PodPhase.PENDING, owner="", bound_at_seconds=BEGIN).run(60)
    assert it.evicted == []
    assert it.reason("begun") is Reason.PARTLY_BOUND


def test_a_begun_gang_waits_for_its_own_pods_that_are_leaving() -> None:
    it = Cluster("n1 n2").gang("begun", 2, cpu=3, on="n1 n2", phase=PodPhase.PENDING, bound_at_seconds=BEGIN)
    it.alter("begun-1", deleting=True).more("begun", 1, cpu=3).run(3)
    assert it.evicted == []
    it.world.delete_pod("uid-begun-1")
    it.step()
    assert nodes_of(it.plan, "begun") == ["n2"]


def test_a_gang_that_is_being_completed_is_not_broken_up_for_others_in_the_same_cycle() -> None:
    it = Cluster("n1 n2").know(Queue("q"), Queue("owed")).gang("begun", 2, cpu=4, on="n1")
    it.gang("rival", 1, cpu=4, queue="owed")
    plan = it.step()
    assert (started(plan), plan.evictions) == (["begun"], ())
    it.settle()
    # Once it is whole, it is a victim like any other: all of it leaves, once.
    assert (it.running("begun"), it.running("rival"), it.evicted) == (0, 1, ["begun-0", "begun-1"])


def test_a_gang_whose_start_failed_is_not_evicted_a_second_time_for_others() -> None:
    it = Cluster("n1").know(Queue("q"), Queue("owed"))
    it.gang("stuck", 2, cpu=2, on="n1 n1", phase=PodPhase.PENDING, bound_at_seconds=0)
    it.gang("urgent", 1, cpu=4, group={"priority": 9}).gang("rival", 1, cpu=4, queue="owed")
    assert sorted(evict.pod for evict in it.step().evictions) == ["default/stuck-0", "default/stuck-1"]


def test_a_gang_that_lost_a_member_takes_the_room_of_who_is_less_important() -> None:
    it = Cluster("n1 n2 n3").gang("low", 1, cpu=4, on="n3").gang("gang", 2, cpu=4, on="n1 n2", group={"priority": 9})
    it.settle()
    it.world.delete_node("n2")
    it.lose("gang-1").settle()
    assert it.where("gang") == ["n1", "n3"]
    assert it.evicted == ["low-0"]


def test_two_gangs_that_lost_members_do_not_evict_each_other() -> None:
    it = Cluster("n1 n2 n3 n4").gang("one", 2, cpu=4, on="n1 n2").gang("two", 2, cpu=4, on="n3 n4").settle()
    it.world.delete_node("n2")
    it.world.delete_node("n4")
    it.lose("one-1", "two-1").settle()
    assert (it.running("one"), it.running("two"), it.evicted) == (1, 1, [])
    it.nodes("n5").settle()
    assert it.where("one") == ["n1", "n5"]


def test_an_elastic_gang_that_is_evicted_for_another_does_not_grow_in_the_same_cycle() -> None:
    it = Cluster("n1 n2").know(Queue("q", max_running_groups=1)).gang("elastic", 2, minimum=1, on="n1", cpu=4)
    plan = it.gang("urgent", 1, group={"priority": 9}).step()
    assert [evict.pod for evict in plan.evictions] == ["default/elastic-0"]
    assert not plan.starts
    it.settle()
    assert (it.running("elastic"), it.running("urgent"), it.evicted) == (0, 1, ["elastic-0"])


def _first_placed(cluster: Cluster) -> list[str]:
    return sorted(bind.pod.partition("/")[2] for start in cluster.settle().plans[0].starts for bind in start.binds)


def test_members_of_a_higher_priority_come_first() -> None:
    cluster = Cluster("a", cpu=3).gang("job", 0, minimum=3)
    cluster.more("job", 3, tasks="helper helper helper").more("job", 3, tasks="leader leader leader", priority=100)
    assert _first_placed(cluster) == ["job-3", "job-4", "job-5"]


def test_members_with_a_higher_rank_come_first() -> None:
    """Whatever their priorities; and nobody outside of the group is outranked by it."""
    cluster = Cluster("a", cpu=3).gang("job", 0, minimum=3)
    cluster.more("job", 3, priority=100, rank=1).more("job", 3, priority=0, rank=2)
    assert _first_placed(cluster) == ["job-3", "job-4", "job-5"]
    cluster = Cluster("a", cpu=3).gang("first", 3).gang("second", 0, minimum=3)
    cluster.more("second", 3, rank=2**31 - 1)
    assert _first_placed(cluster) == ["first-0", "first-1", "first-2"]


def test_above_the_minimum_too_members_of_a_higher_priority_come_first() -> None:
    cluster = Cluster("a", cpu=3).gang("job", 0, minimum=1)
    cluster.more("job", 2).more("job", 2, priority=7)
    assert _first_placed(cluster) == ["job-0", "job-2", "job-3"]


def test_what_a_gang_must_have_comes_before_what_is_more_important() -> None:
    members = SubGroup(min_count=3, task_minimums=(TaskMinimum("helper", 2),))
    cluster = Cluster("a", cpu=3).gang("job", 0, members=members)
    cluster.more("job", 3, tasks="helper helper helper").more("job", 3, tasks="leader leader leader", priority=100)
    assert _first_placed(cluster) == ["job-0", "job-1", "job-3"]
