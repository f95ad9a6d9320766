"""One fresh process that runs a whole simulated cluster until all of its pods run, and prints what that takes, as JSON.

Run by `bench.capacity`, never imported by it: resident memory means something only in a process that did nothing else.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from allhands.agents.behaviour import Behaviour, Fixed
from allhands.api.kinds import Resource
from allhands.compose.machine import spare_the_collector
from allhands.compose.nodes import NodeSize, add_node, node_manifests
from allhands.compose.simulated import simulate
from allhands.compose.system import SystemOptions

if TYPE_CHECKING:
    from allhands.compose.simulated import SimulatedCluster

PODS = Resource("", "v1", "pods")
JOBS = Resource("batch", "v1", "jobs")
PODS_PER_JOB = 100
PODS_PER_NODE = 10
DAY_SECONDS = 86_400.0
MOST_SECONDS = 3_600
"""So long in the simulation it may take until all run."""
QUIET_SECONDS = 600
"""So long in the simulation it is watched when nothing happens any more."""


class Ran(msgspec.Struct, kw_only=True):
    """What a cluster takes; times are those of the processor."""

    nodes: int
    pods: int
    resident_bytes: float
    begin_bytes: float
    """Before the first node."""
    start_seconds: float
    """Until all run."""
    quiet_seconds_per_second: float
    """While nothing but heartbeats happens, for each second of the simulation."""


class _Metadata(msgspec.Struct):
    name: str


class _Status(msgspec.Struct):
    phase: str = ""


class _Pod(msgspec.Struct):
    metadata: _Metadata
    status: _Status


def job(name: str) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": "registry.example/training:1.4.2",
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
    }
    return {
        "metadata": {"name": name, "annotations": {"allhands.dev/min-available": "all"}},
        "spec": {
            "parallelism": PODS_PER_JOB,
            "completions": PODS_PER_JOB,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        },
    }


async def act(cluster: SimulatedCluster, pods: int) -> Ran:
    begin_bytes, begun = _resident_bytes(), time.process_time()
    nodes = pods // PODS_PER_NODE
    size = NodeSize(cpu=str(PODS_PER_NODE), memory=f"{PODS_PER_NODE}Gi")
    for manifest in node_manifests(nodes, size, cluster.store.now()):
        await add_node(cluster.objects, manifest)
    await cluster.ready()
    for number in range(pods // PODS_PER_JOB):
        await cluster.objects.create(JOBS, job(f"job-{number:05d}"), "default")
    async with asyncio.timeout(MOST_SECONDS):
        await _all_run(cluster, pods)
    all_run = time.process_time()
    await asyncio.sleep(QUIET_SECONDS)
    quiet = time.process_time() - all_run
    gc.collect()
    return Ran(
        nodes=nodes,
        pods=pods,
        resident_bytes=_resident_bytes(),
        begin_bytes=begin_bytes,
        start_seconds=all_run - begun,
        quiet_seconds_per_second=quiet / QUIET_SECONDS,
    )


async def _all_run(cluster: SimulatedCluster, pods: int) -> None:
    running: set[str] = set()
    while True:
        watch = await cluster.objects.watch(PODS)
        async for event in watch:
            if event.type == "ERROR":
                break  # so many pods at once that we fell behind: from the beginning
            seen = msgspec.json.decode(event.raw, type=_Pod)
            if seen.status.phase == "Running":
                running.add(seen.metadata.name)
                if len(running) == pods:
                    return
        await watch.close()


def _resident_bytes() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return float(pages * 4096)


def main() -> None:
    pods = int(sys.argv[1])
    spare_the_collector()
    options = SystemOptions(behaviour=Behaviour(run=Fixed(DAY_SECONDS)))
    sys.stdout.buffer.write(msgspec.json.encode(simulate(lambda cluster: act(cluster, pods), options=options)))


if __name__ == "__main__":
    main()
