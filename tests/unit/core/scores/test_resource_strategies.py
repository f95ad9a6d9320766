"""Packing some resources while spreading others, and keeping pods off what they do not need."""

from __future__ import annotations

import pytest

from allhands.core.extension import SCORE_SCALE
from allhands.core.room import Room
from allhands.core.scores.resourcestrategy import ResourceStrategy, Strategy, StrategyType
from allhands.core.scores.scarce import Scarce
from allhands.core.view import NodeView
from allhands.core.world import World
from allhands.model.node import Node
from allhands.model.pod import Pod
from allhands.model.resources import ResourceVector
from allhands.model.shape import PodShape

GPU = "nvidia.com/gpu"
NIC = "rdma/hca"
PACK, SPREAD = Strategy(StrategyType.MOST_ALLOCATED), Strategy(StrategyType.LEAST_ALLOCATED)
NODES = {
    "busy": {"cpu": 8000, "pods": 100, GPU: 8},
    "idle": {"cpu": 8000, "pods": 100, GPU: 8},
    "plain": {"cpu": 8000, "pods": 100},
    "wired": {"cpu": 8000, "pods": 100, GPU: 8, NIC: 2},
}


def room() -> Room:
    """`busy` has half of its cpu and of its GPUs in use."""
    world = World()
    for name, amounts in NODES.items():
        world.set_node(Node(name, ready=True, allocatable=ResourceVector.of(amounts)))
    world.set_pod(Pod("a", "b", uid="c", node_name="busy", requests=ResourceVector.of({"cpu": 4000, GPU: 4})))
    return Room(world.snapshot().columns)


def shape(**requests: int) -> PodShape:
    amounts = {GPU if name == "gpu" else name: units for name, units in requests.items()}
    return PodShape.of(Pod("a", "p", requests=ResourceVector.of(amounts)), None)


def strategic(score: ResourceStrategy, of: PodShape) -> dict[str, int]:
    here = room()
    request = here.columns.request(of.requests)
    assert request is not None
    found = score.score(NodeView(of, request, here, slice(None)))
    return dict(zip(here.columns.names, found.tolist(), strict=True))


def scarce(score: Scarce, of: PodShape) -> dict[str, int]:
    columns = room().columns
    return dict(zip(columns.names, score.static_score(of, columns).tolist(), strict=True))


def test_each_resource_has_its_strategy() -> None:
    found = strategic(ResourceStrategy({GPU: PACK, "cpu": SPREAD}), shape(gpu=4))
    assert (found["busy"], found["idle"]) == (SCORE_SCALE, SCORE_SCALE // 2)
    found = strategic(ResourceStrategy({GPU: PACK, "cpu": SPREAD}), shape(cpu=4000))
    assert (found["busy"], found["idle"]) == (0, SCORE_SCALE // 2)


def test_weights_decide_between_strategies() -> None:
    strategies = {GPU: Strategy(StrategyType.MOST_ALLOCATED, weight=3), "cpu": SPREAD}
    found = strategic(ResourceStrategy(strategies), shape(gpu=4, cpu=4000))
    assert found["busy"] == 3 * SCORE_SCALE // 4
    assert found["idle"] == (3 * SCORE_SCALE // 2 + SCORE_SCALE // 2) // 4


def test_only_what_a_pod_asks_for_counts() -> None:
    found = strategic(ResourceStrategy({NIC: PACK}), shape(cpu=4000))
    assert set(found.values()) == {0}


def test_the_exact_name_counts_before_the_longest_beginning() -> None:
    of = shape(gpu=4)
    for strategies in ({GPU: PACK, "nvidia.com/*": SPREAD}, {"nvidia.com/*": PACK, "nvidia*": SPREAD}):
        assert strategic(ResourceStrategy(strategies), of)["busy"] == SCORE_SCALE


@pytest.mark.parametrize("pattern", ["*", "", "a*b", "a**", "*a", "**"])
def test_only_one_star_at_the_end_of_a_beginning_is_understood(pattern: str) -> None:
    with pytest.raises(ValueError, match="neither a name nor a beginning"):
        ResourceStrategy({pattern: PACK})


def test_pods_without_gpus_stay_off_nodes_with_them() -> None:
    found = scarce(Scarce({GPU: 1}), shape(cpu=1000))
    assert found == {"busy": 0, "idle": 0, "plain": SCORE_SCALE, "wired": 0}


def test_pods_with_gpus_stay_off_what_else_is_scarce() -> None:
    found = scarce(Scarce({GPU: 1, NIC: 3}), shape(gpu=1))
    assert found == {"busy": SCORE_SCALE, "idle": SCORE_SCALE, "plain": SCORE_SCALE, "wired": SCORE_SCALE // 4}


def test_by_default_every_extended_resource_is_scarce() -> None:
    assert scarce(Scarce(), shape(cpu=1))["plain"] == SCORE_SCALE
    assert scarce(Scarce(), shape(cpu=1))["wired"] == 0
    assert scarce(Scarce(), shape(gpu=1))["wired"] == 0
    assert scarce(Scarce(), shape(gpu=1))["idle"] == SCORE_SCALE


def test_nothing_scarce_leaves_all_nodes_equal() -> None:
    assert set(scarce(Scarce({}), shape(cpu=1)).values()) == {SCORE_SCALE}
    assert set(scarce(Scarce({GPU: 0}), shape(cpu=1)).values()) == {SCORE_SCALE}
