"""What `allhands bench api` schedules: shapes as people write them, and gangs in each way that they are written."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.measure.api.comparison import Plan
from allhands.measure.api.workload import (
    GROUP_LABEL,
    Gangs,
    Shape,
    ShapeError,
    group_manifests,
    parse_shape,
    pod_manifests,
    usual_shapes,
)
from tests.depth import examples


def pods(shape: Shape, gangs: Gangs) -> list[dict[str, Any]]:
    return [json.loads(raw) for raw in pod_manifests(shape, gangs, "some-scheduler")]


@given(groups=st.integers(1, 10_000), size=st.integers(1, 10_000))
@settings(max_examples=examples(50))
def test_a_shape_reads_what_it_prints(groups: int, size: int) -> None:
    assert parse_shape(str(Shape(groups, size))) == Shape(groups, size)


@pytest.mark.parametrize("text", ["", "20", "x20", "20x", "0x5", "5x0", "-1x5", "axb", "5x5x5"])
def test_what_is_no_shape_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ShapeError, match="such as 500x20"):
        parse_shape(text)


def test_the_usual_shapes_are_singles_small_gangs_large_gangs_and_one_of_all() -> None:
    assert [str(shape) for shape in usual_shapes(10_000)] == ["10000x1", "500x20", "20x500", "1x10000"]
    assert [str(shape) for shape in usual_shapes(1_000)] == ["1000x1", "50x20", "2x500", "1x1000"]
    assert [str(shape) for shape in usual_shapes(30)] == ["30x1", "1x30"]
    assert [str(shape) for shape in usual_shapes(1)] == ["1x1"]


def test_more_pods_than_the_nodes_hold_are_refused_before_anything_starts() -> None:
    plan = Plan(shapes=(Shape(2, 20),), nodes=2, rounds=1, limit_seconds=1)
    assert plan.problem() == "2x20: more pods than fit on 2 nodes, which hold 32: add nodes"
    assert Plan(shapes=(Shape(2, 16),), nodes=2, rounds=1, limit_seconds=1).problem() == ""


def test_pods_without_gangs_have_a_label_and_no_group() -> None:
    found = pods(Shape(2, 3), Gangs.NONE)
    assert [pod["metadata"]["labels"][GROUP_LABEL] for pod in found] == ["group-00000"] * 3 + ["group-00001"] * 3
    assert len({pod["metadata"]["name"] for pod in found}) == 6
    assert all(pod["spec"]["schedulerName"] == "some-scheduler" for pod in found)
    assert not any("schedulingGroup" in pod["spec"] for pod in found)
    assert list(group_manifests(Shape(2, 3), Gangs.NONE)) == []


@pytest.mark.parametrize(
    ("gangs", "version", "spec", "place"),
    [
        (
            Gangs.NATIVE,
            "scheduling.k8s.io/v1alpha2",
            {"schedulingPolicy": {"gang": {"minCount": 3}}},
            lambda pod: pod["spec"]["schedulingGroup"]["podGroupName"],
        ),
        (
            Gangs.COSCHEDULING,
            "scheduling.x-k8s.io/v1alpha1",
            {"minMember": 3},
            lambda pod: pod["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"],
        ),
        (
            Gangs.VOLCANO,
            "scheduling.volcano.sh/v1beta1",
            {"minMember": 3, "queue": "default"},
            lambda pod: pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"],
        ),
    ],
)
def test_a_gang_is_all_of_its_pods_in_every_way_to_write_it(gangs: Gangs, version: str, spec: Any, place: Any) -> None:
    groups = list(group_manifests(Shape(2, 3), gangs))
    assert [group["metadata"]["name"] for group in groups] == ["group-00000", "group-00001"]
    assert {group["apiVersion"] for group in groups} == {version}
    assert all(group["spec"] == spec for group in groups)
    assert [place(pod) for pod in pods(Shape(2, 3), gangs)] == ["group-00000"] * 3 + ["group-00001"] * 3
