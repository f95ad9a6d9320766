"""The whole system on virtual time, with faults: same seed, same history, bit for bit.

Each part stands behind a port of its own that may fail, and may crash and come back. Whoever writes the scenario gets
the cluster's true state (`objects`, without faults) and drives it from there.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from allhands.api.errors import StatusError
from allhands.api.volcano.queue import DEFAULT, QUEUE
from allhands.compose.admission import WEBHOOKS
from allhands.compose.system import SystemOptions, system_parts
from allhands.runtime.keys import keys_from
from allhands.sim.faults import NONE
from allhands.sim.identifiers import SeededIds
from allhands.sim.supervision import Part
from allhands.sim.virtual_time import VirtualClock, VirtualTimeLoop, run_virtually
from allhands.store import InProcessObjects, Store

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from allhands.agents.simulated import SimulatedKubelets
    from allhands.sim.faults import Faults

T = TypeVar("T")


class SimulatedCluster:
    """A store, its clock, and the parts that work on it. Made by `simulate`."""

    def __init__(self, loop: VirtualTimeLoop, seed: int, options: SystemOptions, faults: Faults) -> None:
        self.clock = VirtualClock(loop)
        ids = SeededIds(seed)
        self.store = Store(self.clock, ids, webhooks=WEBHOOKS, keeps_quotas=True)
        self.objects = InProcessObjects(self.store)
        self._kubelets: SimulatedKubelets | None = None
        self._dead_nodes: dict[str, None] = {}
        self.parts = {
            name: Part(name, self.objects, begin, faults, random.Random(f"{name} {seed}"))  # noqa: S311
            for name, begin in system_parts(self.clock, options, self._see_kubelets, self._dead_nodes).items()
        }
        self._loop = loop

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return self._loop.time()

    async def ready(self) -> None:
        """Returns when our own kinds are served and the first queues are there."""
        while True:
            try:
                await self.objects.get(QUEUE.resource, DEFAULT)
            except StatusError:
                await asyncio.sleep(0.1)
            else:
                return

    def set_faults(self, faults: Faults) -> None:
        """For every part that begins from now on, and all requests of those that run."""
        for part in self.parts.values():
            part.set_faults(faults)

    def crash(self, part: str) -> None:
        self.parts[part].crash()

    def kill_node(self, name: str) -> None:
        """The machine stops, and stays so whatever becomes of those who play it."""
        self._dead_nodes[name] = None

    def revive_node(self, name: str) -> None:
        """It comes back, without what ran on it."""
        if name in self._dead_nodes and self._kubelets is not None:
            self._kubelets.revive(name)
        self._dead_nodes.pop(name, None)

    def _see_kubelets(self, kubelets: SimulatedKubelets) -> None:
        self._kubelets = kubelets

    async def run(self, scenario: Coroutine[Any, Any, T]) -> T:
        """The scenario, with all parts running beside it; the first mistake of a part ends it."""
        tasks: list[asyncio.Task[Any]] = [asyncio.create_task(self.store.housekeeper.run(), name="housekeeping")]
        tasks += [asyncio.create_task(part.run(), name=name) for name, part in self.parts.items()]
        acting = asyncio.create_task(scenario, name="scenario")
        try:
            await asyncio.wait([acting, *tasks], return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    task.result()
            return await acting
        finally:
            acting.cancel()
            for task in tasks:
                task.cancel()


def simulate(
    scenario: Callable[[SimulatedCluster], Coroutine[Any, Any, T]],
    *,
    seed: int = 0,
    options: SystemOptions | None = None,
    faults: Faults = NONE,
) -> T:
    """Runs the scenario to its end and returns what it returns. Days pass in seconds."""
    loop = VirtualTimeLoop()

    async def main() -> T:
        chosen = options or SystemOptions(seed=seed)
        honest = msgspec.structs.replace(chosen.scheduler, survives=False)
        keys = keys_from(random.Random(f"keys {seed}"))  # noqa: S311
        chosen = msgspec.structs.replace(chosen, scheduler=honest, new_keys=keys)
        cluster = SimulatedCluster(loop, seed, chosen, NONE if faults == NONE else faults)
        return await cluster.run(scenario(cluster))

    return run_virtually(loop, main())
