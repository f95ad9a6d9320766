"""Laws of the topology: whatever trees users write and whatever fits, counting is exact and rules are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from allhands.core.topology.columns import TopologyColumns
from allhands.core.topology.distance import closest_common, domains_crossed, tiers_crossed
from allhands.core.topology.parts import PartDemand
from allhands.core.topology.search import candidates, why_not
from allhands.core.topology.spread import closest_rows, descend
from allhands.core.topology.subgroups import plan_subgroups, why_no_plan
from allhands.model.domain import Domain, DomainTree
from allhands.model.podgroup import TopologyMode, TopologyRule
from allhands.model.reason import Reason
from tests.depth import examples

if TYPE_CHECKING:
    import random

    from allhands.core.columns import Column

NODES = 14
NAMES = tuple(f"n{number:02d}" for number in range(NODES))
TIER_NAMES = ["", "rack", "block", "hall"]


class World(NamedTuple):
    domains: list[Domain]
    columns: TopologyColumns
    fit: Column


@st.composite
def trees(draw: st.DrawFn, tree: str, prefix: str) -> list[Domain]:
    """A sound forest: tiers rise, a node is in one place, depths are unequal, some domains are empty or unhealthy."""
    size = draw(st.integers(0, 9))
    parents = [draw(st.none() | st.integers(0, number - 1)) if number else None for number in range(size)]
    homes = draw(st.lists(st.integers(-1, size - 1), min_size=NODES, max_size=NODES)) if size else []
    tiers: list[int] = []
    for parent in parents:
        around = 9 if parent is None else tiers[parent]
        tiers.append(around - draw(st.integers(1, 3)))
    return [
        Domain(
            name=f"{prefix}{number}",
            tier=tiers[number],
            parent=None if (parent := parents[number]) is None else f"{prefix}{parent}",
            nodes=tuple(name for name, home in zip(NAMES, homes, strict=True) if home == number),
            tier_name=draw(st.sampled_from(TIER_NAMES)),
            healthy=draw(st.sampled_from([True, True, True, True, False])),
            tree=tree,
        )
        for number in range(size)
    ]


@st.composite
def worlds(draw: st.DrawFn) -> World:
    domains = [*draw(trees("", "d")), *(draw(trees("fabric", "f")) if draw(st.booleans()) else [])]
    fit = np.array(draw(st.lists(st.integers(0, 5), min_size=NODES, max_size=NODES)), dtype=np.int64)
    return World(domains, TopologyColumns.build(domains, NAMES), fit)


@st.composite
def rules(draw: st.DrawFn, mode: TopologyMode | None = None) -> TopologyRule:
    tier, name = draw(st.sampled_from([(None, None), *((tier, None) for tier in range(-1, 9)), (None, "rack")]))
    tree = draw(st.sampled_from([None, None, "", "fabric"]))
    return TopologyRule(mode or draw(st.sampled_from(list(TopologyMode))), tier, name, tree)


@st.composite
def broken_domains(draw: st.DrawFn) -> list[Domain]:
    """Anything at all: duplicates, strangers for parents, cycles, tiers that fall, nodes in many places."""
    names = st.sampled_from(["", *(f"d{number}" for number in range(8))])
    return draw(
        st.lists(
            st.builds(
                Domain,
                name=names,
                tier=st.sampled_from([0, 1, 2, 3, -5, 2**62, -(2**63), 2**63, 2**80]),
                parent=st.none() | names | st.just("stranger"),
                nodes=st.lists(st.sampled_from([*NAMES, "unknown"]), max_size=4).map(tuple),
                tier_name=st.sampled_from(TIER_NAMES),
                healthy=st.booleans(),
                tree=st.sampled_from(["", "", "fabric"]),
            ),
            max_size=10,
        )
    )


def path_of(world: World, name: str) -> list[Domain]:
    by_name = {domain.name: domain for domain in world.domains}
    path = [by_name[name]]
    while (parent := path[-1].parent) is not None:
        path.append(by_name[parent])
    return path


def rows_under(world: World, name: str, healthy_only: bool = True) -> set[int]:
    """By the definition: nodes of all domains whose path leads through this one, without unhealthy branches."""
    found: set[int] = set()
    for domain in world.domains:
        path = path_of(world, domain.name)
        if name in [step.name for step in path] and (not healthy_only or all(step.healthy for step in path)):
            found.update(NAMES.index(node) for node in domain.nodes)
    return found


def allowed(world: World, rule: TopologyRule, domain: Domain) -> bool:
    if rule.tree is not None and domain.tree != rule.tree:
        return False
    if rule.tier_name is not None:
        named = [other.tier for other in world.domains if other.tier_name == rule.tier_name]
        same_tree = [
            other.tier for other in world.domains if other.tier_name == rule.tier_name and other.tree == domain.tree
        ]
        inside = any(step.tier_name == rule.tier_name for step in path_of(world, domain.name))
        return bool(named) and (inside or (bool(same_tree) and domain.tier <= min(same_tree)))
    return rule.highest_tier is None or domain.tier <= rule.highest_tier


def holding(world: World, rule: TopologyRule, need: int, bound: list[int]) -> set[str]:
    """By the definition: the domains that a hard rule may choose from."""
    return {
        domain.name
        for domain in world.domains
        if allowed(world, rule, domain)
        and all(step.healthy for step in path_of(world, domain.name))
        and sum(int(world.fit[row]) for row in rows_under(world, domain.name)) >= need
        and set(bound) <= rows_under(world, domain.name, healthy_only=False)
    }


def everything(columns: TopologyColumns) -> dict[str, object]:
    """All that columns say, as plain values."""
    fields = {field: getattr(columns, field) for field in columns.__struct_fields__ if field != "close_by_rule"}
    fields["by_tier_name"] = {name: numbers.tolist() for name, numbers in columns.by_tier_name.items()}
    return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in fields.items()}


@given(worlds())
@settings(max_examples=examples(100))
def test_what_fits_in_a_domain_is_the_sum_over_its_healthy_nodes(world: World) -> None:
    sums = world.columns.sums(world.fit)
    assert not world.columns.set_aside
    for number, domain in enumerate(world.columns.domains):
        rows = rows_under(world, domain.name)
        assert sums[number] == sum(int(world.fit[row]) for row in rows)
        assert set(world.columns.rows(number).tolist()) == rows
    two = world.columns.sums(np.stack([world.fit, world.fit + 1]))
    assert np.array_equal(two[0], sums)
    assert np.array_equal(two[1], world.columns.sums(world.fit + 1))


@given(worlds(), st.integers(0, 8))
@settings(max_examples=examples(60))
def test_the_domain_of_a_node_at_a_tier_is_on_its_path(world: World, tier: int) -> None:
    for row, name in enumerate(NAMES):
        for tree in ("", "fabric"):
            home = [domain.name for domain in world.domains if domain.tree == tree and name in domain.nodes]
            want = [step.name for step in path_of(world, home[0]) if step.tier == tier] if home else []
            found = world.columns.domain_at(row, tier, tree)
            assert ([] if found is None else [world.columns.domains[found].name]) == want


@given(worlds(), rules(TopologyMode.HARD), st.integers(0, 30), st.lists(st.integers(0, NODES - 1), max_size=2))
@settings(max_examples=examples(100))
def test_a_hard_rule_is_offered_all_domains_that_hold_the_gang_and_no_other(
    world: World, rule: TopologyRule, need: int, bound: list[int]
) -> None:
    offered = list(candidates(world.columns, rule, world.columns.sums(world.fit), need, bound=bound))
    names = [world.columns.domains[number].name for number in offered if number is not None]
    assert len(names) == len(offered) == len(set(names))
    assert set(names) == holding(world, rule, need, bound)


@given(worlds(), rules(TopologyMode.HARD), st.integers(0, 30))
@settings(max_examples=examples(100))
def test_closer_domains_come_first_then_the_fullest_then_the_fullest_around_then_the_name(
    world: World, rule: TopologyRule, need: int
) -> None:
    columns = world.columns
    sums = columns.sums(world.fit)

    def key(number: int) -> tuple[int, ...]:
        around = [number]
        for _ in range(3):
            around.append(int(columns.wider[around[-1]]))
        return (int(columns.tier[number]), *(int(sums[each]) for each in around), number)

    offered = [number for number in candidates(columns, rule, sums, need) if number is not None]
    assert offered == sorted(offered, key=key)


@given(worlds(), rules(TopologyMode.SOFT), st.integers(0, 30), st.lists(st.integers(0, NODES - 1), max_size=2))
@settings(max_examples=examples(100))
def test_a_soft_rule_is_offered_the_same_domains_first_then_wider_ones_then_anywhere(
    world: World, rule: TopologyRule, need: int, bound: list[int]
) -> None:
    sums = world.columns.sums(world.fit)
    offered = list(candidates(world.columns, rule, sums, need, bound=bound))
    strict = TopologyRule(TopologyMode.HARD, rule.highest_tier, rule.tier_name, rule.tree)
    wished = list(candidates(world.columns, strict, sums, need, bound=bound))
    anything = holding(world, TopologyRule(TopologyMode.HARD, tree=rule.tree), need, [])
    assert offered[: len(wished)] == wished
    assert offered[-1] is None
    assert sorted(world.columns.domains[number].name for number in offered if number is not None) == sorted(anything)
    together = holding(world, TopologyRule(TopologyMode.HARD, tree=rule.tree), need, bound)
    names = [world.columns.domains[number].name for number in offered if number is not None]
    assert set(names[: len(together)]) == together


@given(worlds(), rules(), st.lists(st.integers(0, 12), min_size=2, max_size=2))
@settings(max_examples=examples(100))
def test_with_several_shapes_each_must_fit(world: World, rule: TopologyRule, needs: list[int]) -> None:
    columns = world.columns
    sums = columns.sums(np.stack([world.fit, world.fit[::-1]]))
    offered = set(candidates(columns, rule, sums, needs))
    one_by_one = [set(candidates(columns, rule, row, need)) for row, need in zip(sums, needs, strict=True)]
    assert offered == one_by_one[0] & one_by_one[1]


@given(worlds(), rules(TopologyMode.HARD), st.integers(1, 40), st.lists(st.integers(0, NODES - 1), max_size=2))
@settings(max_examples=examples(100))
def test_where_no_domain_holds_the_gang_the_best_is_named_with_what_it_holds(
    world: World, rule: TopologyRule, need: int, bound: list[int]
) -> None:
    sums = world.columns.sums(world.fit)
    assume(next(candidates(world.columns, rule, sums, need, bound=bound), None) is None)
    why = why_not(world.columns, rule, sums, need, bound=bound)
    assert str(why)
    if why.reason is Reason.INVALID:
        return
    assert why.reason is Reason.TOPOLOGY
    numbers = dict(why.numbers)
    possible = holding(world, rule, 0, bound)
    fits = {name: sum(int(world.fit[row]) for row in rows_under(world, name)) for name in possible}
    assert numbers["need"] == need
    assert numbers["fits"] == max(fits.values(), default=0) < need
    assert (numbers["best_domain"] in fits) if possible else (numbers["domains"] == 0)


@given(broken_domains(), st.randoms(use_true_random=False))
@settings(max_examples=examples(100))
def test_the_order_in_which_domains_come_changes_nothing(domains: list[Domain], chance: random.Random) -> None:
    shuffled = list(domains)
    chance.shuffle(shuffled)
    assert everything(TopologyColumns.build(domains, NAMES)) == everything(TopologyColumns.build(shuffled, NAMES))


@given(broken_domains())
@settings(max_examples=examples(100))
def test_broken_parts_are_named_and_change_nothing_for_the_others(domains: list[Domain]) -> None:
    columns = TopologyColumns.build(domains, NAMES)
    kept = [domain for domain in domains if domain.name not in columns.set_aside]
    assert {domain.name for domain in columns.domains} == {domain.name for domain in kept}
    assert len(columns.domains) == len(kept)
    assert all(str(explanation) for explanation in columns.set_aside.values())
    alone = TopologyColumns.build(kept, NAMES)
    assert not alone.set_aside
    assert everything(columns) == {**everything(alone), "set_aside": columns.set_aside}


@given(broken_domains())
@settings(max_examples=examples(100))
def test_what_is_kept_of_broken_topologies_is_a_sound_tree(domains: list[Domain]) -> None:
    columns = TopologyColumns.build(domains, NAMES)
    for number, domain in enumerate(columns.domains):
        parent = int(columns.parent[number])
        assert (parent == -1) == (domain.parent is None)
        if parent >= 0:
            assert columns.domains[parent].name == domain.parent
            assert columns.tier[parent] > columns.tier[number]
            assert parent < number < columns.after[number] <= columns.after[parent]
            assert columns.first[parent] <= columns.first[number] <= columns.end[number] <= columns.end[parent]
    for row in range(NODES):
        for tree in range(len(columns.trees)):
            assert columns.home[tree, row] == -1 or NAMES[row] in columns.domains[columns.home[tree, row]].nodes


@given(worlds(), st.integers(0, 40), st.data())
@settings(max_examples=examples(100))
def test_going_down_takes_what_is_needed_from_as_few_closer_domains_as_can_be(
    world: World, need: int, data: st.DataObject
) -> None:
    assume(len(world.columns))
    columns = world.columns
    domain = data.draw(st.integers(0, len(columns) - 1))
    sums = columns.sums(world.fit)
    share = descend(columns, domain, world.fit, need)
    assert (share is None) == (sums[domain] < need)
    if share is None:
        return
    assert share.counts.sum() == need
    assert (share.counts > 0).all()
    assert (share.counts <= world.fit[share.rows]).all()
    assert len(set(share.rows.tolist())) == len(share.rows)
    assert set(share.rows.tolist()) <= set(columns.rows(domain).tolist())
    own = [row for row in columns.rows(domain).tolist() if columns.home[columns.tree[domain], row] == domain]
    inside = [number for number in range(len(columns)) if columns.parent[number] == domain]
    sizes = sorted([*(int(sums[number]) for number in inside), *(int(world.fit[row]) for row in own)], reverse=True)
    fewest = next(count for count in range(len(sizes) + 1) if sum(sizes[:count]) >= need)
    used = {next((each for each in inside if row in columns.rows(each)), -1 - row) for row in share.rows.tolist()}
    assert len(used) == fewest
    if (rows := closest_rows(columns, domain, world.fit, need)) is not None:
        home = columns.home[columns.tree[domain]]
        assert set(rows.tolist()) <= set(columns.rows(domain).tolist())
        assert set(home[rows].tolist()) == set(home[share.rows].tolist())
        assert world.fit[rows].sum() >= need


@given(trees("", "d"), st.lists(st.integers(0, NODES - 1), min_size=1, max_size=4))
@settings(max_examples=examples(100))
def test_the_closest_common_domain_is_that_of_the_model(domains: list[Domain], rows: list[int]) -> None:
    columns = TopologyColumns.build(domains, NAMES)
    tree = DomainTree.build(domains)
    want = tree.closest_common([NAMES[row] for row in rows])
    found = closest_common(columns, rows)
    assert (None if found is None else columns.domains[found].name) == want
    assert tiers_crossed(columns, rows) == (None if want is None else tree.domains[want].tier)
    paths = [set(tree.path(home)) if (home := tree.home_by_node.get(NAMES[row])) else {NAMES[row]} for row in set(rows)]
    around = set() if want is None else set(tree.path(want))
    assert domains_crossed(columns, rows) == (len(set().union(*paths) - around) if domains else 0)


@given(worlds(), rules(), rules(), st.lists(st.integers(0, 4), min_size=2, max_size=2), st.integers(1, 5), st.data())
@settings(max_examples=examples(100))
def test_a_plan_for_sub_groups_keeps_all_rules_and_every_shape_finds_room(
    world: World, outer: TopologyRule, inner: TopologyRule, size: list[int], count: int, data: st.DataObject
) -> None:
    columns = world.columns
    children = tuple(PartDemand(f"g{number}", tuple(enumerate(size)), inner) for number in range(count))
    whole = PartDemand("", ((0, 2),), outer, children)
    table = np.stack([world.fit, world.fit[::-1]])
    avoid = {("g0", data.draw(st.integers(0, 8)))}
    plan = next(plan_subgroups(columns, whole, table, avoid=avoid), None)
    if plan is None:
        assert str(why_no_plan(columns, whole, table))
        return
    assert set(plan) == {"", *(child.name for child in children)}
    assert avoid.isdisjoint(plan.items())
    for part in (whole, *children):
        domain = plan[part.name]
        if part.rule is not None and part.rule.mode is TopologyMode.HARD:
            assert domain is not None
            assert allowed(world, part.rule, columns.domains[domain])
    rows = {name: all_rows(columns, domain) for name, domain in plan.items()}
    for shape, fit in enumerate(table):
        demand = [(rows[""], 2)] if shape == 0 else []
        demand += [(rows[""] & rows[child.name], size[shape]) for child in children]
        assert_places_exist(fit.tolist(), demand)


def all_rows(columns: TopologyColumns, domain: int | None) -> frozenset[int]:
    return frozenset(range(NODES) if domain is None else columns.rows(domain).tolist())


def assert_places_exist(fit: list[int], demand: list[tuple[frozenset[int], int]]) -> None:
    """Members are put on nodes one by one, with changes along the way: a matching, by the book."""
    members = [rows for rows, count in demand for _ in range(count)]
    on_row: dict[int, list[int]] = {row: [] for row in range(NODES)}

    def place(member: int, tried: set[int]) -> bool:
        for row in sorted(members[member] - tried):
            tried.add(row)
            if len(on_row[row]) < fit[row]:
                on_row[row].append(member)
                return True
            for at, other in enumerate(on_row[row]):
                if place(other, tried):
                    on_row[row][at] = member
                    return True
        return False

    assert all(place(member, set()) for member in range(len(members)))


@given(worlds(), rules(TopologyMode.HARD), rules(TopologyMode.HARD), st.integers(1, 6), st.integers(1, 5))
@settings(max_examples=examples(100))
def test_equal_sub_groups_find_a_plan_exactly_if_some_domain_holds_enough_of_them(
    world: World, outer: TopologyRule, inner: TopologyRule, size: int, count: int
) -> None:
    """In one tree. The closest such domain is chosen."""
    assume(len(world.columns.trees) == 1)
    columns = world.columns
    sums = columns.sums(world.fit)
    whole = PartDemand("", (), outer, tuple(PartDemand(f"g{number}", ((0, size),), inner) for number in range(count)))

    def holds(name: str) -> int:
        below = [
            domain
            for domain in world.domains
            if allowed(world, inner, domain) and name in [step.name for step in path_of(world, domain.name)]
        ]
        tops = [domain for domain in below if domain.name == name or domain.parent not in [it.name for it in below]]
        return sum(int(sums[columns.number_by_name[domain.name]]) // size for domain in tops)

    fitting = [
        domain.tier
        for domain in world.domains
        if domain.name in holding(world, outer, size * count, []) and holds(domain.name) >= count
    ]
    plan = next(plan_subgroups(columns, whole, world.fit[np.newaxis]), None)
    assert (plan is None) == (not fitting)
    if plan is not None:
        chosen = plan[""]
        assert chosen is not None
        assert columns.tier[chosen] == min(fitting)
