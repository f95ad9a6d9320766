"""Seed after seed of `sim.fuzzing` and `sim.rich_fuzzing` on the whole simulated system."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allhands.compose.nodes import NodeSize, add_node, node_manifest
from allhands.compose.simulated import simulate
from allhands.compose.system import SystemOptions
from allhands.runtime.scheduling.resources import NAMES_ALONE
from allhands.runtime.scheduling.scheduler import SchedulerOptions
from allhands.sim.faults import Faults
from allhands.sim.fuzzing import MOST_JOBS, Fuzz, History
from allhands.sim.rich_fuzzing import RichFuzz

if TYPE_CHECKING:
    from allhands.compose.simulated import SimulatedCluster

ROUGH = Faults(refused=0.05, lost=0.05, slow=0.1, crash=0.01, watch_ends=0.03, watch_expires=0.01, watch_lags=0.05)


def fuzz(
    seed: int, faults: Faults = ROUGH, *, most_jobs: int | None = None, rich: bool = False, flight: int = 1
) -> History:
    """The history of one seed; raises what was broken. `most_jobs`: only so many of its jobs are submitted. `rich`:
    with queues, native PodGroups, priorities and volumes. `flight`: how many writes are under way at a time."""

    async def scenario(cluster: SimulatedCluster) -> History:
        async def add(name: str, cpu: int) -> None:
            await add_node(cluster.objects, node_manifest(name, NodeSize(str(cpu)), cluster.store.now()))

        if rich:
            await cluster.ready()
        return await (RichFuzz if rich else Fuzz)(cluster, seed, add, most_jobs).run()

    scheduler = SchedulerOptions(names=NAMES_ALONE, flight=flight)
    options = SystemOptions(seed=seed, flight=flight, scheduler=scheduler)
    return simulate(scenario, seed=seed, options=options, faults=faults)


def shrunk(seed: int, faults: Faults = ROUGH, *, rich: bool = False) -> int:
    """With how few jobs a seed that breaks still breaks."""
    jobs = 1
    while jobs < MOST_JOBS:
        try:
            fuzz(seed, faults, most_jobs=jobs, rich=rich)
        except Exception:
            return jobs
        jobs += 1
    return jobs
