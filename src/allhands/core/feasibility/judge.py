"""The feasible nodes of pods, straight from Kubernetes objects: what the real kube-scheduler is compared with.

Each pod is looked at alone, as if no other pod were waiting. It goes through the same world, masks and counts as a
cycle does; nothing is decided here that is not decided there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec
import numpy as np

from allhands.core.facts import Facts
from allhands.core.feasibility.neighbours import Neighbours
from allhands.core.feasibility.static import StaticFeasibility
from allhands.core.rivals import rivals_of
from allhands.core.room import Room
from allhands.core.world import World
from allhands.model.node import Node, NodeDocument
from allhands.model.pod import Pod
from allhands.model.pod_document import PodDocument
from allhands.model.volume import (
    CSIDriver,
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageCapacity,
    StorageClass,
    VolumeAttachment,
    VolumeFacts,
)
from allhands.model.volume_document import (
    CSIDriverDocument,
    CSINodeDocument,
    PersistentVolumeClaimDocument,
    PersistentVolumeDocument,
    StorageCapacityDocument,
    StorageClassDocument,
    VolumeAttachmentDocument,
)

if TYPE_CHECKING:
    from allhands.core.snapshot import Snapshot

Manifest = dict[str, Any]
Objects = Mapping[str, list[Manifest]]
DocumentT = TypeVar("DocumentT")


class _Named(Protocol):
    @property
    def name(self) -> str: ...


NamedT = TypeVar("NamedT", bound=_Named)


def feasible_nodes(world_objects: Objects, pods: list[Manifest]) -> list[frozenset[str]]:
    """For each unbound pod, the names of the nodes where it could be placed now.

    `world_objects` are manifests by kind. A pod nominated for a node counts for those whose priority is not higher.
    """
    facts = _facts(world_objects)
    nodes = [Node.from_document(it) for it in _decoded(world_objects, "Node", NodeDocument)]
    present = [Pod.from_document(it) for it in _decoded(world_objects, "Pod", PodDocument)]
    asked = [Pod.from_document(msgspec.convert(manifest, PodDocument)) for manifest in pods]
    world = World()
    world.set_facts(facts)
    for node in nodes:
        world.set_node(node)
    for pod in present:
        world.set_pod(pod, ours=False)
    for pod in asked:
        world.set_pod(pod)
    found = _feasible(world.snapshot())
    return [found.get(pod.uid, frozenset()) for pod in asked]


def _feasible(snapshot: Snapshot) -> dict[str, frozenset[str]]:
    """By the uid of each pod that waits; those that are to wait are missing."""
    room = Room(snapshot.columns)
    static = StaticFeasibility(snapshot.columns)
    rivals = rivals_of(snapshot)
    neighbours = Neighbours(snapshot, room, static, rivals=rivals)
    found: dict[str, frozenset[str]] = {}
    for entry in snapshot.groups.values():
        priority = entry.group.priority
        seen = rivals.seen_by(priority, room, lambda: neighbours.volumes) if rivals is not None else nullcontext()
        with seen:
            for members in entry.pending:
                request = snapshot.columns.request(members.shape.requests)
                if request is None:
                    continue
                mask = static.mask(members.shape) & (room.fit(request, slice(None), 1) > 0)
                mask &= neighbours.mask(members.shape)
                names = frozenset(snapshot.columns.names[row] for row in np.flatnonzero(mask).tolist())
                found.update((ref.uid, names) for ref in members.pods)
    return found


def _facts(objects: Objects) -> Facts:
    claims = _decoded(objects, "PersistentVolumeClaim", PersistentVolumeClaimDocument)
    return Facts(
        namespaces={it["metadata"]["name"]: it["metadata"].get("labels") or {} for it in objects.get("Namespace", ())},
        volumes=VolumeFacts(
            volumes=_named(
                map(PersistentVolume.from_document, _decoded(objects, "PersistentVolume", PersistentVolumeDocument))
            ),
            claims={f"{it.namespace}/{it.name}": it for it in map(PersistentVolumeClaim.from_document, claims)},
            classes=_named(map(StorageClass.from_document, _decoded(objects, "StorageClass", StorageClassDocument))),
            nodes=_named(map(CSINode.from_document, _decoded(objects, "CSINode", CSINodeDocument))),
            drivers=_named(map(CSIDriver.from_document, _decoded(objects, "CSIDriver", CSIDriverDocument))),
            capacities=tuple(
                map(StorageCapacity.from_document, _decoded(objects, "CSIStorageCapacity", StorageCapacityDocument))
            ),
            attachments=tuple(
                map(VolumeAttachment.from_document, _decoded(objects, "VolumeAttachment", VolumeAttachmentDocument))
            ),
        ),
    )


def _decoded(objects: Objects, kind: str, document: type[DocumentT]) -> list[DocumentT]:
    return [msgspec.convert(manifest, document) for manifest in objects.get(kind, ())]


def _named(values: Iterable[NamedT]) -> dict[str, NamedT]:
    return {it.name: it for it in values}
