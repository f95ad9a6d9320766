"""Which domains are offered, in which order, and what is said when there is none."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from allhands.core.topology.columns import TopologyColumns
from allhands.core.topology.rules import rule_fault
from allhands.core.topology.search import candidates, why_not
from allhands.model.domain import Domain
from allhands.model.podgroup import TopologyRule
from allhands.model.reason import Reason
from tests.unit.core.topology.hall import columns_of, fits, hall, hard, node_names, soft

DOMAINS = hall(2, 3, 4)
NAMES = node_names(DOMAINS)
COLUMNS = columns_of(DOMAINS, NAMES)

Case = tuple[dict[str, int], TopologyRule, int, list[str], list[str | None]]


def offered(
    columns: TopologyColumns,
    names: tuple[str, ...],
    by_prefix: dict[str, int],
    rule: TopologyRule,
    need: int,
    *bound: str,
) -> list[str | None]:
    sums = columns.sums(fits(columns, names, by_prefix))
    found = candidates(columns, rule, sums, need, bound=[names.index(name) for name in bound])
    return [None if number is None else columns.domains[number].name for number in found]


CASES: dict[str, Case] = {
    "the closest that holds it, then wider ones": (
        {"b0r0": 2, "b1r2": 2}, hard(3), 8, [], ["b0r0", "b1r2", "b0", "b1", "hall"],
    ),
    "no domain above the highest tier": ({"b0": 1}, hard(1), 5, [], []),
    "the tier by its name": ({"b0": 1}, hard(name="block"), 5, [], ["b0"]),
    "without a tier, up to the outermost domain": ({"b0": 1, "b1": 1}, hard(), 20, [], ["hall"]),
    "the fullest rack that still holds it": (
        {"b0r0": 4, "b0r1": 2, "b0r2": 3}, hard(1), 8, [], ["b0r1", "b0r2", "b0r0"],
    ),
    "of equal racks the one in the fuller block, so that an empty block stays whole": (
        {"b0": 2, "b1r1": 2, "b1r2": 2}, hard(1), 8, [], ["b1r1", "b1r2", "b0r0", "b0r1", "b0r2"],
    ),
    "equal in all: by name": ({"b0": 2, "b1": 2}, hard(2), 9, [], ["b0", "b1"]),
    "bound members fix the rack": ({"b0": 2, "b1": 2}, hard(1), 2, ["b1r1n0"], ["b1r1"]),
    "members bound in two racks leave the block": ({"b0": 2, "b1": 2}, hard(2), 2, ["b1r1n0", "b1r0n0"], ["b1"]),
    "members bound too far apart leave nothing": ({"b0": 2, "b1": 2}, hard(2), 2, ["b0r1n0", "b1r0n0"], []),
    "a tier below all others": ({"b0": 2}, hard(0), 2, [], []),
    "an absurdly high tier": ({"b0": 1}, hard(2**70), 12, [], ["b0", "hall"]),
    "an absurdly low tier": ({"b0": 1}, hard(-(2**70)), 1, [], []),
    "an absurd need": ({"b0": 1}, hard(3), 2**70, [], []),
    "a tier name that nobody has": ({"b0": 1}, hard(name="rak"), 1, [], []),
    "a tree that does not exist": ({"b0": 1}, hard(3, tree="nvlink"), 1, [], []),
    "soft: the wish, then wider, then anywhere": (
        {"b0r0": 2, "b1r2": 2}, soft(1), 8, [], ["b0r0", "b1r2", "b0", "b1", "hall", None],
    ),
    "soft: nothing holds it": ({"b0": 1}, soft(1), 13, [], [None]),
    "soft: with bound members first, even if wider": (
        {"b0r0": 2, "b1r1": 1}, soft(1), 4, ["b1r0n0"], ["b1", "hall", "b1r1", "b0r0", "b0", None],
    ),
    "soft: a name that nobody has is still a wish to be close": (
        {"b0": 1}, soft(name="rak"), 4, [], ["b0r0", "b0r1", "b0r2", "b0", "hall", None],
    ),
    "soft: a tree that does not exist": ({"b0": 1}, soft(1, tree="nvlink"), 4, [], [None]),
}  # fmt: skip


@pytest.mark.parametrize(("by_prefix", "rule", "need", "bound", "want"), CASES.values(), ids=CASES.keys())
def test_domains_are_offered_in_the_right_order(
    by_prefix: dict[str, int], rule: TopologyRule, need: int, bound: list[str], want: list[str | None]
) -> None:
    assert offered(COLUMNS, NAMES, by_prefix, rule, need, *bound) == want


def test_the_search_is_lazy_and_its_first_answer_is_the_first_of_all() -> None:
    sums = COLUMNS.sums(np.arange(len(NAMES)))
    found = candidates(COLUMNS, hard(3), sums, 7)
    assert next(found) == next(candidates(COLUMNS, hard(3), sums, 7))
    assert len(list(found)) > 0


def test_an_unhealthy_rack_is_not_offered_and_its_block_counts_without_it() -> None:
    domains = [msgspec.structs.replace(it, healthy=False) if it.name == "b0r0" else it for it in DOMAINS]
    columns = columns_of(domains, NAMES)
    assert offered(columns, NAMES, {"b0": 1}, hard(2), 4) == ["b0r1", "b0r2", "b0"]
    assert offered(columns, NAMES, {"b0": 1}, hard(2), 9) == []
    assert offered(columns, NAMES, {"b0": 1}, hard(2), 8, "b0r0n0") == ["b0"], "the bound member stays, others go near"
    assert offered(columns, NAMES, {"b0": 1}, hard(1), 1, "b0r0n0") == []


def test_a_rule_without_a_tree_takes_any_and_one_with_a_tree_that_one() -> None:
    domains = [Domain("rack", 2, nodes=("a", "b")), Domain("island", 1, nodes=("b", "c"), tree="nvlink")]
    columns = columns_of(domains, ("a", "b", "c"))
    by_prefix = {"a": 1, "b": 1, "c": 1}
    assert offered(columns, ("a", "b", "c"), by_prefix, hard(), 2) == ["island", "rack"]
    assert offered(columns, ("a", "b", "c"), by_prefix, hard(tree=""), 2) == ["rack"]
    assert offered(columns, ("a", "b", "c"), by_prefix, hard(tree="nvlink"), 2) == ["island"]


def test_a_name_of_a_tier_means_its_own_tier_in_every_tree_and_branch() -> None:
    """One accelerator's rack is another's second tier; a switch on the block is closer than any rack."""
    domains = [
        Domain("block", 5, tier_name="block"),
        Domain("rack", 2, "block", ("a",), tier_name="rack"),
        Domain("row", 4, "block", tier_name="row"),
        Domain("high-rack", 3, "row", ("b",), tier_name="rack"),
        Domain("switch", 1, "block", ("c",)),
        Domain("pod", 3, "block", ("d",), tier_name="pod"),
    ]
    names = ("a", "b", "c", "d")
    columns = columns_of(domains, names)
    found = offered(columns, names, dict.fromkeys(names, 1), hard(name="rack"), 1)
    assert found == ["switch", "rack", "high-rack"]


def test_every_shape_must_fit() -> None:
    sums = COLUMNS.sums(np.stack([fits(COLUMNS, NAMES, {"b0r0": 2, "b0r1": 2}), fits(COLUMNS, NAMES, {"b0r1": 1})]))
    assert [COLUMNS.domains[it or 0].name for it in candidates(COLUMNS, hard(1), sums, [8, 4])] == ["b0r1"]
    assert [COLUMNS.domains[it or 0].name for it in candidates(COLUMNS, hard(1), sums, [8, 0])] == ["b0r0", "b0r1"]


def test_a_refusal_names_the_best_domain_with_its_numbers() -> None:
    sums = COLUMNS.sums(fits(COLUMNS, NAMES, {"b0r0": 2, "b1": 1}))
    why = why_not(COLUMNS, hard(1), sums, 9)
    assert why.reason is Reason.TOPOLOGY
    assert str(why) == "No domain of tier 1 has room for 9 pods; the best of 6 holds 8."
    assert why.number("best_domain") == "b0r0"
    assert why.number("tier_name") == "rack"
    assert why.number("unhealthy") == 0
    by_name = why_not(COLUMNS, hard(name="block"), sums, 99)
    assert str(by_name) == "No domain of tier block has room for 99 pods; the best of 2 holds 12."
    anywhere = why_not(COLUMNS, hard(), sums, 99)
    assert str(anywhere) == "No domain of tier 3 has room for 99 pods; the best of 1 holds 20."


def test_a_refusal_says_what_is_out_of_use_and_what_is_bound() -> None:
    domains = [msgspec.structs.replace(it, healthy=False) if it.name == "b0r0" else it for it in DOMAINS]
    columns = columns_of([*domains, Domain("ghost", 1, "nobody")], NAMES)
    sums = columns.sums(fits(columns, NAMES, {"b": 1}))
    why = why_not(columns, hard(1), sums, 9, bound=[NAMES.index("b0r1n0")])
    assert str(why) == "No domain of tier 1 has room for 9 pods; the best of 1 holds 4."
    assert (why.number("best_domain"), why.number("bound"), why.number("set_aside")) == ("b0r1", 1, 1)
    assert why_not(columns, hard(1), sums, 9).number("unhealthy") == 1


def test_a_refusal_for_several_shapes_counts_those_that_fit() -> None:
    sums = COLUMNS.sums(np.stack([fits(COLUMNS, NAMES, {"b0r0": 2}), fits(COLUMNS, NAMES, {"b0r1": 9})]))
    why = why_not(COLUMNS, hard(1), sums, [8, 1])
    assert str(why) == "No domain of tier 1 has room for 9 pods; the best of 6 holds 8."


@pytest.mark.parametrize(
    ("rule", "want"),
    [
        (
            hard(name="rak"),
            'The topology rule asks for the tier "rak", which no domain has; known: "block", "hall", "rack".',
        ),
        (hard(1, tree="nvlink"), 'The topology rule asks for the tree "nvlink", which does not exist; known: "".'),
        (soft(name="rak"), None),
    ],
)
def test_a_rule_that_cannot_be_understood_is_refused_with_what_is_known(rule: TopologyRule, want: str | None) -> None:
    fault = rule_fault(COLUMNS, rule)
    assert fault is not None
    assert fault.reason is Reason.INVALID
    if want is not None:
        assert str(fault) == want
        assert why_not(COLUMNS, rule, COLUMNS.sums(fits(COLUMNS, NAMES, {})), 1) == fault


def test_a_name_lost_with_broken_domains_is_refused_with_a_hint() -> None:
    columns = columns_of(
        [Domain("r", 1, "nobody", ("n",), "rack"), *(Domain(f"x{n}", 1, tier_name=f"t{n}") for n in range(9))]
    )
    why = why_not(columns, hard(name="rack"), columns.sums(np.array([1])), 1)
    assert str(why).endswith('"t7" and 1 more; 1 broken domains are set aside.')


def test_without_any_domain_a_hard_rule_is_refused_and_a_soft_one_goes_anywhere() -> None:
    columns = TopologyColumns.build([], ("n",))
    sums = columns.sums(np.array([5]))
    assert list(candidates(columns, hard(1), sums, 1)) == []
    assert list(candidates(columns, hard(1), sums, 1, bound=[0])) == []
    assert list(candidates(columns, soft(1), sums, 1, bound=[0])) == [None]
    told = "there is none: no node is in any domain (nodes come into domains by their labels, or by HyperNodes)."
    assert str(why_not(columns, hard(1), sums, 1)) == f"Its pods must be in one domain of tier 1, and {told}"
    assert str(why_not(columns, hard(), sums, 1)) == f"Its pods must be in one domain, and {told}"
    part = why_not(columns, hard(2), sums, 1, subgroup="a/0")
    assert str(part) == f'The pods of sub-group "a/0" must be in one domain of tier 2 or closer, and {told}'
    assert part.number("domains") == 0


def test_where_all_domains_are_wider_their_tiers_are_named_and_what_would_help() -> None:
    columns = columns_of([Domain("b", 2, None, ("n",), "block", tree="halls"), Domain("h", 3, tree="halls")])
    why = why_not(columns, hard(1), columns.sums(np.array([1])), 1)
    assert str(why) == (
        "Its pods must be in one domain of tier 1, and there is none: the closest domains are of tier 2 (block), 3 "
        "(make closer ones, or allow a wider tier)."
    )


def test_where_all_domains_of_the_tier_are_unhealthy_that_is_what_is_told() -> None:
    columns = columns_of([Domain("r", 1, None, ("n",), healthy=False)])
    assert str(why_not(columns, hard(1), columns.sums(np.array([1])), 1)).endswith(
        "there is none: the 1 that there are cannot be used, since they are unhealthy."
    )
