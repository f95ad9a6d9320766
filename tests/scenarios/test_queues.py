"""Queues as a platform engineer sets them up: who goes next, how much a queue may have, and what its state does."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from allhands.model.flavor import Flavor
from allhands.model.identity import Identity
from allhands.model.queue import Account, Queue, QueueOrder, QueueState
from allhands.model.reason import Reason
from tests.scenarios.cluster import Cluster, cpu, nodes_of, started

STRICT, BEST_EFFORT = QueueOrder.FIFO_STRICT, QueueOrder.FIFO_BEST_EFFORT


# -- order within a queue


def test_in_a_queue_higher_priority_goes_first_then_the_older() -> None:
    it = Cluster("n1", cpu=8)
    it.gang("late", 1, group={"created_at_seconds": 30}).gang("early", 1, group={"created_at_seconds": 10})
    it.gang("urgent", 1, group={"created_at_seconds": 50, "priority": 5})
    assert started(it.decide()) == ["urgent", "early", "late"]


def test_in_a_best_effort_queue_those_who_fit_pass_those_who_do_not() -> None:
    it = Cluster("n1").know(Queue("q", order=BEST_EFFORT)).gang("big", 2, cpu=3).gang("small", 1).settle()
    assert (it.running("big"), it.running("small")) == (0, 1)


def test_in_a_strict_queue_nobody_passes_the_first() -> None:
    it = Cluster("n1 n2").know(Queue("q", order=STRICT)).gang("runs", 1, cpu=2, on="n1")
    it.gang("big", 2, cpu=3).gang("small", 1).gang("smaller", 1).settle()
    assert (it.running("big"), it.running("small")) == (0, 0)
    assert it.why("small") == 'The group is number 2 of 3 in queue "q".'
    assert it.why("smaller") == 'The group is number 3 of 3 in queue "q".'
    it.finish("runs").settle()
    assert (it.running("big"), it.running("small"), it.running("smaller")) == (2, 1, 1)


def test_in_a_strict_queue_those_behind_one_who_can_never_start_are_told_who_that_is() -> None:
    it = Cluster("n1 n2").know(Queue("q", order=STRICT)).gang("huge", 3, cpu=4).gang("small", 1).settle()
    assert it.running("small") == 0
    assert it.wait("huge").explanation.is_never
    assert it.why("small") == (
        'The group is number 2 of 2 in queue "q". '
        'The first of them, "default/huge", can never start as things are, and nobody passes it in this queue.'
    )


def test_a_strict_queue_does_not_hold_up_other_queues() -> None:
    it = Cluster("n1").know(Queue("strict", order=STRICT), Queue("other"))
    it.gang("big", 2, cpu=3, queue="strict").gang("stuck", 1, queue="strict").gang("free", 1, queue="other").settle()
    assert (it.running("stuck"), it.running("free")) == (0, 1)


def test_a_group_that_is_set_aside_does_not_hold_up_a_strict_queue() -> None:
    it = Cluster("n1").know(Queue("q", order=STRICT))
    it.gang("suspended", 1, group={"suspended": True}).gang("too few", 1, minimum=2).gang("next", 1).settle()
    assert it.running("next") == 1
    assert it.reason("suspended") is Reason.SUSPENDED


# -- order among queues


def test_the_queue_of_higher_priority_is_served_first() -> None:
    it = Cluster("n1", cpu=1).know(Queue("low", priority=1), Queue("high", priority=2))
    it.gang("a", 1, queue="low", group={"priority": 100}).gang("b", 1, queue="high").settle()
    assert (it.running("a"), it.running("b")) == (0, 1)


def test_queues_of_equal_priority_take_turns_by_what_they_have() -> None:
    it = Cluster("n1").know(Queue("a"), Queue("b"))
    for number in range(4):
        it.gang(f"a{number}", 1, queue="a").gang(f"b{number}", 1, queue="b")
    it.settle()
    assert sum(it.running(f"a{number}") for number in range(4)) == 2
    assert sum(it.running(f"b{number}") for number in range(4)) == 2


def test_a_queue_of_three_times_the_weight_gets_three_times_as_much() -> None:
    it = Cluster("n1 n2").know(Queue("a", weight_millis=3000), Queue("b", weight_millis=1000))
    for number in range(8):
        it.gang(f"a{number}", 1, queue="a").gang(f"b{number}", 1, queue="b")
    it.settle()
    assert sum(it.running(f"a{number}") for number in range(8)) == 6


# -- how much


class Limit(NamedTuple):
    sentence: str
    accounts: tuple[Account | Queue, ...]
    runs: int
    """Of six groups of one core, on a cluster of eight."""
    reason: Reason | None = None
    text: str = ""


TREE = Account("company", quotas=(cpu(capability=4),))
LIMITS = [
    Limit("a queue without quotas may have everything", (Queue("q"),), 6),
    Limit(
        "a queue stops at its capability",
        (Queue("q", quotas=(cpu(capability=4),)),),
        4,
        Reason.QUEUE_OVER_CAPABILITY,
        'Queue "q" uses 4 of its capability of 4 cpu; the group asks for 1.',
    ),
    Limit(
        "a capability of nothing lets nothing start",
        (Queue("q", quotas=(cpu(capability=0),)),),
        0,
        Reason.QUEUE_OVER_CAPABILITY,
    ),
    Limit(
        "a queue stops at the capability of the account above it, which is named",
        (TREE, Queue("q", "company", (cpu(capability=6),))),
        4,
        Reason.QUEUE_OVER_CAPABILITY,
        'Queue "company" uses 4 of its capability of 4 cpu; the group asks for 1.',
    ),
    Limit(
        "a queue that deserves less than it asks for borrows what is free", (Queue("q", quotas=(cpu(deserved=2),)),), 6
    ),
    Limit(
        "a queue borrows no more than it may",
        (Queue("q", quotas=(cpu(deserved=2, borrowing_limit=1),)),),
        3,
        Reason.BORROWING_LIMIT,
        'Queue "q" already borrows 1 cpu of at most 1; the group asks for 1.',
    ),
    Limit(
        "a queue gets nothing of what is guaranteed to another that does not use it",
        (Queue("q"), Queue("other", quotas=(cpu(guarantee=5),))),
        3,
        Reason.QUEUE_OVER_DESERVED,
    ),
    Limit(
        "a sibling lends no more than it may",
        (
            Account("company", quotas=(cpu(deserved=0),)),
            Queue("q", "company", (cpu(deserved=1),)),
            Queue("other", "company", (cpu(deserved=4, lending_limit=1),)),
        ),
        2,
        Reason.QUEUE_OVER_DESERVED,
    ),
    Limit("a quota for another resource limits nothing", (Queue("q", quotas=()),), 6),
]


@pytest.mark.parametrize("limit", LIMITS, ids=[limit.sentence for limit in LIMITS])
def test_how_much_a_queue_may_have(limit: Limit) -> None:
    it = Cluster("n1 n2").know(*limit.accounts)
    for number in range(6):
        it.gang(f"g{number}", 1)
    it.settle()
    assert sum(it.running(f"g{number}") for number in range(6)) == limit.runs
    if limit.reason is not None:
        assert it.reason("g5") is limit.reason
    if limit.text:
        assert it.why("g5") == limit.text


def test_a_group_charges_accounts_in_several_trees_at_once() -> None:
    it = Cluster("n1 n2").know(Queue("q"), Account("project", quotas=(cpu(capability=3),)), Account("grant"))
    for number in range(5):
        it.gang(f"g{number}", 1, group={"accounts": ("q", "project", "grant")})
    it.settle()
    assert sum(it.running(f"g{number}") for number in range(5)) == 3
    assert it.why("g4") == 'Queue "project" uses 3 of its capability of 3 cpu; the group asks for 1.'


def test_groups_of_different_queues_share_the_limit_of_an_account_in_another_tree() -> None:
    it = Cluster("n1 n2").know(Queue("a"), Queue("b"), Account("licence", quotas=(cpu(capability=2),)))
    for number in range(2):
        it.gang(f"a{number}", 1, queue="a", group={"accounts": ("a", "licence")})
        it.gang(f"b{number}", 1, queue="b", group={"accounts": ("b", "licence")})
    it.settle()
    assert [it.running(name) for name in ("a0", "a1", "b0", "b1")] == [1, 0, 1, 0]


def test_a_group_in_a_queue_that_does_not_exist_waits_and_is_told() -> None:
    it = Cluster("n1").gang("lost", 1, queue="nowhere").gang("found", 1).settle()
    assert it.why("lost") == 'Queue "nowhere" does not exist.'
    assert it.running("found") == 1


def test_a_pod_without_a_queue_is_bound_by_none() -> None:
    it = Cluster("n1").know(Queue("q", quotas=(cpu(capability=0),))).pod("lone").settle()
    assert it.plans[0].binds[0].pod == "default/lone"


# -- flavors


FLAVORS = (Flavor("new", (("kind", "new"),)), Flavor("old", (("kind", "old"),)))


def flavored(queue: Queue) -> Cluster:
    it = Cluster().nodes("n1 n2", labels={"kind": "new"}).nodes("o1 o2", labels={"kind": "old"})
    return it.know(queue, flavors=FLAVORS)


def test_flavors_are_tried_in_the_order_in_which_the_queue_names_them() -> None:
    it = flavored(Queue("q", quotas=(cpu("old", capability=8), cpu("new", capability=8)))).gang("g", 2, cpu=4).settle()
    assert it.where("g") == ["o1", "o2"]
    assert it.plans[0].starts[0].flavor == "old"


def test_what_a_flavor_allows_is_counted_over_cycles() -> None:
    it = flavored(Queue("q", quotas=(cpu("new", capability=2), cpu("old", capability=1))))
    for number in range(5):
        it.gang(f"g{number}", 1).step()
    it.settle()
    on = [node for number in range(5) for node in it.where(f"g{number}")]
    assert sorted(node[0] for node in on) == ["n", "n", "o"]
    assert it.reason("g4") is Reason.QUEUE_OVER_CAPABILITY


def test_a_gang_grows_within_its_flavors_and_their_limits() -> None:
    it = flavored(Queue("q", quotas=(cpu("new", capability=3), cpu("old", capability=1))))
    it.gang("g", 8, minimum=1).settle()
    assert sorted(node[0] for node in it.where("g")) == ["n", "n", "n", "o"]


# -- states


class State(NamedTuple):
    state: QueueState
    reason: Reason
    leaves: bool


STATES = [
    State(QueueState.CLOSED, Reason.QUEUE_CLOSED, False),
    State(QueueState.HOLD, Reason.QUEUE_HELD, False),
    State(QueueState.DRAIN, Reason.QUEUE_DRAINING, True),
]


@pytest.mark.parametrize("state", STATES, ids=["closed", "held", "drained"])
def test_a_queue_that_is(state: State) -> None:
    it = Cluster("n1 n2").know(Queue("q", state=state.state), Queue("other"))
    it.gang("runs", 2, on="n1 n1").gang("waits", 1).gang("elsewhere", 1, on="n2", queue="other").settle()
    assert it.reason("waits") is state.reason
    assert it.running("runs") == (0 if state.leaves else 2)
    assert it.running("elsewhere") == 1
    assert it.evicted == (["runs-0", "runs-1"] if state.leaves else [])
    it.know(Queue("q"), Queue("other")).settle()
    assert (it.running("runs"), it.running("waits")) == (2, 1)


def test_the_state_of_a_queue_holds_for_all_below_it() -> None:
    it = Cluster("n1").know(Queue("top", state=QueueState.DRAIN), Queue("q", "top")).gang("runs", 1, on="n1").settle()
    assert it.evicted == ["runs-0"]
    assert it.why("runs") == 'Queue "top" is being drained and starts nothing.'


def test_who_is_asked_to_leave_by_a_queue_being_drained_hears_why() -> None:
    it = Cluster("n1").know(Queue("q", state=QueueState.DRAIN)).gang("runs", 1, on="n1")
    evict = it.step().evictions[0]
    assert str(evict.why) == 'Queue "q" is being drained and starts nothing.'


def test_a_queue_being_drained_lets_bare_pods_run_to_their_end() -> None:
    it = Cluster("n1").know(Queue("q", state=QueueState.DRAIN)).gang("runs", 1, on="n1", owner="").settle()
    assert it.evicted == []


def test_a_queue_being_drained_does_not_complete_or_enlarge_anything() -> None:
    it = Cluster("n1 n2").know(Queue("q", state=QueueState.DRAIN)).gang("begun", 2, on="n1")
    it.gang("elastic", 3, minimum=1, on="n1")
    assert not it.step().starts


def test_a_held_queue_completes_what_has_begun_and_enlarges_nothing() -> None:
    it = Cluster("n1 n2").know(Queue("q", state=QueueState.HOLD)).gang("begun", 2, on="n1")
    it.gang("elastic", 3, minimum=1, on="n1").settle()
    assert (it.running("begun"), it.running("elastic")) == (2, 1)
    assert it.reason("elastic") is Reason.QUEUE_HELD


# -- limits on groups and users


def test_a_queue_runs_no_more_groups_than_it_may() -> None:
    it = Cluster("n1").know(Queue("q", max_running_groups=2))
    for number in range(4):
        it.gang(f"g{number}", 1)
    it.settle()
    assert sum(it.running(f"g{number}") for number in range(4)) == 2
    it.finish("g0").settle()
    assert it.running("g2") == 1


def test_no_user_of_a_queue_has_more_than_a_user_may() -> None:
    it = Cluster("n1").know(Queue("q", per_user=(cpu(capability=1),)))
    for number, user in enumerate(("ann", "ann", "bob")):
        it.gang(f"g{number}", 1, group={"identity": Identity(user)})
    it.settle()
    assert [it.running(f"g{number}") for number in range(3)] == [1, 0, 1]


def test_what_one_user_is_refused_says_nothing_about_another_who_asks_for_the_same() -> None:
    it = Cluster("n1").know(Queue("q", per_user=(cpu(capability=2),)))
    for name, user, priority, node in (
        ("b", "bob", 0, "n1"),
        ("a1", "ann", 9, "n1"),
        ("a2", "ann", 9, ""),
        ("c", "cid", 9, ""),
    ):
        it.gang(name, 1, cpu=2, on=node, group={"identity": Identity(user), "priority": priority})
    it.settle()
    assert it.why("a2").startswith('User "ann" uses 2 of the 2 cpu that one user may use in queue "q"')
    assert it.reason("a2") is Reason.USER_LIMIT
    assert (it.running("c"), it.evicted) == (1, ["b-0"])


def test_elastic_members_go_where_the_plan_says_and_nowhere_twice() -> None:
    it = Cluster("n1 n2").gang("g", 6, minimum=2)
    plan = it.decide()
    assert len(nodes_of(plan, "g")) == 6
    assert len({bind.pod for bind in plan.binds}) == 6
