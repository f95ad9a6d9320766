"""Random clusters full of storage, each from one number. Small, so that claims, volumes and limits meet often."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, TypeVar

import msgspec

from allhands.model.affinity import NodeSelectorTerm
from allhands.model.pod import Pod
from allhands.model.pod_volume import Attachment, InlineVolume
from allhands.model.selector import EVERYTHING, LabelSelector, Requirement
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
from tests.unit.core.feasibility.storage import HOST, ZONE

if TYPE_CHECKING:
    from collections.abc import Sequence

Value = TypeVar("Value")

OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
DRIVERS = ("d1", "d2", "ebs.csi.aws.com")
NODES = ("n0", "n1", "n2", "n3", "n4")
CLAIMS = tuple(f"c{number}" for number in range(10))
VOLUMES = tuple(f"v{number}" for number in range(10))
CLASSES = ("local", "local", "make", "zonal", "measured", "immediate")
ONCE, MANY, ONE_POD = "ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"
WAITS = "WaitForFirstConsumer"
KNOWN_CLASSES = (
    StorageClass("local", "kubernetes.io/no-provisioner", WAITS),
    StorageClass("make", "d1", WAITS),
    StorageClass("zonal", "d2", WAITS, ((Requirement(ZONE, "In", ("za",)),),)),
    StorageClass("measured", "m", WAITS),
    StorageClass("immediate", "d1", "Immediate"),
)


class RandomStorage:
    """`facts`, `labels` of the nodes, pods that are `running`, and pods that are `waiting`."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self.labels = {name: self._node_labels(name) for name in NODES}
        volumes = {name: self._volume(name) for name in VOLUMES}
        self.facts = VolumeFacts(
            volumes=volumes,
            claims={f"ns/{name}": self._claim(name) for name in CLAIMS},
            classes={it.name: it for it in KNOWN_CLASSES},
            nodes={name: self._csi_node(name) for name in NODES if self._likely(0.8)},
            drivers={"m": CSIDriver("m", tracks_capacity=True)},
            capacities=tuple(self._capacity() for _ in range(self._chance.randint(0, 3))),
            attachments=tuple(
                self._attachment(self.one_of(VOLUMES), volumes) for _ in range(self._chance.randint(0, 8))
            ),
        )
        self._usable = tuple(it.name for it in self.facts.claims.values() if self._is_usable(it)) or CLAIMS
        self.running = [self._pod(f"r{number}", on=self.one_of(NODES)) for number in range(self._chance.randint(0, 5))]
        self.waiting = [self._pod(f"w{number}") for number in range(self._chance.randint(1, 8))]

    def one_of(self, values: Sequence[Value]) -> Value:
        return self._chance.choice(values)

    def shuffled(self, values: list[Value]) -> list[Value]:
        return self._chance.sample(values, len(values))

    def _likely(self, share: float) -> bool:
        return self._chance.random() < share

    def _some(self, values: tuple[str, ...], most: int = 3) -> tuple[str, ...]:
        return tuple(self._chance.sample(values, self._chance.randint(1, min(most, len(values)))))

    def _node_labels(self, name: str) -> dict[str, str]:
        labels = {HOST: name}
        if self._likely(0.7):
            labels[self.one_of((ZONE, ZONE, OLD_ZONE))] = self.one_of(("za", "zb"))
        if self._likely(0.5):
            labels["rank"] = self.one_of(("1", "3", "x"))
        if self._likely(0.3):
            labels["topology.cinder.csi.openstack.org/zone"] = self.one_of(("za", "zb"))
        return labels

    def _requirement(self) -> Requirement:
        return self.one_of(
            (
                Requirement(HOST, "In", self._some(NODES)),
                Requirement(HOST, "NotIn", self._some(NODES)),
                Requirement(ZONE, "In", self._some(("za", "zb"))),
                Requirement(ZONE, "Exists"),
                Requirement("rank", "Gt", (self.one_of(("2", "many")),)),
            )
        )

    def _affinity(self) -> tuple[NodeSelectorTerm, ...] | None:
        if self._likely(0.3):
            return None
        count = self._chance.choices((0, 1, 2), (1, 8, 3))[0]
        return tuple(
            NodeSelectorTerm(tuple(self._requirement() for _ in range(self._chance.choices((0, 1, 2), (1, 8, 3))[0])))
            for _ in range(count)
        )

    def _volume(self, name: str) -> PersistentVolume:
        labels = {"speed": self.one_of(("fast", "slow"))}
        if self._likely(0.3):
            labels[self.one_of((ZONE, OLD_ZONE))] = self.one_of(("za", "za__zb", "zb"))
        attachment = Attachment(self.one_of(DRIVERS), self.one_of(("h1", "h2", name, name, "")))
        return PersistentVolume(
            name,
            labels=labels,
            node_affinity=self._affinity(),
            claim=ClaimReference("ns", self.one_of(CLAIMS), self.one_of(("", "u", "old")))
            if self._likely(0.2)
            else None,
            access_modes=self.one_of(((ONCE, ONE_POD), (ONCE, MANY, ONE_POD), (ONCE,))),
            class_name=self.one_of(CLASSES),
            capacity_bytes=self._chance.randint(1, 4),
            attachment=attachment if self._likely(0.6) else None,
            volume_mode=self.one_of(("Filesystem",) * 9 + ("Block",)),
            phase=self.one_of(("Available",) * 5 + ("Released",)),
            deleting=self._likely(0.05),
            old_kind=self.one_of(("", "", "cinder")) if attachment.driver == "ebs.csi.aws.com" else "",
        )

    def _claim(self, name: str) -> PersistentVolumeClaim:
        bound = self._likely(0.4)
        return PersistentVolumeClaim(
            "ns",
            name,
            uid="u",
            volume_name=self.one_of((*VOLUMES, *VOLUMES, "gone")) if bound else "",
            bind_completed=bound and self._likely(0.9),
            class_name=self.one_of(CLASSES),
            access_modes=self.one_of(((ONCE,), (ONCE,), (MANY,), (ONE_POD,), ())),
            request_bytes=self.one_of((None, 1, 2, 3, 4)),
            selector=self.one_of((None, None, None, LabelSelector.of({"speed": "fast"}))),
            selected_node=self.one_of((None, None, None, None, *NODES[:2])),
            lost=self._likely(0.03),
            deleting=self._likely(0.03),
        )

    def _csi_node(self, name: str) -> CSINode:
        drivers = {driver: self.one_of((None, 0, 1, 2, 3)) for driver in self._some(DRIVERS)}
        migrated = ("kubernetes.io/cinder",) if self._likely(0.5) else ()
        return CSINode(name, tuple(sorted(drivers.items(), key=lambda item: item[0])), migrated)

    def _capacity(self) -> StorageCapacity:
        topology = self.one_of((None, EVERYTHING, LabelSelector.of({ZONE: "za"}), LabelSelector.of({ZONE: "zb"})))
        return StorageCapacity(
            "s", "x", self.one_of(("measured", "measured", "zonal")), topology, self.one_of((None, 1, 2, 4))
        )

    def _attachment(self, volume: str, volumes: dict[str, PersistentVolume]) -> VolumeAttachment:
        own = volumes[volume].attachment
        driver = own.driver if own is not None and self._likely(0.8) else self.one_of((*DRIVERS, ""))
        return VolumeAttachment("x", self.one_of((*NODES, "gone")), driver, volume)

    def _is_usable(self, claim: PersistentVolumeClaim) -> bool:
        if claim.lost or claim.deleting or bool(claim.volume_name) != claim.bind_completed:
            return False
        return claim.volume_name in self.facts.volumes if claim.is_bound else claim.class_name != "immediate"

    def _pod(self, name: str, on: str = "") -> Pod:
        # Mostly with claims that do not rule out every node at once.
        names = self._usable if self._likely(0.9) else CLAIMS
        count = self._chance.choices((0, 1, 2, 3), (1, 5, 3, 1))[0]
        claims = self._chance.sample(names, min(count, len(names)))
        disk = InlineVolume(
            self.one_of(("iscsi", "awsElasticBlockStore", "azureDisk")), (self.one_of(("x", "y")),), self._likely(0.5)
        )
        pod = Pod("ns", name, uid=name, claims=tuple(sorted(claims)), node_name=on)
        return msgspec.structs.replace(pod, volumes=(disk,)) if self._likely(0.25) else pod
