"""Whether a node takes in a pod that was bound to it, and how much of it is in use. A kubelet's own check.

It is the last guard against a scheduler's mistake: what does not fit is refused, and the pod fails with the reason that
a kubelet gives. It never evicts anyone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from allhands.model.node import TaintEffect
from allhands.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, quantity_of_units

if TYPE_CHECKING:
    from allhands.agents.seen import NodeSeen, SpecSeen
    from allhands.model.pod import HostPort

_PLAIN: Final = frozenset({CPU, MEMORY, EPHEMERAL_STORAGE, PODS})


class Refusal(msgspec.Struct, frozen=True):
    reason: str
    message: str


class Usage:
    """What the pods that a node has taken in, and that are not over, hold of it."""

    __slots__ = ("_used", "pods", "ports")

    def __init__(self) -> None:
        self._used: dict[str, int] = {}
        self.pods = 0
        self.ports: list[HostPort] = []

    def take(self, spec: SpecSeen) -> None:
        self.pods += 1
        self.ports.extend(spec.host_ports)
        for name, units in spec.requests.entries:
            self._used[name] = self._used.get(name, 0) + units

    def give_back(self, spec: SpecSeen) -> None:
        self.pods -= 1
        for port in spec.host_ports:
            self.ports.remove(port)
        for name, units in spec.requests.entries:
            self._used[name] -= units

    def of(self, name: str) -> int:
        return self.pods if name == PODS else self._used.get(name, 0)


def refusal_of(node: NodeSeen, usage: Usage, spec: SpecSeen) -> Refusal | None:
    """Why this pod may not run here; None if it may."""
    if any(node.labels.get(name) != value for name, value in spec.node_selector.items()):
        return Refusal("NodeAffinity", f"node {node.name} does not have the labels of the pod's nodeSelector")
    if not spec.node_affinity.matches(node.labels, node.name):
        return Refusal("NodeAffinity", f"node {node.name} does not match the pod's required node affinity")
    for port in spec.host_ports:
        if any(port.conflicts_with(used) for used in usage.ports):
            return Refusal(
                "NodePorts", f"port {port.port}/{port.protocol} of node {node.name} is in use by another pod"
            )
    for taint in node.taints:
        if taint.effect == TaintEffect.NO_EXECUTE and not any(it.tolerates(taint) for it in spec.tolerations):
            return Refusal(
                "TaintToleration", f"node {node.name} has the taint {taint}, which the pod does not tolerate"
            )
    return _shortage(node, usage, spec)


def _shortage(node: NodeSeen, usage: Usage, spec: SpecSeen) -> Refusal | None:
    room = dict(node.allocatable.entries)
    if usage.pods + 1 > room.get(PODS, 0):
        return _out_of(node, PODS, 1, usage.pods, room.get(PODS, 0))
    for name, units in spec.requests.entries:
        if units <= 0 or (name not in room and _is_extended(name)):
            continue  # a resource of the cluster, which no node counts
        used, capacity = usage.of(name), room.get(name, 0)
        if used + units > capacity:
            return _out_of(node, name, units, used, capacity)
    return None


def _is_extended(name: str) -> bool:
    return name not in _PLAIN and "/" in name and "kubernetes.io/" not in name


def _out_of(node: NodeSeen, name: str, requested: int, used: int, capacity: int) -> Refusal:
    shown = [str(quantity_of_units(name, units)) for units in (requested, used, capacity)]
    text = f"node {node.name} has not enough {name}: requested {shown[0]}, in use {shown[1]}, allocatable {shown[2]}"
    return Refusal(f"OutOf{name}", text)
