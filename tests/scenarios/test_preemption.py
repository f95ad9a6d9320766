"""Preemption by priority within a queue: who leaves, for whom, where, and that it ends. All run on after success."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from allhands.core.actions.allocate import Refusal
from allhands.core.actions.turns import TURN_SECONDS
from allhands.core.facts import DisruptionBudget
from allhands.model.affinity import PodAffinity, PodTerm, SpreadConstraint
from allhands.model.domain import Domain
from allhands.model.identity import Identity
from allhands.model.pod import HostPort
from allhands.model.podgroup import SubGroup, TopologyMode, TopologyRule
from allhands.model.queue import Queue, Quota
from allhands.model.reason import Reason
from allhands.model.selector import LabelSelector
from tests.core_harness import POLICY, STEP_SECONDS, Cluster

if TYPE_CHECKING:
    from allhands.core.plan import Plan

LOW, MIDDLE, HIGH = ({"priority": value} for value in (1, 5, 9))
LONG = 25
"""Cycles beyond success."""


def cluster(nodes: int = 2, gpu: int = 4, queue: Queue | None = None, **options: object) -> Cluster:
    return Cluster(**options).nodes(nodes, gpu=gpu).facts(queue or Queue("q"))  # type: ignore[arg-type]


def evicted_groups(plan: Plan) -> set[str]:
    return {evict.group.partition("/")[2] for evict in plan.evictions}


def why(plan: Plan, name: str) -> str:
    return next(str(wait.explanation) for wait in plan.waits if wait.group == f"default/{name}")


def reason(plan: Plan, name: str) -> Reason:
    return next(wait.explanation.reason for wait in plan.waits if wait.group == f"default/{name}")


# -- who may


def test_a_gang_of_higher_priority_takes_the_room_of_a_lower_one_once_and_keeps_it() -> None:
    it = cluster().gang("low", 2, on=["n000", "n001"], gpu=4, group=LOW).gang("high", 2, gpu=4, group=HIGH)
    first = it.step()
    assert evicted_groups(first) == {"low"}
    assert len(first.evictions) == 2
    assert not first.starts
    it.run(LONG)
    assert it.running("high") == 2
    assert it.running("low") == 0
    assert it.evicted == ["low-0", "low-1"]


@pytest.mark.parametrize("priority", [1, 0, -5], ids=["equal", "lower", "far lower"])
def test_nobody_of_equal_or_higher_priority_is_ever_evicted(priority: int) -> None:
    it = cluster().gang("runs", 2, on=["n000", "n001"], gpu=4, group=LOW)
    it.gang("waits", 2, gpu=4, group={"priority": priority}).run(LONG)
    assert it.evicted == []
    assert it.running("runs") == 2


def test_a_queue_that_does_not_preempt_within_lets_everyone_run() -> None:
    it = cluster(queue=Queue("q", preempt_within=False)).gang("low", 1, on=["n000"], gpu=4, group=LOW)
    it.gang("lower", 1, on=["n001"], gpu=4, group=LOW).gang("high", 1, gpu=4, group=HIGH).run(LONG)
    assert it.evicted == []


def test_a_policy_that_does_not_preempt_lets_everyone_run() -> None:
    it = cluster(nodes=1, policy=msgspec.structs.replace(POLICY, preempts=False))
    it.gang("low", 1, on=["n000"], gpu=4, group=LOW).gang("high", 1, gpu=4, group=HIGH).run(LONG)
    assert it.evicted == []


def test_priority_counts_within_a_queue_only() -> None:
    it = Cluster().nodes(2, gpu=4).facts(Queue("a"), Queue("b", reclaimable=False))
    it.gang("low", 2, queue="b", on=["n000", "n001"], gpu=4, group=LOW).gang("high", 1, queue="a", gpu=4, group=HIGH)
    assert it.run(LONG).evicted == []


def test_pods_outside_of_queues_preempt_each_other_as_kube_scheduler_has_it() -> None:
    it = cluster(nodes=1).gang("low", 1, queue="", on=["n000"], gpu=4, group=LOW)
    it.gang("high", 1, queue="", gpu=4, group=HIGH).run(LONG)
    assert it.evicted == ["low-0"]
    assert it.running("high") == 1


# -- whom


def test_volcano_3291_free_nodes_are_used_before_anybody_is_evicted() -> None:
    it = cluster(nodes=3).gang("a", 1, on=["n000"], gpu=4, group=LOW).gang("b", 1, on=["n001"], gpu=4, group=LOW)
    it.gang("high", 2, gpu=4, group=HIGH)
    it.run(LONG)
    assert len(it.evicted) == 1
    assert "n002" in it.where("high")


def test_volcano_5984_one_eviction_where_one_suffices_and_ten_could_be_made() -> None:
    it = cluster(nodes=10, gpu=1)
    for number in range(10):
        it.gang(f"low{number}", 1, on=[f"n{number:03d}"], gpu=1, group=LOW)
    it.gang("high", 1, gpu=1, group=HIGH).run(LONG)
    assert len(it.evicted) == 1


def test_volcano_5994_one_surplus_pod_goes_and_not_the_whole_bundle() -> None:
    nodes = [f"n{number:03d}" for number in range(10)]
    it = cluster(nodes=10, gpu=1).gang("elastic", 10, minimum=1, on=nodes, gpu=1, group=LOW)
    it.gang("high", 1, gpu=1, group=HIGH).run(LONG)
    assert len(it.evicted) == 1
    assert it.running("elastic") == 9


def test_surplus_goes_before_whole_gangs_even_of_lower_priority() -> None:
    it = cluster(nodes=3).gang("elastic", 2, minimum=1, on=["n000", "n001"], gpu=4, group=MIDDLE)
    it.gang("low", 1, on=["n002"], gpu=4, group=LOW).gang("high", 1, gpu=4, group=HIGH).run(LONG)
    assert len(it.evicted) == 1
    assert it.evicted[0].startswith("elastic")
    assert (it.running("elastic"), it.running("low"), it.running("high")) == (1, 1, 1)


def test_every_sub_group_keeps_its_minimum_when_surplus_goes() -> None:
    nodes = ["n000", "n001", "n002", "n003"]
    members = SubGroup(children=(SubGroup("left", min_count=1), SubGroup("right", min_count=1)))
    it = cluster(nodes=4).gang(
        "elastic", 4, on=nodes, parts=["left", "left", "left", "right"], gpu=4, group={"members": members, **LOW}
    )
    it.gang("high", 2, gpu=4, group=HIGH).run(LONG)
    assert len(it.evicted) == 2
    assert "elastic-3" not in it.evicted
    assert it.running("elastic") == 2


def test_a_sub_group_that_need_not_be_there_is_not_taken_apart() -> None:
    """As the later tasks of a Job that wait for others: each starts whole or not at all."""
    nodes = ["n000", "n001", "n002", "n003"]
    members = SubGroup(min_count=1, children=(SubGroup("later", min_count=3),), min_children=0)
    it = cluster(nodes=4).gang(
        "stages", 4, on=nodes, parts=["", "later", "later", "later"], gpu=4, group={"members": members, **LOW}
    )
    it.gang("high", 2, gpu=4, group=HIGH).run(LONG)
    assert it.running("high") == 2
    assert sorted(it.evicted) == ["stages-0", "stages-1", "stages-2", "stages-3"]


def test_all_of_a_gang_goes_or_none_of_it() -> None:
    it = cluster(nodes=3).gang("low", 3, on=["n000", "n001", "n002"], gpu=4, group=LOW)
    it.gang("high", 1, gpu=4, group=HIGH).run(LONG)
    assert sorted(it.evicted) == ["low-0", "low-1", "low-2"]


@pytest.mark.parametrize(
    ("first", "second", "victim"),
    [
        ({"group": MIDDLE}, {"group": LOW}, "second"),
        ({"group": LOW, "ran": 5000}, {"group": LOW, "ran": 50}, "second"),
        ({"group": LOW, "ran": 50}, {"group": LOW, "ran": 5000}, "first"),
        ({"group": LOW, "ran": 50, "owner": ""}, {"group": LOW, "ran": 5000}, "second"),
    ],
    ids=["lower priority first", "youngest first", "youngest first, the other way round", "a bare pod last of all"],
)
def test_the_least_important_goes_first(first: dict[str, object], second: dict[str, object], victim: str) -> None:
    it = cluster().gang("first", 1, on=["n000"], gpu=4, **first)  # type: ignore[arg-type]
    it.gang("second", 1, on=["n001"], gpu=4, **second).gang("high", 1, gpu=4, group=HIGH)  # type: ignore[arg-type]
    assert it.run(LONG).evicted == [f"{victim}-0"]


def test_a_bare_pod_may_go_if_nobody_else_can() -> None:
    it = cluster(nodes=1).gang("bare", 1, on=["n000"], gpu=4, group=LOW, owner="").gang("high", 1, gpu=4, group=HIGH)
    it.run(LONG)
    assert it.evicted == ["bare-0"]


def test_few_pods_go_rather_than_many() -> None:
    it = cluster().gang("one", 1, on=["n000"], gpu=4, group=LOW, ran=9000)
    for number in range(4):
        it.gang(f"small{number}", 1, on=["n001"], gpu=1, group=LOW, ran=10)
    it.gang("high", 1, gpu=4, group=HIGH)
    assert it.run(LONG).evicted == ["one-0"]


def test_victims_go_where_they_free_a_place_and_not_where_they_are_cheapest() -> None:
    it = cluster(nodes=3, gpu=4)
    # Small and young, but each beside somebody who stays.
    for number in range(2):
        it.gang(f"stays{number}", 1, on=[f"n00{number}"], gpu=3, group=HIGH)
        it.gang(f"young{number}", 1, on=[f"n00{number}"], gpu=1, group=LOW, ran=1)
    it.gang("old", 1, on=["n002"], gpu=4, group=MIDDLE, ran=9000)
    it.gang("high", 1, gpu=4, group=HIGH)
    assert it.run(LONG).evicted == ["old-0"]


def test_two_halves_of_a_node_go_together_where_that_is_what_a_place_needs() -> None:
    it = cluster(nodes=2, gpu=4)
    for number in range(4):
        it.gang(f"half{number}", 1, on=[f"n00{number % 2}"], gpu=2, group=LOW, ran=10 * number)
    it.gang("high", 1, gpu=4, group=HIGH).run(LONG)
    assert it.evicted in (["half0-0", "half2-0"], ["half1-0", "half3-0"])


# -- who is protected


def test_a_minimum_run_time_protects_and_says_so_until_it_is_over() -> None:
    it = cluster(nodes=3)
    for number in range(3):
        it.gang(f"low{number}", 1, on=[f"n00{number}"], gpu=4, ran=0, group={"min_run_seconds": 100, **LOW})
    it.gang("high", 1, gpu=4, group=HIGH)
    plan = it.step()
    assert not plan.evictions
    assert "3 gangs are protected by their minimum run time" in why(plan, "high")
    it.run(100 // STEP_SECONDS - 1)
    assert it.evicted == []
    it.run(LONG)
    assert len(it.evicted) == 1


def test_the_cycle_wakes_when_a_minimum_run_time_ends() -> None:
    it = cluster(nodes=1).gang("low", 1, on=["n000"], gpu=4, ran=0, group={"min_run_seconds": 77, **LOW})
    it.gang("high", 1, gpu=4, group=HIGH)
    desk, entry = it.desk(), it.snapshot().groups["default/high"]
    refusal = desk.allocate.start(entry)
    assert isinstance(refusal, Refusal)
    desk.preempt.make_room(entry, refusal)
    assert desk.work.wakes_at == it.now + 77


@pytest.mark.parametrize(
    ("group", "said"),
    [
        ({"preemptible": False, **LOW}, "not being preemptible"),
        ({"priority": 2_000_000_000}, ""),
    ],
    ids=["not preemptible", "system-critical"],
)
def test_some_are_never_evicted(group: dict[str, object], said: str) -> None:
    it = cluster(nodes=1).gang("runs", 1, on=["n000"], gpu=4, group=group)
    it.gang("high", 1, gpu=4, group={"priority": 2_000_000_001}).run(5)
    assert it.evicted == []
    assert said in why(it.plans[-1], "high")


def budget(allowed: int) -> DisruptionBudget:
    return DisruptionBudget("default", "b", LabelSelector.of({"app": "x"}), allowed)


WATCHED = {"labels": {"app": "x"}}
WATCHER = {"spread": (SpreadConstraint(1, "zone", hard=False, selector=LabelSelector.of({"app": "x"})),)}


@pytest.mark.parametrize(("allowed", "goes"), [(0, 0), (1, 1), (2, 2)])
def test_disruption_budgets_are_kept_by_all_evictions_of_a_cycle_together(allowed: int, goes: int) -> None:
    it = Cluster().nodes(3, gpu=4).facts(Queue("q"), budgets=(budget(allowed),))
    it.gang("watcher", 1, shape=WATCHER, gpu=1000)
    for number in range(3):
        it.gang(f"low{number}", 1, on=[f"n00{number}"], gpu=4, group=LOW, shape=WATCHED)
    for number in range(3):
        it.gang(f"high{number}", 1, gpu=4, group=HIGH)
    plan = it.step()
    assert len(plan.evictions) == goes
    if allowed < 3:
        assert "protected by their disruption budgets" in why(plan, "high2")


def test_a_gang_that_its_budget_does_not_let_go_whole_stays_whole() -> None:
    it = Cluster().nodes(2, gpu=4).facts(Queue("q"), budgets=(budget(1),))
    it.gang("watcher", 1, shape=WATCHER, gpu=1000)
    it.gang("low", 2, on=["n000", "n001"], gpu=4, group=LOW, shape=WATCHED).gang("high", 1, gpu=4, group=HIGH)
    assert it.run(LONG).evicted == []
    assert "No room can be made: only a part of 1 gang may go by their disruption budgets." in why(it.plans[0], "high")


# -- where


def racks(*sizes: int) -> list[Domain]:
    domains, first = [Domain("hall", tier=2)], 0
    for number, size in enumerate(sizes):
        nodes = tuple(f"n{row:03d}" for row in range(first, first + size))
        domains.append(Domain(f"rack{number}", tier=1, parent="hall", nodes=nodes))
        first += size
    return domains


IN_ONE_RACK = SubGroup(min_count=2, topology=TopologyRule(TopologyMode.HARD, highest_tier=1))


def test_victims_are_taken_in_the_one_domain_that_the_gang_then_fits_in() -> None:
    it = Cluster().nodes(4, gpu=4).facts(Queue("q"), domains=racks(2, 2))
    it.gang("a", 1, on=["n000"], gpu=4, group=LOW, ran=1).gang("b", 1, on=["n001"], gpu=4, group=HIGH)
    it.gang("c", 1, on=["n002"], gpu=4, group=LOW, ran=9000).gang("d", 1, on=["n003"], gpu=4, group=LOW, ran=9000)
    it.gang("high", 2, gpu=4, group={"members": IN_ONE_RACK, **HIGH}).run(LONG)
    assert sorted(it.evicted) == ["c-0", "d-0"]
    assert it.where("high") == ["n002", "n003"]


def test_the_domain_where_fewest_must_go_is_taken() -> None:
    it = Cluster().nodes(6, gpu=4).facts(Queue("q"), domains=racks(2, 2, 2))
    for number in (0, 1, 2, 4, 5):
        it.gang(f"low{number}", 1, on=[f"n00{number}"], gpu=4, group=LOW)
    it.gang("high", 2, gpu=4, group={"members": IN_ONE_RACK, **HIGH}).run(LONG)
    assert it.evicted == ["low2-0"]
    assert it.where("high") == ["n002", "n003"]


def test_surplus_in_the_right_domain_goes_although_other_members_are_younger() -> None:
    it = Cluster().nodes(4, gpu=4).facts(Queue("q"), domains=racks(2, 2))
    it.gang("stays", 1, on=["n000"], gpu=4, group=HIGH)
    it.gang("elastic", 3, minimum=1, on=["n001", "n002", "n003"], gpu=4, group=LOW)
    it.gang("high", 2, gpu=4, group={"members": IN_ONE_RACK, **HIGH}).run(LONG)
    assert sorted(it.evicted) == ["elastic-1", "elastic-2"]
    assert it.running("elastic") == 1


def test_nobody_is_evicted_where_no_domain_would_hold_the_gang() -> None:
    it = Cluster().nodes(4, gpu=4).facts(Queue("q"), domains=racks(2, 2))
    for number, priority in enumerate((LOW, HIGH, HIGH, LOW)):
        it.gang(f"g{number}", 1, on=[f"n00{number}"], gpu=4, group=priority)
    it.gang("high", 2, gpu=4, group={"members": IN_ONE_RACK, **HIGH}).run(LONG)
    assert it.evicted == []


def test_who_holds_a_port_that_the_gang_needs_goes_although_there_is_room() -> None:
    it = cluster(nodes=2).gang("other", 1, on=["n000"], gpu=1, group=LOW)
    ports = {"host_ports": (HostPort(port=80),)}
    it.gang("low", 1, on=["n001"], gpu=1, group=LOW, shape=ports)
    it.gang("high", 2, gpu=1, group=HIGH, shape=ports).run(LONG)
    assert it.evicted == ["low-0"]
    assert it.where("high") == ["n000", "n001"]


def test_who_keeps_the_gang_away_goes_although_there_is_room() -> None:
    apart = PodTerm(LabelSelector.of({"app": "x"}), "kubernetes.io/hostname", namespaces=("default",))
    it = Cluster().facts(Queue("q"))
    for number in range(2):
        it.nodes(1, first=number, gpu=4, labels={"kubernetes.io/hostname": f"n00{number}"})
    it.gang("low", 1, on=["n000"], gpu=1, group=LOW, shape={"labels": {"app": "x"}})
    it.gang("full", 1, on=["n001"], gpu=4, group=HIGH)
    it.gang("high", 1, gpu=1, group=HIGH, shape={"pod_affinity": PodAffinity(required_apart=(apart,))}).run(LONG)
    assert it.evicted == ["low-0"]
    assert it.running("high") == 1


def test_members_of_several_shapes_get_their_room_together() -> None:
    it = cluster(nodes=3, gpu=4)
    it.gang("low", 2, on=["n000", "n001"], gpu=4, group=LOW)
    it.gang("small", 1, on=["n002"], gpu=2, group=LOW).gang("smaller", 1, on=["n002"], gpu=2, group=LOW, ran=9)
    it.gang("high", 3, gpu=4, others=[{"gpu": 1}], group=HIGH).run(LONG)
    assert it.evicted == ["low-0", "low-1", "smaller-0"]
    assert it.running("high") == 3


# -- no eviction without a start


def test_nobody_is_evicted_for_a_gang_that_would_not_fit_even_then() -> None:
    it = (
        cluster(nodes=3)
        .gang("a", 1, on=["n000"], gpu=4, group=LOW)
        .gang("b", 2, on=["n001", "n002"], gpu=4, group=HIGH)
    )
    it.gang("high", 2, gpu=4, group=HIGH).run(LONG)
    assert it.evicted == []
    assert "would not make enough room" in why(it.plans[-1], "high")


def test_those_who_are_leaving_count_as_gone_and_nobody_else_is_evicted() -> None:
    it = cluster(nodes=2, leave_after=5).gang("a", 1, on=["n000"], gpu=4, group=LOW)
    it.gang("b", 1, on=["n001"], gpu=4, group=LOW).gang("high", 1, gpu=4, group=HIGH)
    it.run(4)
    assert len(it.evicted) == 1
    assert reason(it.plans[-1], "high") is Reason.AWAITING_PREEMPTION
    it.run(LONG)
    assert len(it.evicted) == 1
    assert it.running("high") == 1


def test_each_eviction_says_for_whom_by_which_rule_and_what_it_frees() -> None:
    it = cluster(nodes=1).gang("low", 1, on=["n000"], gpu=4, group={"grace_seconds": 30, **LOW})
    it.gang("high", 1, gpu=4, group=HIGH)
    plan = it.step()
    assert str(plan.evictions[0].why) == (
        'Gang "default/low" must leave for "default/high", whose priority is 9 over 1 in queue "q"; this frees 4 gpu.'
    )
    assert plan.evictions[0].grace_seconds == 30
    assert plan.holds[0].nodes == ("n000",)
    assert plan.holds[0].awaits_leaving
    assert why(plan, "high") == "1 pods are leaving to make room for it."


# -- what was freed is kept


def test_freed_room_is_not_taken_by_somebody_smaller_or_equal() -> None:
    it = cluster(nodes=2, leave_after=3, stagger=True).gang("low", 2, on=["n000", "n001"], gpu=4, group=LOW)
    it.gang("high", 2, gpu=4, group=HIGH).step()
    for number in range(8):
        it.gang(f"small{number}", 1, gpu=1, group=HIGH if number % 2 else LOW)
    it.run(LONG)
    assert it.running("high") == 2
    assert it.evicted == ["low-0", "low-1"]
    assert next(names for names in it.starts if names) == ["default/high"]


def test_who_outranks_the_one_that_room_was_freed_for_gets_it_first() -> None:
    it = cluster(nodes=1, leave_after=3).gang("low", 1, on=["n000"], gpu=4, group=LOW)
    it.gang("middle", 1, gpu=4, group=MIDDLE).step()
    it.gang("high", 1, gpu=4, group=HIGH).run(LONG)
    assert it.evicted == ["low-0"]
    assert it.running("high") == 1
    assert it.running("middle") == 0


def test_kueue_13662_staggered_evictions_end_and_nobody_is_evicted_twice() -> None:
    nodes = [f"n{number:03d}" for number in range(6)]
    it = cluster(nodes=6, leave_after=2, stagger=True)
    for number in range(3):
        it.gang(f"low{number}", 2, on=nodes[2 * number : 2 * number + 2], gpu=4, group=LOW)
    it.gang("high", 3, gpu=4, group=HIGH).run(60)
    assert it.running("high") == 3
    assert len(it.evicted) == len(set(it.evicted)) == 4
    assert sum(it.running(f"low{number}") for number in range(3)) == 2


def test_the_rest_of_a_gang_that_has_lost_members_goes_before_any_other() -> None:
    it = cluster(nodes=4, leave_after=9).gang("broken", 2, on=["n000", "n001"], gpu=4, group=MIDDLE, ran=9999)
    it.gang("low", 2, on=["n002", "n003"], gpu=4, group=LOW, ran=1)
    it.world.assume_evicted("broken-0")
    it.gang("high", 2, gpu=4, group=HIGH)
    assert {evict.pod for evict in it.decide().evictions} == {"default/broken-1"}


def test_yunikorn_3092_room_is_not_held_for_ever_for_victims_that_do_not_leave() -> None:
    it = cluster(nodes=2, leave_after=10_000).gang("stuck", 1, on=["n000"], gpu=4, group=LOW, ran=1)
    it.gang("other", 1, on=["n001"], gpu=4, group=LOW).gang("high", 1, gpu=4, group=HIGH)
    it.run(2)
    assert it.evicted == ["stuck-0"]
    it.run(POLICY.start_timeout_seconds // STEP_SECONDS + 1)
    assert it.evicted == ["stuck-0", "other-0"]


def test_yunikorn_1337_a_preemptor_that_is_gone_holds_nothing() -> None:
    it = cluster(nodes=1).gang("low", 1, on=["n000"], gpu=4, group=LOW).gang("high", 1, gpu=4, group=HIGH)
    it.step()
    it.finish("high")
    it.run(LONG)
    assert it.running("low") == 1
    assert it.evicted == ["low-0"]


def test_room_that_time_will_give_to_one_is_not_taken_by_another_that_evicts() -> None:
    it = Cluster().nodes(3, gpu=4).facts(Queue("a"), Queue("b"))
    it.gang("ends", 1, queue="a", on=["n001"], gpu=4, group={"expected_duration_seconds": 9000, **HIGH})
    it.gang("low", 1, queue="b", on=["n002"], gpu=4, group=LOW)
    it.gang("first", 2, queue="a", gpu=4, group=MIDDLE).gang("second", 2, queue="b", gpu=4, group=MIDDLE)
    assert it.run(LONG).evicted == []
    it.finish("ends")
    assert it.run(3).running("first") == 2


# -- quota


def test_lower_members_of_a_full_queue_go_although_the_cluster_has_room() -> None:
    it = cluster(nodes=4, queue=Queue("q", quotas=(Quota("gpu", capability=8),)))
    it.gang("low", 1, on=["n000"], gpu=4, group=LOW).gang("lower", 1, on=["n001"], gpu=4, group=LOW, ran=5)
    it.gang("high", 1, gpu=4, group=HIGH).run(LONG)
    assert it.evicted == ["lower-0"]
    assert it.running("high") == 1


def test_kueue_11480_quota_is_not_given_twice_while_victims_are_leaving() -> None:
    it = cluster(nodes=4, queue=Queue("q", quotas=(Quota("gpu", capability=8),)), leave_after=4)
    it.gang("low", 2, on=["n000", "n001"], gpu=4, group=LOW).gang("high", 1, gpu=4, group=HIGH)
    it.step()
    it.gang("other", 1, gpu=4, group=HIGH)
    for _ in range(LONG):
        it.step()
        in_use = sum(4 for name in ("low", "high", "other") for _ in it.where(name))
        assert in_use <= 8
    assert it.running("high") == it.running("other") == 1


# -- bounds


def test_no_more_searches_than_the_policy_allows() -> None:
    it = cluster(nodes=1, policy=msgspec.structs.replace(POLICY, max_victim_searches=0))
    it.gang("low", 1, on=["n000"], gpu=4, group=LOW).gang("high", 1, gpu=4, group=HIGH).run(3)
    assert it.evicted == []


def test_groups_alike_are_searched_for_once() -> None:
    it = cluster(nodes=2).gang("low", 1, on=["n000"], gpu=4, group=LOW).gang("full", 1, on=["n001"], gpu=4, group=HIGH)
    for number in range(10):
        it.gang(f"high{number}", 2, gpu=4, group=HIGH)
    desk = it.desk()
    for number in range(10):
        entry = desk.work.snapshot.groups[f"default/high{number}"]
        refusal = desk.allocate.start(entry)
        assert isinstance(refusal, Refusal)
        assert isinstance(desk.preempt.make_room(entry, refusal), Refusal)
    assert desk.preempt.searches == 1


# -- what is said to those who must leave


def test_a_gang_that_is_evicted_waits_because_it_was_preempted() -> None:
    it = cluster(leave_after=3).gang("low", 2, on=["n000", "n001"], gpu=4, group=LOW).gang("high", 2, gpu=4, group=HIGH)
    plan = it.step()
    assert {evict.why.reason for evict in plan.evictions} == {Reason.PREEMPTED}
    assert reason(plan, "low") is Reason.PREEMPTED
    assert 'must leave for "default/high"' in why(plan, "low")


def test_who_can_spare_the_evicted_members_is_not_told_to_wait() -> None:
    it = cluster(nodes=1).gang("low", 4, minimum=1, on=["n000"] * 4, gpu=1, group=LOW)
    it.gang("high", 1, gpu=2, group=HIGH)
    plan = it.step()
    assert len(plan.evictions) == 2
    assert {evict.why.reason for evict in plan.evictions} == {Reason.PREEMPTED}
    assert [wait.group for wait in plan.waits] == ["default/high"]


# -- who says that nobody is to leave for it


def test_a_gang_whose_preemption_policy_is_never_waits_its_turn() -> None:
    it = cluster().gang("low", 2, on=["n000", "n001"], gpu=4, group=LOW)
    it.gang("polite", 2, gpu=4, group=HIGH, shape={"preemption_policy_never": True})
    plan = it.step()
    assert plan.evictions == ()
    assert "Nobody is evicted for it, since its preemption policy is Never." in why(plan, "polite")
    assert it.run(LONG).evicted == []


def test_one_polite_member_is_enough_and_another_gang_that_asks_for_the_same_is_not_bound_by_it() -> None:
    it = cluster().gang("low", 2, on=["n000", "n001"], gpu=4, group=LOW)
    it.gang("polite", 1, gpu=4, group={"priority": 10}, shape={"preemption_policy_never": True})
    it.gang("high", 1, gpu=4, group=HIGH)
    plan = it.step()
    assert {evict.for_group for evict in plan.evictions} == {"default/high"}


# -- searches are bounded, and everybody gets one


def hopeless_and_one(hopeless: int, searches: int) -> Cluster:
    """Two nodes, full; gangs that are too large for both; and behind them, by name, one that is not."""
    it = cluster(policy=msgspec.structs.replace(POLICY, max_victim_searches=searches))
    it.gang("low", 2, on=["n000", "n001"], gpu=4, group=LOW)
    for number in range(hopeless):
        user = Identity(f"user-{number}", ())
        it.gang(f"hopeless-{number:03d}", 3, gpu=4, group={"identity": user, **MIDDLE})
    return it.gang("last", 2, gpu=4, group=MIDDLE)


@pytest.mark.parametrize("searches", [1, 2, 3, 8, 64])
@pytest.mark.parametrize("hopeless", [0, 1, 7, 20])
def test_hopeless_gangs_ahead_do_not_use_up_every_search_for_ever(hopeless: int, searches: int) -> None:
    it = hopeless_and_one(hopeless, searches)
    turns = -(-(hopeless + 1) // max(1, searches // 2))
    it.run(3 * turns * TURN_SECONDS // STEP_SECONDS + 3)
    assert it.running("last") == 2
    assert it.evicted == ["low-0", "low-1"]


def test_behind_a_hundred_hopeless_gangs_a_gang_gets_its_search_within_few_cycles() -> None:
    it = hopeless_and_one(100, POLICY.max_victim_searches).run(8)
    assert it.running("last") == 2


def test_whose_turn_it_is_does_not_depend_on_what_was_searched_before() -> None:
    it = hopeless_and_one(20, 4)
    for _ in range(12):
        fresh = it.decide()
        assert it.step() == fresh
    assert it.running("last") == 2


def test_a_world_in_which_a_search_was_put_off_wakes_up_for_it() -> None:
    it = hopeless_and_one(20, 2)
    it.step()
    assert it.memo.wakes_at is not None
    assert it.memo.wakes_at <= it.now - STEP_SECONDS + TURN_SECONDS


def test_no_search_is_made_for_those_who_are_behind_if_none_is_allowed() -> None:
    assert hopeless_and_one(3, 0).run(LONG).evicted == []
