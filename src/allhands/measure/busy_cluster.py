"""A small cluster in which every kind of answer occurs: for trying `allhands replay` before one has a cluster.

Two racks of three nodes with four GPUs each, two queues that share them, and jobs that run, start, wait or are refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allhands.core.facts import Facts
from allhands.core.world import World
from allhands.model.domain import Domain
from allhands.model.group_status import GroupStatus
from allhands.model.node import Node
from allhands.model.pod import Pod, PodPhase
from allhands.model.podgroup import PodGroup, SubGroup, TopologyMode, TopologyRule
from allhands.model.queue import Queue, Quota
from allhands.model.resources import ResourceVector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allhands.core.snapshot import Snapshot

NOW_SECONDS = 1_767_268_800
"""Noon of the first day of 2026."""
GPU = "example.com/gpu"
NODE = ResourceVector.of({"cpu": 32_000, "memory": 256 << 30, "pods": 110, GPU: 4})
ONE_RACK = TopologyRule(TopologyMode.HARD, highest_tier=1)
CLOSE = TopologyRule(TopologyMode.SOFT, highest_tier=1)
HALF = (Quota(GPU, deserved=12),)


def busy_cluster() -> Snapshot:
    world = World()
    for number in range(1, 7):
        name = f"gpu-{number}"
        labels = {"kubernetes.io/hostname": name, "accelerator": "h100" if number < 4 else "l40"}
        world.set_node(Node(name, labels=labels, ready=True, allocatable=NODE, capacity=NODE))
    racks = (
        Domain("hall", 2),
        Domain("rack-a", 1, "hall", ("gpu-1", "gpu-2", "gpu-3")),
        Domain("rack-b", 1, "hall", ("gpu-4", "gpu-5", "gpu-6")),
    )
    world.set_facts(Facts(accounts=(Queue("research", quotas=HALF), Queue("production", quotas=HALF)), domains=racks))
    _run(world, "train-7", "research", ["gpu-1", "gpu-2"], gpus=4, minutes=20, expected_minutes=90)
    _run(world, "sweep", "research", ["gpu-4", "gpu-4", "gpu-5", "gpu-5"], gpus=2, minutes=5, minimum=2)
    _run(world, "serve", "production", ["gpu-6"], gpus=1, minutes=600)
    _wait(world, "notebook", "research", 1, gpus=1, minutes=2)
    _wait(world, "evaluate", "research", 2, gpus=1, minutes=3, rule=CLOSE)
    _wait(world, "train-8", "research", 3, gpus=4, minutes=50, rule=ONE_RACK, expected_minutes=240)
    _wait(world, "rank", "production", 2, gpus=4, minutes=1, expected_minutes=30)
    _wait(world, "huge", "research", 2, gpus=8, minutes=40)
    _wait(world, "half-made", "research", 2, gpus=1, minutes=1, minimum=4)
    _wait(world, "lost", "nowhere", 1, gpus=1, minutes=9)
    return world.snapshot()


def _run(
    world: World,
    name: str,
    queue: str,
    nodes: Sequence[str],
    *,
    gpus: int,
    minutes: int,
    minimum: int | None = None,
    expected_minutes: int | None = None,
) -> None:
    began = NOW_SECONDS - 60 * minutes
    members = SubGroup(min_count=len(nodes) if minimum is None else minimum)
    group = _group(name, queue, members, began, expected_minutes)
    world.set_group(group, GroupStatus(started_at_seconds=began))
    for rank, node in enumerate(nodes):
        world.set_pod(_pod(f"{name}-{rank}", gpus, node=node, began=began), group=group.key)


def _wait(
    world: World,
    name: str,
    queue: str,
    count: int,
    *,
    gpus: int,
    minutes: int,
    minimum: int | None = None,
    rule: TopologyRule | None = None,
    expected_minutes: int | None = None,
) -> None:
    members = SubGroup(min_count=count if minimum is None else minimum, topology=rule)
    group = _group(name, queue, members, NOW_SECONDS - 60 * minutes, expected_minutes)
    world.set_group(group)
    for rank in range(count):
        world.set_pod(_pod(f"{name}-{rank}", gpus), group=group.key)


def _group(name: str, queue: str, members: SubGroup, created: int, expected_minutes: int | None) -> PodGroup:
    seconds = None if expected_minutes is None else 60 * expected_minutes
    return PodGroup("ml", name, queue, members=members, created_at_seconds=created, expected_duration_seconds=seconds)


def _pod(name: str, gpus: int, *, node: str = "", began: int | None = None) -> Pod:
    return Pod(
        "ml",
        name,
        uid=name,
        owner=f"Job/{name.rpartition('-')[0]}",
        node_name=node,
        phase=PodPhase.RUNNING if node else PodPhase.PENDING,
        started_at_seconds=began,
        requests=ResourceVector.of({"cpu": 2_000 * gpus, "memory": (16 * gpus) << 30, GPU: gpus}),
    )
