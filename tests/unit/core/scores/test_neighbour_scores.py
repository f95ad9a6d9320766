"""Scores by which pods are where: preferred affinity of both sides, soft spreading, both together."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings

from allhands.core.extension import SCORE_SCALE
from allhands.core.scores import NEIGHBOUR_SCORES
from allhands.core.scores.spread import _logarithm, system_default_spread
from allhands.model.selector import LabelSelector
from tests.depth import examples
from tests.unit.core.feasibility.random_towns import NAMESPACES, RandomTown, towns
from tests.unit.core.feasibility.town import DATABASE, HOST, WEB, Town, node, pod, preferring, spread, term, together

NODES = [node("a1", "a"), node("a2", "a"), node("b1", "b"), node("nowhere")]


def test_without_preferences_all_nodes_are_alike() -> None:
    assert Town(NODES, [pod("db", DATABASE, "a1"), pod("it", WEB)]).scores("it") == {
        "a1": 0,
        "a2": 0,
        "b1": 0,
        "nowhere": 0,
    }


def test_the_domain_with_pods_that_it_likes_is_best() -> None:
    town = Town(NODES, [pod("db", DATABASE, "a1"), pod("it", pod_affinity=preferring((10, term(DATABASE))))])
    assert town.scores("it") == {"a1": SCORE_SCALE, "a2": SCORE_SCALE, "b1": 0, "nowhere": 0}


def test_the_domain_with_pods_that_it_dislikes_is_worst() -> None:
    town = Town(NODES, [pod("db", DATABASE, "a1"), pod("it", pod_affinity=preferring((-10, term(DATABASE))))])
    assert town.scores("it") == {"a1": 0, "a2": 0, "b1": SCORE_SCALE, "nowhere": SCORE_SCALE}


def test_weights_of_several_terms_and_pods_add_up() -> None:
    wishes = preferring((30, term(DATABASE)), (10, term(DATABASE, HOST)))
    town = Town(NODES, [pod("db", DATABASE, "a1"), pod("db2", DATABASE, "b1"), pod("it", pod_affinity=wishes)])
    town.move("db", "a1")
    assert town.scores("it") == {
        "a1": SCORE_SCALE,
        "a2": SCORE_SCALE * 60 // 80,
        "b1": SCORE_SCALE * 40 // 80,
        "nowhere": 0,
    }


def test_what_pods_that_are_there_prefer_counts_too() -> None:
    fan = pod("fan", DATABASE, "a1", pod_affinity=preferring((1, term(WEB))))
    foe = pod("foe", DATABASE, "b1", pod_affinity=preferring((-1, term(WEB))))
    found = Town(NODES, [fan, foe, pod("it", WEB)]).scores("it")
    assert found == {"a1": SCORE_SCALE, "a2": SCORE_SCALE, "b1": 0, "nowhere": SCORE_SCALE // 2}


def test_required_affinity_of_pods_that_are_there_is_a_light_preference() -> None:
    bound = pod("bound", DATABASE, "b1", pod_affinity=together(term(WEB)))
    assert Town(NODES, [bound, pod("it", WEB)]).scores("it")["b1"] == SCORE_SCALE


def test_points_are_stretched_over_the_nodes_that_are_compared() -> None:
    wishes = preferring((1, term(DATABASE, HOST)))
    pods = [pod(f"db{number}", DATABASE, "a1") for number in range(4)]
    town = Town(NODES, [*pods, pod("db", DATABASE, "a2"), pod("it", pod_affinity=wishes)])
    among = np.array([False, True, True, True])
    found = town.neighbours.score(town.shape("it"), among)
    assert found.tolist() == [SCORE_SCALE, SCORE_SCALE, 0, 0]


def test_the_emptier_domain_is_better_for_soft_spreading() -> None:
    pods = [pod("web", WEB, "a1"), pod("it", WEB, spread=(spread(WEB, hard=False),))]
    found = Town(NODES, pods).scores("it")
    assert found["b1"] == SCORE_SCALE
    assert found["a1"] == found["a2"] < SCORE_SCALE
    assert found["nowhere"] == 0, "it lacks the topology key"


def test_spreading_over_hosts_counts_the_pods_of_the_node_alone() -> None:
    pods = [pod("web", WEB, "a1"), pod("it", WEB, spread=(spread(WEB, HOST, hard=False),))]
    found = Town(NODES, pods).scores("it")
    assert found["a1"] < found["a2"] == found["b1"] == found["nowhere"] == SCORE_SCALE


def test_without_pods_like_it_all_nodes_with_the_key_are_best() -> None:
    found = Town(NODES, [pod("it", WEB, spread=(spread(WEB, hard=False),))]).scores("it")
    assert found == {"a1": SCORE_SCALE, "a2": SCORE_SCALE, "b1": SCORE_SCALE, "nowhere": 0}


def test_pods_being_deleted_do_not_count_for_spreading() -> None:
    pods = [pod("web", WEB, "a1", deleting=True), pod("it", WEB, spread=(spread(WEB, hard=False),))]
    assert Town(NODES, pods).scores("it")["a1"] == SCORE_SCALE


def test_system_defaults_spread_over_hosts_even_without_a_zone() -> None:
    constraints = system_default_spread(LabelSelector.of(WEB))
    pods = [pod("web", WEB, "a1"), pod("web2", WEB, "nowhere"), pod("it", WEB, spread=constraints)]
    found = Town(NODES, pods).scores("it")
    assert 0 < found["a1"] < found["a2"] < found["b1"]
    assert found["nowhere"] > 0


def test_two_kinds_of_wishes_weigh_the_same() -> None:
    wishes = preferring((1, term(DATABASE)))
    pods = [pod("db", DATABASE, "a1"), pod("it", WEB, pod_affinity=wishes, spread=(spread(WEB, HOST, hard=False),))]
    found = Town(NODES, pods).scores("it")
    assert found == {"a1": SCORE_SCALE, "a2": SCORE_SCALE, "b1": SCORE_SCALE // 2, "nowhere": SCORE_SCALE // 2}


@pytest.mark.parametrize("number", [2, 3, 4, 5, 10, 1000, 10_002, 2**20 + 1])
def test_the_logarithm_in_whole_numbers_is_close(number: int) -> None:
    assert abs(_logarithm(number) / 1024 - math.log(number)) < 0.01


@settings(max_examples=examples(100))
@given(towns)
def test_every_neighbour_score_is_within_the_scale(drawn: RandomTown) -> None:
    town = Town(drawn.nodes, [*drawn.bound, *drawn.waiting], NAMESPACES)
    among = np.array([drawn.likely(0.5) for _ in drawn.nodes])
    for each in drawn.waiting:
        shape = town.shape(each.name)
        for name, make in NEIGHBOUR_SCORES.items():
            plugin = make()
            assert plugin.name == name
            for compared in (None, among):
                found = plugin.neighbour_score(shape, town.neighbours, compared)
                assert found is None or (found.min() >= 0 and found.max() <= SCORE_SCALE)
        assert town.neighbours.score(shape).max() <= SCORE_SCALE
