"""Shrinking leaves what a failure needs and little else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.judge.clusters import random_case
from tests.judge.shrink import shrunk

if TYPE_CHECKING:
    from tests.judge.clusters import Case

MANY = 5000


def _a_tainted_node_meets_a_toleration(case: Case) -> bool:
    tainted = any(node["spec"].get("taints") for node in case.world.get("Node", ()) if "spec" in node)
    return tainted and any(pod["spec"].get("tolerations") for pod in case.pods)


def _first_failing(seed: int) -> tuple[Case, int]:
    case = random_case(seed)
    return case, next(number for number, pod in enumerate(case.pods) if "tolerations" in pod["spec"])


def test_everything_that_does_not_matter_is_gone() -> None:
    case, position = _first_failing(3)
    small = shrunk(case, position, _a_tainted_node_meets_a_toleration, MANY)
    assert _a_tainted_node_meets_a_toleration(small)
    assert len(small.pods) == len(small.themes) == 1
    assert small.pods[0]["metadata"]["name"] == case.pods[position]["metadata"]["name"]
    assert set(small.world) == {"Namespace", "Node"}
    (node,) = small.world["Node"]
    assert len(node["spec"]["taints"]) == 1
    assert "status" not in node
    assert set(small.pods[0]["spec"]) == {"containers", "tolerations"}


def test_the_original_case_is_left_as_it_was() -> None:
    case, position = _first_failing(4)
    shrunk(case, position, _a_tainted_node_meets_a_toleration, MANY)
    assert case == random_case(4)


def test_the_number_of_questions_is_bounded_and_the_result_still_fails() -> None:
    asked = 0

    def counted(case: Case) -> bool:
        nonlocal asked
        asked += 1
        return _a_tainted_node_meets_a_toleration(case)

    case, position = _first_failing(5)
    small = shrunk(case, position, counted, 25)
    assert asked <= 25
    assert _a_tainted_node_meets_a_toleration(small)


def test_a_failure_that_needs_the_other_pods_is_kept_whole() -> None:
    case, position = _first_failing(6)
    assert shrunk(case, position, lambda smaller: len(smaller.pods) > 1) == case
