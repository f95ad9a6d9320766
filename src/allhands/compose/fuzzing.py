"""Seed after seed of `sim.fuzzing` on the whole simulated system."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allhands.compose.nodes import NodeSize, add_node, node_manifest
from allhands.compose.simulated import simulate
from allhands.sim.faults import Faults
from allhands.sim.fuzzing import MOST_JOBS, Fuzz, History

if TYPE_CHECKING:
    from allhands.compose.simulated import SimulatedCluster

ROUGH = Faults(refused=0.05, lost=0.05, slow=0.1, crash=0.01, watch_ends=0.03, watch_expires=0.01, watch_lags=0.05)


def fuzz(seed: int, faults: Faults = ROUGH, *, most_jobs: int | None = None) -> History:
    """The history of one seed; raises what was broken. `most_jobs`: only so many of its jobs are submitted."""

    async def scenario(cluster: SimulatedCluster) -> History:
        async def add(name: str, cpu: int) -> None:
            await add_node(cluster.objects, node_manifest(name, NodeSize(str(cpu)), cluster.store.now()))

        return await Fuzz(cluster, seed, add, most_jobs).run()

    return simulate(scenario, seed=seed, faults=faults)


def shrunk(seed: int, faults: Faults = ROUGH) -> int:
    """With how few jobs a seed that breaks still breaks."""
    jobs = 1
    while jobs < MOST_JOBS:
        try:
            fuzz(seed, faults, most_jobs=jobs)
        except Exception:
            return jobs
        jobs += 1
    return jobs
