"""Queues in a tree by Volcano's annotations."""

from __future__ import annotations

import pytest

from allhands.dialects.queue_hierarchy import Branch, HierarchyError, branch_of, with_hierarchy
from allhands.model.queue import Account, AccountForest, Queue

PATH, WEIGHTS = "volcano.sh/hierarchy", "volcano.sh/hierarchy-weights"


def test_a_path_is_read_without_its_root() -> None:
    assert branch_of({PATH: "root/eng/prod", WEIGHTS: "1/2/0.5"}) == Branch(("eng", "prod"), (2000, 500))
    assert branch_of({PATH: "eng/prod", WEIGHTS: "2/8"}) == Branch(("eng", "prod"), (2000, 8000))
    assert branch_of({PATH: "root", WEIGHTS: "1"}) is None
    assert branch_of({}) is None


@pytest.mark.parametrize(
    ("path", "weights", "wrong"),
    [
        ("root/a", "1", "as many names"),
        ("root//a", "1/1/1", "as many names"),
        ("", "1", "as many names"),
        ("root/a", "1/x", "'x' is no weight above 0"),
        ("root/a", "1/0", "'0' is no weight above 0"),
        ("root/a", "1/nan", "'nan' is no weight above 0"),
        ("root/a", "1/1e99", "'1e99' is no weight above 0"),
        ("/".join("a" * 40), "/".join("1" * 40), "more than 32 names"),
    ],
)
def test_what_makes_no_sense_is_named(path: str, weights: str, wrong: str) -> None:
    with pytest.raises(HierarchyError, match=wrong):
        branch_of({PATH: path, WEIGHTS: weights})


def test_names_on_the_way_are_accounts_and_a_parent_that_a_queue_names_stands() -> None:
    queues = [Queue("root"), Queue("dev", "root"), Queue("prod", "root"), Queue("own", "prod"), Queue("plain", "root")]
    branches = {
        "dev": Branch(("eng", "dev"), (2000, 1000)),
        "prod": Branch(("eng", "prod"), (3000, 8000)),
        "own": Branch(("sci", "own"), (1, 1)),
    }
    found = {it.name: it for it in AccountForest.build(with_hierarchy(queues, branches)).accounts.values()}
    assert found["root/eng"] == Account("root/eng", "root", weight_millis=2000)
    places = {name: (it.parent, it.weight_millis) for name, it in found.items() if isinstance(it, Queue)}
    assert places == {
        "root": (None, 1000),
        "dev": ("root/eng", 1000),
        "prod": ("root/eng", 8000),
        "own": ("prod", 1000),
        "plain": ("root", 1000),
    }
