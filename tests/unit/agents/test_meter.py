"""How usage is measured: over which time, when somebody waits, and that nobody looks without a question."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from allhands.agents.meter import MACHINE, Meter
from allhands.agents.processes import Consumption
from allhands.sim.virtual_time import VirtualTimeLoop, run_virtually

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping


class Root(msgspec.Struct):
    pid: int
    id: str
    began: float


class Machine:
    """Containers that use so many processors, from the moment when they began."""

    def __init__(self, loop: asyncio.AbstractEventLoop, **speeds: float) -> None:
        self.loop = loop
        self.speeds = speeds
        self.used = dict.fromkeys(speeds, 0.0)
        self.looks = 0
        self.roots = [Root(number, name, loop.time()) for number, name in enumerate(speeds, 1)]
        self._seen = loop.time()

    def pass_time(self) -> None:
        now = self.loop.time()
        for name, speed in self.speeds.items():
            self.used[name] += speed * (now - self._seen)
        self._seen = now

    async def containers(self, roots: Mapping[int, str]) -> dict[str, Consumption]:
        self.looks += 1
        self.pass_time()
        return {name: Consumption(self.used[name], 1000) for name in roots.values() if name in self.used}

    def whole(self) -> Consumption:
        self.pass_time()
        return Consumption(1e6 + sum(self.used.values()), 5000)


def told(story: Callable[[VirtualTimeLoop], Coroutine[None, None, None]]) -> None:
    loop = VirtualTimeLoop()
    run_virtually(loop, story(loop))


def processors(nanos: int) -> float:
    return round(nanos / 1e9, 2)


def test_a_young_container_is_measured_from_its_start() -> None:
    async def story(loop: VirtualTimeLoop) -> None:
        machine = Machine(loop, a=0.5)
        meter = Meter(machine.containers, machine.whole)
        await asyncio.sleep(10)
        rate = (await meter.rates(machine.roots))["a"]
        assert (processors(rate.usage.cpu_nanos), rate.usage.memory_bytes) == (0.5, 1000)
        assert round(rate.window_seconds, 3) == 10
        assert machine.looks == 1

    told(story)


def test_what_is_used_is_measured_since_the_last_question() -> None:
    async def story(loop: VirtualTimeLoop) -> None:
        machine = Machine(loop, a=2.0)
        meter = Meter(machine.containers, machine.whole)
        await asyncio.sleep(20)
        await meter.rates(machine.roots)
        machine.speeds["a"] = 0.25
        await asyncio.sleep(5)
        rate = (await meter.rates(machine.roots))["a"]
        assert (processors(rate.usage.cpu_nanos), round(rate.window_seconds, 3)) == (0.25, 5)
        await asyncio.sleep(0.3)
        again = (await meter.rates(machine.roots))["a"]
        assert round(again.window_seconds, 3) == 5.3, "questions close to each other do not make it noise"
        assert machine.looks == 3

    told(story)


def test_after_a_long_time_the_asker_waits_a_second() -> None:
    async def story(loop: VirtualTimeLoop) -> None:
        machine = Machine(loop, a=0.0, b=1.0)
        meter = Meter(machine.containers, machine.whole)
        await asyncio.sleep(1000)
        machine.pass_time()
        machine.speeds["a"] = 3.0
        began = loop.time()
        rates = await meter.rates(machine.roots)
        assert round(loop.time() - began, 3) == 1
        assert [processors(rates[name].usage.cpu_nanos) for name in "ab"] == [3.0, 1.0]
        assert {round(it.window_seconds, 3) for it in rates.values()} == {1}

    told(story)


def test_the_machine_is_measured_only_if_it_is_asked_for() -> None:
    async def story(loop: VirtualTimeLoop) -> None:
        machine = Machine(loop, a=1.0)
        meter = Meter(machine.containers, machine.whole)
        await asyncio.sleep(2)
        assert MACHINE not in await meter.rates(machine.roots)
        rates = await meter.rates(machine.roots, machine=True)
        assert processors(rates[MACHINE].usage.cpu_nanos) == 1.0
        assert rates[MACHINE].usage.memory_bytes == 5000

    told(story)


def test_many_who_ask_at_once_wait_once() -> None:
    async def story(loop: VirtualTimeLoop) -> None:
        machine = Machine(loop, a=1.0)
        meter = Meter(machine.containers, machine.whole)
        await asyncio.sleep(1000)
        began = loop.time()
        answers = await asyncio.gather(*(meter.rates(machine.roots) for _ in range(10)))
        assert round(loop.time() - began, 3) == 1
        assert {processors(it["a"].usage.cpu_nanos) for it in answers} == {1.0}

    told(story)


def test_who_gave_up_waiting_keeps_nobody_out() -> None:
    async def story(loop: VirtualTimeLoop) -> None:
        machine = Machine(loop, a=1.0)
        meter = Meter(machine.containers, machine.whole)
        await asyncio.sleep(1000)
        impatient = asyncio.create_task(meter.rates(machine.roots))
        await asyncio.sleep(0.5)
        impatient.cancel()
        await asyncio.gather(impatient, return_exceptions=True)
        rate = (await meter.rates(machine.roots))["a"]
        assert processors(rate.usage.cpu_nanos) == 1.0

    told(story)


def test_a_container_that_is_gone_is_not_in_the_answer_and_not_remembered() -> None:
    async def story(loop: VirtualTimeLoop) -> None:
        machine = Machine(loop, a=1.0, b=1.0)
        meter = Meter(machine.containers, machine.whole)
        await asyncio.sleep(5)
        await meter.rates(machine.roots)
        del machine.speeds["a"], machine.used["a"]
        assert list(await meter.rates(machine.roots)) == ["b"]
        await asyncio.sleep(61)
        await meter.rates(machine.roots[1:])
        assert list(meter._looks) == ["b"]

    told(story)
