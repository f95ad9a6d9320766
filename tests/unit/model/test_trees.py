"""Trees of accounts, domains and sub-groups: what is built, and how broken ones are refused."""

from collections.abc import Callable, Iterable

import pytest

from allhands.model.domain import Domain, DomainTree
from allhands.model.podgroup import FlatSubGroup, SubGroup, nest_subgroups
from allhands.model.queue import Account, AccountForest, Queue
from allhands.model.tree import TreeError

Rows = list[tuple[str, str | None]]


def domains_of(rows: Rows) -> object:
    # Tiers rise with the depth from the end, so that only the shape of the rows is judged.
    return DomainTree.build(Domain(name, -position, parent) for position, (name, parent) in enumerate(rows))


def accounts_of(rows: Rows) -> object:
    return AccountForest.build(Queue(name, parent) for name, parent in rows)


def subgroups_of(rows: Rows) -> object:
    return nest_subgroups(FlatSubGroup(name, parent) for name, parent in rows)


@pytest.mark.parametrize("build", [domains_of, accounts_of, subgroups_of])
@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("a", None), ("a", None)], '"a" is defined twice'),
        ([("a", None), ("b", "c")], '"b" has the parent "c", which does not exist'),
        ([("a", "a")], 'parents form a cycle: "a" -> "a"'),
        ([("r", None), ("a", "b"), ("b", "c"), ("c", "a")], 'parents form a cycle: "a" -> "b" -> "c" -> "a"'),
        ([("x", "a"), ("a", "b"), ("b", "a")], 'parents form a cycle: "a" -> "b" -> "a"'),
        ([("", None)], "must have a name"),
    ],
    ids=["duplicate", "unknown parent", "own parent", "cycle", "tail on a cycle", "no name"],
)
def test_a_broken_tree_is_refused_by_name(build: Callable[[Rows], object], rows: Rows, message: str) -> None:
    with pytest.raises(TreeError) as refused:
        build(rows)
    assert message in str(refused.value)


def test_no_rows_make_an_empty_tree() -> None:
    assert DomainTree.build([]).roots == ()
    assert AccountForest.build([]).accounts == {}
    assert nest_subgroups([]) == ()


def test_a_chain_of_ten_thousand_accounts_is_no_problem() -> None:
    chain: Iterable[Account] = [Account(str(i), str(i - 1) if i else None) for i in reversed(range(10_000))]
    forest = AccountForest.build(chain)
    assert next(iter(forest.accounts)) == "0"
    assert len(forest.path("9999")) == 10_000


def test_a_group_charges_every_account_above_in_every_tree_once() -> None:
    forest = AccountForest.build(
        [Queue("team", "dept"), Queue("dept", "root"), Account("root"), Account("project"), Account("lab", "project")]
    )
    assert forest.path("team") == ("team", "dept", "root")
    assert forest.charged(["team", "lab"]) == ("team", "dept", "root", "lab", "project")
    assert forest.charged(["team", "dept"]) == ("team", "dept", "root")
    with pytest.raises(TreeError, match='account "nobody" does not exist'):
        forest.path("nobody")


RACKS = [
    Domain("rack1", 1, "row", ("n1", "n2")),
    Domain("rack2", 1, "row", ("n3",)),
    Domain("row", 2, "hall", ("n4",)),
    Domain("hall", 3),
    Domain("island", 3, None, ("n9",)),
]


def test_domains_know_their_nodes_and_what_is_around_them() -> None:
    tree = DomainTree.build(RACKS)
    assert tree.roots == ("hall", "island")
    assert tree.children["row"] == ("rack1", "rack2")
    assert tree.path("rack2") == ("rack2", "row", "hall")
    assert tree.nodes_under("hall") == ("n4", "n1", "n2", "n3")
    assert tree.nodes_under("rack2") == ("n3",)
    assert list(tree.domains).index("hall") < list(tree.domains).index("row") < list(tree.domains).index("rack1")


@pytest.mark.parametrize(
    ("nodes", "closest"),
    [
        (["n1"], "rack1"),
        (["n1", "n2"], "rack1"),
        (["n1", "n3"], "row"),
        (["n1", "n4"], "row"),
        (["n1", "n9"], None),
        (["n7"], None),
        ([], None),
    ],
    ids=["one node", "one rack", "two racks", "a rack and its row", "two trees", "a stranger", "none"],
)
def test_the_closest_domain_around_nodes(nodes: list[str], closest: str | None) -> None:
    assert DomainTree.build(RACKS).closest_common(nodes) == closest


def test_the_domain_of_a_node_in_a_tier() -> None:
    tree = DomainTree.build(RACKS)
    assert [tree.domain_of("n3", tier) for tier in (1, 2, 3, 4)] == ["rack2", "row", "hall", None]
    assert tree.domain_of("n4", 1) is None
    assert tree.domain_of("n7", 1) is None
    with pytest.raises(TreeError, match='domain "x" does not exist'):
        tree.path("x")


def test_a_node_in_two_domains_is_refused() -> None:
    with pytest.raises(TreeError, match='node "n1" is in the domains "a" and "b"'):
        DomainTree.build([Domain("a", 1, None, ("n1",)), Domain("b", 1, None, ("n1",))])


@pytest.mark.parametrize("tier", [2, 3])
def test_a_domain_cannot_lie_in_one_of_the_same_or_a_lower_tier(tier: int) -> None:
    with pytest.raises(TreeError, match=f'"in" of tier {tier} cannot lie in "out" of tier 2'):
        DomainTree.build([Domain("out", 2), Domain("in", tier, "out")])


def test_flat_sub_groups_are_nested_in_the_order_given() -> None:
    nested = nest_subgroups(
        [
            FlatSubGroup("workers-1", "workers", 2),
            FlatSubGroup("leader", None, 1, 1),
            FlatSubGroup("workers", min_children=1),
            FlatSubGroup("workers-0", "workers", 2),
        ]
    )
    workers = SubGroup("workers", children=(SubGroup("workers-1", 2), SubGroup("workers-0", 2)), min_children=1)
    assert nested == (SubGroup("leader", 1, 1), workers)


def test_sub_groups_nested_too_deep_are_refused() -> None:
    rows = [FlatSubGroup(str(i), str(i - 1) if i else None) for i in range(5000)]
    with pytest.raises(TreeError, match='sub-group "16" is nested deeper than 16 levels'):
        nest_subgroups(rows)
    assert len(nest_subgroups(rows[:16])) == 1
