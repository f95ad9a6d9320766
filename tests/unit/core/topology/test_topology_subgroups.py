"""Gangs whose sub-groups have rules of their own: each in a rack, all in a block, nested as deep as one likes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from allhands.core.topology.parts import PartDemand
from allhands.core.topology.subgroups import plan_subgroups, why_no_plan
from allhands.model.domain import Domain
from allhands.model.reason import Reason
from tests.unit.core.topology.hall import columns_of, fits, hall, hard, node_names, soft

if TYPE_CHECKING:
    from allhands.model.podgroup import TopologyRule

DOMAINS = hall(2, 3, 4)
NAMES = node_names(DOMAINS)
COLUMNS = columns_of(DOMAINS, NAMES)


def groups(
    count: int, size: int, rule: TopologyRule | None, shape: int = 0, prefix: str = "g"
) -> tuple[PartDemand, ...]:
    return tuple(PartDemand(f"{prefix}{number}", ((shape, size),), rule) for number in range(count))


def plans(
    whole: PartDemand, *by_prefix: dict[str, int], avoid: set[tuple[str, str]] | None = None
) -> list[dict[str, str]]:
    table = np.stack([fits(COLUMNS, NAMES, each) for each in by_prefix])
    numbers = {(part, COLUMNS.number_by_name[domain]) for part, domain in avoid or ()}
    return [
        {part: "anywhere" if number is None else COLUMNS.domains[number].name for part, number in plan.items()}
        for plan in plan_subgroups(COLUMNS, whole, table, avoid=numbers)
    ]


def why(whole: PartDemand, *by_prefix: dict[str, int]) -> str:
    return str(why_no_plan(COLUMNS, whole, np.stack([fits(COLUMNS, NAMES, each) for each in by_prefix])))


def test_each_group_in_a_rack_and_all_in_the_closest_block_that_holds_them_whole() -> None:
    """Block b0 has room for 18 pods, but only for 3 whole groups of 4; b1 has fewer, and holds all four."""
    whole = PartDemand("", (), hard(2), groups(4, 4, hard(1)))
    room = {"b0r0": 1, "b0r1": 1, "b0r2n0": 7, "b0r2n1": 3, "b1r0": 1, "b1r1": 2, "b1r2": 1}
    assert plans(whole, room) == [
        {"": "b1", "g0": "b1r0", "g1": "b1r2", "g2": "b1r1", "g3": "b1r1"},
        {"": "b0", "g0": "b0r0", "g1": "b0r1", "g2": "b0r2", "g3": "b0r2"},
    ]
    less = {**room, "b0r2n1": 0}
    assert [plan[""] for plan in plans(whole, less)] == ["b1"]


def test_all_groups_in_one_rack_if_it_holds_them() -> None:
    whole = PartDemand("", (), hard(3), groups(2, 4, hard(1)))
    assert plans(whole, {"b0": 1, "b1r1": 2})[0] == {"": "b1r1", "g0": "b1r1", "g1": "b1r1"}


def test_without_an_outer_rule_groups_go_where_they_fit_best() -> None:
    whole = PartDemand("", (), None, (*groups(1, 2, hard(1), prefix="small"), *groups(2, 4, hard(1), prefix="large")))
    assert plans(whole, {"b0r0": 1, "b0r1n0": 2, "b1r2": 1}) == [
        {"": "anywhere", "large0": "b1r2", "large1": "b0r0", "small0": "b0r1"}
    ]


def test_the_largest_group_chooses_first() -> None:
    """The small one would have taken the only rack that holds the large one."""
    whole = PartDemand(
        "", (), hard(2), (*groups(1, 3, hard(1), prefix="small"), *groups(1, 4, hard(1), prefix="large"))
    )
    assert plans(whole, {"b0r0": 1, "b0r1n0": 3}) == [{"": "b0", "large0": "b0r0", "small0": "b0r1"}]


def test_members_outside_of_groups_find_room_beside_them() -> None:
    whole = PartDemand("", ((0, 2),), hard(2), groups(1, 4, hard(1)))
    assert plans(whole, {"b0r0": 1, "b0r1n0": 1, "b1r0": 1, "b1r1n0": 2}) == [{"": "b1", "g0": "b1r0"}]


def test_a_leader_without_a_rule_may_be_anywhere_in_the_block() -> None:
    leader = PartDemand("leader", ((1, 1),))
    whole = PartDemand("", (), hard(2), (leader, *groups(2, 4, hard(1))))
    found = plans(whole, {"b0r0": 1, "b0r1": 1}, {"b0r2": 1})
    assert found == [{"": "b0", "g0": "b0r0", "g1": "b0r1", "leader": "b0"}]


def test_a_leader_that_needs_no_device_shares_full_nodes() -> None:
    """By a careful count the rack is full once the workers are in; by a hopeful one the leader still fits."""
    both = PartDemand("both", ((0, 4), (1, 1)), hard(1))
    assert plans(PartDemand("", (), None, (both,)), {"b0r0": 1}, {"b0": 60}) == [{"": "anywhere", "both": "b0r0"}]


def test_groups_of_different_shapes_do_not_crowd_into_one_rack() -> None:
    """Prefill and decode would both like b0r0 best; the second to come takes the other rack."""
    parts = (*groups(1, 4, hard(1), 0, "prefill"), *groups(1, 3, hard(1), 1, "decode"))
    room = {"b0r0": 1, "b0r1": 2}
    assert plans(PartDemand("", (), None, parts), room, room) == [
        {"": "anywhere", "prefill0": "b0r0", "decode0": "b0r1"}
    ]
    assert [plan[""] for plan in plans(PartDemand("", (), hard(2), parts), room, room)] == ["b0r1", "b0r0", "b0"]


def test_rules_nest_to_any_depth() -> None:
    rails = [
        PartDemand(f"stage{stage}", ((0, 1),), hard(2), groups(2, 4, hard(1), prefix=f"stage{stage}-"))
        for stage in range(2)
    ]
    whole = PartDemand("", (), hard(3), tuple(rails))
    found = plans(whole, {"b0r0": 1, "b0r1": 1, "b0r2n0": 1, "b1": 1})
    assert found == [
        {
            "": "hall",
            "stage0": "b0",
            "stage0-0": "b0r0",
            "stage0-1": "b0r1",
            "stage1": "b1",
            "stage1-0": "b1r0",
            "stage1-1": "b1r1",
        }
    ]
    assert plans(whole, {"b0": 1, "b1r0": 1}) == []


def test_a_rule_in_another_tree_holds_inside_the_block_too() -> None:
    """Islands cross racks and blocks: island i1 lies half in each block."""
    domains = [
        Domain("b0", 2, nodes=("a", "b", "c", "d")),
        Domain("b1", 2, nodes=("e", "f", "g", "h")),
        Domain("i0", 1, nodes=("a", "b"), tree="nvlink"),
        Domain("i1", 1, nodes=("c", "d", "e", "f"), tree="nvlink"),
        Domain("i2", 1, nodes=("g", "h"), tree="nvlink"),
    ]
    columns = columns_of(domains)
    whole = PartDemand("", (), hard(2, tree=""), groups(2, 2, hard(1, tree="nvlink")))
    table = np.array([[1, 1, 1, 0, 1, 1, 1, 1]])
    found = [
        {part: columns.domains[it or 0].name for part, it in plan.items()}
        for plan in plan_subgroups(columns, whole, table)
    ]
    assert found == [{"": "b1", "g0": "i1", "g1": "i2"}] or found == [{"": "b1", "g0": "i2", "g1": "i1"}]


def test_soft_groups_stay_close_if_they_can_and_go_wider_inside_the_block_if_not() -> None:
    whole = PartDemand("", (), hard(2), groups(2, 4, soft(1)))
    assert plans(whole, {"b0r0": 1, "b0r1n0": 2, "b0r2n0": 2})[0] == {"": "b0", "g0": "b0r0", "g1": "b0"}


def test_a_soft_outer_rule_ends_with_anywhere() -> None:
    whole = PartDemand("", (), soft(2), groups(2, 8, hard(1)))
    found = plans(whole, {"b0r0": 2, "b1r0": 2})
    assert found == [{"": "hall", "g0": "b0r0", "g1": "b1r0"}, {"": "anywhere", "g0": "b0r0", "g1": "b1r0"}]


def test_where_only_some_groups_must_start_the_small_ones_do() -> None:
    parts = (*groups(1, 8, hard(1), prefix="large"), *groups(2, 4, hard(1), prefix="small"))
    whole = PartDemand("", (), hard(2), parts, min_children=2)
    assert plans(whole, {"b1": 1})[0] == {"": "b1", "small0": "b1r0", "small1": "b1r1"}
    assert plans(whole, {"b1r0": 1}) == []


def test_bound_members_keep_their_rack_and_their_block() -> None:
    row = NAMES.index("b1r2n0")
    parts = (*groups(1, 4, hard(1)), PartDemand("torn", ((0, 2),), hard(1), bound=(row,)))
    whole = PartDemand("", (), hard(2), parts)
    assert plans(whole, {"b0": 2, "b1": 1}) == [{"": "b1", "torn": "b1r2", "g0": "b1r0"}]
    assert plans(whole, {"b0": 2, "b1r0": 1}) == []


def test_pairs_that_failed_are_avoided() -> None:
    whole = PartDemand("", (), hard(2), groups(2, 4, hard(1)))
    room = {"b0": 1, "b1r0": 1}
    assert plans(whole, room)[0] == {"": "b0", "g0": "b0r0", "g1": "b0r1"}
    assert plans(whole, room, avoid={("g0", "b0r0")})[0] == {"": "b0", "g0": "b0r1", "g1": "b0r0"}
    assert plans(whole, room, avoid={("", "b0")}) == []


def test_a_part_with_nothing_to_place_needs_no_room() -> None:
    whole = PartDemand("", (), None, (PartDemand("done", (), hard(1), bound=(0,)),))
    assert plans(whole, {}) == [{"": "anywhere", "done": "b0r0"}]


@pytest.mark.parametrize(
    ("whole", "room", "want"),
    [
        (
            PartDemand("", (), hard(2), groups(2, 8, hard(1))),
            {"b0": 1},
            "No domain of tier 2 has room for 16 pods; the best of 2 holds 12.",
        ),
        (
            PartDemand("", (), hard(2), groups(2, 6, hard(1))),
            {"b0": 1},
            'Sub-group "g0" waits for a domain of tier 1 with room for its 6 pods; the best of 6 holds 4.',
        ),
        (
            PartDemand("", (), hard(2), groups(4, 3, hard(1))),
            {"b0": 1},
            "No domain of tier 2 has room for 12 pods; the best of 2 holds 9.",
        ),
        (
            PartDemand("", (), hard(2), groups(4, 3, hard(name="rak"))),
            {"b0": 1},
            'The topology rule asks for the tier "rak", which no domain has; known: "block", "hall", "rack".',
        ),
        (
            PartDemand("", (), None, groups(4, 3, hard(1))),
            {"b0": 1},
            'Sub-group "" has 3 of the 4 places in a domain that it must start with.',
        ),
    ],
    ids=[
        "the block is too small",
        "every rack is too small for a group",
        "the block holds them, but not in whole groups",
        "a rule of a group has a fault",
        "no outer rule, too few racks",
    ],
)
def test_a_refusal_names_the_part_and_the_numbers(whole: PartDemand, room: dict[str, int], want: str) -> None:
    assert plans(whole, room) == []
    assert why(whole, room) == want


def test_a_refusal_after_plans_that_could_not_be_placed_is_still_a_refusal() -> None:
    whole = PartDemand("", (), hard(2), groups(2, 4, hard(1)))
    table = fits(COLUMNS, NAMES, {"b0": 1})[np.newaxis]
    assert why_no_plan(COLUMNS, whole, table).reason is Reason.SUB_GROUP_INCOMPLETE


def test_a_thousand_equal_groups_are_planned_at_once() -> None:
    domains = hall(8, 16, 16)
    names = node_names(domains)
    columns = columns_of(domains, names)
    whole = PartDemand("", (), hard(3), groups(1024, 8, hard(1)))
    plan = next(plan_subgroups(columns, whole, np.full((1, len(names)), 4)))
    filled: dict[int | None, int] = {}
    for part, domain in plan.items():
        if part:
            filled[domain] = filled.get(domain, 0) + 1
    assert set(filled.values()) == {8}
    assert len(filled) == 128


def test_absurd_counts_do_not_raise() -> None:
    whole = PartDemand("", ((0, 2**80),), hard(2), groups(2, 2**62, hard(1)))
    assert plans(whole, {"b0": 2**62}) == []
    assert plans(PartDemand("", ((0, -4),), hard(2), groups(1, -1, hard(1))), {"b0": 1})[0]["g0"] == "b1r0"
    assert why(whole, {"b0": 1})
