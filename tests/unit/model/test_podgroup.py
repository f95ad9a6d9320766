"""When a group is whole, and which groups cannot exist."""

import re
from collections.abc import Callable

import msgspec
import pytest

from allhands.model.identity import Identity
from allhands.model.podgroup import (
    FlatSubGroup,
    PodGroup,
    Shortfall,
    Slot,
    SubGroup,
    TaskMinimum,
    TopologyMode,
    TopologyRule,
    nest_subgroups,
)


def part(name: str, min_count: int, **fields: object) -> SubGroup:
    return msgspec.structs.replace(SubGroup(name, min_count), **fields)


LEADER_AND_WORKERS = SubGroup(
    min_count=5,
    task_minimums=(TaskMinimum("leader", 1),),
    children=(part("w0", 2), part("w1", 2), part("w2", 2)),
    min_children=2,
)


@pytest.mark.parametrize(
    ("counts", "shortfalls"),
    [
        ({Slot("", "leader"): 1, Slot("w0", ""): 2, Slot("w2", ""): 2}, ()),
        (
            {Slot("", "leader"): 1, Slot("w0", ""): 2, Slot("w1", ""): 1, Slot("w2", ""): 1},
            (
                Shortfall("", "", "sub-groups", 1, 2),
                Shortfall("w1", "", "pods", 1, 2),
                Shortfall("w2", "", "pods", 1, 2),
            ),
        ),
        ({Slot("w0", ""): 3, Slot("w1", ""): 3}, (Shortfall("", "leader", "pods", 0, 1),)),
        ({Slot("w0", "leader"): 2, Slot("w1", ""): 2}, (Shortfall("", "", "pods", 4, 5),)),
        ({Slot("stranger", "leader"): 9, Slot("w0", "leader"): 3, Slot("w1", ""): 2}, ()),
    ],
    ids=[
        "a leader and two whole workers of three",
        "enough pods, but spread over halves",
        "no leader",
        "one pod short, though all parts are whole",
        "members of unknown sub-groups do not count",
    ],
)
def test_what_a_group_lacks(counts: dict[Slot, int], shortfalls: tuple[Shortfall, ...]) -> None:
    assert LEADER_AND_WORKERS.shortfalls(counts) == shortfalls
    assert LEADER_AND_WORKERS.is_whole(counts) is (not shortfalls)


def test_the_fewest_members_that_can_be_whole() -> None:
    assert LEADER_AND_WORKERS.required_count == 5
    assert SubGroup(children=(part("a", 4), part("b", 1), part("c", 2)), min_children=2).required_count == 3
    assert SubGroup(children=(part("a", 4), part("b", 1))).required_count == 5
    assert SubGroup(task_minimums=(TaskMinimum("x", 2), TaskMinimum("y", 3))).required_count == 5
    assert SubGroup().is_whole({})


def test_a_group_charges_its_queue_unless_it_names_accounts() -> None:
    group = PodGroup("ns", "g", "q", identity=Identity("ann", ("dev",)))
    assert group.charged_accounts == ("q",)
    assert msgspec.structs.replace(group, accounts=("a", "b")).charged_accounts == ("a", "b")
    assert group.key == "ns/g"
    assert group.required_count == 1


def test_a_group_survives_a_dump() -> None:
    group = PodGroup("ns", "g", "q", members=LEADER_AND_WORKERS, expected_duration_seconds=60, accounts=("a",))
    assert msgspec.json.decode(msgspec.json.encode(group), type=PodGroup) == group


IMPOSSIBLE: list[tuple[Callable[[], object], str]] = [
    (lambda: SubGroup(min_count=-1), "group: the minimum must not be negative, got -1"),
    (lambda: SubGroup("s", 3, 2), 'sub-group "s": at most 2 members but at least 3 needed'),
    (lambda: SubGroup("s", max_count=2, children=(part("a", 2), part("b", 1))), "at most 2 members but at least 3"),
    (lambda: SubGroup(children=(part("a", 1),), min_children=2), "needs 2 whole sub-groups but has 1"),
    (lambda: SubGroup(min_children=-1), "needs -1 whole sub-groups"),
    (lambda: SubGroup(task_minimums=(TaskMinimum("t", 1), TaskMinimum("t", 2))), "a task has two minimums: t, t"),
    (lambda: SubGroup(task_minimums=(TaskMinimum("t", -1),)), 'task "t" has the negative minimum -1'),
    (lambda: PodGroup("ns", "g", "q", members=part("x", 1)), "outermost part must have no name"),
    (
        lambda: PodGroup("ns", "g", "q", members=SubGroup(children=(part("a", 1), part("a", 2)))),
        'pod-group "ns/g": sub-group "a" is defined twice',
    ),
    (
        lambda: PodGroup("ns", "g", "q", members=SubGroup(children=(part("a", 1, children=(part("a", 1),)),))),
        'sub-group "a" is defined twice',
    ),
    (
        lambda: PodGroup("ns", "g", "q", members=SubGroup(children=(part("", 1),))),
        'sub-group "" is defined twice',
    ),
    (lambda: PodGroup("ns", "g", "q", accounts=("a", "a")), "an account is charged twice: a, a"),
    (lambda: PodGroup("ns", "g", "q", expected_duration_seconds=-5), "negative duration -5 s"),
]


@pytest.mark.parametrize(("make", "message"), IMPOSSIBLE, ids=[message for _, message in IMPOSSIBLE])
def test_an_impossible_group_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=r".") as refused:
        make()
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TopologyRule(TopologyMode.HARD, 2, "rack"), "its number (2) or its name"),
        (lambda: TopologyRule(TopologyMode.SOFT, tier_name=""), "must not be empty"),
        (lambda: PodGroup("ns", "g", "q", start_timeout_seconds=-1), "start_timeout_seconds must not be negative"),
        (lambda: PodGroup("ns", "g", "q", min_run_seconds=-5), "min_run_seconds must not be negative"),
        (lambda: PodGroup("ns", "g", "q", grace_seconds=-5), "grace_seconds must not be negative"),
        (lambda: PodGroup("ns", "g", "q", features=(("b", 1), ("a", 2))), "features must be sorted"),
        (lambda: PodGroup("ns", "g", "q", features=(("a", 1), ("a", 2))), "features must be sorted"),
    ],
    ids=[
        "a tier by number and by name",
        "a tier without a name",
        "a negative time to start",
        "a negative time to run",
        "a negative grace",
        "features out of order",
        "a feature twice",
    ],
)
def test_rules_and_times_that_cannot_be(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        make()


def test_the_topology_of_a_listed_sub_group_is_kept() -> None:
    rule = TopologyRule(TopologyMode.HARD, tier_name="rack", tree="fabric")
    (outer,) = nest_subgroups([FlatSubGroup("a"), FlatSubGroup("b", "a", topology=rule)])
    assert outer.topology is None
    assert outer.children[0].topology == rule


def test_a_group_is_preemptible_and_free_to_start_unless_it_says_otherwise() -> None:
    group = PodGroup("ns", "g", "q")
    assert group.preemptible
    assert not group.suspended
    assert (group.not_before_seconds, group.deadline_seconds, group.min_run_seconds) == (None, None, 0)
