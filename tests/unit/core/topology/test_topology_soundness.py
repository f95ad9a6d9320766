"""Broken domains are set aside with a sentence that names the culprit; what does not hang on them goes on."""

from __future__ import annotations

import pytest

from allhands.model.domain import Domain
from allhands.model.reason import Reason
from tests.unit.core.topology.hall import columns_of, hall

CASES = {
    "a domain defined twice": ([Domain("x", 1, "b0"), Domain("x", 0, "b0")], {"x": 'Domain "x" is defined 2 times.'}),
    "a domain with two parents": (
        [Domain("x", 1, "b1"), Domain("x", 1, "b0"), Domain("y", 0, "x")],
        {
            "x": 'Domain "x" has 2 parents: "b0", "b1".',
            "y": 'Domain "y" lies in "x", which is set aside.',
        },
    ),
    "a parent that does not exist, and what hangs on its child": (
        [Domain("x", 5, "nobody"), Domain("y", 4, "x"), Domain("z", 3, "y")],
        {
            "x": 'Domain "x" has the parent "nobody", which does not exist.',
            "y": 'Domain "y" lies in "x", which is set aside.',
            "z": 'Domain "z" lies in "y", which is set aside.',
        },
    ),
    "a cycle, and what hangs on it": (
        [Domain("y", 2, "x"), Domain("x", 1, "y"), Domain("z", 0, "y")],
        {
            "x": 'The parents of domains form a cycle: "x" -> "y" -> "x".',
            "y": 'The parents of domains form a cycle: "x" -> "y" -> "x".',
            "z": 'Domain "z" lies in "y", which is set aside.',
        },
    ),
    "a domain in itself": ([Domain("x", 1, "x")], {"x": 'The parents of domains form a cycle: "x" -> "x".'}),
    "a tier that does not rise towards the root": (
        [Domain("x", 3, "hall")],
        {"x": 'Domain "x" of tier 3 cannot lie in "hall" of tier 3: tiers must rise towards the root.'},
    ),
    "a parent in another tree": (
        [Domain("x", 1, "hall", tree="nvlink")],
        {"x": 'Domain "x" of tree "nvlink" cannot lie in "hall" of tree "".'},
    ),
    "no name": ([Domain("", 1)], {"": "A domain must have a name."}),
    "a tier beyond 64 bits": ([Domain("x", 2**63)], {"x": 'Domain "x" has a tier beyond 64 bits.'}),
}


@pytest.mark.parametrize(("broken", "want"), CASES.values(), ids=CASES.keys())
def test_a_broken_domain_is_set_aside_and_the_hall_stays_whole(broken: list[Domain], want: dict[str, str]) -> None:
    columns = columns_of([*broken, *hall()])
    assert {name: str(explanation) for name, explanation in columns.set_aside.items()} == want
    assert {explanation.reason for explanation in columns.set_aside.values()} == {Reason.INVALID}
    assert [domain.name for domain in columns.domains] == [domain.name for domain in columns_of(hall()).domains]


def test_a_broken_block_takes_its_racks_with_it_and_no_others() -> None:
    domains = [Domain("b0", 3, "hall") if domain.name == "b0" else domain for domain in hall(2, 2)]
    columns = columns_of(domains)
    assert set(columns.set_aside) == {"b0", "b0r0", "b0r1"}
    assert [domain.name for domain in columns.domains] == ["hall", "b1", "b1r0", "b1r1"]


@pytest.mark.parametrize("tier", [2**62, 2**63 - 1, -(2**63), -1, 0])
def test_any_tier_of_64_bits_is_a_tier(tier: int) -> None:
    columns = columns_of([Domain("only", tier, nodes=("n",))])
    assert not columns.set_aside
    assert columns.domain_at(0, tier) == 0


def test_a_chain_of_thousands_of_domains_is_walked_without_recursion() -> None:
    chain = [Domain(f"d{depth:05d}", -depth, f"d{depth - 1:05d}" if depth else None) for depth in range(5000)]
    columns = columns_of([*chain[:-1], Domain("d04999", -4999, "d04998", ("n",))])
    assert not columns.set_aside
    assert columns.sums(columns.home[0] * 0 + 7).tolist() == [7] * 5000
