"""Domains as columns: sums, slices, homes, health, and whatever users write about nodes."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from allhands.core.topology.columns import TopologyColumns
from allhands.model.domain import Domain
from tests.unit.core.topology.hall import columns_of, fits, hall, node_names


def unhealthy(domains: list[Domain], *names: str) -> list[Domain]:
    return [msgspec.structs.replace(it, healthy=False) if it.name in names else it for it in domains]


def sums_by_name(columns: TopologyColumns, fit: np.ndarray[tuple[int], np.dtype[np.int64]]) -> dict[str, int]:
    return dict(zip((it.name for it in columns.domains), columns.sums(fit).tolist(), strict=True))


def test_domains_are_numbered_tree_by_tree_depth_first_by_name() -> None:
    columns = columns_of([*reversed(hall(2, 2, 1)), Domain("z", 1, tree="a"), Domain("y", 2, tree="a")])
    names = [domain.name for domain in columns.domains]
    assert names == ["hall", "b0", "b0r0", "b0r1", "b1", "b1r0", "b1r1", "y", "z"]
    assert columns.trees == ("", "a")
    assert columns.after.tolist() == [7, 4, 3, 4, 7, 6, 7, 8, 9]


def test_the_nodes_of_a_domain_lie_beside_each_other() -> None:
    domains = hall(2, 2, 2)
    names = tuple(sorted(node_names(domains), reverse=True))
    columns = columns_of(domains, names)
    inside = [names[row] for row in columns.rows(columns.number_by_name["b1"])]
    assert sorted(inside) == ["b1r0n0", "b1r0n1", "b1r1n0", "b1r1n1"]
    assert {name[:4] for name in inside[:2]} == {"b1r0"}


def test_sums_count_every_level() -> None:
    domains = hall(2, 2, 2)
    names = node_names(domains)
    columns = columns_of(domains, names)
    sums = sums_by_name(columns, fits(columns, names, {"b0r0": 3, "b0r1n0": 1, "b1r1n1": 5}))
    assert sums == {"hall": 12, "b0": 7, "b0r0": 6, "b0r1": 1, "b1": 5, "b1r0": 0, "b1r1": 5}


def test_nodes_may_hang_on_any_level_and_depths_may_differ() -> None:
    domains = [
        Domain("hall", 3, nodes=("lone",)),
        Domain("switch", 1, "hall", ("s0", "s1")),
        Domain("block", 2, "hall", ("b0",)),
        Domain("rack", 1, "block", ("r0",)),
        Domain("empty", 0, "rack"),
    ]
    names = ("b0", "lone", "r0", "s0", "s1")
    columns = columns_of(domains, names)
    want = {"hall": 11111, "switch": 11000, "block": 101, "rack": 100, "empty": 0}
    assert sums_by_name(columns, np.array([1, 10, 100, 1000, 10000])) == want


def test_a_node_is_in_one_domain_of_every_tree() -> None:
    domains = [Domain("rack", 1, nodes=("a", "b")), Domain("island", 1, nodes=("b", "c"), tree="nvlink")]
    columns = columns_of(domains, ("a", "b", "c"))
    assert sums_by_name(columns, np.array([1, 10, 100])) == {"rack": 11, "island": 110}
    assert [columns.domain_at(row, 1) for row in range(3)] == [0, 0, 1]
    assert [columns.domain_at(row, 1, "nvlink") for row in range(3)] == [None, 1, 1]
    assert columns.domain_at(0, 1, "no such tree") is None


def test_a_node_that_a_block_names_beside_its_rack_is_in_the_rack() -> None:
    domains = [
        Domain("block", 2, nodes=("a", "b", "c")),
        Domain("r0", 1, "block", ("a", "a")),
        Domain("r1", 1, "block", ("b",)),
    ]
    columns = columns_of(domains, ("a", "b", "c"))
    assert not columns.set_aside
    assert not columns.nodes_set_aside
    assert sums_by_name(columns, np.array([1, 10, 100])) == {"block": 111, "r0": 1, "r1": 10}


def test_a_node_in_two_racks_is_in_neither_and_the_racks_go_on() -> None:
    domains = [
        Domain("block", 2, nodes=("a",)),
        Domain("r0", 1, "block", ("a", "b")),
        Domain("r1", 1, "block", ("a", "c")),
    ]
    columns = columns_of(domains, ("a", "b", "c"))
    assert sums_by_name(columns, np.array([1, 10, 100])) == {"block": 110, "r0": 10, "r1": 100}
    assert not columns.set_aside
    assert {name: str(why) for name, why in columns.nodes_set_aside.items()} == {
        "a": 'Node "a" is in several domains of one tree, none inside the other: "block", "r0", "r1".'
    }


def test_a_broken_domain_claims_no_node() -> None:
    domains = [Domain("rack", 1, nodes=("a",)), Domain("ghost", 1, "nobody", ("a",))]
    columns = columns_of(domains)
    assert sums_by_name(columns, np.array([4])) == {"rack": 4}


def test_unknown_nodes_are_ignored_and_counted_once() -> None:
    domains = [Domain("r0", 1, nodes=("a", "gone")), Domain("r1", 1, nodes=("gone", "lost"))]
    columns = columns_of(domains, ("a",))
    assert columns.unknown_nodes == 2
    assert sums_by_name(columns, np.array([3])) == {"r0": 3, "r1": 0}


def test_an_unhealthy_block_is_not_used_and_does_not_count_in_the_hall() -> None:
    domains = unhealthy(hall(2, 2, 1), "b0")
    columns = columns_of(domains)
    sums = sums_by_name(columns, np.array([1, 10, 100, 1000]))
    assert sums == {"hall": 1100, "b0": 0, "b0r0": 0, "b0r1": 0, "b1": 1100, "b1r0": 100, "b1r1": 1000}
    assert {name: str(why) for name, why in columns.unhealthy.items()} == {
        "b0": 'Domain "b0" is unhealthy.',
        "b0r0": 'Domain "b0r0" lies in "b0", which is not used.',
        "b0r1": 'Domain "b0r1" lies in "b0", which is not used.',
    }
    assert columns.unhealthy_rows.tolist() == [True, True, False, False]
    assert columns.domain_at(0, 1) == columns.number_by_name["b0r0"], "it is where it is"


@pytest.mark.parametrize(
    ("counts", "want"),
    [
        ([-5, 3], 3),
        ([-(2**63), 7], 7),
        ([2**63 - 1, 2**63 - 1], 2 * (2**60 - 1)),
        ([2**53, 1], 2**53 + 1),
    ],
    ids=["below nothing is nothing", "far below too", "absurd counts do not wrap around", "large ones are exact"],
)
def test_counts_that_make_no_sense_stay_in_bounds(counts: list[int], want: int) -> None:
    columns = columns_of([Domain("rack", 1, nodes=("a", "b"))])
    assert columns.sums(np.array(counts)).tolist() == [want]


@pytest.mark.parametrize("names", [(), ("a", "b")], ids=["without nodes", "with nodes"])
def test_no_domains_at_all_are_no_trouble(names: tuple[str, ...]) -> None:
    columns = TopologyColumns.build([], names)
    assert len(columns) == 0
    assert columns.sums(np.zeros(len(names), dtype=np.int64)).tolist() == []
    assert columns.sums(np.zeros((2, len(names)), dtype=np.int64)).shape == (2, 0)
    assert columns.around_all([]).tolist() == []


def test_domains_without_nodes_are_domains() -> None:
    columns = TopologyColumns.build([Domain("a", 2), Domain("b", 1, "a")], ())
    assert columns.sums(np.zeros(0, dtype=np.int64)).tolist() == [0, 0]


def test_the_columns_cannot_be_written() -> None:
    columns = columns_of(hall())
    with pytest.raises(ValueError, match="read-only"):
        columns.tier[0] = 9


def test_the_domains_around_nodes_are_those_that_hold_all_of_them() -> None:
    domains = hall(2, 2, 2)
    names = (*node_names(domains), "stranger")
    columns = columns_of(domains, names)

    def around(*wanted: str) -> list[str]:
        mask = columns.around_all([names.index(name) for name in wanted])
        return [domain.name for domain, inside in zip(columns.domains, mask, strict=True) if inside]

    assert around("b0r0n0", "b0r0n1") == ["hall", "b0", "b0r0"]
    assert around("b0r0n0", "b0r1n1") == ["hall", "b0"]
    assert around("b0r0n0", "b1r1n1") == ["hall"]
    assert around("b0r0n0", "stranger") == []
    assert len(around()) == 7
