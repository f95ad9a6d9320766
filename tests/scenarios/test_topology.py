"""Gangs on a network: in one rack or one block as they ask, without breaking up the large holes, and never stopped by a
tree that is broken somewhere else."""

from __future__ import annotations

import msgspec
import pytest

from allhands.model.podgroup import SubGroup, TopologyMode, TopologyRule
from allhands.model.reason import Reason
from tests.scenarios.cluster import Cluster, nodes_of

HARD, SOFT = TopologyMode.HARD, TopologyMode.SOFT


def rule(tier: int | str | None = None, mode: TopologyMode = HARD, tree: str | None = None) -> TopologyRule:
    if isinstance(tier, str):
        return TopologyRule(mode, tier_name=tier, tree=tree)
    return TopologyRule(mode, highest_tier=tier, tree=tree)


def whole(count: int, tier: int | str | None = None, mode: TopologyMode = HARD, tree: str | None = None) -> SubGroup:
    return SubGroup(min_count=count, topology=rule(tier, mode, tree))


def hall(blocks: int = 2, racks: int = 2, nodes: int = 2) -> Cluster:
    """Node "b0r1n2" is in rack "b0r1" of block "b0" of the hall. Nodes have four cores."""
    it = Cluster().domain("hall", tier=3, tier_name="hall")
    for block in range(blocks):
        it.domain(f"b{block}", inside="hall", tier=2, tier_name="block")
        for rack in range(racks):
            name = f"b{block}r{rack}"
            names = " ".join(f"{name}n{node}" for node in range(nodes))
            it.nodes(names).domain(name, names, f"b{block}", tier_name="rack")
    return it


def racks_of(it: Cluster, name: str) -> set[str]:
    return {node[:4] for node in it.where(name)}


def blocks_of(it: Cluster, name: str) -> set[str]:
    return {node[:2] for node in it.where(name)}


# -- hard and soft, by number and by name


@pytest.mark.parametrize("tier", [1, "rack"], ids=["by number", "by name"])
def test_a_gang_that_must_be_in_one_rack_is(tier: int | str) -> None:
    it = hall().gang("g", 2, cpu=4, members=whole(2, tier)).settle()
    assert len(racks_of(it, "g")) == 1
    assert it.plans[0].starts[0].domain == "b0r0"


@pytest.mark.parametrize("tier", [2, "block"], ids=["by number", "by name"])
def test_a_gang_too_large_for_a_rack_that_may_use_a_block_stays_in_one(tier: int | str) -> None:
    it = hall().gang("g", 4, cpu=4, members=whole(4, tier)).settle()
    assert len(blocks_of(it, "g")) == 1


def test_a_gang_that_may_use_a_block_still_gets_the_closest_nodes() -> None:
    it = hall().gang("g", 2, cpu=4, members=whole(2, 2)).settle()
    assert len(racks_of(it, "g")) == 1


def test_a_gang_too_large_for_any_rack_waits_with_numbers() -> None:
    it = hall().gang("g", 3, cpu=4, members=whole(3, 1)).settle()
    assert it.reason("g") in (Reason.TOPOLOGY, Reason.GROUP_NEVER_FITS)
    assert not it.where("g")
    first = it.plans[0].waits[0].explanation
    assert first.reason in (Reason.TOPOLOGY, Reason.GROUP_NEVER_FITS)


def test_a_gang_for_which_no_rack_has_room_now_is_told_how_much_the_best_has() -> None:
    it = hall(blocks=1).gang("runs", 1, cpu=4, on="b0r0n0").gang("too", 1, cpu=4, on="b0r1n0")
    it.gang("g", 2, cpu=4, members=whole(2, 1)).settle()
    assert it.reason("g") is Reason.TOPOLOGY
    assert it.why("g").startswith("No domain of tier 1 has room for 2 pods; the best of 2 holds 1.")


def test_a_soft_rule_prefers_a_rack_and_takes_what_there_is() -> None:
    it = hall().gang("g", 3, cpu=4, members=whole(3, 1, SOFT)).settle()
    assert it.running("g") == 3
    assert len(blocks_of(it, "g")) == 1
    it = hall().gang("h", 2, cpu=4, members=whole(2, 1, SOFT)).settle()
    assert len(racks_of(it, "h")) == 1


def test_a_soft_rule_without_any_topology_starts_anywhere() -> None:
    it = Cluster("n1 n2").gang("g", 2, cpu=4, members=whole(2, 1, SOFT)).settle()
    assert it.running("g") == 2


def test_soft_rules_of_sub_groups_without_any_topology_start_anywhere() -> None:
    part = SubGroup("a", min_count=2, topology=rule(1, SOFT))
    it = Cluster("n1 n2").gang("g", 2, cpu=4, parts="a", members=SubGroup(children=(part,))).settle()
    assert it.running("g") == 2


def test_a_soft_rule_that_does_not_fit_anywhere_is_told_about_room_and_not_about_racks() -> None:
    it = hall(blocks=1, racks=1).gang("runs", 1, cpu=4, on="b0r0n0").gang("g", 2, cpu=4, members=whole(2, 1, SOFT))
    it.settle()
    assert it.reason("g") is Reason.INSUFFICIENT_RESOURCES


def test_a_hard_rule_without_any_topology_waits_and_is_told() -> None:
    it = Cluster("n1").gang("g", 1, members=whole(1, 1)).settle()
    assert it.running("g") == 0
    assert it.reason("g") in (Reason.TOPOLOGY, Reason.GROUP_NEVER_FITS)


def test_a_tier_that_no_domain_has_is_named_with_those_that_there_are() -> None:
    it = hall().gang("g", 1, members=whole(1, "aisle")).settle()
    assert it.why("g") == (
        'The topology rule asks for the tier "aisle", which no domain has; known: "block", "hall", "rack".'
    )


def test_a_soft_rule_for_a_tier_that_no_domain_has_does_not_stop_anything() -> None:
    it = hall().gang("g", 2, members=whole(2, "aisle", SOFT)).settle()
    assert it.running("g") == 2


def test_a_rule_without_a_tier_keeps_a_gang_in_one_tree() -> None:
    it = hall().nodes("outside").gang("g", 9, cpu=4, members=whole(9)).settle()
    assert it.running("g") == 0
    it = hall().nodes("outside").gang("g", 8, cpu=4, members=whole(8)).settle()
    assert "outside" not in it.where("g")


# -- sub-groups


def test_sub_groups_each_in_a_rack_and_all_of_them_in_a_block() -> None:
    parts = tuple(SubGroup(name, min_count=2, topology=rule(1)) for name in ("a", "b"))
    it = hall().gang("g", 4, cpu=4, parts="a a b b", members=SubGroup(children=parts, topology=rule(2))).settle()
    assert len(blocks_of(it, "g")) == 1
    assert len(racks_of(it, "g")) == 2


def test_sub_groups_in_racks_without_a_rule_for_all_may_be_in_different_blocks() -> None:
    parts = tuple(SubGroup(name, min_count=2, topology=rule(1)) for name in ("a", "b", "c"))
    it = hall().gang("g", 6, cpu=4, parts="a a b b c c", members=SubGroup(children=parts)).settle()
    assert (it.running("g"), len(racks_of(it, "g")), len(blocks_of(it, "g"))) == (6, 3, 2)


def test_sub_groups_for_which_no_block_has_enough_racks_wait_and_are_told_about_places() -> None:
    parts = tuple(SubGroup(name, min_count=2, topology=rule(1)) for name in ("a", "b"))
    it = hall().gang("one", 1, on="b0r0n0").gang("two", 1, on="b1r0n0")
    it.gang("g", 4, cpu=4, parts="a a b b", members=SubGroup(children=parts, topology=rule(2))).settle()
    assert it.running("g") == 0
    assert it.reason("g") in (Reason.TOPOLOGY, Reason.SUB_GROUP_INCOMPLETE)
    assert "GangIncomplete" not in str(it.reason("g"))


def test_members_outside_of_sub_groups_leave_the_racks_to_these() -> None:
    """A rack holds exactly the sub-group: the leader, who may be anywhere, must not take a node of it."""
    part = SubGroup("a", min_count=2, topology=rule(1))
    it = hall(blocks=1).gang("g", cpu=4, members=SubGroup(min_count=3, children=(part,)))
    it.more("g", 2, cpu=4, parts="a a").settle()
    assert it.running("g") == 3
    assert len({pod.node_name[:4] for pod in it.members("g") if pod.name != "g-0"}) == 1


def test_a_sub_group_that_lost_a_pod_is_repaired_in_its_own_rack() -> None:
    parts = tuple(SubGroup(name, min_count=2, topology=rule(1)) for name in ("a", "b"))
    it = hall(nodes=3).gang("g", 4, cpu=4, parts="a a b b", members=SubGroup(children=parts, topology=rule(2))).settle()
    before = it.where("g")
    lost = next(pod for pod in it.members("g") if pod.name == "g-3")
    other = next(pod for pod in it.members("g") if pod.name == "g-2")
    it.nodes(lost.node_name, cpu=0).lose("g-3").settle()
    again = next(pod for pod in it.members("g") if pod.name == "g-3")
    assert again.node_name[:4] == other.node_name[:4]
    assert again.node_name not in before


def test_a_gang_whose_rack_is_full_waits_for_its_own_rack_when_it_lost_a_pod() -> None:
    it = hall(blocks=1).gang("g", 2, cpu=4, members=whole(2, 1)).settle()
    it.lose("g-1").gang("rival", 1, cpu=4, on="b0r0n1", group={"created_at_seconds": 0}).settle()
    assert it.running("g") == 1
    assert it.reason("g") is Reason.PARTLY_BOUND
    it.finish("rival").settle()
    assert it.where("g") == ["b0r0n0", "b0r0n1"]


def test_elastic_members_join_the_rack_of_their_gang() -> None:
    members = SubGroup(min_count=1, topology=rule(1))
    it = hall(blocks=1).gang("g", 4, cpu=4, members=members).settle()
    assert (it.running("g"), len(racks_of(it, "g"))) == (2, 1)
    assert it.reason("g") is Reason.TOPOLOGY


# -- large holes


def test_a_gang_goes_where_it_fits_best_so_that_large_holes_stay_whole() -> None:
    it = (
        hall(blocks=1, racks=3)
        .gang("half", 1, cpu=4, on="b0r1n0")
        .gang("small", 1, cpu=4, members=whole(1, 1))
        .settle()
    )
    assert racks_of(it, "small") == {"b0r1"}
    it.gang("large", 2, cpu=4, members=whole(2, 1)).settle()
    assert it.running("large") == 2


def test_of_equal_racks_the_one_in_the_fuller_block_is_taken() -> None:
    it = hall().gang("runs", 2, cpu=4, on="b1r0n0 b1r0n1").gang("g", 2, cpu=4, members=whole(2, 1)).settle()
    assert racks_of(it, "g") == {"b1r1"}
    it.gang("large", 4, cpu=4, members=whole(4, 2)).settle()
    assert blocks_of(it, "large") == {"b0"}


def test_many_small_gangs_fill_rack_after_rack() -> None:
    it = hall()
    for number in range(4):
        it.gang(f"g{number}", 1, cpu=4, members=whole(1, 1))
    it.settle()
    assert len({rack for number in range(4) for rack in racks_of(it, f"g{number}")}) == 2


# -- what is broken or unhealthy


def test_an_unhealthy_rack_is_avoided_and_used_again_when_it_has_recovered() -> None:
    it = hall(blocks=1, racks=1).domain("b0r0", "b0r0n0 b0r0n1", "b0", healthy=False)
    it.gang("g", 1, members=whole(1, 1)).settle()
    assert it.running("g") == 0
    assert it.wait("g").explanation.number("unhealthy") == 1
    it.domain("b0r0", "b0r0n0 b0r0n1", "b0").settle()
    assert it.running("g") == 1


def test_what_runs_in_a_rack_that_becomes_unhealthy_is_not_killed() -> None:
    it = hall().gang("g", 2, cpu=4, members=whole(2, 1)).settle().domain("b0r0", "b0r0n0 b0r0n1", "b0", healthy=False)
    it.settle()
    assert (it.running("g"), it.evicted) == (2, [])


def test_a_gang_without_a_rule_does_not_care_for_unhealthy_domains() -> None:
    it = hall(blocks=1, racks=1).domain("b0", inside="hall", tier=2, healthy=False).gang("g", 1).settle()
    assert it.running("g") == 1


BROKEN = {
    "a domain whose parent does not exist": {"name": "lost", "nodes": "x1", "inside": "nowhere"},
    "a domain that lies in itself": {"name": "self", "nodes": "x1", "inside": "self"},
    "a domain that is as high as its parent": {"name": "high", "nodes": "x1", "inside": "b0", "tier": 2},
    "a domain of another tree than its parent": {"name": "stray", "nodes": "x1", "inside": "b0", "tree": "other"},
    "a domain with nodes that do not exist": {"name": "empty", "nodes": "y1 y2", "inside": "b0"},
    "a domain that claims nodes of another one": {"name": "thief", "nodes": "b1r1n0", "inside": "b1"},
}


@pytest.mark.parametrize("name", BROKEN)
def test_the_rest_of_the_tree_is_not_disabled_by(name: str) -> None:
    it = hall().nodes("x1", cpu=64).domain(**BROKEN[name])  # type: ignore[arg-type]
    it.gang("g", 2, cpu=4, members=whole(2, 1)).gang("h", 4, cpu=4, members=whole(4, 2)).settle()
    assert (it.running("g"), it.running("h")) == (2, 4)


def test_what_is_broken_is_told_with_the_plan() -> None:
    it = hall().domain("lost", "x1", "nowhere").domain("thief", "b0r0n0", "b0")
    it.step()
    assert it.set_aside == {
        "Domain lost": 'Domain "lost" has the parent "nowhere", which does not exist.',
        "Node b0r0n0": 'Node "b0r0n0" is in several domains of one tree, none inside the other: "b0r0", "thief".',
    }


def test_two_parents_for_a_domain_set_it_aside_and_nothing_else() -> None:
    it = hall(racks=1)
    twice = next(domain for domain in it.facts.domains if domain.name == "b0r0")
    it.know(domains=(*it.facts.domains, msgspec.structs.replace(twice, parent="b1")))
    it.gang("g", 2, cpu=4, members=whole(2, 1)).settle()
    assert racks_of(it, "g") == {"b1r0"}
    assert it.set_aside == {"Domain b0r0": 'Domain "b0r0" has 2 parents: "b0", "b1".'}


# -- several trees, unequal depth


def two_fabrics() -> Cluster:
    """Four nodes, paired one way by one fabric and another way by the other."""
    it = Cluster("n1 n2 n3 n4")
    it.domain("rails", tier=2, tree="rail").domain("power", tier=2, tree="power")
    it.domain("rail1", "n1 n2", "rails", tree="rail").domain("rail2", "n3 n4", "rails", tree="rail")
    return it.domain("feed1", "n1 n3", "power", tree="power").domain("feed2", "n2 n4", "power", tree="power")


@pytest.mark.parametrize(("tree", "nodes"), [("rail", ["n1", "n2"]), ("power", ["n1", "n3"])])
def test_a_rule_is_about_the_tree_that_it_names(tree: str, nodes: list[str]) -> None:
    it = two_fabrics().gang("g", 2, cpu=4, members=whole(2, 1, tree=tree)).settle()
    assert it.where("g") == nodes


def test_a_tree_that_does_not_exist_is_named_with_those_that_there_are() -> None:
    it = two_fabrics().gang("g", 1, members=whole(1, 1, tree="steam")).settle()
    assert it.why("g") == ('The topology rule asks for the tree "steam", which does not exist; known: "power", "rail".')


def test_a_sub_group_may_be_bound_to_another_tree_than_its_group() -> None:
    it = two_fabrics()
    parts = (SubGroup("a", min_count=2, topology=rule(1, tree="power")),)
    it.gang("g", 2, cpu=4, parts="a", members=SubGroup(children=parts, topology=rule(2, tree="rail"))).settle()
    assert it.where("g") in (["n1", "n3"], ["n2", "n4"])


def test_a_switch_that_hangs_directly_on_the_hall_is_as_good_as_a_rack() -> None:
    it = hall(blocks=1, racks=1).nodes("s1 s2 s3").domain("switch", "s1 s2 s3", "hall", tier_name="rack")
    it.gang("g", 3, cpu=4, members=whole(3, "rack")).settle()
    assert it.where("g") == ["s1", "s2", "s3"]


def test_nodes_directly_in_a_block_count_for_the_block() -> None:
    it = hall(blocks=1, racks=1).nodes("x1").domain("b0", "x1", "hall", tier=2)
    it.gang("g", 3, cpu=4, members=whole(3, 2)).settle()
    assert it.where("g") == ["b0r0n0", "b0r0n1", "x1"]


def test_neighbours_in_rank_are_neighbours_in_the_network() -> None:
    it = hall(nodes=2, blocks=1).gang("g", 4, cpu=4, members=whole(4, 2))
    ranks = {bind.pod: bind.node for bind in it.decide().binds}
    assert [ranks[f"default/g-{rank}"][:4] for rank in range(4)] == ["b0r0", "b0r0", "b0r1", "b0r1"]


def test_a_start_names_the_domain_it_was_put_into() -> None:
    it = hall()
    plan = it.gang("g", 1, members=whole(1, 1)).decide()
    assert plan.starts[0].domain == nodes_of(plan, "g")[0][:4]


# -- as few racks as will do


def fragmented() -> Cluster:
    """A block of four racks of four nodes: one core is taken on each node of three racks, on half a rack none."""
    it = hall(blocks=1, racks=4, nodes=4)
    for rack in range(3):
        for node in range(4):
            it.gang(f"old-{rack}-{node}", cpu=rack + 1, on=f"b0r{rack}n{node}")
    return it


@pytest.mark.parametrize("mode", [HARD, SOFT], ids=["hard", "soft"])
def test_a_gang_too_large_for_a_rack_crosses_as_few_racks_as_will_do(mode: TopologyMode) -> None:
    # The racks hold 12, 8, 4 and 16 single cores.
    it = fragmented().gang("g", 28, cpu=1, members=whole(28, 2, mode)).settle()
    assert racks_of(it, "g") == {"b0r0", "b0r3"}


def test_a_gang_with_members_of_two_kinds_keeps_them_beside_each_other() -> None:
    it = fragmented().gang("g", 0, members=whole(18, 2)).more("g", 2, cpu=2).more("g", 16, cpu=1).settle()
    assert it.running("g") == 18
    assert len(racks_of(it, "g")) == 2


def test_the_parts_of_a_gang_cross_as_few_racks_as_will_do() -> None:
    parts = tuple(SubGroup(name, min_count=14, topology=rule(2)) for name in ("x", "y"))
    whole_gang = SubGroup(topology=rule(3), children=parts)
    it = fragmented().gang("g", 28, cpu=1, members=whole_gang, parts="x " * 14 + "y " * 14).settle()
    of_x = {pod.node_name[:4] for pod in it.members("g")[:14]}
    assert len(of_x) == 1
    assert racks_of(it, "g") == {"b0r0", "b0r3"}


# -- who grows, grows beside itself


def test_further_members_join_the_rack_of_the_first_if_they_would_like_to_be_together() -> None:
    members = SubGroup(min_count=1, topology=rule(1, SOFT))
    it = hall(nodes=3).gang("g", 1, cpu=4, on="b1r1n1", members=members).more("g", 2, cpu=4).settle()
    assert it.where("g") == ["b1r1n0", "b1r1n1", "b1r1n2"]


def test_further_members_go_to_the_next_rack_of_the_block_when_their_own_is_full() -> None:
    members = SubGroup(min_count=1, topology=rule(1, SOFT))
    it = hall().gang("g", 1, cpu=4, on="b1r1n1", members=members).more("g", 5, cpu=4).settle()
    assert it.running("g") == 6
    assert {"b1r0n0", "b1r0n1", "b1r1n0", "b1r1n1"} < set(it.where("g"))


def test_further_members_of_a_gang_that_starts_now_stay_beside_it() -> None:
    members = SubGroup(min_count=2, topology=rule(1, SOFT))
    it = hall().gang("old", cpu=3, on="b1r1n0").gang("older", cpu=4, on="b1r1n1").gang("g", 3, cpu=1, members=members)
    it.settle()
    assert len(racks_of(it, "g")) == 1, "although the last core of b1r1n0 would suit a single pod better"


def test_a_further_sub_group_begins_near_the_others() -> None:
    parts = tuple(SubGroup(name, min_count=1) for name in ("x", "y"))
    members = SubGroup(min_children=1, topology=rule(1, SOFT), children=parts)
    it = hall().gang("g", 1, cpu=4, on="b1r1n1", members=members, parts="x").more("g", 1, cpu=4, parts="y").settle()
    assert it.where("g") == ["b1r1n0", "b1r1n1"]


def test_who_grows_without_a_topology_or_in_a_tree_that_does_not_exist_grows_anywhere() -> None:
    members = SubGroup(min_count=1, topology=rule(1, SOFT))
    assert Cluster("n1 n2").gang("g", 2, cpu=4, on="n1", members=members).settle().running("g") == 2
    members = SubGroup(min_count=1, topology=rule(1, SOFT, "no such tree"))
    assert hall().gang("g", 8, cpu=4, on="b0r0n0", members=members).settle().running("g") == 8
