"""The tree of domains: what is free where, what is ill, and which jobs sit where."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.cli.topology import screen
from allhands.views.topology import TopologyDomain, TopologyNode, all_domains, find_domain, topology_of
from tests.depth import examples
from tests.unit.views.view_objects import hyper_node, job, node, picture, pod

RACK, ZONE = "topology.allhands.dev/rack", "topology.kubernetes.io/zone"
SHOWN = picture(
    job("train", size=3),
    pod("train-0", job="train", node="n1", phase="Running", cpu="3"),
    pod("train-1", job="train", node="n1", phase="Running"),
    pod("train-2", job="train", node="n3", phase="Running"),
    pod("done", node="n1", phase="Succeeded"),
    pod("alone", node="n2", phase="Running", cpu="2"),
    node("n1", labels={RACK: "a", ZONE: "z1"}),
    node("n2", labels={RACK: "b", ZONE: "z1"}, unschedulable=True),
    node("n3", labels={ZONE: "z2"}),
    node("n4", ready=False),
)


def test_domains_nest_by_labels_and_nodes_without_them_are_at_the_top() -> None:
    whole = topology_of(SHOWN)
    assert [it.name for it in all_domains(whole)] == ["z1", "z1/a", "z1/b", "z2"]
    assert [it.tier for it in all_domains(whole)] == ["zone", "rack", "rack", "zone"]
    assert [it.name for it in whole.nodes] == ["n4"]
    assert [it.name for it in whole.domains[1].nodes] == ["n3"]


def test_nothing_is_free_where_nothing_can_start() -> None:
    whole = topology_of(SHOWN)
    cpu = {it.name: (it.room[0].free, it.room[0].total) for it in (whole, *all_domains(whole))}
    assert cpu == {
        "all": (3000, 16000),
        "z1": (0, 8000),
        "z1/a": (0, 4000),
        "z1/b": (0, 4000),
        "z2": (3000, 4000),
    }
    assert whole.unhealthy == {"n2": "Cordoned", "n4": "NotReady"}
    assert (whole.node_count, whole.ready_count) == (4, 2)


def test_jobs_sit_where_their_pods_hold_something_the_most_first() -> None:
    whole = topology_of(SHOWN)
    assert [(it.job, it.pods) for it in whole.jobs] == [("default/job/train", 3), ("default/pod/alone", 1)]
    z1 = whole.domains[0]
    assert [(it.job, it.pods) for it in z1.jobs] == [("default/job/train", 2), ("default/pod/alone", 1)]


def test_a_domain_is_found_by_its_name_or_the_unique_end_of_it() -> None:
    twice = picture(node("n1", labels={RACK: "a", ZONE: "z1"}), node("n2", labels={RACK: "a", ZONE: "z2"}))
    whole = topology_of(twice)
    assert find_domain(whole, "a") is None
    assert find_domain(whole, "z2/a") is whole.domains[1].domains[0]
    single = topology_of(SHOWN)
    assert find_domain(single, "b") is single.domains[0].domains[1]


def test_labels_may_be_chosen() -> None:
    own = picture(node("n1", labels={"example.com/switch": "s1", RACK: "a"}))
    whole = topology_of(own, ["example.com/switch"])
    assert [(it.name, it.tier, it.label) for it in whole.domains] == [("s1", "switch", "example.com/switch")]


def test_the_screen_is_a_tree_that_shows_who_is_ill() -> None:
    lines = screen(topology_of(SHOWN), (), 16, wide=False).splitlines()
    assert [line.split("  ")[0].rstrip() for line in lines[:3]] == ["DOMAIN", "all", "├─ zone z1"]
    assert lines[3].startswith("│  ├─ rack a")
    assert lines[4].startswith("│  │  └─ n1")
    assert "Cordoned" in lines[6]
    assert lines[-1].startswith("└─ n4")
    assert "NotReady" in lines[-1]


def test_of_many_nodes_those_that_are_ill_are_shown() -> None:
    many = picture(*(node(f"n{number}", labels={RACK: "a"}, ready=number != 7) for number in range(9)))
    lines = screen(topology_of(many), (), 1, wide=False).splitlines()
    assert "n7" in lines[3]
    assert lines[4].strip().endswith("8 more nodes")
    assert "n7" not in screen(topology_of(many), (), 0, wide=False)
    assert len(screen(topology_of(many), (), 1, wide=True).splitlines()) == 12


def test_a_cluster_without_labels_is_told_which_would_count() -> None:
    assert "No node has a label" in screen(topology_of(picture(node("n1"))), (RACK,), 16, wide=False)
    assert "No node has a label" in screen(topology_of(picture()), (RACK,), 16, wide=False)


def of(kind: str, name: str) -> dict[str, Any]:
    return {"type": kind, "selector": {"exactMatch": {"name": name}}}


HYPER = (
    hyper_node("s0", 1, of("Node", "n1"), of("Node", "n2"), tier_name="switch"),
    hyper_node("s1", 1, of("Node", "n3"), tier_name="switch"),
    hyper_node("block", 2, of("HyperNode", "s0"), of("HyperNode", "s1"), tier_name="block"),
)
ON_SWITCHES = (
    *(node(f"n{number}") for number in range(1, 5)),
    job("train", size=1),
    pod("train-0", job="train", node="n1", phase="Running", cpu="3"),
)


def test_hyper_nodes_are_a_tree_beside_that_of_labels() -> None:
    whole = topology_of(picture(*ON_SWITCHES, *HYPER))
    (tree,) = whole.trees
    assert (whole.domains, tree.name, tree.set_aside) == ((), "hypernodes", {})
    assert [(it.name, it.tier, it.label, it.node_count) for it in all_domains(whole)] == [
        ("block", "tier 2 (block)", "", 3),
        ("s0", "tier 1 (switch)", "", 2),
        ("s1", "tier 1 (switch)", "", 1),
    ]
    block = tree.domains[0]
    assert [(it.free, it.total) for it in block.room if it.resource == "cpu"] == [(9000, 12000)]
    assert [it.name for it in block.domains[0].nodes] == ["n1", "n2"]
    assert [it.name for it in tree.nodes] == ["n4"]
    assert find_domain(whole, "s1") is block.domains[1]
    assert find_domain(whole, "hypernodes") is tree


def test_the_screen_shows_the_tree_of_hyper_nodes_alone_where_no_labels_count() -> None:
    lines = screen(topology_of(picture(*ON_SWITCHES, *HYPER)), (RACK,), 16, wide=False).splitlines()
    assert [line.split("  ")[0] for line in lines[1:3]] == ["hypernodes", "├─ tier 2 (block) block"]
    assert lines[3].startswith("│  ├─ tier 1 (switch) s0")
    assert lines[4].startswith("│  │  ├─ n1")
    both = screen(topology_of(picture(*ON_SWITCHES, *HYPER, node("n5", labels={RACK: "a"}))), (RACK,), 0, wide=False)
    assert [it for it in both.splitlines() if it.startswith(("all", "hypernodes", "DOMAIN"))][1].startswith("all")
    assert "rack a" in both


def test_what_is_wrong_with_a_hyper_node_is_shown_beside_the_tree() -> None:
    broken = hyper_node("odd", 1)
    rival = hyper_node("rival", 2, of("HyperNode", "s1"))
    whole = topology_of(picture(*ON_SWITCHES, *HYPER, broken, rival))
    assert set(whole.trees[0].set_aside) == {"odd", "s1"}
    shown = screen(whole, (RACK,), 16, wide=False)
    assert "Not used: odd: spec.members: Required value: a HyperNode has at least one member" in shown
    nothing = topology_of(picture(*ON_SWITCHES, broken))
    assert [it.name for it in nothing.trees[0].nodes] == ["n1", "n2", "n3", "n4"]


places = st.tuples(st.sampled_from(["", "a", "b"]), st.sampled_from(["", "x", "y"]), st.booleans(), st.integers(0, 6))


@given(st.lists(places, max_size=8))
@settings(max_examples=examples(100))
def test_a_domain_has_what_is_below_it_and_nothing_else(drawn: list[tuple[str, str, bool, int]]) -> None:
    nodes = [
        node(f"n{number}", ready=ready, labels={RACK: rack, ZONE: zone})
        for number, (rack, zone, ready, _) in enumerate(drawn)
    ]
    pods = [
        pod(f"p{number}", node=f"n{number}", phase="Running", cpu=str(cpu))
        for number, (_, _, _, cpu) in enumerate(drawn)
        if cpu
    ]
    whole = topology_of(picture(*nodes, *pods))
    assert whole.node_count == len(drawn)
    for domain in (whole, *all_domains(whole)):
        parts: list[TopologyDomain | TopologyNode] = [*domain.domains, *domain.nodes]
        for at, row in enumerate(domain.room):
            assert row.free == sum(it.room[at].free for it in parts)
            assert row.total == sum(it.room[at].total for it in parts)
        assert domain.node_count == len(domain.nodes) + sum(it.node_count for it in domain.domains)
        assert sum(it.pods for it in domain.jobs) == sum(seat.pods for it in parts for seat in it.jobs)
