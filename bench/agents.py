"""What simulated kubelets cost: pods from bound to Succeeded on the store in this process, in virtual time.

Time inside of the verbs of the store is shown apart from the rest, which is the agent: informers, queue, stages and
event loop. Beside them stands the time of a fixed piece of Python, since machines are shared and differ.

    python -m bench.agents [PODS]
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from typing import Any

from allhands.agents.behaviour import KWOK_TEST
from allhands.agents.simulated import SimulatedKubelets
from allhands.compose import spare_the_collector
from allhands.sim.virtual_time import VirtualTimeLoop, run_virtually
from tests.unit.agents.virtual import World

NODES = 100
LONGER_THAN_ANY_POD_SECONDS = 300
_VERBS = ("patch", "create", "delete", "get", "list")


class TimedObjects:
    """The port, with the processor time of its verbs added up."""

    def __init__(self, objects: Any) -> None:
        self._objects = objects
        self.seconds = 0.0
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._objects, name)
        if name not in _VERBS:
            return verb

        async def timed(*arguments: Any, **more: Any) -> Any:
            begun = time.process_time()
            try:
                return await verb(*arguments, **more)
            finally:
                self.seconds += time.process_time() - begun
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
    begun = time.process_time()
    world.start(SimulatedKubelets(port, world.clock, behaviour=KWOK_TEST))
    await asyncio.sleep(LONGER_THAN_ANY_POD_SECONDS)
    spent = time.process_time() - begun
    left = [name for name in (f"p{number}" for number in range(pods)) if await world.phase(name) != "Succeeded"]
    assert not left, f"{len(left)} pods did not succeed"
    return spent, objects


def yardstick() -> float:
    begun = time.process_time()
    total = 0
    for number in range(1_000_000):
        total += number
    return time.process_time() - begun


def main() -> None:
    pods = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    loop = VirtualTimeLoop()

    async def story() -> tuple[float, TimedObjects]:
        return await measure(World(loop), pods)

    spent, objects = run_virtually(loop, story())
    gc.unfreeze()
    print(f"{pods} pods on {NODES} nodes, create to Succeeded, {objects.calls / pods:.2f} calls a pod")
    print(f"store  {objects.seconds / pods * 1e6:7.0f} µs a pod")
    print(f"agent  {(spent - objects.seconds) / pods * 1e6:7.0f} µs a pod")
    print(f"(adding up a million numbers takes {yardstick() * 1e3:.0f} ms here)")


if __name__ == "__main__":
    main()
