"""Node groups of queues as node affinity: the same nodes that Volcano's plugin lets through; no pod is widened."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.model.affinity import NO_NODE_AFFINITY, NodeAffinity, NodeSelectorTerm, PreferredNodeTerm
from allhands.model.node_groups import LABEL, NodeGroups, NodeGroupUse, rule_of, said_by
from allhands.model.selector import Requirement
from tests.depth import examples

NAMES = ("a", "b", "c", "d")
SETS = st.lists(st.sampled_from(NAMES), max_size=3, unique=True).map(tuple)
GROUPS = st.builds(NodeGroups, SETS, SETS, SETS, SETS)
NODES = st.sampled_from((None, *NAMES))
ZONE = NodeAffinity((NodeSelectorTerm((Requirement("zone", "In", ("x",)),)), NodeSelectorTerm()))


def labels_of(group: str | None) -> dict[str, str]:
    return {} if group is None else {LABEL: group}


def lets_through(groups: NodeGroups, group: str | None, *, strict: bool) -> bool:
    """As Volcano's plugin decides about one node."""
    if group is None:
        return groups.says_nothing and not strict
    if groups.says_nothing:
        return False
    allowed = group in groups.required or group in groups.preferred
    if group in groups.forbidden:
        allowed = False
    return True if group in groups.avoided else allowed


@settings(max_examples=examples(300))
@given(GROUPS.filter(lambda it: bool(it.required or it.preferred or it.says_nothing)), NODES, st.booleans())
def test_it_lets_through_what_volcano_lets_through(groups: NodeGroups, group: str | None, strict: bool) -> None:
    rule = rule_of(groups, NodeGroupUse.STRICT if strict else NodeGroupUse.APART)
    assert rule is not None
    found = rule.applied_to(NO_NODE_AFFINITY).matches(labels_of(group), "n")
    assert found == lets_through(groups, group, strict=strict)


@settings(max_examples=examples(200))
@given(GROUPS, NODES, st.sampled_from(tuple(NodeGroupUse)), st.booleans())
def test_no_pod_may_use_more_nodes_by_its_queue_than_without(
    groups: NodeGroups, group: str | None, use: NodeGroupUse, in_zone: bool
) -> None:
    rule = rule_of(groups, use)
    labels = labels_of(group) | ({"zone": "x"} if in_zone else {})
    alone = ZONE.matches(labels, "n")
    by_queue = rule is None or rule.applied_to(NO_NODE_AFFINITY).matches(labels, "n")
    both = ZONE if rule is None else rule.applied_to(ZONE)
    assert both.matches(labels, "n") == (alone and by_queue)


def test_a_queue_that_names_none_changes_nothing_where_nobody_is_kept_apart() -> None:
    assert rule_of(None, NodeGroupUse.FREE) is None
    assert rule_of(NodeGroups(), NodeGroupUse.FREE) is None


def test_preferences_are_in_volcanos_proportion_and_order() -> None:
    groups = NodeGroups(required=("a", "b"), preferred=("b", "c", "d"), avoided=("d",))
    weights = {it.term.match_expressions[0].values[0]: it.weight for it in preferred(groups, ordered=False)}
    assert weights == {"a": 66, "b": 99, "c": 33}
    weights = {it.term.match_expressions[0].values[0]: it.weight for it in preferred(groups, ordered=True)}
    assert weights == {"a": 66, "b": 99, "c": 22}
    assert preferred(NodeGroups(required=("a", "b")), ordered=False) == ()


def preferred(groups: NodeGroups, *, ordered: bool) -> tuple[PreferredNodeTerm, ...]:
    rule = rule_of(groups, NodeGroupUse.FREE, ordered=ordered)
    assert rule is not None
    return rule.preferred


@pytest.mark.parametrize(
    ("groups", "use", "words"),
    [
        (NodeGroups(required=("a",), preferred=("b",)), NodeGroupUse.FREE, "of a, b"),
        (NodeGroups(forbidden=("a",)), NodeGroupUse.FREE, "of all groups but a"),
        (NodeGroups(required=("a",), forbidden=("a",)), NodeGroupUse.FREE, "of no group at all"),
        (None, NodeGroupUse.APART, "that are in no group"),
        (None, NodeGroupUse.STRICT, "of no group at all"),
        (NodeGroups(avoided=("a",)), NodeGroupUse.STRICT, "that are in a group"),
    ],
)
def test_what_is_asked_is_told_in_words(groups: NodeGroups | None, use: NodeGroupUse, words: str) -> None:
    rule = rule_of(groups, use)
    assert rule is not None
    assert said_by(rule.applied_to(NO_NODE_AFFINITY)) == words
    assert said_by(rule.applied_to(ZONE)) == words
    assert said_by(ZONE) == ""
