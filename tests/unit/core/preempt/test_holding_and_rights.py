"""Who is served before the queues, what counts as free soon, and whose nodes nobody may take."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from allhands.core.actions.allocate import Refusal
from allhands.core.actions.eviction_words import protected, with_note
from allhands.core.actions.holding import Preempted
from allhands.core.facts import Reservation
from allhands.core.plan import Evict
from allhands.model.flavor import Flavor
from allhands.model.group_status import GroupStatus
from allhands.model.identity import Identity
from allhands.model.queue import Queue, QueueOrder, QueueState, Quota
from allhands.model.reason import Reason, explain
from tests.core_harness import POLICY, Cluster

if TYPE_CHECKING:
    from tests.core_harness import Desk

LOW, HIGH = {"priority": 1}, {"priority": 9}


def ask(desk: Desk, name: str = "high") -> Preempted | Refusal:
    entry = desk.work.snapshot.groups[f"default/{name}"]
    refusal = desk.allocate.start(entry)
    assert isinstance(refusal, Refusal)
    return desk.preempt.make_room(entry, refusal)


def test_those_for_whom_others_leave_come_first_with_those_of_their_queue_who_outrank_them() -> None:
    it = Cluster().nodes(2, gpu=4).facts(Queue("a", quotas=(Quota("gpu", deserved=4),)), Queue("b"))
    it.gang("higher", 1, queue="a", gpu=2, group={"priority": 9})
    it.gang("high-and-large", 2, queue="a", gpu=4, group={"priority": 9})
    it.gang("equal", 1, queue="a", gpu=2, group={"priority": 5}).gang(
        "held", 1, queue="a", gpu=2, group={"priority": 5}
    )
    it.gang("lower", 1, queue="a", gpu=2, group={"priority": 1})
    it.gang("elsewhere", 1, queue="b", gpu=2, group={"priority": 9})
    entries = list(it.snapshot().groups.values())
    assert it.desk().preempt.promised(entries) == []
    it.world.set_group(it.snapshot().groups["default/held"].group, GroupStatus(preempting_since_seconds=it.now))
    desk = it.desk()
    found = desk.preempt.promised(desk.work.snapshot.groups.values())
    assert [entry.group.name for entry in found] == ["held", "higher"]


def test_what_others_evict_in_the_same_cycle_is_free_soon_and_nobodys_victim() -> None:
    it = Cluster().nodes(2, gpu=4).facts(Queue("q"))
    it.gang("going", 1, on=["n000"], gpu=4, group=LOW).gang("low", 1, on=["n001"], gpu=4, group=LOW)
    it.gang("high", 1, gpu=4, group=HIGH)
    desk = it.desk()
    why = explain(Reason.SUSPENDED)
    desk.preempt.also_leaving([Evict("default/going-0", "going-0", "n000", "default/going", "", why)])
    made = ask(desk)
    assert isinstance(made, Preempted)
    assert made.evictions == ()
    assert made.hold.nodes == ("n000",)


def test_groups_that_are_decided_already_are_no_victims() -> None:
    it = Cluster().nodes(1, gpu=4).facts(Queue("q")).gang("begun", 1, on=["n000"], gpu=4, group=LOW)
    desk = it.gang("high", 1, gpu=4, group=HIGH).desk()
    desk.preempt.decided.add("default/begun")
    assert isinstance(ask(desk), Refusal)


def test_held_room_is_taken_and_charged_while_its_owners_are_still_there() -> None:
    it = Cluster().nodes(1, gpu=4).facts(Queue("q", quotas=(Quota("gpu", capability=8),)))
    desk = it.gang("low", 1, on=["n000"], gpu=4, group=LOW).gang("high", 1, gpu=4, group=HIGH).desk()
    assert isinstance(ask(desk), Preempted)
    column = desk.work.snapshot.columns.column_by_resource["gpu"]
    assert desk.work.room.free[column].tolist() == [-4]
    assert desk.charges.book.use("q", "gpu") == 8


@pytest.mark.parametrize("entitled", [False, True], ids=["for others", "for the queue itself"])
def test_nodes_of_a_window_are_for_those_who_are_entitled(entitled: bool) -> None:
    it = Cluster().nodes(1, gpu=4)
    window = Reservation("w", it.now + 50, it.now + 500, nodes=("n000",), queues=("q",) if entitled else ())
    it.facts(Queue("q"), reservations=(window,))
    desk = it.gang("low", 1, on=["n000"], gpu=4, group=LOW).gang("high", 1, gpu=4, group=HIGH).desk()
    assert isinstance(ask(desk), Preempted) is entitled


def test_a_short_run_may_use_a_node_that_is_closed_only_later() -> None:
    it = Cluster().nodes(1, gpu=4)
    it.facts(Queue("q"), reservations=(Reservation("w", it.now + 50, it.now + 500, nodes=("n000",)),))
    it.gang("low", 1, on=["n000"], gpu=4, group=LOW)
    it.gang("high", 1, gpu=4, group={"expected_duration_seconds": 20, **HIGH})
    assert isinstance(ask(it.desk()), Preempted)


def test_a_limit_on_running_groups_is_made_room_under_as_well() -> None:
    it = Cluster().nodes(9, gpu=4).facts(Queue("q", max_running_groups=2))
    for number in range(2):
        it.gang(f"low{number}", 1, on=[f"n00{number}"], gpu=4, ran=10 * number, group=LOW)
    made = ask(it.gang("high", 1, gpu=4, group=HIGH).desk())
    assert isinstance(made, Preempted)
    assert [evict.pod for evict in made.evictions] == ["default/low0-0"]


def test_a_limit_of_a_user_is_not_met_by_evicting_another() -> None:
    it = Cluster().nodes(9, gpu=4).facts(Queue("q", max_running_groups_per_user=1))
    me, you = ({"identity": Identity(name), **LOW} for name in ("me", "you"))
    it.gang("mine", 1, on=["n000"], gpu=4, group={**me, "preemptible": False})
    it.gang("yours", 1, on=["n001"], gpu=4, group=you)
    it.gang("high", 1, gpu=4, group={**me, **HIGH})
    assert isinstance(ask(it.desk()), Refusal)


def test_members_that_a_gang_can_spare_do_not_free_a_running_group() -> None:
    it = Cluster().nodes(9, gpu=4).facts(Queue("q", max_running_groups=1))
    it.gang("elastic", 2, minimum=1, on=["n000", "n001"], gpu=4, group=LOW)
    made = ask(it.gang("high", 1, gpu=4, group=HIGH).desk())
    assert isinstance(made, Preempted)
    assert len(made.evictions) == 2


def test_the_first_of_a_strict_queue_makes_room_and_those_behind_wait() -> None:
    it = Cluster().nodes(2, gpu=4).facts(Queue("q", order=QueueOrder.FIFO_STRICT))
    it.gang("low", 2, on=["n000", "n001"], gpu=4, group=LOW)
    it.gang("high", 1, gpu=4, group=HIGH).gang("next", 1, gpu=4, group=HIGH)
    it.run(10)
    assert it.running("high") == it.running("next") == 1
    assert len(it.evicted) == 2


def test_a_closed_queue_makes_no_room() -> None:
    it = Cluster().nodes(1, gpu=4).facts(Queue("q", state=QueueState.HOLD))
    it.gang("low", 1, on=["n000"], gpu=4, group=LOW).gang("high", 1, gpu=4, group=HIGH)
    assert it.run(3).evicted == []


def test_a_queue_that_does_not_exist_makes_no_room() -> None:
    it = Cluster().nodes(1, gpu=4).facts(Queue("other"))
    it.gang("low", 1, on=["n000"], gpu=4, group=LOW).gang("high", 1, gpu=4, group=HIGH)
    assert it.run(3).evicted == []


def test_nodes_to_be_avoided_are_avoided() -> None:
    it = Cluster().nodes(2, gpu=4).facts(Queue("q"))
    for number in range(2):
        it.gang(f"low{number}", 1, on=[f"n00{number}"], gpu=4, ran=100 * number, group=LOW)
    it.gang("high", 1, gpu=4, group=HIGH)
    snapshot = it.snapshot()
    entry = snapshot.groups["default/high"]
    it.world.set_group(entry.group, GroupStatus(avoid_nodes=("n000",)))
    made = ask(it.desk())
    assert isinstance(made, Preempted)
    assert [evict.node for evict in made.evictions] == ["n001"]


def test_gangs_of_an_unknown_group_are_left_alone() -> None:
    it = Cluster().nodes(1, gpu=4).facts(Queue("q")).gang("low", 1, on=["n000"], gpu=4, group=LOW)
    it.world.delete_group("default/low")
    assert isinstance(ask(it.gang("high", 1, gpu=4, group=HIGH).desk()), Refusal)


def test_in_flavors_what_is_given_back_is_that_of_the_node() -> None:
    it = Cluster().nodes(1, gpu=4, labels={"kind": "old"}).nodes(2, first=1, gpu=4, labels={"kind": "new"})
    quotas = (Quota("gpu", "old", capability=4), Quota("gpu", "new", capability=4))
    flavors = tuple(Flavor(name, node_labels=(("kind", name),)) for name in ("old", "new"))
    it.facts(Queue("q", quotas=quotas), flavors=flavors)
    it.gang("full", 1, on=["n000"], gpu=4, group=HIGH).gang("low", 1, on=["n001"], gpu=4, group=LOW)
    made = ask(it.gang("high", 1, gpu=4, group=HIGH).desk())
    assert isinstance(made, Preempted)
    assert [evict.pod for evict in made.evictions] == ["default/low-0"]
    assert made.start.flavor == "new"


def test_words_about_protection_count_gangs() -> None:
    assert protected({}, 0) == ""
    assert protected({"their minimum run time": 3}, 3) == (
        "No room can be made: 3 gangs are protected by their minimum run time."
    )
    assert protected({"x": 1}, 3) == (
        "No room can be made: 1 gang is protected by x, evicting 2 other gangs would not make enough room."
    )
    assert protected({"x": 1}, 4, {"budgets": 2}) == (
        "No room can be made: 1 gang is protected by x, only a part of 2 gangs may go by budgets, "
        "evicting the one other gang would not make enough room."
    )
    why = explain(Reason.INSUFFICIENT_RESOURCES, fits=1, need=2, resource="gpu", short="1")
    assert str(with_note(why, "And so on.")) == f"{why} And so on."
    assert with_note(why, "") is why


def test_without_patience_those_who_do_not_leave_count_as_there() -> None:
    it = Cluster(leave_after=9999).nodes(1, gpu=4).facts(Queue("q")).gang("low", 1, on=["n000"], gpu=4, group=LOW)
    it.gang("high", 1, gpu=4, group=HIGH).run(2)
    assert [hold.group for hold in it.plans[-1].holds] == ["default/high"]
    it.run(POLICY.start_timeout_seconds // 10 + 2)
    assert [hold for hold in it.plans[-1].holds if hold.start_seconds is None and hold.group != "default/high"] == []
    assert msgspec.json.encode(it.plans[-1].evictions) == b"[]"
