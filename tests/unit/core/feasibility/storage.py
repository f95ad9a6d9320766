"""Small clusters with storage, for tests: nodes with labels, pods with volumes, and the filter over them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from allhands.core.feasibility.volumes import VolumeFeasibility
from allhands.core.world import World
from allhands.model.affinity import NodeSelectorTerm
from allhands.model.node import Node
from allhands.model.pod import Pod
from allhands.model.pod_volume import Attachment, InlineVolume
from allhands.model.resources import ResourceVector
from allhands.model.selector import Requirement
from allhands.model.shape import PodShape
from allhands.model.volume import (
    ClaimReference,
    CSIDriver,
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageCapacity,
    StorageClass,
    VolumeAttachment,
    VolumeFacts,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
LATER = StorageClass("later", "disks.example.com", "WaitForFirstConsumer")
LOCAL = StorageClass("local", "kubernetes.io/no-provisioner", "WaitForFirstConsumer")
AT_ONCE = StorageClass("at-once", "disks.example.com", "Immediate")


def only(key: str, *values: str) -> tuple[NodeSelectorTerm, ...]:
    return (NodeSelectorTerm((Requirement(key, "In", values),)),)


def nodes(**zones: str) -> dict[str, Mapping[str, str]]:
    """Node -> its labels: its own name and its zone, which "" leaves out."""
    return {name: {HOST: name, **({ZONE: zone} if zone else {})} for name, zone in zones.items()}


THREE = nodes(a="east", b="west", c="west")


def volume(name: str, *at: str, **fields: Any) -> PersistentVolume:
    """A free volume of the class "local", reachable on these nodes, everywhere if there are none."""
    given = {"class_name": "local", "phase": "Available", "capacity_bytes": 10, "access_modes": ("ReadWriteOnce",)}
    return PersistentVolume(name, node_affinity=only(HOST, *at) if at else None, **{**given, **fields})


def claim(name: str, class_name: str = "local", **fields: Any) -> PersistentVolumeClaim:
    given = {"uid": f"uid-of-{name}", "access_modes": ("ReadWriteOnce",), "request_bytes": 10}
    return PersistentVolumeClaim("ns", name, class_name=class_name, **{**given, **fields})


def bound(name: str, to: PersistentVolume, **fields: Any) -> tuple[PersistentVolumeClaim, PersistentVolume]:
    """A claim and its volume."""
    owner = ClaimReference("ns", name, f"uid-of-{name}")
    taken = msgspec.structs.replace(to, claim=owner, phase="Bound")
    return claim(name, "", volume_name=to.name, bind_completed=True, **fields), taken


def on_disk(handle: str, driver: str = "disks.example.com") -> PersistentVolume:
    """A volume that counts against what nodes can attach."""
    return PersistentVolume(f"pv-{handle}", attachment=Attachment(driver, handle))


def facts(*objects: object, attachments: Iterable[VolumeAttachment] = ()) -> VolumeFacts:
    """All of these objects, or pairs of them, together."""
    found: list[object] = []
    for it in objects:
        found.extend(it if isinstance(it, tuple) else (it,))
    return VolumeFacts(
        volumes={it.name: it for it in found if isinstance(it, PersistentVolume)},
        claims={it.key: it for it in found if isinstance(it, PersistentVolumeClaim)},
        classes={it.name: it for it in (LATER, LOCAL, AT_ONCE, *found) if isinstance(it, StorageClass)},
        nodes={it.name: it for it in found if isinstance(it, CSINode)},
        drivers={it.name: it for it in found if isinstance(it, CSIDriver)},
        capacities=tuple(it for it in found if isinstance(it, StorageCapacity)),
        attachments=tuple(attachments),
    )


def pod(*claims: str, on: str = "", name: str = "p", own: tuple[str, ...] = (), **fields: Any) -> Pod:
    disks = tuple(fields.pop("disks", ()))
    return Pod(
        "ns",
        name,
        uid=f"uid-of-{name}",
        claims=tuple(sorted((*claims, *own))),
        ephemeral_claims=tuple(sorted(own)),
        volumes=disks,
        node_name=on,
        **fields,
    )


def asking(*claims: str, own: tuple[str, ...] = (), disks: Iterable[InlineVolume] = ()) -> PodShape:
    """The shape of a pod that waits, with these claims."""
    return PodShape.of(pod(*claims, own=own, disks=disks), None)


class Shelf:
    """A cluster and its storage; nodes are spoken of by name."""

    def __init__(self, known: VolumeFacts, *running: Pod, labels: Mapping[str, Mapping[str, str]] = THREE) -> None:
        world = World()
        for name, given in labels.items():
            world.set_node(Node(name, labels=given, allocatable=ResourceVector.of({"pods": 100})))
        for number, it in enumerate(running):
            world.set_pod(msgspec.structs.replace(it, uid=f"running-{number}", name=f"running-{number}"), ours=False)
        self.snapshot = world.snapshot()
        self.columns = self.snapshot.columns
        self.known = known
        self.filter = VolumeFeasibility(known, self.columns, self.snapshot.pods)

    def open_to(self, shape: PodShape) -> str:
        """The nodes that will do, in one text."""
        return " ".join(self.columns.names[row] for row in np.flatnonzero(self.filter.mask(shape)).tolist())

    def place(self, shape: PodShape, node: str, sign: int = 1) -> None:
        self.filter.placed(shape, self.columns.row_by_name[node], sign)

    def prepare(self, shape: PodShape, node: str) -> tuple[object, ...]:
        return self.filter.prepare(shape, self.columns.row_by_name[node])

    def problem(self, shape: PodShape) -> tuple[str, str] | None:
        """The claim that is to blame, and what is wrong with it."""
        why = self.filter.why(shape)
        return None if why is None else (str(why.number("claim")), str(why.number("problem")))
