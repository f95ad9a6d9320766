"""Time as users see it: who waits until when, who may pass whom, and what is kept for whom."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
import pytest

from allhands.core.facts import PastRuns, Reservation
from allhands.core.orders import Ageing, Creation, Deadline, Priority
from allhands.core.policy import DEFAULT, Backfill
from allhands.model.affinity import PodAffinity, PodTerm
from allhands.model.domain import Domain
from allhands.model.group_status import GroupStatus
from allhands.model.pod import PodPhase
from allhands.model.podgroup import SubGroup, TopologyMode, TopologyRule
from allhands.model.queue import Queue, QueueOrder
from allhands.model.reason import Reason
from allhands.model.selector import LabelSelector
from allhands.model.time_text import utc_text
from tests.scenarios.cluster import BEGIN, STEP_SECONDS, Cluster, amounts, cpu, nodes_of, started, wait_of

CONSERVATIVE = msgspec.structs.replace(DEFAULT, backfill=Backfill.CONSERVATIVE)
OFF = msgspec.structs.replace(DEFAULT, backfill=Backfill.OFF)
IN_A_RACK = SubGroup(min_count=2, topology=TopologyRule(TopologyMode.HARD, highest_tier=1))


def lasting(seconds: int | None, **fields: Any) -> dict[str, Any]:
    """What a group says of itself that takes so long."""
    return {"expected_duration_seconds": seconds, **fields}


def busy(names: str = "a b", **fields: Any) -> Cluster:
    """Nodes of four cores; on `a` a job has three of them for 100 seconds. `big` wants all of both."""
    cluster = Cluster(names, **fields).gang("old", on="a", cpu=3, group=lasting(100))
    return cluster.gang("big", 2, cpu=4, group=lasting(50))


class Passing(NamedTuple):
    sentence: str
    gang: dict[str, Any]
    passes: bool


# Node a has one core free, node b four; from BEGIN + 100 on both are promised to `big`.
WHO_MAY_PASS = [
    Passing("who is done when the big one starts may pass", {"group": lasting(100)}, True),
    Passing("who would be done a second later may not", {"group": lasting(101)}, False),
    Passing("who does not say how long it takes may not", {"group": lasting(None)}, False),
    Passing("a short gang may pass with all its pods", {"count": 5, "group": lasting(99)}, True),
    Passing("a short gang that does not fit may not", {"count": 6, "group": lasting(99)}, False),
]


@pytest.mark.parametrize("case", WHO_MAY_PASS, ids=lambda case: case.sentence)
def test_who_may_pass_a_group_that_waits_for_room(case: Passing) -> None:
    cluster = busy().gang("small", **case.gang)
    plan = cluster.decide()
    assert ("small" in started(plan)) == case.passes
    assert wait_of(plan, "big").expected_start_seconds == BEGIN + 100
    if not case.passes and case.gang.get("count", 1) == 1:
        small = wait_of(plan, "small")
        assert str(small.explanation) == 'The room it would fit in is reserved for "default/big".'
        assert small.expected_start_seconds == BEGIN + 150


def test_a_hold_names_the_nodes_and_the_time() -> None:
    (hold,) = busy().decide().holds
    assert (hold.group, hold.nodes, hold.start_seconds) == ("default/big", ("a", "b"), BEGIN + 100)
    assert not hold.awaits_leaving


def test_who_runs_long_may_use_what_the_promised_pods_leave_on_each_node() -> None:
    """`big` needs three of the four cores of each node: one core is left on each, for two of three long pods."""
    cluster = Cluster("a b").gang("old", on="a", cpu=3, group=lasting(100)).gang("big", 2, cpu=3, group=lasting(50))
    for number in range(3):
        cluster.gang(f"long-{number}")
    plan = cluster.decide()
    assert started(plan) == ["long-0", "long-1"]
    assert sorted(nodes_of(plan, "long-0") + nodes_of(plan, "long-1")) == ["a", "b"]
    assert wait_of(plan, "long-2").explanation.reason is Reason.ROOM_RESERVED


def test_the_room_that_is_promised_is_that_of_the_whole_gang_and_not_more() -> None:
    """Three nodes; the big gang needs two. Long jobs may fill the third, and nothing else."""
    cluster = busy("a b c")
    cluster.gang("rest", 1, cpu=4).gang("more", 1, cpu=1)
    plan = cluster.decide()
    assert started(plan) == ["big", "more"]  # it fits on b and c at once
    cluster = busy("a b c").change("big", members=SubGroup(min_count=3)).more("big", 1, cpu=4)
    assert started(cluster.decide()) == []


def test_with_every_group_promised_room_the_second_is_not_delayed_either() -> None:
    def cluster(policy: Any) -> Cluster:
        """`second` could have the core of `a` from BEGIN + 100 on, beside the three that `big` needs there."""
        made = Cluster("a", policy=policy).gang("old", on="a", cpu=2, group=lasting(100))
        made.gang("big", 1, cpu=3, group=lasting(50)).gang("second", 1, cpu=4, group=lasting(50))
        return made.gang("third", 1, cpu=1, group=lasting(160))

    assert started(cluster(DEFAULT).decide()) == ["third"]
    plan = cluster(CONSERVATIVE).decide()
    assert started(plan) == []
    assert [(hold.group, hold.start_seconds) for hold in plan.holds] == [
        ("default/big", BEGIN + 100),
        ("default/second", BEGIN + 150),
        ("default/third", BEGIN + 200),
    ]


def test_with_backfill_off_whoever_fits_starts() -> None:
    cluster = busy(policy=OFF).gang("small")
    plan = cluster.decide()
    assert started(plan) == ["small"]
    assert plan.holds == ()
    assert wait_of(plan, "big").unknown_because_of == "default/small"


# -- estimates


class Estimate(NamedTuple):
    sentence: str
    own: int | None
    default: int | None
    median: int | None
    ran: int
    expected: int | None


ESTIMATES = [
    Estimate("what the group says counts first", 100, 300, 500, 0, 100),
    Estimate("then the default of its queue", None, 300, 500, 0, 300),
    Estimate("then the median of the queue's past runs", None, None, 500, 0, 500),
    Estimate("else nobody knows", None, None, None, 0, None),
    Estimate("what has run for a while ends sooner", 100, None, None, 60, 40),
    Estimate("an estimate that is over doubles", 100, None, None, 100, 100),
    Estimate("and doubles again", 100, None, None, 250, 150),
]


@pytest.mark.parametrize("case", ESTIMATES, ids=lambda case: case.sentence)
def test_when_a_running_group_is_expected_to_end(case: Estimate) -> None:
    past = {} if case.median is None else {"q": PastRuns(case.median, 5)}
    cluster = Cluster("a").know(Queue("q", default_duration_seconds=case.default), past_runs=past)
    cluster.gang("old", on="a", cpu=4, started_at_seconds=BEGIN - case.ran, group=lasting(case.own)).gang("next")
    wait = wait_of(cluster.decide(), "next")
    expected = None if case.expected is None else BEGIN + case.expected
    assert wait.expected_start_seconds == expected
    assert wait.unknown_because_of == ("" if case.expected is not None else "default/old")


def test_the_explanation_names_whose_end_it_takes_and_when() -> None:
    plan = busy().decide()
    assert str(wait_of(plan, "big").explanation) == (
        "1 of the 2 pods fit now; cpu is short by 4. "
        f'It can start once "default/old" has ended, expected at {utc_text(BEGIN + 100)}.'
    )


def test_the_explanation_names_the_job_whose_end_nobody_knows() -> None:
    cluster = Cluster("a").gang("old", on="a", cpu=4).gang("next")
    assert str(wait_of(cluster.decide(), "next").explanation) == (
        '0 of the 1 pods fit now; cpu is short by 1. It waits for "default/old" too, and nobody knows when that ends.'
    )


def test_the_explanation_of_a_gang_for_a_rack_says_how_many_racks_could_hold_it_and_after_whom() -> None:
    cluster = Cluster("a b c d")
    cluster.know(domains=(Domain("r1", 1, None, ("a", "b")), Domain("r2", 1, None, ("c", "d"))))
    cluster.gang("long", on="a", cpu=1, group=lasting(500)).gang("train", on="c", cpu=1, group=lasting(100))
    cluster.gang("pair", 2, cpu=4, members=IN_A_RACK)
    wait = wait_of(cluster.decide(), "pair")
    assert str(wait.explanation) == (
        "No domain of tier 1 has room for 2 pods; the best of 2 holds 1. "
        f'1 could hold it once "default/train" has ended, expected at {utc_text(BEGIN + 100)}.'
    )
    assert wait.expected_start_seconds == BEGIN + 100


def test_a_group_that_never_fits_has_no_expected_start_and_holds_nobody_up() -> None:
    cluster = Cluster("a b").gang("old", on="a", cpu=4, group=lasting(100)).gang("huge", 3, cpu=4).gang("small")
    plan = cluster.decide()
    assert started(plan) == ["small"]
    huge = wait_of(plan, "huge")
    assert (huge.explanation.reason, huge.expected_start_seconds) == (Reason.GROUP_NEVER_FITS, None)


def test_a_pod_that_never_goes_holds_nobody_up_for_ever() -> None:
    """On a lost node a pod may be leaving for days: it is not expected to be gone in a moment each time."""
    cluster = Cluster("a").gang("lost", on="a", cpu=4, deleting=True, started_at_seconds=BEGIN - 10_000).gang("next")
    wait = wait_of(cluster.decide(), "next")
    assert wait.expected_start_seconds is not None
    assert wait.expected_start_seconds > BEGIN + 1000


# -- queues


def test_in_a_strict_queue_nobody_passes_and_everyone_knows_when() -> None:
    cluster = busy().know(Queue("q", order=QueueOrder.FIFO_STRICT))
    cluster.gang("one", 1, cpu=4, group=lasting(10)).gang("two", 2, cpu=4, group=lasting(10))
    plan = cluster.decide()
    assert started(plan) == []
    assert [wait_of(plan, name).expected_start_seconds for name in ("big", "one", "two")] == [
        BEGIN + 100,
        BEGIN + 150,
        BEGIN + 160,
    ]
    assert str(wait_of(plan, "two").explanation) == 'The group is number 3 of 3 in queue "q".'


def test_in_a_queue_without_backfill_nobody_passes_but_others_do() -> None:
    cluster = busy().know(Queue("q", backfill=False), Queue("other"))
    cluster.gang("small", group=lasting(10)).gang("theirs", queue="other", group=lasting(10))
    plan = cluster.decide()
    assert started(plan) == ["theirs"]
    assert wait_of(plan, "small").explanation.reason is Reason.BEHIND_OTHERS


def test_a_group_that_its_queue_refuses_is_promised_nothing_and_waits_for_its_own() -> None:
    cluster = Cluster("a b c").know(Queue("q", quotas=(cpu(capability=4),)), Queue("other"))
    cluster.gang("mine", on="a", cpu=3, group=lasting(70)).gang("theirs", on="b", queue="other", group=lasting(30))
    cluster.gang("next", cpu=2, group=lasting(10)).gang("later", cpu=3, group=lasting(10))
    plan = cluster.decide()
    assert plan.holds == ()
    following, later = wait_of(plan, "next"), wait_of(plan, "later")
    assert following.explanation.reason is Reason.QUEUE_OVER_CAPABILITY
    assert following.expected_start_seconds == BEGIN + 70
    assert later.expected_start_seconds is not None
    assert later.expected_start_seconds > BEGIN + 70


def test_a_group_that_its_queue_refuses_is_told_whose_end_nobody_knows() -> None:
    cluster = Cluster("a b").know(Queue("q", quotas=(cpu(capability=4),)))
    cluster.gang("mine", on="a", cpu=4).gang("next")
    assert wait_of(cluster.decide(), "next").unknown_because_of == "default/mine"


def test_a_group_that_must_not_start_yet_expects_to_start_then() -> None:
    cluster = Cluster("a").gang("later", group={"not_before_seconds": BEGIN + 500})
    assert wait_of(cluster.decide(), "later").expected_start_seconds == BEGIN + 500


# -- draining


def crowded() -> Cluster:
    """Nobody knows when anything ends. Node a has two jobs, b one, c and d are of one gang."""
    policy = msgspec.structs.replace(DEFAULT, drain_after_seconds=300)
    cluster = Cluster("a b c d", policy=policy)
    cluster.gang("one", on="a", cpu=2).gang("two", on="a", cpu=2).gang("three", on="b", cpu=2)
    return cluster.gang("four", 2, on="c d", cpu=2)


def test_after_a_set_wait_nodes_are_emptied_for_a_big_group_and_it_starts_there() -> None:
    cluster = crowded().gang("big", 2, cpu=4)
    cluster.gang("small").run(1)
    assert cluster.running("small") == 1
    assert cluster.plan.holds == ()
    cluster.finish("small").run(30)
    cluster.gang("late", 3, minimum=1, cpu=2)
    plan = cluster.step()
    (hold,) = plan.holds
    assert (hold.group, hold.nodes, hold.start_seconds) == ("default/big", ("c", "d"), None)
    assert cluster.where("late") == ["b"], "nobody new gets on the nodes that are emptied"
    assert wait_of(plan, "big").unknown_because_of != ""
    cluster.finish("four").run(1)
    assert cluster.where("big") == ["c", "d"]


@pytest.mark.parametrize(("wait", "is_drained"), [(100, True), (101, False), (None, False)])
def test_a_group_that_says_how_long_it_may_wait_is_drained_for_then(wait: int | None, is_drained: bool) -> None:
    cluster = crowded().gang("big", 2, cpu=4, group={"created_at_seconds": BEGIN - 100, "max_wait_seconds": wait})
    assert bool(cluster.decide().holds) is is_drained


def test_nodes_are_emptied_where_the_fewest_groups_must_end() -> None:
    cluster = crowded().gang("big", 1, cpu=4, group={"created_at_seconds": BEGIN - 300})
    (hold,) = cluster.decide().holds
    assert hold.nodes in (("c",), ("d",)), "half of one gang costs less than one job, and that less than two"


def test_what_the_drained_group_leaves_on_a_node_is_not_kept() -> None:
    policy = msgspec.structs.replace(DEFAULT, drain_after_seconds=300)
    cluster = Cluster("a b", cpu=8, policy=policy).gang("old", on="a", cpu=1).gang("other", on="b", cpu=8)
    cluster.gang("big", 2, cpu=5, group={"created_at_seconds": BEGIN - 300}).gang("small", cpu=2).gang("tiny", cpu=1)
    plan = cluster.decide()
    assert [hold.nodes for hold in plan.holds] == [("a", "b")]
    assert nodes_of(plan, "small") == ["a"], "seven cores are free there, and the group needs five of them"
    assert nodes_of(plan, "tiny") == []


# -- windows


def window(name: str = "repair", *, start: int = 100, end: int = 200, **fields: Any) -> Reservation:
    return Reservation(name, BEGIN + start, BEGIN + end, **fields)


class Outage(NamedTuple):
    sentence: str
    seconds: int | None
    start: int
    starts_on: list[str]


OUTAGES = [
    Outage("who is done before the outage may use the node", 100, 100, ["a"]),
    Outage("who is not may not", 101, 100, []),
    Outage("who does not say how long it takes may not", None, 100, []),
    Outage("during the outage nobody may", 1, 0, []),
]


@pytest.mark.parametrize("case", OUTAGES, ids=lambda case: case.sentence)
def test_who_may_use_a_node_before_and_during_a_planned_outage(case: Outage) -> None:
    cluster = Cluster("a").know(reservations=(window(start=case.start, nodes=("a", "gone")),))
    cluster.gang("job", group=lasting(case.seconds))
    plan = cluster.decide()
    assert nodes_of(plan, "job") == case.starts_on
    if not case.starts_on:
        wait = wait_of(plan, "job")
        assert str(wait.explanation) == 'The room it would fit in is reserved for "repair".'
        assert wait.expected_start_seconds == BEGIN + 200


def test_after_the_outage_everyone_may_again() -> None:
    cluster = Cluster("a").know(reservations=(window(start=0, end=20, nodes=("a",)),)).gang("job").run(3)
    assert [len(plan.starts) for plan in cluster.plans] == [0, 0, 1]


@pytest.mark.parametrize("field", [{"groups": ("default/job",)}, {"queues": ("q",)}], ids=["by name", "by queue"])
def test_who_is_entitled_may_use_the_window_and_what_comes_before(field: dict[str, Any]) -> None:
    cluster = Cluster("a").know(Queue("q"), Queue("other"), reservations=(window(nodes=("a",), **field),))
    cluster.gang("stranger", queue="other").gang("job")
    assert started(cluster.decide()) == ["job"]


def test_an_amount_of_resources_is_kept_on_any_nodes() -> None:
    """Three nodes of four cores; five cores are kept for others from BEGIN + 100 on."""
    cluster = Cluster("a b c").know(reservations=(window(resources=amounts(cpu=5), groups=("default/guest",)),))
    cluster.gang("long", 8, minimum=1).run(1)
    assert cluster.running("long") == 7
    cluster.gang("short", 5, minimum=1, group=lasting(80)).run(1)
    assert cluster.running("short") == 5
    cluster.finish("short")
    cluster.gang("guest", 5).run(1)
    assert cluster.running("guest") == 5


def test_what_the_entitled_already_have_of_an_amount_is_not_kept_twice() -> None:
    kept = window(start=0, resources=amounts(cpu=4), groups=("default/guest",))
    cluster = Cluster("a b").know(reservations=(kept,)).gang("guest", 4, on="a a a a").gang("job", 4)
    assert cluster.run(1).where("job") == ["b"] * 4


def test_windows_that_make_no_sense_count_for_nothing() -> None:
    backwards = window(start=50, end=-50, nodes=("a",))
    over = window(start=-50, end=0, nodes=("a",))
    nothing = window(start=0, end=10**30)
    strange = window(start=0, resources=amounts(cpu=1, **{"example.com/none": 5}))
    cluster = Cluster("a").know(reservations=(backwards, over, nothing, strange)).gang("job", 3)
    assert cluster.run(1).running("job") == 3


def test_absurd_times_and_amounts_stop_nothing() -> None:
    far = window("far", start=-(10**30), end=10**30, nodes=("b",), groups=("default/nobody",))
    much = window("much", start=10**6, end=10**30, resources=amounts(cpu=10**9))
    cluster = Cluster("a b").know(Queue("q", default_duration_seconds=10**25), reservations=(far, much))
    cluster.gang("old", on="a", cpu=4, status=GroupStatus(started_at_seconds=10**25), group=lasting(10**25))
    cluster.gang("next", group=lasting(10**12))
    cluster.gang("soon", group=lasting(1))
    plan = cluster.decide()
    assert started(plan) == []
    assert all(wait.expected_start_seconds is not None for wait in plan.waits)


def test_who_might_keep_the_promised_pods_away_by_being_near_does_not_pass() -> None:
    """`big` must not be where noisy pods are. From BEGIN + 100 on it is promised node a; b is free for a while."""
    noisy = LabelSelector(match_labels=(("app", "noisy"),))
    apart = PodAffinity(required_apart=(PodTerm(noisy, "kubernetes.io/hostname", ("default",)),))
    cluster = Cluster("a b").gang("old", on="a", cpu=3, group=lasting(100))
    cluster.gang("other", on="b", cpu=3, group=lasting(200))
    cluster.gang("big", 1, cpu=4, pod_affinity=apart, group=lasting(50))
    cluster.gang("loud", labels={"app": "noisy"}).gang("quiet", labels={"app": "quiet"})
    plan = cluster.decide()
    assert wait_of(plan, "big").expected_start_seconds == BEGIN + 100
    assert nodes_of(plan, "quiet") == ["b"]
    assert wait_of(plan, "loud").explanation.reason is Reason.ROOM_RESERVED


# -- orders


def test_a_group_that_must_start_soon_to_meet_its_deadline_goes_first() -> None:
    policy = msgspec.structs.replace(DEFAULT, orders=(Deadline(within_seconds=60), Priority(), Creation()))
    cluster = Cluster("a", policy=policy).gang("first", 4)
    cluster.gang("calm", 4, group=lasting(100, deadline_seconds=BEGIN + 300))
    cluster.gang("hurried", 4, group=lasting(100, deadline_seconds=BEGIN + 160))
    cluster.gang("more hurried", 4, group=lasting(100, deadline_seconds=BEGIN + 155))
    assert started(cluster.decide()) == ["more hurried"]
    cluster.change("more hurried", suspended=True)
    assert started(cluster.decide()) == ["hurried"]
    cluster.change("hurried", suspended=True)
    assert started(cluster.decide()) == ["first"]


def test_an_order_changes_when_a_deadline_comes_near_though_nothing_else_happens() -> None:
    policy = msgspec.structs.replace(DEFAULT, orders=(Deadline(within_seconds=60), Priority(), Creation()))
    cluster = Cluster("a", policy=policy).gang("first", 4)
    cluster.gang("calm", 4, group=lasting(100, deadline_seconds=BEGIN + 165))
    assert started(cluster.decide()) == ["first"]
    cluster.now += STEP_SECONDS
    assert started(cluster.decide()) == ["calm"]


def test_waiting_raises_priority_by_a_step_for_every_set_time() -> None:
    policy = msgspec.structs.replace(DEFAULT, orders=(Ageing(wait_seconds=60, step=10), Creation()))
    cluster = Cluster("a", policy=policy)
    cluster.gang("old", 4, group={"created_at_seconds": BEGIN - 61})
    cluster.gang("important", 4, group={"priority": 10, "created_at_seconds": BEGIN})
    assert started(cluster.decide()) == ["old"]
    cluster.change("old", created_at_seconds=BEGIN - 59)
    assert started(cluster.decide()) == ["important"]


# -- what is news


def test_an_expected_start_is_told_again_only_if_it_moves_by_more_than_a_tenth_of_the_wait() -> None:
    cluster = busy().gang("small", cpu=4).settle()
    told = cluster.wait("big")
    assert not told.say
    cluster.change("old", expected_duration_seconds=101).run(1)
    assert not cluster.wait("big").say
    cluster.change("old", expected_duration_seconds=140).run(1)
    assert cluster.wait("big").say
    assert cluster.wait("big").expected_start_seconds == BEGIN + 140


def test_who_grows_does_not_grow_into_promised_room() -> None:
    cluster = busy().gang("elastic", 4, minimum=1, on="b", group=lasting(None))
    cluster.change("big", members=SubGroup(min_count=1))
    plan = cluster.decide()
    assert wait_of(plan, "big").expected_start_seconds == BEGIN + 100
    assert nodes_of(plan, "elastic") == ["b", "b", "b"], "node a is promised, and b is not"
    cluster.alter("old-0", phase=PodPhase.SUCCEEDED)
    assert nodes_of(cluster.decide(), "big") == ["a"]
