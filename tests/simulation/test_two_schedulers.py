"""Two schedulers on one store: whenever and however leadership moves, no law breaks and every job ends well."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

import pytest

from allhands.compose.fuzzing import ROUGH
from allhands.compose.nodes import NodeSize, add_node, node_manifest
from allhands.compose.simulated import SimulatedCluster
from allhands.compose.system import SystemOptions
from allhands.runtime.lease import LEASES, LeaderLease
from allhands.runtime.metrics import MetricsRegistry
from allhands.runtime.scheduling.scheduler import Scheduler
from allhands.sim.faults import NONE, Faults
from allhands.sim.fuzzing import Fuzz
from allhands.sim.supervision import Part
from allhands.sim.virtual_time import VirtualTimeLoop, run_virtually
from tests.depth import examples

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from allhands.ports import Objects
    from allhands.sim.fuzzing import History

NAMES = ("scheduler-a", "scheduler-b")
BATCH = 4


class TwoSchedulers(SimulatedCluster):
    """The simulated system with two candidates in place of its scheduler. `terms`: from when to when each led."""

    def __init__(self, loop: VirtualTimeLoop, seed: int, faults: Faults) -> None:
        options = SystemOptions(seed=seed)
        super().__init__(loop, seed, options, faults)
        self._options = options
        self._mover = random.Random(f"mover {seed}")
        self.terms: list[list[float]] = []
        self.leaders: list[str] = []
        self.metrics = MetricsRegistry()
        del self.parts["scheduler"]
        for name in NAMES:
            self.parts[name] = Part(name, self.objects, self._candidate(name), faults, random.Random(f"{name} {seed}"))

    def _candidate(self, name: str) -> Callable[[Objects], Coroutine[Any, Any, None]]:
        async def run(objects: Objects) -> None:
            identity = f"{name}-{self.parts[name].incarnations}"
            lease = LeaderLease(objects, self.clock, name="scheduler", namespace="default", identity=identity)
            await lease.lead(lambda: self._work(name, objects))

        return run

    async def _work(self, name: str, objects: Objects) -> None:
        scheduler = Scheduler(objects, self.clock, options=self._options.scheduler, metrics=self.metrics)
        self.leaders.append(name)
        self.terms.append([self.seconds])
        term = self.terms[-1]
        try:
            await scheduler.run()
        finally:
            term.append(self.seconds)

    def crash(self, part: str) -> None:
        super().crash(self._mover.choice(NAMES) if part == "scheduler" else part)

    async def move_leadership(self, pause_seconds: float) -> None:
        """Again and again, in every way it can be lost."""
        chance = self._mover
        while True:
            await asyncio.sleep(chance.random() * pause_seconds)
            if not self.leaders:
                continue
            leader = self.parts[self.leaders[-1]]
            match chance.randrange(3):
                case 0:
                    leader.crash()
                case 1:  # it is cut off: what it still sends is refused
                    before = leader.faults
                    leader.set_faults(Faults(refused=1.0))
                    await asyncio.sleep(16)
                    leader.set_faults(before)
                case _:  # somebody gives the lease to nobody
                    lease = (await self.objects.get(LEASES, "scheduler", "default")).manifest()
                    lease["spec"]["holderIdentity"] = "nobody-at-all"
                    await self.objects.update(LEASES, "scheduler", lease, "default")


def history(seed: int, faults: Faults, pause_seconds: float) -> tuple[History, TwoSchedulers]:
    loop = VirtualTimeLoop()

    async def main() -> tuple[History, TwoSchedulers]:
        cluster = TwoSchedulers(loop, seed, faults)

        async def add(name: str, cpu: int) -> None:
            await add_node(cluster.objects, node_manifest(name, NodeSize(str(cpu)), cluster.store.now()))

        async def scenario() -> History:
            moving = asyncio.create_task(cluster.move_leadership(pause_seconds))
            try:
                return await Fuzz(cluster, seed, add).run()
            finally:
                moving.cancel()

        return await cluster.run(scenario()), cluster

    return run_virtually(loop, main())


@pytest.mark.parametrize("first", range(0, examples(12), BATCH))
def test_pods_are_bound_once_and_gangs_end_whole_whenever_leadership_moves(first: int) -> None:
    for seed in range(first, first + BATCH):
        ended, cluster = history(seed, NONE if seed % 2 else ROUGH, pause_seconds=40)
        assert ended.jobs
        assert len(cluster.terms) > 2, "leadership has moved"
        for earlier, later in zip(cluster.terms, cluster.terms[1:], strict=False):
            assert earlier[1] <= later[0], "at most one led at a time"


def test_a_history_with_two_schedulers_repeats() -> None:
    first, one = history(5, ROUGH, pause_seconds=40)
    second, other = history(5, ROUGH, pause_seconds=40)
    assert first == second
    assert one.terms == other.terms
    assert one.metrics.text() == other.metrics.text(), "what was counted repeats too: it is the loop's time"
