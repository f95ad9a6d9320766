"""Nodes of an embedded or simulated cluster, as the objects that their kubelets would register."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from allhands.api.kinds import Resource
from allhands.api.schema.definitions import SCHEMA_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from allhands.api.document import Manifest
    from allhands.ports import Objects

NODES: Final = Resource("", "v1", "nodes")
PODS_PER_NODE: Final = 110
_NODE_INFO = {
    "kubeletVersion": f"{SCHEMA_VERSION}-allhands",
    "operatingSystem": "linux",
    "architecture": "amd64",
    "osImage": "embedded",
    "containerRuntimeVersion": "none",
}


class NodeSize(msgspec.Struct, frozen=True):
    """What each node of an embedded cluster offers."""

    cpu: str = "8"
    memory: str = "32Gi"
    gpus: int = 0


async def add_node(objects: Objects, manifest: Manifest) -> None:
    """Creates a node as its kubelet would: admission taints it as not ready, then it reports that it is."""
    name = manifest["metadata"]["name"]
    await objects.create(NODES, manifest)
    await objects.patch(NODES, name, "merge", {"spec": {"taints": None}})
    await objects.patch(NODES, name, "merge", {"status": manifest["status"]}, subresource="status")


def node_manifests(count: int, size: NodeSize, now: str) -> Iterator[Manifest]:
    """Nodes that are ready and empty, named so that they sort by number."""
    digits = len(str(count))
    for number in range(1, count + 1):
        yield node_manifest(f"node-{number:0{digits}d}", size, now)


def node_manifest(name: str, size: NodeSize, now: str, labels: Mapping[str, str] | None = None) -> Manifest:
    """A node that is ready and empty."""
    resources: dict[str, str] = {"cpu": size.cpu, "memory": size.memory, "pods": str(PODS_PER_NODE)}
    if size.gpus:
        resources["nvidia.com/gpu"] = str(size.gpus)
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "the embedded node is ready",
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }
    own = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": own | dict(labels or {})},
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "conditions": [ready],
            "addresses": [{"type": "Hostname", "address": name}],
            "nodeInfo": _NODE_INFO,
        },
    }
