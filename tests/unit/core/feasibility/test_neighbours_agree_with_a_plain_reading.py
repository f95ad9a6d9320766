"""Laws of what depends on other pods: columns say what plain loops say, and following changes equals starting anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given, settings

from allhands.core.feasibility.neighbours import Neighbours
from allhands.core.room import Room
from tests.depth import examples
from tests.unit.core.feasibility.plain_rules import PlainRules
from tests.unit.core.feasibility.random_towns import NAMES, NAMESPACES, RandomTown, towns
from tests.unit.core.feasibility.town import Town

if TYPE_CHECKING:
    from allhands.model.pod import Pod


@settings(max_examples=examples(300))
@given(towns)
def test_masks_say_what_the_rules_say(drawn: RandomTown) -> None:
    town = _town(drawn)
    rules = PlainRules(drawn.nodes, drawn.bound, NAMESPACES, drawn.nominated)
    for pod in drawn.waiting:
        expected = rules.where(pod)
        assert town.where(pod.name) == expected
        assert town.neighbours.is_dynamic(town.shape(pod.name)) or expected == set(NAMES)


@settings(max_examples=examples(300))
@given(towns)
def test_placing_equals_a_world_in_which_they_are_bound(drawn: RandomTown) -> None:
    town = _town(drawn)
    if drawn.likely(0.5):
        _everything(town, drawn.waiting)
    placed = []
    for number, (pod, where) in enumerate(drawn.moves()):
        placed.append(drawn.named(pod, f"placed{number}", where))
        if town.neighbours.is_noticed(town.shape(pod.name)):
            town.move(pod.name, where)
    anew = Town(drawn.nodes, [*drawn.bound, *drawn.nominated, *placed, *drawn.waiting], NAMESPACES)
    assert _everything(town, drawn.waiting) == _everything(anew, drawn.waiting)


@settings(max_examples=examples(100))
@given(towns)
def test_taking_back_is_the_exact_inverse_in_any_order(drawn: RandomTown) -> None:
    town, moves = _town(drawn), drawn.moves()
    before = _everything(town, drawn.waiting)
    for pod, where in moves:
        town.move(pod.name, where)
    for pod, where in moves:
        town.move(pod.name, where, -1)
    assert _everything(town, drawn.waiting) == before
    assert not town.neighbours._tally._moved


@settings(max_examples=examples(200))
@given(towns)
def test_who_is_yet_to_come_keeps_others_away_and_opens_no_place(drawn: RandomTown) -> None:
    pods = [*drawn.bound, *drawn.waiting]
    town, coming = Town(drawn.nodes, pods, NAMESPACES), Town(drawn.nodes, pods, NAMESPACES)
    if drawn.likely(0.5):
        _everything(coming, drawn.waiting)
    before = [town.where(pod.name) for pod in drawn.waiting]
    moves = [(pod, where) for pod, where in drawn.moves() if coming.neighbours.is_noticed(town.shape(pod.name))]
    for pod, where in moves:
        town.move(pod.name, where)
        coming.move(pod.name, where)
        coming.hold(pod.name, where)
    allowed = [town.where(pod.name) & without for pod, without in zip(drawn.waiting, before, strict=True)]
    assert [coming.where(pod.name) for pod in drawn.waiting] == allowed
    for pod, where in moves:
        coming.hold(pod.name, where, -1)
    assert _everything(coming, drawn.waiting) == _everything(town, drawn.waiting)


@settings(max_examples=examples(200))
@given(towns)
def test_releasing_victims_equals_a_world_without_them(drawn: RandomTown) -> None:
    town = _town(drawn)
    victims = [pod for pod in drawn.bound if pod.node_name in NAMES and drawn.likely(0.4)]
    for pod in victims:
        row = town.snapshot.columns.row_by_name[pod.node_name]
        town.neighbours.placed(town.shape(pod.name), row, -1, leaving=pod.deleting)
    gone = {pod.name for pod in victims}
    left = [pod for pod in drawn.bound if pod.name not in gone]
    anew = Town(drawn.nodes, [*left, *drawn.nominated, *drawn.waiting], NAMESPACES)
    # A pod that was kept out by a victim stays one that is asked about.
    assert [it[1:] for it in _everything(town, drawn.waiting)] == [it[1:] for it in _everything(anew, drawn.waiting)]


@settings(max_examples=examples(50))
@given(towns)
def test_answers_do_not_depend_on_the_order_of_events(drawn: RandomTown) -> None:
    one = _town(drawn)
    pods = [*drawn.bound, *drawn.nominated, *drawn.waiting]
    other = Town(drawn.nodes[::-1], pods[::-1], NAMESPACES)
    assert _everything(one, drawn.waiting) == _everything(other, drawn.waiting)


@settings(max_examples=examples(50))
@given(towns)
def test_static_masks_may_be_shared_or_not(drawn: RandomTown) -> None:
    town = _town(drawn)
    alone = Neighbours(town.snapshot, Room(town.snapshot.columns))
    for pod in drawn.waiting:
        shape = town.shape(pod.name)
        assert np.array_equal(town.neighbours.mask(shape), alone.mask(shape))


def _town(drawn: RandomTown) -> Town:
    return Town(drawn.nodes, [*drawn.bound, *drawn.nominated, *drawn.waiting], NAMESPACES)


def _everything(town: Town, waiting: list[Pod]) -> list[tuple[bool, set[str], dict[str, int]]]:
    """All answers about the waiting pods."""
    return [
        (town.neighbours.is_dynamic(town.shape(pod.name)), town.where(pod.name), town.scores(pod.name))
        for pod in waiting
    ]
