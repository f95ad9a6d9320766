"""What simulated kubelets cost: pods from bound to Succeeded on the store in this process, in virtual time.

Time inside of the verbs of the store is shown apart from the rest, which is the agent: informers, queue, stages and
event loop. To ask for processor time is dear on some machines, so it is asked twice, and shared out by wall time.
Beside them stands the time of a fixed piece of Python, since machines are shared and differ.
"""

from __future__ import annotations

import asyncio
import gc
import time
from typing import Any

from allhands.agents.behaviour import KWOK_TEST
from allhands.agents.simulated import SimulatedKubelets
from allhands.compose.machine import spare_the_collector
from allhands.sim.virtual_time import VirtualTimeLoop, run_virtually
from bench.figures import Figure, Goal, Report, command_line
from tests.unit.agents.virtual import World

PODS = 10_000
NODES = 100
LONGER_THAN_ANY_POD_SECONDS = 300
_VERBS = ("patch", "create", "delete", "get", "list")


class TimedObjects:
    """The port, with the wall time of its verbs added up."""

    def __init__(self, objects: Any) -> None:
        self._objects = objects
        self.seconds = 0.0
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._objects, name)
        if name not in _VERBS:
            return verb

        async def timed(*arguments: Any, **more: Any) -> Any:
            begun = time.perf_counter()
            try:
                return await verb(*arguments, **more)
            finally:
                self.seconds += time.perf_counter() - begun
                self.calls += 1

        return timed


async def measure(world: World, pods: int) -> tuple[float, TimedObjects]:
    for number in range(NODES):
        await world.add_node(f"n{number}", cpu="10000", memory="10000Gi", pods="10000")
    for number in range(pods):
        await world.add_pod(f"p{number}", node=f"n{number % NODES}")
    objects = TimedObjects(world.objects)
    port: Any = objects
    spare_the_collector()
    begun, begun_wall = time.process_time(), time.perf_counter()
    world.start(SimulatedKubelets(port, world.clock, behaviour=KWOK_TEST))
    await asyncio.sleep(LONGER_THAN_ANY_POD_SECONDS)
    spent = time.process_time() - begun
    objects.seconds *= spent / (time.perf_counter() - begun_wall)
    left = [name for name in (f"p{number}" for number in range(pods)) if await world.phase(name) != "Succeeded"]
    assert not left, f"{len(left)} pods did not succeed"
    return spent, objects


def yardstick() -> float:
    begun = time.process_time()
    total = 0
    for number in range(1_000_000):
        total += number
    return time.process_time() - begun


def report(*, quick: bool) -> Report:
    pods, rounds = (PODS // 5, 1) if quick else (PODS, 3)
    found = [_round(pods) for _ in range(rounds)]
    return Report(
        name="agents",
        title=f"{pods:,} pods on {NODES} simulated nodes, from bound to Succeeded",
        command=command_line("agents", quick=quick),
        settings=(f"{rounds} rounds in virtual time, store in this process; {found[0][2]:.2f} calls a pod",),
        figures=(
            _figure("agent, each pod", "µs", [agent for agent, _, _, _ in found], Goal("at most", 150)),
            _figure("store, each pod", "µs", [store for _, store, _, _ in found]),
            _figure("adding up a million numbers", "ms", [yard for _, _, _, yard in found]),
        ),
    )


def _round(pods: int) -> tuple[float, float, float, float]:
    loop = VirtualTimeLoop()

    async def story() -> tuple[float, TimedObjects]:
        return await measure(World(loop), pods)

    spent, objects = run_virtually(loop, story())
    gc.unfreeze()
    agent = (spent - objects.seconds) / pods * 1e6
    return agent, objects.seconds / pods * 1e6, objects.calls / pods, yardstick() * 1e3


def _figure(name: str, unit: str, rounds: list[float], goal: Goal | None = None) -> Figure:
    return Figure(name=name, unit=unit, rounds=tuple(rounds), goal=goal)
