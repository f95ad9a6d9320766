"""Laws that hold for every controller of the embedded cluster: killed between any two writes, it ends where it would
have ended anyway, and once all is done it writes nothing more."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.controller_cases import CASES, Case
from tests.controller_world import World, end_state
from tests.depth import examples

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hypothesis.strategies import DataObject

CRASHES = st.lists(st.tuples(st.integers(0, 12), st.booleans()), max_size=6)


async def _lived(case: Case, seed: int, crashes: Iterable[tuple[int, bool]]) -> World:
    world = World()
    case.watch(world)
    points = list(crashes)
    for move in case.story(seed):
        await move(world)
        await world.settle(
            lambda objects: case.controllers(objects, world),
            points,
            horizon_seconds=case.horizon_seconds,
            kubelet=case.kubelet,
        )
        points.reverse()
    return world


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@given(st.data())
@settings(max_examples=examples(20))
def test_a_controller_that_is_killed_between_any_two_writes_ends_where_it_would_have_ended(
    case: Case, data: DataObject
) -> None:
    seed = data.draw(st.integers(0, 10_000))
    crashes = data.draw(CRASHES)
    undisturbed = asyncio.run(_lived(case, seed, ()))
    disturbed = asyncio.run(_lived(case, seed, crashes))
    assert end_state(disturbed, case.resources) == end_state(undisturbed, case.resources)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@given(st.integers(0, 10_000))
@settings(max_examples=examples(5))
def test_a_controller_that_has_done_everything_writes_nothing_more(case: Case, seed: int) -> None:
    async def again() -> tuple[int, int]:
        world = await _lived(case, seed, ())
        before = world.writes
        await world.settle(lambda objects: case.controllers(objects, world), kubelet=case.kubelet)
        return before, world.writes

    before, after = asyncio.run(again())
    assert after == before
    assert before > 0
