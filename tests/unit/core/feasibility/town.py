"""Small clusters for tests of feasibility: nodes by zone, pods with a few words, and who may go where."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from allhands.core.facts import Facts
from allhands.core.feasibility.neighbours import Neighbours
from allhands.core.feasibility.static import StaticFeasibility
from allhands.core.room import Room
from allhands.core.world import World
from allhands.model.affinity import PodAffinity, PodTerm, SpreadConstraint, WeightedPodTerm
from allhands.model.node import Node, Taint
from allhands.model.pod import HostPort, Pod
from allhands.model.resources import ResourceVector
from allhands.model.selector import LabelSelector

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allhands.core.snapshot import Snapshot
    from allhands.model.shape import PodShape

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
WEB = {"app": "web"}
DATABASE = {"app": "db"}


def node(name: str, zone: str = "", taints: tuple[Taint, ...] = (), **more: Any) -> Node:
    """`zone` "" is a node without that label."""
    labels = {HOST: name, **({ZONE: zone} if zone else {}), **more.pop("labels", {})}
    room = ResourceVector.of(more.pop("room", {"cpu": 4000, "memory": 1 << 32, "pods": 10}))
    return Node(name=name, uid=name, labels=labels, taints=taints, allocatable=room, **more)


def pod(name: str, labels: Mapping[str, str] | None = None, on: str = "", namespace: str = "home", **more: Any) -> Pod:
    return Pod(namespace, name, f"uid-{name}", labels=labels or {}, node_name=on, **more)


def term(
    labels: Mapping[str, str] | LabelSelector | None,
    key: str = ZONE,
    *namespaces: str,
    where: LabelSelector | None = None,
) -> PodTerm:
    """`labels` None is an absent selector; `where` selects namespaces by their labels."""
    selector = labels if labels is None or isinstance(labels, LabelSelector) else LabelSelector.of(labels)
    named = namespaces or (() if where is not None else ("home",))
    return PodTerm(selector, key, tuple(sorted(named)), where)


def apart(*terms: PodTerm) -> PodAffinity:
    return PodAffinity(required_apart=terms)


def together(*terms: PodTerm) -> PodAffinity:
    return PodAffinity(required_together=terms)


def preferring(*terms: tuple[int, PodTerm]) -> PodAffinity:
    """A negative weight is a wish to be apart."""
    return PodAffinity(
        preferred_together=tuple(WeightedPodTerm(weight, it) for weight, it in terms if weight > 0),
        preferred_apart=tuple(WeightedPodTerm(-weight, it) for weight, it in terms if weight < 0),
    )


def spread(labels: Mapping[str, str] | None, key: str = ZONE, skew: int = 1, **more: Any) -> SpreadConstraint:
    selector = None if labels is None else LabelSelector.of(labels)
    return SpreadConstraint(skew, key, more.pop("hard", True), selector, **more)


def port(number: int, ip: str = "0.0.0.0", protocol: str = "TCP") -> HostPort:
    return HostPort(ip, protocol, number)


class Town:
    """`town.where("web-1")` are the nodes on which the pods that are there let an unbound pod be."""

    def __init__(self, nodes: list[Node], pods: list[Pod], namespaces: Mapping[str, Mapping[str, str]] | None = None):
        self.world = World()
        self.world.set_facts(Facts(namespaces=namespaces or {"home": {}}))
        for it in nodes:
            self.world.set_node(it)
        for each in pods:
            self.world.set_pod(each, ours=not each.node_name and not each.nominated_node)
        self.look()

    def look(self) -> Snapshot:
        self.snapshot = self.world.snapshot()
        self.static = StaticFeasibility(self.snapshot.columns)
        self.neighbours = Neighbours(self.snapshot, Room(self.snapshot.columns), self.static)
        return self.snapshot

    def shape(self, name: str) -> PodShape:
        uid = f"uid-{name}"
        for entry in self.snapshot.groups.values():
            for members in entry.pending:
                if any(ref.uid == uid for ref in members.pods):
                    return members.shape
        row = self.snapshot.pods.uids.index(uid)
        return self.snapshot.pods.shapes[int(self.snapshot.pods.shape[row])]

    def where(self, name: str) -> set[str]:
        mask = self.neighbours.mask(self.shape(name))
        return {self.snapshot.columns.names[row] for row in np.flatnonzero(mask)}

    def allowed(self, name: str) -> set[str]:
        """The nodes that let it in by what they are."""
        mask = self.static.mask(self.shape(name))
        return {self.snapshot.columns.names[row] for row in np.flatnonzero(mask)}

    def scores(self, name: str) -> dict[str, int]:
        found = self.neighbours.score(self.shape(name)).tolist()
        return dict(zip(self.snapshot.columns.names, found, strict=True))

    def move(self, name: str, to: str, sign: int = 1) -> None:
        self.neighbours.placed(self.shape(name), self.snapshot.columns.row_by_name[to], sign)

    def hold(self, name: str, at: str, sign: int = 1) -> None:
        """Of those that were moved there, one is yet to come."""
        self.neighbours.held(self.shape(name), self.snapshot.columns.row_by_name[at], sign)
