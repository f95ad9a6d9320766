"""Nodes as a person fills them: what each has, what is taken of it, and whether anything can start there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from allhands.model.resources import EMPTY, PODS, ResourceVector
from allhands.views.amounts import percent

if TYPE_CHECKING:
    from collections.abc import Iterable

    from allhands.model.node import Node
    from allhands.views.picture import Picture


class UseRow(msgspec.Struct, frozen=True):
    """One resource, in base units."""

    resource: str
    used: int
    allocatable: int
    percent: int


class NodeRow(msgspec.Struct, frozen=True):
    name: str
    state: str
    """"Ready", or why nothing starts there."""
    uses: tuple[UseRow, ...]
    pods: int


def node_rows(picture: Picture) -> list[NodeRow]:
    """By name."""
    held: dict[str, ResourceVector] = {}
    counts: dict[str, int] = {}
    for seen in picture.pods:
        pod = seen.record.pod
        if pod.holds_resources:
            held[pod.node_name] = held.get(pod.node_name, EMPTY) + pod.requests
            counts[pod.node_name] = counts.get(pod.node_name, 0) + 1
    return [
        NodeRow(node.name, state_of(node), uses_of(node, held.get(node.name, EMPTY), counts.get(node.name, 0)), count)
        for node in sorted(picture.nodes, key=lambda it: it.name)
        for count in (counts.get(node.name, 0),)
    ]


def state_of(node: Node) -> str:
    if not node.ready:
        return "NotReady"
    if node.unschedulable:
        return "Cordoned"
    return "Tainted" if any(taint.repels for taint in node.taints) else "Ready"


def uses_of(node: Node, held: ResourceVector, pods: int) -> tuple[UseRow, ...]:
    names = {name for name in node.allocatable if node.allocatable[name]} | set(held)
    uses = []
    for name in sorted(names):
        used, whole = pods if name == PODS else held.get(name), node.allocatable.get(name)
        uses.append(UseRow(name, used, whole, percent(used, whole)))
    return tuple(uses)


def cluster_uses(rows: Iterable[NodeRow]) -> tuple[UseRow, ...]:
    """Of all nodes together."""
    used: dict[str, int] = {}
    whole: dict[str, int] = {}
    for row in rows:
        for use in row.uses:
            used[use.resource] = used.get(use.resource, 0) + use.used
            whole[use.resource] = whole.get(use.resource, 0) + use.allocatable
    return tuple(UseRow(name, used[name], whole[name], percent(used[name], whole[name])) for name in sorted(whole))
