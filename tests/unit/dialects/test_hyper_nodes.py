"""HyperNodes become one tree of domains; what is wrong with one disables that one alone."""

from __future__ import annotations

import json
import random
from typing import Any

import msgspec
import pytest

from allhands.api.volcano.hyper_node import ONE_SELECTOR
from allhands.core.topology.soundness import sound_domains
from allhands.dialects.group_kinds import VOLCANO
from allhands.dialects.groups import pod_group_of
from allhands.dialects.hyper_nodes import EVERYTHING, TREE, HyperNodeRecord, hyper_tree, read_hyper_node
from allhands.dialects.topology_labels import DEFAULT_LABELS
from allhands.model.node import Node, NodeDocument
from tests.foreign_kinds import group


def node(name: str, **labels: str) -> Node:
    document = json.dumps({"metadata": {"name": name, "labels": labels}}).encode()
    return Node.from_document(msgspec.json.decode(document, type=NodeDocument))


def member(kind: str = "Node", **ways: Any) -> dict[str, Any]:
    words = {"exact": "exactMatch", "regex": "regexMatch", "labels": "labelMatch"}
    fields = {"exact": "name", "regex": "pattern", "labels": "matchLabels"}
    return {"type": kind, "selector": {words[way]: {fields[way]: value} for way, value in ways.items()}}


def hyper(
    name: str, tier: int, *members: dict[str, Any], tier_name: str = "", created: str | None = None
) -> HyperNodeRecord:
    spec = {"tier": tier, "tierName": tier_name, "members": list(members)}
    metadata = {"name": name, "creationTimestamp": created}
    return read_hyper_node(json.dumps({"metadata": metadata, "spec": spec}).encode())


NODES = [node(f"n{index}", rack=f"r{index // 2}") for index in range(6)]
LEAVES = [
    hyper("s0", 1, member(exact="n0"), member(exact="n1"), tier_name="switch"),
    hyper("s1", 1, member(regex="^n[23]$"), tier_name="switch"),
    hyper("s2", 1, member(labels={"rack": "r2"}), tier_name="switch"),
]
SPINE = hyper("spine", 2, member("HyperNode", exact="s0"), member("HyperNode", regex="^s[0-9]$"), tier_name="spine")


def test_members_are_found_by_name_by_pattern_and_by_labels() -> None:
    tree = hyper_tree([*LEAVES, SPINE], NODES)
    assert {it.name: (it.tier, it.parent, it.nodes) for it in tree.domains} == {
        "s0": (1, "spine", ("n0", "n1")),
        "s1": (1, "spine", ("n2", "n3")),
        "s2": (1, "spine", ("n4", "n5")),
        "spine": (2, EVERYTHING, ()),
        EVERYTHING: (3, None, ()),
    }
    assert {it.tree for it in tree.domains} == {TREE}
    assert (tree.tier_names, tree.problems) == (("switch", "spine"), {})
    assert not sound_domains(tree.domains).set_aside


def test_nodes_in_no_hyper_node_are_in_the_domain_of_all() -> None:
    tree = hyper_tree(LEAVES[:1], NODES)
    assert {it.name: it.nodes for it in tree.domains} == {"s0": ("n0", "n1"), EVERYTHING: ("n2", "n3", "n4", "n5")}


def test_the_order_in_which_they_come_changes_nothing() -> None:
    wanted = hyper_tree([*LEAVES, SPINE], NODES)
    for seed in range(5):
        records, nodes = [*LEAVES, SPINE], list(NODES)
        random.Random(seed).shuffle(records)
        random.Random(seed).shuffle(nodes)
        assert hyper_tree(records, nodes) == wanted


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ([], "spec.members: Required value: a HyperNode has at least one member"),
        ([member()], f"spec.members[0].selector: Required value: {ONE_SELECTOR}"),
        ([member(exact="a", regex="b")], f"spec.members[0].selector.regexMatch: Forbidden: {ONE_SELECTOR}"),
        (
            [member(exact="a"), member(regex="(")],
            'spec.members[1].selector.regexMatch.pattern: Invalid value: "(": is not',
        ),
        (
            [member(regex="a" * 2000)],
            "spec.members[0].selector.regexMatch.pattern: Too long: may not be more than 1024",
        ),
        (
            [member("Rack", exact="a")],
            'spec.members[0].type: Unsupported value: "Rack": supported values: "Node", "Hyper',
        ),
        (
            [member("HyperNode", labels={"a": "b"})],
            "spec.members[0].selector.labelMatch: Forbidden: is only for members",
        ),
        ([member(exact="")], "spec.members[0].selector.exactMatch.name: Required value"),
        ([member(labels={"": "b"})], "spec.members[0].selector.labelMatch.matchLabels: Invalid value"),
        ([member("HyperNode", exact="broken")], "spec.members[0].selector.exactMatch.name: Invalid value"),
    ],
)
def test_a_broken_one_disables_only_itself_and_says_why(members: list[dict[str, Any]], problem: str) -> None:
    """And in the words of admission, which is asked where webhooks are."""
    broken = hyper("broken", 1, *members)
    assert broken.problem.startswith(problem)
    tree = hyper_tree([*LEAVES, SPINE, broken], NODES)
    assert tree.problems == {"broken": broken.problem}
    assert tree.domains == hyper_tree([*LEAVES, SPINE], NODES).domains


def test_one_that_cannot_even_be_read_is_told_by_its_name() -> None:
    read = read_hyper_node(b'{"metadata": {"name": "odd"}, "spec": {"tier": "high"}}')
    assert (read.name, "tier" in read.problem) == ("odd", True)


@pytest.mark.parametrize("tier", [0, 1, 2])
def test_one_that_claims_what_is_not_below_it_disables_only_itself(tier: int) -> None:
    """Not the one that it claims, and not all that lie in that one."""
    claimer = hyper("claimer", tier, member("HyperNode", exact="spine"), member(exact="n1"))
    tree = hyper_tree([*LEAVES, SPINE, claimer], NODES)
    assert tree.problems == {
        "claimer": f'its member "spine" has tier 2, and it has tier {tier} itself: '
        "the tier of a HyperNode must be above those of its members"
    }
    assert tree.domains == hyper_tree([*LEAVES, SPINE], NODES).domains


@pytest.mark.parametrize(
    ("created", "later"),
    [(("2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"), "b"), (("2026-01-02T00:00:00Z", "2026-01-01T00:00:01Z"), "a")],
    ids=["made after", "made before"],
)
def test_of_two_in_one_tier_that_share_a_node_the_later_one_is_broken(created: tuple[str, str], later: str) -> None:
    pair = [
        hyper("a", 1, member(regex="^n[012]$"), created=created[0]),
        hyper("b", 1, member(regex="^n[123]$"), created=created[1]),
    ]
    above = hyper("above", 2, member("HyperNode", regex="^[ab]$"), member(exact="n5"))
    tree = hyper_tree([*pair, above], NODES)
    other = "ba"["ba".index(later) - 1]
    assert tree.problems == {
        later: f'2 of its nodes, such as "n1", are in "{other}" already, which has tier 1 too and goes first '
        "(by age, then by name): a node may be in one HyperNode of a tier"
    }
    kept = [it for it in pair if it.name == other]
    assert tree.domains == hyper_tree([*kept, above], NODES).domains
    assert not sound_domains(tree.domains).set_aside


def test_who_is_broken_himself_breaks_nobody_by_what_he_shares() -> None:
    chain = [hyper("a", 1, member(regex="^n[01]$")), hyper("b", 1, member(regex="^n[12]$"))]
    tree = hyper_tree([*chain, hyper("c", 1, member(regex="^n[23]$"))], NODES)
    assert set(tree.problems) == {"b"}
    assert "1 of its nodes" not in tree.problems["b"]
    assert tree.problems["b"].startswith('its node "n1" is in "a" already, which has tier 1 too')


def test_a_node_may_be_in_one_of_each_tier() -> None:
    tree = hyper_tree([*LEAVES, SPINE, hyper("hall", 3, member("HyperNode", exact="spine"), member(exact="n0"))], NODES)
    assert not tree.problems


def test_a_pattern_means_those_below_only() -> None:
    wide, beside = hyper("wide", 2, member("HyperNode", regex=".")), hyper("beside", 2, member(exact="n5"))
    tree = hyper_tree([*LEAVES, wide, beside, hyper("above", 3, member("HyperNode", exact="wide"))], NODES)
    assert not tree.problems
    assert {it.name for it in tree.domains if it.parent == "wide"} == {it.name for it in LEAVES}


def test_two_parents_set_aside_whom_they_claim_and_circles_all_who_are_in_them() -> None:
    rival = hyper("rival", 2, member("HyperNode", exact="s1"))
    loop = [hyper("a", 3, member("HyperNode", exact="b")), hyper("b", 3, member("HyperNode", exact="a"))]
    tree = hyper_tree([*LEAVES, SPINE, rival, *loop], NODES)
    assert set(tree.problems) == {"a", "b"}
    sound = sound_domains(tree.domains)
    assert set(sound.set_aside) == {"s1"}
    assert "2 parents" in str(sound.set_aside["s1"])
    assert {it.name for it in sound.ordered} == {EVERYTHING, "s0", "s2", "spine", "rival"}


@pytest.mark.parametrize("topology", [{"mode": "hard", "highestTierAllowed": 1}, {"highestTierName": "switch"}])
def test_rules_of_volcano_groups_are_about_hyper_nodes_where_there_are_any(topology: dict[str, Any]) -> None:
    record = VOLCANO.read(json.dumps(group(VOLCANO.resource, "g", networkTopology=topology)).encode())
    made, problem = pod_group_of(record, record.group_name, {}, DEFAULT_LABELS, hyper_tiers=("switch",))
    assert problem == ""
    assert made.members.topology is not None
    assert made.members.topology.tree == TREE


def test_a_tier_that_no_hyper_node_has_is_named_with_those_that_there_are() -> None:
    record = VOLCANO.read(
        json.dumps(group(VOLCANO.resource, "g", networkTopology={"highestTierName": "rack"})).encode()
    )
    _, problem = pod_group_of(record, record.group_name, {}, DEFAULT_LABELS, hyper_tiers=("switch", "spine"))
    assert problem == 'topology: "rack" is not one of the tiers of HyperNodes: switch, spine'
