"""Labels of nodes become nested domains, the same whatever the order of the nodes."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.dialects.topology_labels import DEFAULT_LABELS, domains_of
from allhands.model.domain import Domain, DomainTree
from allhands.model.node import Node
from tests.depth import examples

RACK, ZONE, REGION = DEFAULT_LABELS


def _node(name: str, rack: str | None = None, zone: str | None = None, region: str | None = None) -> Node:
    said = {RACK: rack, ZONE: zone, REGION: region}
    return Node(name, labels={label: value for label, value in said.items() if value is not None})


def test_every_value_is_a_domain_inside_the_next_wider_one() -> None:
    nodes = [_node("n1", "r1", "z1", "eu"), _node("n2", "r2", "z1", "eu"), _node("n3", "r1", "z2", "eu")]
    assert domains_of(nodes, DEFAULT_LABELS) == (
        Domain("eu", 3, None, (), REGION),
        Domain("eu/z1", 2, "eu", (), ZONE),
        Domain("eu/z1/r1", 1, "eu/z1", ("n1",), RACK),
        Domain("eu/z1/r2", 1, "eu/z1", ("n2",), RACK),
        Domain("eu/z2", 2, "eu", (), ZONE),
        Domain("eu/z2/r1", 1, "eu/z2", ("n3",), RACK),
    )


def test_a_node_that_lacks_close_labels_is_directly_in_a_wider_domain() -> None:
    domains = {it.name: it for it in domains_of([_node("n1", zone="z"), _node("n2", "r", "z")], DEFAULT_LABELS)}
    assert domains["z"].nodes == ("n1",)
    assert domains["z/r"].nodes == ("n2",)


def test_nodes_without_labels_or_with_empty_ones_are_in_no_domain() -> None:
    assert domains_of([_node("n1"), _node("n2", "", "", "")], DEFAULT_LABELS) == ()
    assert [it.name for it in domains_of([_node("n1", "r", "", "eu")], DEFAULT_LABELS)] == ["eu", "eu/r"]
    assert domains_of([], DEFAULT_LABELS) == domains_of([_node("n", "r")], ()) == ()


def test_a_rack_and_a_zone_of_one_name_are_two_domains_in_any_order() -> None:
    nodes = [_node("n1", rack="a"), _node("n2", zone="a"), _node("n3", "b", None, "eu"), _node("n4", None, "b", "eu")]
    domains = domains_of(nodes, DEFAULT_LABELS)
    assert domains == domains_of(reversed(nodes), DEFAULT_LABELS)
    assert {it.name: it.nodes for it in domains if it.nodes} == {
        "a": ("n2",),
        f"{RACK}=a": ("n1",),
        "eu/b": ("n4",),
        f"{RACK}=eu/b": ("n3",),
    }


VALUES = st.none() | st.sampled_from(["", "a", "b"])


@given(st.lists(st.tuples(VALUES, VALUES, VALUES), max_size=12), st.randoms(use_true_random=False))
@settings(max_examples=examples(150))
def test_any_labels_make_a_sound_tree_with_every_labelled_node_once(
    labels: list[tuple[str | None, str | None, str | None]], chance: object
) -> None:
    nodes = [_node(f"n{number}", *values) for number, values in enumerate(labels)]
    domains = domains_of(nodes, DEFAULT_LABELS)
    shuffled = list(nodes)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    assert domains == domains_of(shuffled, DEFAULT_LABELS)
    tree = DomainTree.build(domains)
    assert set(tree.home_by_node) == {it.name for it in nodes if any(it.labels.values())}
