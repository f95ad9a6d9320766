"""What is scheduled: nodes, pods and their groups as plain manifests, in each way that gangs are written.

The same pods for everybody, but for the one field that names their group. Nothing is sent from here.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from allhands.api.kinds import Resource

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allhands.api.document import Manifest

NODE_CPU: Final = 16
NODE_MEMORY: Final = "64Gi"
NODE_PODS: Final = 110
POD_REQUESTS: Final = {"cpu": "1", "memory": "1Gi"}
GROUP_LABEL: Final = "bench.allhands.dev/group"


class Gangs(enum.StrEnum):
    """How pods say that they belong together."""

    NONE = "none"
    NATIVE = "native"
    """scheduling.k8s.io/v1alpha2 PodGroup, and the pod's spec.schedulingGroup."""
    COSCHEDULING = "coscheduling"
    """scheduling.x-k8s.io/v1alpha1 PodGroup, and a label."""
    VOLCANO = "volcano"
    """scheduling.volcano.sh/v1beta1 PodGroup, and an annotation."""


GROUP_RESOURCES: Final = {
    Gangs.NATIVE: Resource("scheduling.k8s.io", "v1alpha2", "podgroups"),
    Gangs.COSCHEDULING: Resource("scheduling.x-k8s.io", "v1alpha1", "podgroups"),
    Gangs.VOLCANO: Resource("scheduling.volcano.sh", "v1beta1", "podgroups"),
}


class ShapeError(ValueError):
    """A text that is no shape."""


class Shape(NamedTuple):
    """So many groups of so many pods."""

    groups: int
    pods_per_group: int

    @property
    def pods(self) -> int:
        return self.groups * self.pods_per_group

    def __str__(self) -> str:
        return f"{self.groups}x{self.pods_per_group}"


def parse_shape(text: str) -> Shape:
    groups, _, size = text.strip().lower().replace("×", "x").partition("x")
    if not (groups.isdecimal() and size.isdecimal() and int(groups) and int(size)):
        raise ShapeError(f"{text!r} is not GROUPSxPODS, such as 500x20")
    return Shape(int(groups), int(size))


def usual_shapes(pods: int) -> list[Shape]:
    """Singles, gangs of 20, gangs of 500, and one of all: what divides `pods`, each once."""
    sizes = dict.fromkeys(size for size in (1, 20, 500, pods) if size <= pods and pods % size == 0)
    return [Shape(pods // size, size) for size in sizes]


def node_manifests(count: int, cpu: int = NODE_CPU, memory: str = NODE_MEMORY) -> Iterator[Manifest]:
    for number in range(count):
        name = f"node-{number:05d}"
        room = {"cpu": str(cpu), "memory": memory, "pods": str(NODE_PODS)}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "played by the benchmark"}
        yield {
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}},
            "status": {"capacity": room, "allocatable": room, "conditions": [ready]},
        }


def group_name(number: int) -> str:
    return f"group-{number:05d}"


def group_manifests(shape: Shape, gangs: Gangs) -> Iterator[Manifest]:
    """None without gangs. A gang is all of its pods."""
    least = shape.pods_per_group
    specs: dict[Gangs, Manifest] = {
        Gangs.NATIVE: {"schedulingPolicy": {"gang": {"minCount": least}}},
        Gangs.COSCHEDULING: {"minMember": least},
        Gangs.VOLCANO: {"minMember": least, "queue": "default"},
    }
    if gangs is Gangs.NONE:
        return
    resource = GROUP_RESOURCES[gangs]
    for number in range(shape.groups):
        yield {
            "apiVersion": f"{resource.group}/{resource.version}",
            "kind": "PodGroup",
            "metadata": {"name": group_name(number)},
            "spec": specs[gangs],
        }


def pod_manifests(shape: Shape, gangs: Gangs, scheduler_name: str) -> Iterator[bytes]:
    """As JSON. Group by group, as their owners would make them."""
    for number in range(shape.groups):
        group = group_name(number)
        for rank in range(shape.pods_per_group):
            pod = pod_manifest(f"{group}-{rank:05d}", scheduler_name)
            pod["metadata"]["labels"][GROUP_LABEL] = group
            join_group(pod, group, gangs)
            yield msgspec.json.encode(pod)


def pod_manifest(name: str, scheduler_name: str) -> Manifest:
    container = {
        "name": "main",
        "image": "registry.example/work:1",
        "command": ["work", "--forever"],
        "env": [{"name": "WORLD", "value": "bench"}],
        "resources": {"requests": POD_REQUESTS, "limits": POD_REQUESTS},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "bench"}},
        "spec": {"schedulerName": scheduler_name, "restartPolicy": "Never", "containers": [container]},
    }


def join_group(pod: Manifest, group: str, gangs: Gangs) -> None:
    """Writes the pod's group into it, in one of the ways."""
    if gangs is Gangs.NATIVE:
        pod["spec"]["schedulingGroup"] = {"podGroupName": group}
    elif gangs is Gangs.COSCHEDULING:
        pod["metadata"].setdefault("labels", {})["scheduling.x-k8s.io/pod-group"] = group
    elif gangs is Gangs.VOLCANO:
        pod["metadata"].setdefault("annotations", {})["scheduling.k8s.io/group-name"] = group
