"""Where a group's pods are and could be: which nodes allow them, and how much room each has now.

It only counts what a person can check by hand (labels, taints, free amounts); the scheduler's own word on why a group
waits is not second-guessed here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from allhands.dialects.annotations import TOPOLOGY
from allhands.dialects.queues import node_groups_of
from allhands.dialects.topology_labels import DEFAULT_LABELS
from allhands.model.node_groups import NodeGroupUse, rule_of
from allhands.model.resources import EMPTY, PODS, ResourceVector
from allhands.views.amounts import amount_text, in_order

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from allhands.model.node import Node
    from allhands.model.pod import Pod
    from allhands.views.groups import Group
    from allhands.views.picture import Picture, PodSeen

NODES_SHOWN: Final = 8
PODS_SHOWN: Final = 6


class NodeRoom(msgspec.Struct, frozen=True):
    """How many pods like one fit on a node now, and what is left of the scarcest resource."""

    node: str
    fits: int
    scarcest: str
    free: int
    allocatable: int


def allowed_nodes(pod: Pod, nodes: Iterable[Node]) -> list[Node]:
    """Ready nodes whose labels and taints let the pod in."""
    return [
        node
        for node in nodes
        if node.ready
        and node.repelling_taint(pod.tolerations) is None
        and all(node.labels.get(key) == value for key, value in pod.node_selector.items())
        and pod.node_affinity.matches(node.labels, node.name)
    ]


def by_queue(pod: Pod, queue: str, picture: Picture) -> Pod:
    """With the node groups that its queue keeps to. What a policy asks of queues that name none is not known here."""
    queues = {it.name: it.record for it in picture.queues or ()}
    rule = rule_of(node_groups_of(queue, queues.get), NodeGroupUse.FREE)
    return pod if rule is None else msgspec.structs.replace(pod, node_affinity=rule.applied_to(pod.node_affinity))


def free_by_node(picture: Picture) -> dict[str, ResourceVector]:
    taken: dict[str, ResourceVector] = {}
    one_pod = ResourceVector.of({PODS: 1})
    for seen in picture.pods:
        pod = seen.record.pod
        if pod.holds_resources:
            taken[pod.node_name] = taken.get(pod.node_name, EMPTY) + pod.requests + one_pod
    return {node.name: node.allocatable - taken.get(node.name, EMPTY) for node in picture.nodes}


def room_for(pod: Pod, picture: Picture) -> list[NodeRoom]:
    """Of the nodes that allow it, those with the most room first."""
    free = free_by_node(picture)
    rooms = []
    for node in allowed_nodes(pod, picture.nodes):
        fits, scarcest = free[node.name].get(PODS), PODS
        for name, units in pod.requests.entries:
            if units > 0 and (count := max(0, free[node.name].get(name)) // units) < fits:
                fits, scarcest = count, name
        left = max(0, free[node.name].get(scarcest))
        rooms.append(NodeRoom(node.name, max(0, fits), scarcest, left, node.allocatable.get(scarcest)))
    return sorted(rooms, key=lambda it: (-it.fits, it.node))


def room_lines(group: Group, picture: Picture) -> list[str]:
    """For the pods that wait: how many nodes may take one, and what each has left."""
    waiting = [it.record.pod for it in group.live_pods if not it.record.pod.is_bound]
    if not waiting or not picture.nodes:
        return []
    pod = by_queue(waiting[0], group.queue, picture)
    rooms = room_for(pod, picture)
    total = len(picture.nodes)
    if not rooms:
        return [f"None of the {total} nodes is ready and allows its pods by labels and taints."]
    place = sum(it.fits for it in rooms)
    lines = [f"{len(rooms)} of {total} nodes allow its pods; looked at one by one, they have room for {place} of them."]
    for it in rooms[:NODES_SHOWN]:
        free, whole = amount_text(it.scarcest, it.free), amount_text(it.scarcest, it.allocatable)
        lines.append(f"{it.node}: room for {it.fits}; {it.scarcest} has {free} of {whole} free")
    if len(rooms) > NODES_SHOWN:
        lines.append(f"and {len(rooms) - NODES_SHOWN} more nodes with no more room than these")
    return lines


def place_lines(group: Group, picture: Picture) -> list[str]:
    """Node by node, its pods there and how much of the node they hold."""
    by_node: dict[str, list[PodSeen]] = {}
    for seen in group.live_pods:
        if seen.record.pod.is_bound:
            by_node.setdefault(seen.record.pod.node_name, []).append(seen)
    nodes = {node.name: node for node in picture.nodes}
    shown = sorted(by_node.items())[:NODES_SHOWN]
    lines = [f"{node}: {_names(pods)}{_held_of(pods, nodes.get(node))}" for node, pods in shown]
    if len(by_node) > NODES_SHOWN:
        rest = sum(len(pods) for _, pods in sorted(by_node.items())[NODES_SHOWN:])
        lines.append(f"and {rest} pods on {len(by_node) - NODES_SHOWN} more nodes")
    return lines


def _names(pods: Sequence[PodSeen]) -> str:
    names = [it.record.pod.name for it in pods[:PODS_SHOWN]]
    more = f" and {len(pods) - PODS_SHOWN} more" if len(pods) > PODS_SHOWN else ""
    return ", ".join(names) + more


def _held_of(pods: Sequence[PodSeen], node: Node | None) -> str:
    """The resource of which they hold the largest part."""
    held = EMPTY
    for seen in pods:
        held = held + seen.record.pod.requests
    name = held.dominant_share(node.allocatable).resource if node is not None else ""
    if node is None or not name:
        return ""
    return f" ({name} {amount_text(name, held[name])} of {amount_text(name, node.allocatable.get(name))})"


def why_there_lines(group: Group, picture: Picture) -> list[str]:
    """What of its placement was asked for, and what its nodes have in common."""
    pods = [it.record.pod for it in group.live_pods]
    if not pods:
        return []
    lines = []
    if picture.nodes:
        pod = by_queue(pods[0], group.queue, picture)
        allowed = len(allowed_nodes(pod, picture.nodes))
        what = _who_chose(pods[0], pod, group.queue)
        lines.append(f"{what} {allowed} of {len(picture.nodes)} nodes.")
    if asked := group.declared.annotations.get(TOPOLOGY, ""):
        lines.append(f'It asks for "{asked}" ({TOPOLOGY}).')
    elif group.pod_group is not None and group.pod_group.record.topology_key:
        lines.append(f"It asks for one domain of {group.pod_group.record.topology_key}.")
    lines.extend(_in_common({pod.node_name for pod in pods if pod.is_bound}, picture.nodes))
    return lines


def _who_chose(own: Pod, by_its_queue: Pod, queue: str) -> str:
    """By whose wish only some nodes are allowed. `by_its_queue`: the same pod with the node groups of its queue."""
    who = []
    if own.node_selector or own.node_affinity.required is not None:
        who.append("its node selector and affinity")
    if own.node_affinity.required != by_its_queue.node_affinity.required:
        who.append(f'the node groups of queue "{queue}"')
    words = " and ".join(who)
    return f"{words[0].upper()}{words[1:]} leave" if who else "It names no nodes; by their taints, it may use"


def _in_common(used: set[str], nodes: Sequence[Node]) -> list[str]:
    homes = [node for node in nodes if node.name in used]
    for label in DEFAULT_LABELS:
        values = {node.labels.get(label) for node in homes}
        if len(homes) > 1 and len(values) == 1 and (value := next(iter(values))) is not None:
            return [f"All of them are in {label.rpartition('/')[2]} {value}."]
    return []


def asks_lines(group: Group) -> list[str]:
    """Its pods by what each asks for."""
    counts: dict[ResourceVector, int] = {}
    for seen in group.live_pods:
        requests = seen.record.pod.requests
        counts[requests] = counts.get(requests, 0) + 1
    return [f"{count} × ({_vector(requests)})" for requests, count in sorted(counts.items(), key=lambda it: -it[1])]


def _vector(amounts: ResourceVector) -> str:
    names = in_order(name for name in amounts if amounts[name])
    return ", ".join(f"{name} {amount_text(name, amounts[name])}" for name in names) or "nothing"
