"""Laws of static feasibility: masks say what nodes say one by one, and following changes equals starting anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given, settings

from allhands.core.feasibility.static import StaticFeasibility
from allhands.core.scores import STATIC_SCORES
from allhands.model.node import Node
from tests.depth import examples
from tests.unit.core.feasibility.random_towns import NAMES, RandomTown, towns
from tests.unit.core.feasibility.town import Town

if TYPE_CHECKING:
    from allhands.model.pod import Pod


@settings(max_examples=examples(300))
@given(towns)
def test_masks_say_what_each_node_says(drawn: RandomTown) -> None:
    town = Town(drawn.nodes, drawn.waiting)
    for pod in drawn.waiting:
        assert town.allowed(pod.name) == {node.name for node in drawn.nodes if _lets_in(node, pod)}


@settings(max_examples=examples(300))
@given(towns)
def test_following_changes_equals_starting_anew(drawn: RandomTown) -> None:
    town = Town(drawn.nodes, drawn.waiting)
    shapes = [town.shape(pod.name) for pod in drawn.waiting]
    scores = [plugin() for plugin in STATIC_SCORES.values()]
    for shape in shapes[::2]:
        town.static.mask(shape)
        for score in scores:
            score.static_score(shape, town.snapshot.columns)
    for name in NAMES:
        if drawn.likely(0.3):
            town.world.set_node(drawn.node(name))
    columns = town.world.snapshot().columns
    rows = town.static.changed_rows(columns)
    assert rows is not None
    town.static.update(columns, rows)
    anew = StaticFeasibility(columns)
    for shape in shapes:
        assert np.array_equal(town.static.mask(shape), anew.mask(shape))
        assert town.static.counts(shape) == anew.counts(shape)
        for score in scores:
            again = type(score)().static_score(shape, columns)
            assert np.array_equal(score.static_score(shape, columns), again)


def test_labels_that_change_for_ever_do_not_pile_up() -> None:
    town = Town([Node(name="one"), Node(name="two")], [])
    static = town.static
    static.labels.column("beat")
    for number in range(200):
        town.world.set_node(Node(name="one", labels={"beat": str(number)}))
        columns = town.world.snapshot().columns
        static.update(columns, np.array([0]))
    column = static.labels.column("beat")
    assert column.size < 100
    assert column.equal_to("199").tolist() == [True, False]


def _lets_in(node: Node, pod: Pod) -> bool:
    return (
        all(node.labels.get(key) == value for key, value in pod.node_selector.items())
        and pod.node_affinity.matches(node.labels, node.name)
        and node.repelling_taint(pod.tolerations) is None
    )
