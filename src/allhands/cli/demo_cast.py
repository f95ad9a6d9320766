"""Who plays in the demo: three racks of simulated nodes, two teams' queues, and their jobs, as plain manifests.

Times are chosen so that every scene has a second or more to be seen on a slow machine. Nothing here talks to a cluster.
"""

from __future__ import annotations

import errno
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import yaml

from allhands.agents.agent import AGENT_LABEL, SIMULATED
from allhands.agents.behaviour import RUN_SECONDS
from allhands.api.kinds import Resource
from allhands.dialects.annotations import AFTER, EXPECTED_DURATION, MIN_AVAILABLE, QUEUE, TOPOLOGY

if TYPE_CHECKING:
    from allhands.api.document import Manifest

NAMESPACE: Final = "default"
RACK_LABEL: Final = "topology.allhands.dev/rack"
RACKS: Final = ("rack-a", "rack-b", "rack-c")
NODES_PER_RACK: Final = 2
GPUS_PER_NODE: Final = 4
GPU: Final = "nvidia.com/gpu"
GPUS_PER_WORKER: Final = 2
MACHINE: Final = "this-machine"
"""The node whose pods are processes."""
URGENT: Final = "urgent"
LOW: Final = "low"
PRIORITIES: Final = {URGENT: 1000, LOW: -100}
SPARE_SECONDS: Final = 1
"""So much longer than it runs a job says that it will: people are careful, and a machine may be slow."""

EVICTIONS_DO_NOT_COUNT: Final = {
    "action": "Ignore",
    "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
}
"""Who had to make room did nothing wrong: its pods are made again at once, and no retry is used up."""

JOBS: Final = Resource("batch", "v1", "jobs")
CONFIG_MAPS: Final = Resource("", "v1", "configmaps")
PRIORITY_CLASSES: Final = Resource("scheduling.k8s.io", "v1", "priorityclasses")
QUEUES: Final = Resource("scheduling.volcano.sh", "v1beta1", "queues")


class Role(msgspec.Struct, frozen=True, kw_only=True):
    """A job on simulated nodes: so many workers with two GPUs each, which all start together or none."""

    name: str
    queue: str
    workers: int
    seconds: int
    """How long it runs."""
    topology: str = ""
    """How close its workers must or should be."""
    priority: str = ""
    after: str = ""

    @property
    def gpus(self) -> int:
        return self.workers * GPUS_PER_WORKER

    def manifest(self) -> Manifest:
        said = {
            QUEUE: self.queue,
            MIN_AVAILABLE: "all",
            EXPECTED_DURATION: f"{self.seconds + SPARE_SECONDS}s",
            TOPOLOGY: self.topology,
            AFTER: self.after,
        }
        resources = {"cpu": "1", "memory": "1Gi", GPU: str(GPUS_PER_WORKER)}
        container = {
            "name": "worker",
            "image": "pretended",
            "resources": {"requests": resources, "limits": {GPU: resources[GPU]}},
        }
        pod: Manifest = {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "nodeSelector": {AGENT_LABEL: SIMULATED},
            "containers": [container],
        }
        if self.priority:
            pod["priorityClassName"] = self.priority
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": self.name, "annotations": {name: text for name, text in said.items() if text}},
            "spec": {
                "parallelism": self.workers,
                "completions": self.workers,
                "completionMode": "Indexed",
                "backoffLimitPerIndex": 1,
                "podFailurePolicy": {"rules": [EVICTIONS_DO_NOT_COUNT]},
                "template": {"metadata": {"annotations": {RUN_SECONDS: str(self.seconds)}}, "spec": pod},
            },
        }


NEAR: Final = "soft:rack"
RESNET: Final = Role(name="resnet", queue="vision", workers=3, seconds=10, topology=NEAR)
WHISPER: Final = Role(name="whisper", queue="speech", workers=3, seconds=10, topology=NEAR)
SWEEP: Final = Role(name="sweep", queue="vision", workers=3, seconds=5, topology=NEAR, priority=LOW)
HOTFIX: Final = Role(name="hotfix", queue="vision", workers=4, seconds=6, priority=URGENT)
GPT: Final = Role(name="gpt", queue="speech", workers=6, seconds=6)
EVAL: Final = Role(name="eval", queue="vision", workers=1, seconds=1)
LLAMA: Final = Role(name="llama", queue="speech", workers=4, seconds=2, topology="hard:rack")
PREPARE: Final = Role(name="prepare", queue="vision", workers=1, seconds=2)
TRAIN: Final = Role(name="train", queue="vision", workers=2, seconds=2, after="prepare")
ALL_REDUCE_WORKERS: Final = 4
ALL_REDUCE: Final = "allreduce"
"""The job that really runs: examples/allreduce, as it is there."""


def node_names() -> dict[str, str]:
    """Every simulated node and its rack."""
    return {
        f"{rack.replace('rack', 'node')}{number}": rack for rack in RACKS for number in range(1, NODES_PER_RACK + 1)
    }


def queues() -> list[Manifest]:
    """Each team deserves half of the cluster, and may use all of it while the other does not need its half."""
    whole = len(RACKS) * NODES_PER_RACK * GPUS_PER_NODE
    return [
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "Queue",
            "metadata": {"name": team},
            "spec": {"deserved": {GPU: str(whole // 2)}, "capability": {GPU: str(whole)}},
        }
        for team in ("speech", "vision")
    ]


def priority_classes() -> list[Manifest]:
    return [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
        }
        for name, value in PRIORITIES.items()
    ]


def all_reduce(port: int) -> tuple[Manifest, Manifest]:
    """The ConfigMap with the program, and the Job, whose workers listen on this port."""
    folder = _examples() / "allreduce"
    program = (folder / "worker.py").read_text(encoding="utf-8")
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": ALL_REDUCE},
        "data": {"worker.py": program},
    }
    job: Manifest = yaml.safe_load((folder / "job.yaml").read_text(encoding="utf-8"))
    container = job["spec"]["template"]["spec"]["containers"][0]
    container["env"] = [*container.get("env", ()), {"name": "WORKER_PORT", "value": str(port)}]
    return config, job


def _examples() -> Path:
    """In an installed package beside the code, in a source tree at its root."""
    package = Path(__file__).resolve().parent.parent
    for place in (package / "examples", package.parent.parent / "examples"):
        if (place / "allreduce").is_dir():
            return place
    raise FileNotFoundError(errno.ENOENT, "the example that the demo runs is missing", str(package / "examples"))
