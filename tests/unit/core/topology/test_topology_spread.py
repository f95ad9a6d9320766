"""How members are spread inside the chosen domain, in which order, and how far apart they end up."""

from __future__ import annotations

import numpy as np
import pytest

from allhands.core.topology.around import rings
from allhands.core.topology.columns import TopologyColumns
from allhands.core.topology.distance import closest_common, domains_crossed, tiers_crossed
from allhands.core.topology.spread import closest_rows, descend, order_rows
from allhands.model.domain import Domain
from tests.unit.core.topology.hall import columns_of, fits, hall, node_names

DOMAINS = hall(2, 3, 4)
NAMES = node_names(DOMAINS)
COLUMNS = columns_of(DOMAINS, NAMES)


def spread(domain: str | None, by_prefix: dict[str, int], need: int, *near: str) -> dict[str, int] | None:
    number = None if domain is None else COLUMNS.number_by_name[domain]
    rows = [NAMES.index(name) for name in near]
    share = descend(COLUMNS, number, fits(COLUMNS, NAMES, by_prefix), need, near=rows)
    if share is None:
        return None
    return {NAMES[row]: count for row, count in zip(share.rows.tolist(), share.counts.tolist(), strict=True)}


@pytest.mark.parametrize(
    ("domain", "by_prefix", "need", "near", "want"),
    [
        ("b0", {"b0r0": 1, "b0r1": 2, "b0r2n3": 3}, 3, [], {"b0r2n3": 3}),
        ("b0", {"b0r0": 1, "b0r1": 2}, 4, [], {f"b0r0n{node}": 1 for node in range(4)}),
        ("b0", {"b0": 1}, 5, [], {**{f"b0r0n{node}": 1 for node in range(4)}, "b0r1n0": 1}),
        ("b0", {"b0r0n0": 1, "b0r1n1": 1, "b0r2": 1}, 5, [], {"b0r0n0": 1, **{f"b0r2n{node}": 1 for node in range(4)}}),
        ("b0", {"b0": 2}, 3, ["b0r1n2"], {"b0r1n0": 1, "b0r1n2": 2}),
        ("b0", {"b0r1n0": 1, "b0r2": 1}, 3, ["b0r1n2"], {"b0r1n0": 1, "b0r2n0": 1, "b0r2n1": 1}),
        ("b0", {"b0": 1}, 13, [], None),
        ("b0", {"b0": 1}, 0, [], {}),
        ("b0r0", {"b0r0n0": 3, "b0r0n1": 2, "b0r0n2": 2}, 2, [], {"b0r0n1": 2}),
        (None, {"b0r0": 1, "b1r0": 2}, 8, [], {f"b1r0n{node}": 2 for node in range(4)}),
    ],
    ids=[
        "one node, if one holds all",
        "one rack, the fullest that holds all",
        "two racks, one of them whole",
        "as few racks as possible, the fullest for the rest",
        "beside those that are there, on their node first",
        "beside those that are there as far as it goes",
        "no room",
        "nothing to place",
        "in a rack, the fullest node that holds all",
        "anywhere, as the tree lies",
    ],
)
def test_members_use_as_few_closer_domains_as_possible(
    domain: str | None, by_prefix: dict[str, int], need: int, near: list[str], want: dict[str, int] | None
) -> None:
    assert spread(domain, by_prefix, need, *near) == want


def test_anywhere_without_a_tree_is_all_nodes_and_with_one_those_outside_too() -> None:
    nothing = TopologyColumns.build([], ("a", "b"))
    share = descend(nothing, None, np.array([1, 5]), 5)
    assert share is not None
    assert (share.rows.tolist(), share.counts.tolist()) == ([1], [5])
    some = TopologyColumns.build(
        [Domain("rack", 1, nodes=("a",)), Domain("bad", 1, nodes=("c",), healthy=False)], ("a", "b", "c")
    )
    share = descend(some, None, np.array([1, 1, 1]), 2)
    assert share is not None
    assert share.rows.tolist() == [0, 1]
    assert descend(some, None, np.array([1, 1, 1]), 3) is None


def test_absurd_counts_neither_wrap_around_nor_raise() -> None:
    share = descend(COLUMNS, 0, np.full(len(NAMES), 2**63 - 1), 2**40)
    assert share is not None
    assert share.counts.tolist() == [2**40]
    assert descend(COLUMNS, 0, np.full(len(NAMES), -7), 1) is None


def test_neighbours_in_rank_are_neighbours_in_the_tree() -> None:
    """Names that jumble the racks: by name, every other node is in the other rack."""
    domains = [
        Domain("block", 2, nodes=("z",)),
        Domain("r0", 1, "block", ("a", "c", "e")),
        Domain("r1", 1, "block", ("b", "d")),
    ]
    names = ("a", "b", "c", "d", "e", "outside", "z")
    columns = columns_of(domains, names)
    rows = np.arange(len(names))
    ordered = order_rows(columns, rows, rows * 10)
    assert [names[row] for row in ordered.rows] == ["z", "a", "c", "e", "b", "d", "outside"]
    assert (ordered.counts == ordered.rows * 10).all()
    assert order_rows(columns, rows, rows, "no such tree").rows.tolist() == rows.tolist()


@pytest.mark.parametrize(
    ("nodes", "common", "tier", "crossed"),
    [
        (["b0r0n0"], "b0r0", 1, 0),
        (["b0r0n0", "b0r0n3", "b0r0n3"], "b0r0", 1, 0),
        (["b0r0n0", "b0r1n0"], "b0", 2, 2),
        (["b0r0n0", "b0r1n0", "b0r2n0"], "b0", 2, 3),
        (["b0r0n0", "b1r0n0"], "hall", 3, 4),
        ([], None, None, 0),
    ],
)
def test_distance_is_the_tier_of_the_closest_common_domain_and_the_domains_below_it(
    nodes: list[str], common: str | None, tier: int | None, crossed: int
) -> None:
    rows = [NAMES.index(name) for name in nodes]
    found = closest_common(COLUMNS, rows)
    assert (None if found is None else COLUMNS.domains[found].name) == common
    assert tiers_crossed(COLUMNS, rows) == tier
    assert domains_crossed(COLUMNS, rows) == crossed


def test_distance_takes_the_tree_that_joins_best_unless_one_is_named() -> None:
    domains = [
        Domain("r0", 1, nodes=("a",)),
        Domain("r1", 1, nodes=("b",)),
        Domain("island", 7, nodes=("a", "b"), tree="nvlink"),
    ]
    columns = columns_of(domains, ("a", "b", "c"))
    assert tiers_crossed(columns, [0, 1]) == 7
    assert tiers_crossed(columns, [0, 1], "") is None
    assert domains_crossed(columns, [0, 1]) == 0
    assert domains_crossed(columns, [0, 1], "") == 2
    assert domains_crossed(columns, [0, 2], "nvlink") == 2


def test_the_closest_nodes_are_all_nodes_of_the_racks_that_are_used() -> None:
    fit = fits(COLUMNS, NAMES, {"b0r0": 1, "b0r1": 3, "b0r2": 2})
    block = COLUMNS.number_by_name["b0"]
    rows = closest_rows(COLUMNS, block, fit, 14)
    assert rows is not None
    assert {NAMES[row][:4] for row in rows.tolist()} == {"b0r0", "b0r1"}, (
        "the largest whole, the rest where it fits best"
    )
    assert len(rows) == 8
    assert closest_rows(COLUMNS, block, fit, 25) is None, "there is no room"
    assert closest_rows(COLUMNS, COLUMNS.number_by_name["b0r1"], fit, 2) is None, "there is no choice"
    assert closest_rows(COLUMNS, None, fit, 2, tree="no such tree") is None


def test_rings_grow_from_the_rack_to_the_hall() -> None:
    row = NAMES.index("b1r2n0")
    found = [{NAMES[at] for at in ring.tolist()} for ring in rings(COLUMNS, None, [row])]
    assert found == [{name for name in NAMES if name.startswith(prefix)} for prefix in ("b1r2", "b1", "b")]
    both = [{NAMES[at][:4] for at in ring.tolist()} for ring in rings(COLUMNS, None, [row, NAMES.index("b0r0n0")])]
    assert both[0] == {"b1r2", "b0r0"}
    assert list(rings(COLUMNS, "no such tree", [row])) == []
    assert list(rings(COLUMNS, None, [])) == []


def test_nodes_outside_of_the_tree_have_no_rings_and_shallow_branches_stay_as_wide_as_they_are() -> None:
    deep = [Domain("top", 3), Domain("mid", 2, "top"), Domain("low", 1, "mid", ("a",))]
    domains = [*deep, Domain("alone", 1, None, ("b",))]
    columns = columns_of(domains, ("a", "b", "c"))
    assert list(rings(columns, None, [2])) == []
    assert [ring.tolist() for ring in rings(columns, None, [0, 1])] == [[0, 1]] * 3
