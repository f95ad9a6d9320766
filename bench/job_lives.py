"""One fresh process in which Volcano Jobs live their whole life in virtual time, and what that takes, printed as JSON.

Run by `bench.jobs`, never imported by it but for the type of its answer. All Jobs come at once to nodes that hold a
third of them, so that most wait to be let in, wait for room, run, and end; in the end all must have completed.
"""

from __future__ import annotations

import asyncio
import resource
import sys
import time
from typing import TYPE_CHECKING, Any

import msgspec

from allhands.api.kinds import Resource
from allhands.compose.machine import spare_the_collector
from allhands.compose.nodes import NodeSize, add_node, node_manifests
from allhands.compose.simulated import simulate

if TYPE_CHECKING:
    from allhands.compose.simulated import SimulatedCluster

JOBS = Resource("batch.volcano.sh", "v1alpha1", "jobs")
PODS_PER_JOB = 2
NODE_CPU = 16
WAVES = 3
"""So often the nodes are filled."""
RUN_SECONDS = 60
LOOK_SECONDS = 5.0
MOST_SECONDS = 7_200
"""So long in the simulation it may take."""
COMPLETED = "Completed"


class Lived(msgspec.Struct, kw_only=True):
    """`wall_seconds` and `cpu_seconds` from the first Job to the end of the last."""

    jobs: int
    nodes: int
    wall_seconds: float
    cpu_seconds: float
    virtual_seconds: float
    peak_mib: float


class _State(msgspec.Struct, frozen=True):
    phase: str = ""


class _Status(msgspec.Struct, frozen=True):
    state: _State = _State()


class _Job(msgspec.Struct, frozen=True):
    status: _Status = _Status()


def job(name: str) -> dict[str, Any]:
    container = {"name": "main", "image": "work", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    template = {
        "metadata": {"annotations": {"sim.allhands.dev/run-seconds": str(RUN_SECONDS)}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    tasks = [{"name": "worker", "replicas": PODS_PER_JOB, "template": template}]
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"tasks": tasks},
    }


async def act(cluster: SimulatedCluster, jobs: int) -> Lived:
    nodes = max(1, jobs * PODS_PER_JOB // (NODE_CPU * WAVES))
    for manifest in node_manifests(nodes, NodeSize(cpu=str(NODE_CPU), memory="64Gi"), cluster.store.now()):
        await add_node(cluster.objects, manifest)
    await cluster.ready()
    begun, wall, virtual = time.process_time(), time.perf_counter(), cluster.seconds
    for number in range(jobs):
        await cluster.objects.create(JOBS, job(f"job-{number:05d}"), "default")
    async with asyncio.timeout(MOST_SECONDS):
        while await _completed(cluster) < jobs:  # noqa: ASYNC110 - in virtual time, where a look costs nothing
            await asyncio.sleep(LOOK_SECONDS)
    return Lived(
        jobs=jobs,
        nodes=nodes,
        wall_seconds=time.perf_counter() - wall,
        cpu_seconds=time.process_time() - begun,
        virtual_seconds=cluster.seconds - virtual,
        peak_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    )


async def _completed(cluster: SimulatedCluster) -> int:
    found = await cluster.objects.list(JOBS)
    return sum(_jobs.decode(raw).status.state.phase == COMPLETED for raw in found.items)


_jobs = msgspec.json.Decoder(_Job)


def main() -> None:
    jobs = int(sys.argv[1])
    spare_the_collector()
    sys.stdout.buffer.write(msgspec.json.encode(simulate(lambda cluster: act(cluster, jobs))))


if __name__ == "__main__":
    main()
