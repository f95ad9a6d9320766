"""What was expected is counted a moment later, and later still while there is more to come of it, but not for ever."""

from __future__ import annotations

import asyncio

from allhands.runtime.scheduling.late_looks import LATER_SECONDS, MOST_LATER_SECONDS
from allhands.runtime.scheduling.watched_world import WatchedWorld
from tests.virtual import cluster, on_virtual_time


@on_virtual_time
async def test_who_is_busy_is_not_woken_by_what_he_does() -> None:
    loop = asyncio.get_running_loop()
    told: list[float] = []
    busy = [False]
    watched = WatchedWorld(cluster().objects, changed=lambda: told.append(loop.time()), is_busy=lambda: busy[0])

    async def seconds_until_told(ends_after_seconds: float | None = None) -> float:
        told.clear()
        began = loop.time()
        if ends_after_seconds is not None:
            busy[0] = True
            loop.call_later(ends_after_seconds, busy.__setitem__, 0, False)
        for _ in range(3):
            watched._late_looks.note()
        await asyncio.sleep(3 * MOST_LATER_SECONDS)
        busy[0] = False
        assert len(told) == 1
        return told[0] - began

    assert await seconds_until_told() == LATER_SECONDS
    assert 3.5 < await seconds_until_told(3.5) <= 3.5 + LATER_SECONDS
    assert await seconds_until_told(2 * MOST_LATER_SECONDS) == MOST_LATER_SECONDS
