"""Parts that die and come back, and end when they are told to."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

import pytest

from allhands.sim.faults import NONE
from allhands.sim.supervision import Part
from allhands.store import InProcessObjects, Store
from tests.doubles import CountingIds, ManualClock
from tests.virtual import on_virtual_time

if TYPE_CHECKING:
    from allhands.ports import Objects


@on_virtual_time
async def test_a_part_that_is_ended_while_it_dies_does_not_come_back() -> None:
    async def slow_to_die(objects: Objects) -> None:
        del objects
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(5)

    objects = InProcessObjects(Store(ManualClock(), CountingIds()))
    part = Part("part", objects, slow_to_die, NONE, random.Random(1))
    running = asyncio.create_task(part.run())
    await asyncio.sleep(1)
    part.crash()
    await asyncio.sleep(1)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, 100)
    assert part.incarnations == 1
