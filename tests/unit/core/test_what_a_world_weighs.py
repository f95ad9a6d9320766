"""A cluster has a hundred thousand running pods, or ten times as many: what each of them costs in memory is bounded."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any

import msgspec

from allhands.core.world import World
from allhands.model.node import Node
from allhands.model.pod import Pod
from allhands.model.pod_document import PodDocument
from allhands.model.podgroup import PodGroup, Slot, SubGroup
from allhands.model.resources import ResourceVector

NODES, PODS, GANG = 200, 3000, 20
MOST_BYTES = 1150
"""For each pod that is decoded, kept and counted: its object, its state, its row, and its part of its group's entry."""
SEEN_BEFORE = 4200
"""So many other pods, for caches of a fixed size to be full."""
DECODER = msgspec.json.Decoder(PodDocument)


def manifest(number: int) -> dict[str, Any]:
    """A pod as a Job makes it, running."""
    job = f"train-{number // GANG:06d}"
    labels = {"app": "train", "job-name": job, "batch.kubernetes.io/job-completion-index": str(number % GANG)}
    resources = {"requests": {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"}}
    return {
        "metadata": {
            "name": f"{job}-{number % GANG}",
            "namespace": f"team-{number // GANG % 7}",
            "uid": f"{number:08x}-1111-4222-8333-{number:012x}",
            "labels": labels,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "ownerReferences": [{"kind": "Job", "name": job, "uid": job, "controller": True}],
        },
        "spec": {
            "nodeName": f"node-{number % NODES:05d}",
            "schedulerName": "allhands",
            "nodeSelector": {"pool": "gpu"},
            "tolerations": [{"key": "gpu", "operator": "Exists"}],
            "containers": [{"name": "main", "image": "train:1", "resources": resources}],
        },
        "status": {
            "phase": "Running",
            "startTime": f"2026-01-01T00:{number // GANG % 60:02d}:00Z",
            "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:30Z"}],
        },
    }


def read(number: int) -> Pod:
    return Pod.from_document(DECODER.decode(msgspec.json.encode(manifest(number))))


def filled(world: World) -> World:
    for number in range(PODS):
        pod = read(number)
        key = f"{pod.namespace}/train-{number // GANG:06d}"
        if number % GANG == 0:
            world.set_group(
                PodGroup(pod.namespace, f"train-{number // GANG:06d}", "q", members=SubGroup(min_count=GANG))
            )
        world.set_pod(pod, group=key, slot=Slot("", "worker"))
    return world


def test_a_running_pod_costs_no_more_than_a_little_over_a_kilobyte() -> None:
    world = World()
    for number in range(NODES):
        room = ResourceVector.of({"cpu": 640_000, "memory": 1 << 42, "pods": 1100, "nvidia.com/gpu": 800})
        world.set_node(Node(f"node-{number:05d}", ready=True, allocatable=room))
    world.snapshot()
    tracemalloc.start()
    for number in range(SEEN_BEFORE):
        read(PODS + number)
    gc.collect()
    before, _ = tracemalloc.get_traced_memory()
    filled(world)
    snapshot = world.snapshot()
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(snapshot.pods) == PODS
    assert (after - before) / PODS <= MOST_BYTES


def test_what_many_pods_say_alike_is_kept_once() -> None:
    one, other = read(0), read(NODES * GANG)
    assert one.node_name is other.node_name
    assert one.scheduler_name is other.scheduler_name
    assert one.node_selector is other.node_selector
    assert one.started_at_seconds is not None
    neighbour = read(1)
    assert one.namespace is neighbour.namespace
    assert one.owner is neighbour.owner
    assert one.labels["job-name"] is neighbour.labels["job-name"]
    assert one.bound_at_seconds is neighbour.bound_at_seconds
    assert read(0).labels is one.labels
