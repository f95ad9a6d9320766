"""Scores by what nodes are: preferred affinity, taints to avoid, images. Each node for itself, 0 to SCORE_SCALE."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

from allhands.core.extension import SCORE_SCALE
from allhands.core.scores import STATIC_SCORES
from allhands.core.scores.image_locality import LARGEST_BYTES, SMALLEST_BYTES, ImageLocality
from allhands.core.scores.node_affinity import NodeAffinity as NodeAffinityScore
from allhands.core.scores.taints import Taints
from allhands.model.affinity import NodeAffinity, NodeSelectorTerm, PreferredNodeTerm
from allhands.model.node import Node, NodeImage, Taint, Toleration
from allhands.model.pod import Pod
from allhands.model.selector import Requirement
from allhands.model.shape import PodShape
from tests.depth import examples
from tests.unit.core.feasibility.random_towns import RandomTown, towns
from tests.unit.core.feasibility.town import Town, node

SLOW = Taint("slow", "PreferNoSchedule")
OLD = Taint("old", "PreferNoSchedule", "very")
SPOT = Taint("spot", "NoSchedule")


def prefers(weight: int, key: str, *values: str, operator: str = "In") -> PreferredNodeTerm:
    return PreferredNodeTerm(weight, NodeSelectorTerm((Requirement(key, operator, values),)))


def scores(plugin: Any, nodes: list[Node], **asked: Any) -> dict[str, int]:
    columns = Town(nodes, []).snapshot.columns
    found = plugin.static_score(PodShape.of(Pod("home", "it", **asked), None), columns)
    return dict(zip(columns.names, found.tolist(), strict=True))


def test_a_node_gets_the_share_of_the_weights_that_it_meets() -> None:
    nodes = [node("both", labels={"disk": "ssd", "gpu": "a"}), node("gpu", labels={"gpu": "a"}), node("none")]
    affinity = NodeAffinity(preferred=(prefers(30, "disk", "ssd"), prefers(10, "gpu", "a", "b")))
    assert scores(NodeAffinityScore(), nodes, node_affinity=affinity) == {
        "both": SCORE_SCALE,
        "gpu": SCORE_SCALE // 4,
        "none": 0,
    }


def test_without_preferences_all_nodes_are_alike() -> None:
    assert scores(NodeAffinityScore(), [node("one"), node("two")]) == {"one": 0, "two": 0}


def test_preferences_that_cannot_be_parsed_or_are_empty_or_weigh_nothing_are_met_by_nobody() -> None:
    nodes = [node("one", labels={"cores": "8"})]
    broken = prefers(10, "cores", "many", operator="Gt")
    empty = PreferredNodeTerm(5, NodeSelectorTerm())
    nothing = prefers(0, "cores", "8")
    affinity = NodeAffinity(preferred=(broken, empty, nothing, prefers(10, "cores", "8")))
    assert scores(NodeAffinityScore(), nodes, node_affinity=affinity) == {"one": SCORE_SCALE // 2}


def test_the_fewer_taints_to_avoid_the_better() -> None:
    nodes = [node("clean"), node("slow", "", (SLOW,)), node("worse", "", (SLOW, OLD)), node("spot", "", (SPOT,))]
    assert scores(Taints(), nodes) == {
        "clean": SCORE_SCALE,
        "slow": SCORE_SCALE // 2,
        "worse": SCORE_SCALE // 3,
        "spot": SCORE_SCALE,
    }


@pytest.mark.parametrize(
    ("toleration", "better"),
    [
        (Toleration("slow", "Exists"), True),
        (Toleration("slow", "Exists", effect="PreferNoSchedule"), True),
        (Toleration("slow", "Exists", effect="NoSchedule"), False),
        (Toleration("old", value="very"), False),
    ],
    ids=["of any effect", "of this effect", "of another effect", "of another taint"],
)
def test_a_taint_that_is_tolerated_costs_nothing(toleration: Toleration, better: bool) -> None:
    found = scores(Taints(), [node("slow", "", (SLOW,))], tolerations=(toleration,))
    assert found == {"slow": SCORE_SCALE if better else SCORE_SCALE // 2}


def has(name: str, *images: tuple[str, int]) -> Node:
    return node(name, images=tuple(NodeImage((image, f"{image}@digest"), size) for image, size in images))


def test_the_more_of_its_images_a_node_has_the_better() -> None:
    nodes = [
        has("all", ("train:9", LARGEST_BYTES), ("tool:1", LARGEST_BYTES)),
        has("one", ("train:9", LARGEST_BYTES)),
        has("small", ("train:9", SMALLEST_BYTES)),
        has("other", ("serve:3", LARGEST_BYTES)),
        has("none"),
    ]
    found = scores(ImageLocality(), nodes, images=("tool:1", "train:9"), container_count=2)
    assert found["all"] == SCORE_SCALE
    assert 0 < found["one"] < SCORE_SCALE
    assert (found["small"], found["other"], found["none"]) == (0, 0, 0)


def test_absurd_sizes_of_images_stay_within_the_scale() -> None:
    nodes = [has("huge", ("train:9", 2**63 - 1)), has("negative", ("train:9", -5))]
    found = scores(ImageLocality(), nodes, images=("train:9",), container_count=0)
    assert found == {"huge": SCORE_SCALE, "negative": 0}


def test_images_that_a_node_drops_are_forgotten() -> None:
    town = Town([has("one", ("train:9", LARGEST_BYTES)), has("two", ("train:9", LARGEST_BYTES))], [])
    shape = PodShape.of(Pod("home", "it", images=("train:9",), container_count=1), None)
    plugin = ImageLocality()
    assert plugin.static_score(shape, town.snapshot.columns).tolist() == [SCORE_SCALE, SCORE_SCALE]
    town.world.set_node(has("one"))
    assert plugin.static_score(shape, town.world.snapshot().columns).tolist() == [0, SCORE_SCALE]
    town.world.set_node(has("three", ("train:9", LARGEST_BYTES)))
    assert plugin.static_score(shape, town.world.snapshot().columns).tolist() == [0, SCORE_SCALE, SCORE_SCALE]


@settings(max_examples=examples(100))
@given(towns)
def test_static_scores_are_within_the_scale_and_look_at_each_node_alone(drawn: RandomTown) -> None:
    columns = Town(drawn.nodes, []).snapshot.columns
    preferred = tuple(PreferredNodeTerm(drawn.chance.randint(1, 100), drawn._node_term()) for _ in range(3))
    affinity = NodeAffinity(preferred=preferred)
    for pod in drawn.waiting:
        asked = PodShape.of(Pod("home", "it", node_affinity=affinity, tolerations=pod.tolerations), None)
        for name in ("imagelocality", "nodeaffinity", "taints"):
            make = STATIC_SCORES[name]
            assert make().name == name
            found = make().static_score(asked, columns).tolist()
            assert all(0 <= score <= SCORE_SCALE for score in found)
            alone = [make().static_score(asked, Town([it], []).snapshot.columns).tolist()[0] for it in drawn.nodes]
            assert found == alone
