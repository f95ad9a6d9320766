"""Parts that are kept: one that ends is named, counted and begun anew, ever more seldom; the others do not notice."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import pytest

from allhands.runtime.keeper import MOST_PAUSE_SECONDS, SETTLED_SECONDS, STEADY_SECONDS, Keeper
from allhands.runtime.metrics import MetricsRegistry
from tests.virtual import on_virtual_time, running

if TYPE_CHECKING:
    from collections.abc import Sequence


class Fragile:
    """Ends after so many seconds, one number for each time it is begun; then it runs for ever."""

    def __init__(self, lives: Sequence[float], mistake: BaseException | None = None) -> None:
        self._lives = list(lives)
        self._mistake = mistake
        self.begun_at: list[float] = []
        self.ended = 0

    async def run(self) -> None:
        self.begun_at.append(asyncio.get_running_loop().time())
        try:
            if len(self.begun_at) > len(self._lives):
                await asyncio.get_running_loop().create_future()
            await asyncio.sleep(self._lives[len(self.begun_at) - 1])
            if self._mistake is not None:
                raise self._mistake
        finally:
            self.ended += 1


@on_virtual_time
async def test_a_part_that_fails_is_named_counted_and_begun_anew(caplog: pytest.LogCaptureFixture) -> None:
    metrics = MetricsRegistry()
    keeper = Keeper(metrics)
    part, other = Fragile([10.0], ValueError("no such thing")), Fragile([])
    keeper.declare("fragile")
    assert not keeper.checks["fragile"](), "it has not begun"
    async with running(keeper.keep("fragile", part.run), keeper.keep("other", other.run)):
        await asyncio.sleep(5)
        assert keeper.checks["fragile"]()
        assert metrics.value("allhands_part_up", part="fragile") == 1
        await asyncio.sleep(5.5)
        assert not keeper.checks["fragile"]()
        assert keeper.checks["other"]()
        assert metrics.value("allhands_part_up", part="fragile") == 0
        assert metrics.value("allhands_part_failures_total", part="fragile") == 1
        assert "fragile has ended: ValueError: no such thing; it begins anew in 1 s" in caplog.text
        await asyncio.sleep(1)
        assert part.begun_at == [0.0, 11.0]
        assert not keeper.checks["fragile"](), "it may fail again at once"
        await asyncio.sleep(SETTLED_SECONDS)
        assert keeper.checks["fragile"]()
    assert part.ended == 2
    assert metrics.value("allhands_part_up", part="fragile") == 0
    assert other.begun_at == [0.0]


@on_virtual_time
async def test_one_that_fails_again_and_again_is_begun_ever_more_seldom() -> None:
    part = Fragile([0.0] * 9 + [STEADY_SECONDS, 0.0], ValueError("again"))
    async with running(Keeper().keep("part", part.run)):
        await asyncio.sleep(2_000)
    pauses = [round(later - earlier, 6) for earlier, later in zip(part.begun_at, part.begun_at[1:], strict=False)]
    assert pauses[:7] == [1, 2, 4, 8, 16, 32, MOST_PAUSE_SECONDS]
    assert pauses[9] == STEADY_SECONDS + 1, "one that has run for long is begun soon"
    assert pauses[10] == 2


@on_virtual_time
async def test_a_part_that_returns_or_is_cancelled_from_inside_has_ended_too(caplog: pytest.LogCaptureFixture) -> None:
    returning, cancelled = Fragile([1.0]), Fragile([1.0], asyncio.CancelledError())
    keeper = Keeper()
    async with running(keeper.keep("returning", returning.run), keeper.keep("cancelled", cancelled.run)):
        await asyncio.sleep(5)
        assert returning.begun_at == cancelled.begun_at == [0.0, 2.0]
    assert "returning has ended: it should run for ever" in caplog.text
    assert "cancelled has ended: CancelledError" in caplog.text


@on_virtual_time
async def test_of_a_group_of_mistakes_the_cause_is_told(caplog: pytest.LogCaptureFixture) -> None:
    async def part() -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(Fragile([]).run())
            tasks.create_task(Fragile([1.0], KeyError("pods")).run())

    async with running(Keeper().keep("part", part)):
        await asyncio.sleep(1.5)
    assert "part has ended: KeyError: 'pods'" in caplog.text


@on_virtual_time
async def test_a_part_that_ends_is_well_when_it_has_ended_without_a_mistake() -> None:
    keeper = Keeper()
    keeper.declare("once")
    tries = 0

    async def once() -> None:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise ValueError("not yet")

    await keeper.keep("once", once, ends=True)
    assert tries == 3
    assert keeper.checks["once"]()


@on_virtual_time
async def test_a_part_is_ready_when_it_says_so() -> None:
    keeper = Keeper()
    ready = False
    keeper.declare("part", lambda: ready)
    async with running(keeper.keep("part", Fragile([]).run)):
        await asyncio.sleep(1)
        assert not keeper.checks["part"]()
        ready = True
        assert keeper.checks["part"]()


@on_virtual_time
async def test_when_it_ends_parts_have_let_go_of_what_they_held() -> None:
    let_go = False

    async def part() -> None:
        nonlocal let_go
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await asyncio.sleep(3)
            let_go = True

    keeping = asyncio.create_task(Keeper().keep("part", part))
    await asyncio.sleep(1)
    keeping.cancel()
    await asyncio.sleep(1)
    keeping.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await keeping
    assert let_go


@on_virtual_time
async def test_what_ends_the_process_is_not_held_up() -> None:
    with pytest.raises(BaseExceptionGroup, match="end") as ended:
        await Keeper().keep("part", Fragile([1.0], BaseExceptionGroup("end", [GeneratorExit()])).run)
    assert ended.group_contains(GeneratorExit)
