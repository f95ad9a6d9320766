"""Reclaim across queues: who is owed gets it back, no more than that, and nobody takes it back again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from allhands.model.flavor import Flavor
from allhands.model.queue import Account, Queue, Quota
from tests.core_harness import POLICY, Cluster

if TYPE_CHECKING:
    from allhands.core.plan import Plan

LONG = 25
LOW, HIGH = {"priority": 1}, {"priority": 9}


def deserves(gpu: int, guarantee: int | None = None) -> tuple[Quota, ...]:
    return (Quota("gpu", deserved=gpu, guarantee=guarantee),)


def nodes_of(count: int) -> list[str]:
    return [f"n{number:03d}" for number in range(count)]


def borrowed(
    *, gangs: int = 4, lender: Queue | None = None, borrower: Queue | None = None, **options: object
) -> Cluster:
    """Four nodes, half of them deserved by each queue, all of them in use by `b`."""
    it = Cluster(**options).nodes(gangs, gpu=1)  # type: ignore[arg-type]
    it.facts(lender or Queue("a", quotas=deserves(2)), borrower or Queue("b", quotas=deserves(2)))
    for number in range(gangs):
        it.gang(f"b{number}", 1, queue="b", on=[f"n{number:03d}"], gpu=1, ran=100 * number + 100)
    return it


def running(it: Cluster, prefix: str, count: int) -> int:
    return sum(it.running(f"{prefix}{number}") for number in range(count))


def why(plan: Plan, name: str) -> str:
    return next(str(wait.explanation) for wait in plan.waits if wait.group == f"default/{name}")


def test_what_is_owed_is_taken_back_and_not_more() -> None:
    it = borrowed()
    for number in range(4):
        it.gang(f"a{number}", 1, queue="a", gpu=1)
    it.run(LONG)
    assert it.evicted == ["b0-0", "b1-0"]
    assert running(it, "a", 4) == 2
    assert running(it, "b", 4) == 2


def test_a_gang_that_would_go_beyond_its_part_takes_nothing() -> None:
    it = borrowed().gang("large", 3, queue="a", gpu=1)
    assert it.run(LONG).evicted == []


def test_each_eviction_says_what_is_owed_in_numbers() -> None:
    it = borrowed().gang("mine", 1, queue="a", gpu=1)
    plan = it.step()
    assert str(plan.evictions[0].why) == (
        'Gang "default/b0" must leave for "default/mine": queue "a" uses 0 of the 2 gpu that it deserves, '
        'queue "b" 4 of 2; this frees 1 gpu.'
    )


@pytest.mark.parametrize(
    ("lender", "borrower"),
    [
        (Queue("a", quotas=deserves(2), can_reclaim=False), None),
        (None, Queue("b", quotas=deserves(2), reclaimable=False)),
    ],
    ids=["one that may not reclaim", "one that is not reclaimable"],
)
def test_switches_of_queues_are_kept(lender: Queue | None, borrower: Queue | None) -> None:
    it = borrowed(lender=lender, borrower=borrower).gang("mine", 1, queue="a", gpu=1)
    assert it.run(LONG).evicted == []


def test_a_policy_that_does_not_reclaim_takes_nothing() -> None:
    it = borrowed(policy=msgspec.structs.replace(POLICY, reclaims=False)).gang("mine", 1, queue="a", gpu=1)
    assert it.run(LONG).evicted == []


def test_the_priority_of_a_borrower_does_not_protect_it() -> None:
    it = Cluster().nodes(1, gpu=1).facts(Queue("a", quotas=deserves(1)), Queue("b", quotas=deserves(0)))
    it.gang("proud", 1, queue="b", on=["n000"], gpu=1, group=HIGH).gang("mine", 1, queue="a", gpu=1, group=LOW)
    assert it.run(LONG).evicted == ["proud-0"]


def test_the_queue_of_lower_priority_gives_back_first() -> None:
    it = Cluster().nodes(2, gpu=1)
    it.facts(
        Queue("a", quotas=deserves(2)),
        Queue("b", quotas=deserves(0), priority=5),
        Queue("c", quotas=deserves(0), priority=1),
    )
    it.gang("b0", 1, queue="b", on=["n000"], gpu=1, ran=1).gang("c0", 1, queue="c", on=["n001"], gpu=1, ran=9000)
    it.gang("mine", 1, queue="a", gpu=1)
    assert it.run(LONG).evicted == ["c0-0"]


def test_a_gang_larger_than_what_is_too_much_goes_only_if_nothing_smaller_does() -> None:
    it = Cluster().nodes(4, gpu=1).facts(Queue("a", quotas=deserves(2)), Queue("b", quotas=deserves(2)))
    it.gang("large", 3, queue="b", on=["n000", "n001", "n002"], gpu=1, ran=1)
    it.gang("small", 1, queue="b", on=["n003"], gpu=1, ran=9000)
    it.gang("mine", 1, queue="a", gpu=1).run(LONG)
    assert it.evicted == ["small-0"]
    it.gang("more", 1, queue="a", gpu=1).run(LONG)
    assert sorted(it.evicted) == ["large-0", "large-1", "large-2", "small-0"]
    assert it.running("small") == 1


def test_surplus_members_of_a_borrower_go_before_whole_gangs() -> None:
    it = Cluster().nodes(4, gpu=1).facts(Queue("a", quotas=deserves(2)), Queue("b", quotas=deserves(2)))
    it.gang("elastic", 3, minimum=1, queue="b", on=nodes_of(3), gpu=1)
    it.gang("small", 1, queue="b", on=["n003"], gpu=1, ran=1).gang("mine", 2, queue="a", gpu=1).run(LONG)
    assert all(pod.startswith("elastic") for pod in it.evicted)
    assert (it.running("mine"), it.running("elastic"), it.running("small")) == (2, 1, 1)


def test_a_guarantee_is_never_cut() -> None:
    it = Cluster().nodes(4, gpu=1)
    it.facts(Queue("a", quotas=deserves(3)), Queue("b", quotas=deserves(1, guarantee=1)))
    it.gang("large", 4, queue="b", on=nodes_of(4), gpu=1).gang("mine", 3, queue="a", gpu=1)
    assert it.run(LONG).evicted == []


# -- no loops


def test_kueue_804_two_queues_never_claim_the_same_victim() -> None:
    it = Cluster(leave_after=3).nodes(4, gpu=1)
    it.facts(*(Queue(name, quotas=deserves(units)) for name, units in (("a", 1), ("b", 1), ("c", 2))))
    for number in range(4):
        it.gang(f"c{number}", 1, queue="c", on=[f"n00{number}"], gpu=1)
    it.gang("mine", 1, queue="a", gpu=1).gang("yours", 1, queue="b", gpu=1)
    first = it.step()
    assert len({evict.pod for evict in first.evictions}) == 2
    assert {evict.for_group for evict in first.evictions} == {"default/mine", "default/yours"}
    it.run(LONG)
    assert it.running("mine") == it.running("yours") == 1
    assert len(it.evicted) == 2


def test_kueue_3779_victims_that_come_back_do_not_take_anything_back() -> None:
    it = borrowed(leave_after=2, stagger=True)
    for number in range(3):
        it.gang(f"a{number}", 1, queue="a", gpu=1)
    it.run(60)
    assert len(it.evicted) == 2
    assert running(it, "a", 3) == running(it, "b", 4) == 2


def test_kueue_6947_queues_of_weight_zero_lose_what_they_borrow_and_never_reclaim() -> None:
    it = Cluster().nodes(4, gpu=1).facts(Queue("a"), Queue("none", weight_millis=0))
    for number in range(4):
        it.gang(f"n{number}", 1, queue="none", on=[f"n00{number}"], gpu=1)
    for number in range(4):
        it.gang(f"a{number}", 1, queue="a", gpu=1)
    it.run(60)
    assert len(it.evicted) == 4
    assert running(it, "a", 4) == 4
    for number in range(4):
        it.finish(f"a{number}")
    it.run(LONG)
    assert running(it, "n", 4) == 4
    assert len(it.evicted) == 4


def test_all_queues_of_weight_zero_leave_each_other_alone() -> None:
    it = Cluster().nodes(2, gpu=1).facts(Queue("x", weight_millis=0), Queue("y", weight_millis=0))
    it.gang("x0", 2, queue="x", on=["n000", "n001"], gpu=1).gang("y0", 1, queue="y", gpu=1)
    assert it.run(LONG).evicted == []


def test_yunikorn_2795_siblings_below_one_parent_do_not_evict_each_other_in_turn() -> None:
    it = Cluster(leave_after=1).nodes(4, gpu=1)
    it.facts(
        Account("parent", quotas=deserves(0)),
        Queue("a", parent="parent", quotas=deserves(2)),
        Queue("b", parent="parent", quotas=deserves(2)),
        Queue("outside", quotas=deserves(0)),
    )
    for number in range(4):
        it.gang(f"b{number}", 1, queue="b", on=[f"n00{number}"], gpu=1)
    for number in range(4):
        it.gang(f"a{number}", 1, queue="a", gpu=1)
    it.run(60)
    assert len(it.evicted) == 2
    assert running(it, "a", 4) == running(it, "b", 4) == 2


def test_a_family_that_is_owed_takes_from_a_stranger_and_not_from_its_own() -> None:
    it = Cluster().nodes(4, gpu=1)
    it.facts(
        Queue("family", quotas=deserves(2)),
        Queue("a", parent="family", quotas=deserves(1)),
        Queue("b", parent="family", quotas=deserves(1)),
        Queue("stranger", quotas=deserves(2)),
    )
    it.gang("b0", 1, queue="b", on=["n000"], gpu=1, ran=1)
    it.gang("s0", 3, minimum=2, queue="stranger", on=["n001", "n002", "n003"], gpu=1)
    it.gang("mine", 1, queue="a", gpu=1).run(LONG)
    assert len(it.evicted) == 1
    assert it.evicted[0].startswith("s0")


def test_what_was_given_back_to_one_is_not_used_up_by_a_larger_one_that_would_lose_it_again() -> None:
    it = Cluster(leave_after=2).nodes(2, gpu=4).facts(Queue("a", quotas=deserves(3)), Queue("b", quotas=deserves(5)))
    it.gang("borrower", 2, queue="a", on=nodes_of(2), gpu=4, group=HIGH)
    it.gang("small", 1, queue="b", gpu=4, group={"preemptible": False}).gang("large", 4, queue="b", gpu=2, group=LOW)
    it.run(60)
    assert it.evicted == ["borrower-0", "borrower-1"]
    assert it.running("small") == 1


@pytest.mark.parametrize("leave_after", [0, 1, 4], ids=["at once", "soon", "late"])
def test_many_queues_with_too_much_to_do_come_to_rest(leave_after: int) -> None:
    it = Cluster(leave_after=leave_after, stagger=True).nodes(6, gpu=2)
    it.facts(*(Queue(f"q{number}", weight_millis=1000 * number) for number in range(4)))
    for queue in range(4):
        for number in range(4):
            priority = {"priority": number % 2}
            it.gang(f"g{queue}{number}", 1 + number % 3, queue=f"q{queue}", gpu=1, minimum=1, group=priority)
    it.run(80)
    before = len(it.evicted)
    it.run(60)
    assert len(it.evicted) == before


# -- with priority and with quota


def test_own_members_of_lower_priority_make_the_queue_owed_the_rest() -> None:
    it = Cluster().nodes(4, gpu=1).facts(Queue("a", quotas=deserves(2)), Queue("b", quotas=deserves(2)))
    it.gang("b0", 3, minimum=1, queue="b", on=["n000", "n001", "n002"], gpu=1)
    it.gang("mine", 1, queue="a", on=["n003"], gpu=1, group=LOW).gang("better", 2, queue="a", gpu=1, group=HIGH)
    it.run(LONG)
    assert it.running("better") == 2
    assert it.running("mine") == 0
    assert len(it.evicted) == 2


def test_quota_that_a_sibling_has_borrowed_comes_back_although_the_cluster_has_room() -> None:
    it = Cluster().nodes(9, gpu=1)
    it.facts(
        Account("cohort", quotas=deserves(0)),
        Queue("a", parent="cohort", quotas=deserves(2)),
        Queue("b", parent="cohort", quotas=deserves(2)),
    )
    for number in range(4):
        it.gang(f"b{number}", 1, queue="b", on=[f"n00{number}"], gpu=1, ran=100 + number)
    it.gang("mine", 1, queue="a", gpu=1).run(LONG)
    assert len(it.evicted) == 1
    assert it.running("mine") == 1


def test_kueue_13607_a_flavor_that_fits_comes_before_one_that_needs_victims() -> None:
    it = Cluster().nodes(1, gpu=1, labels={"kind": "old"}).nodes(1, first=1, gpu=1, labels={"kind": "new"})
    quotas = (Quota("gpu", "old", deserved=1), Quota("gpu", "new", deserved=1))
    flavors = (Flavor("old", node_labels=(("kind", "old"),)), Flavor("new", node_labels=(("kind", "new"),)))
    it.facts(Queue("a", quotas=quotas), flavors=flavors)
    it.gang("low", 1, queue="a", on=["n000"], gpu=1, group=LOW).gang("high", 1, queue="a", gpu=1, group=HIGH)
    it.run(LONG)
    assert it.evicted == []
    assert it.where("high") == ["n001"]
