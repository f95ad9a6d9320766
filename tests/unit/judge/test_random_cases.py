"""The generator of random clusters keeps its promises: one seed one case, every theme, the promised sizes."""

from __future__ import annotations

import json

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests.judge.clusters import Case, random_case
from tests.judge.kube_scheduler import PATHS
from tests.judge.pending import THEMES

SEEDS = st.integers(0, 2**32)


@given(SEEDS)
def test_a_seed_makes_the_same_case_each_time(seed: int) -> None:
    assert random_case(seed) == random_case(seed)


@given(SEEDS)
def test_a_case_has_the_promised_size_and_a_pod_for_each_theme(seed: int) -> None:
    case = random_case(seed)
    assert 5 <= len(case.world["Node"]) <= 12
    assert sum("nodeName" in pod["spec"] for pod in case.world.get("Pod", ())) <= 40
    assert len(case.pods) >= 20
    assert sorted(case.themes) == sorted(THEMES)
    assert all("nodeName" not in pod["spec"] for pod in case.pods)


@given(SEEDS)
def test_objects_of_a_case_have_names_of_their_own_and_known_kinds(seed: int) -> None:
    case = random_case(seed)
    assert set(case.world) <= set(PATHS)
    for kind, found in case.world.items():
        names = [(each["metadata"].get("namespace"), each["metadata"]["name"]) for each in found]
        assert len(set(names)) == len(names)
        assert {each["kind"] for each in found} == {kind}


@given(SEEDS)
def test_a_pod_names_a_volume_once(seed: int) -> None:
    for pod in random_case(seed).pods:
        names = [each["name"] for each in pod["spec"].get("volumes", ())]
        assert len(set(names)) == len(names)


def test_a_case_survives_a_round_trip_through_json() -> None:
    case = random_case(7)
    assert msgspec.json.decode(msgspec.json.encode(case), type=Case) == case


def test_two_hundred_cases_differ() -> None:
    assert len({json.dumps(random_case(seed).world, sort_keys=True) for seed in range(200)}) == 200
