"""Watches a simulated cluster's true state and complains as soon as a law is broken, with the moment and the names.

It reads the store's changes, one by one as they happen, and keeps sums of its own: it shares no code with the
scheduler. What it cannot see broken at once (a gang that stays half bound, a group without a reason) it looks for again
and again, with patience for what is allowed to take a moment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from allhands.model.pod import Pod
from allhands.model.pod_document import PodDocument
from allhands.model.resources import ResourceVector

if TYPE_CHECKING:
    from allhands.ports import Event

HALF_BOUND_SECONDS: Final = 60.0
"""A gang may be partly bound for so long: 30 seconds of a live leader, and the time until there is one."""
UNEXPLAINED_SECONDS: Final = 60.0
_PODS = msgspec.json.Decoder(PodDocument)


class LawBrokenError(AssertionError):
    """What happened that must never happen."""


class _Node:
    __slots__ = ("allocatable", "used")

    def __init__(self, allocatable: ResourceVector) -> None:
        self.allocatable = allocatable
        self.used: dict[str, int] = {}


class LawChecker:
    """Feed it every change of nodes and pods, in their order."""

    def __init__(self) -> None:
        self._nodes: dict[str, _Node] = {}
        self._pods: dict[str, Pod] = {}
        """By uid."""
        self.events = 0
        self.bound = 0

    def node(self, event: Event) -> None:
        document = event.manifest()
        name = document["metadata"]["name"]
        if event.type == "DELETED":
            self._nodes.pop(name, None)
            return
        amounts: dict[str, Any] = document.get("status", {}).get("allocatable", {})
        allocatable = ResourceVector.from_quantities(amounts)
        known = self._nodes.get(name)
        if known is None:
            self._nodes[name] = node = _Node(allocatable)
            for pod in self._pods.values():
                if pod.node_name == name and pod.holds_resources:
                    _add(node, pod, 1)
        else:
            known.allocatable = allocatable

    def pod(self, event: Event, seconds: float) -> None:
        self.events += 1
        pod = Pod.from_document(_PODS.decode(event.raw))
        before = self._pods.pop(pod.uid, None)
        if before is not None and before.holds_resources and before.node_name in self._nodes:
            _add(self._nodes[before.node_name], before, -1)
        if event.type == "DELETED":
            return
        self._pods[pod.uid] = pod
        if before is not None and before.node_name and pod.node_name != before.node_name:
            raise LawBrokenError(f"at {seconds:.3f} s: pod {pod.key} moved from {before.node_name} to {pod.node_name}")
        node = self._nodes.get(pod.node_name)
        if node is None or not pod.holds_resources:
            return
        _add(node, pod, 1)
        if before is None or not before.node_name:
            self.bound += 1
            self._check_room(node, pod, seconds)

    def _check_room(self, node: _Node, pod: Pod, seconds: float) -> None:
        for resource in ("pods", *pod.requests):
            if node.used.get(resource, 0) > node.allocatable.get(resource):
                raise LawBrokenError(
                    f"at {seconds:.3f} s: pod {pod.key} puts {pod.node_name} over its {resource}: "
                    f"{node.used[resource]} of {node.allocatable.get(resource)}"
                )

    def check_whole(self) -> None:
        """The sums kept so far against sums made anew."""
        for name, node in self._nodes.items():
            fresh = _Node(node.allocatable)
            for pod in self._pods.values():
                if pod.node_name == name and pod.holds_resources:
                    _add(fresh, pod, 1)
            if {k: v for k, v in fresh.used.items() if v} != {k: v for k, v in node.used.items() if v}:
                raise AssertionError(f"the checker itself is wrong about {name}")


def _add(node: _Node, pod: Pod, sign: int) -> None:
    node.used["pods"] = node.used.get("pods", 0) + sign
    for resource in pod.requests:
        node.used[resource] = node.used.get(resource, 0) + sign * pod.requests[resource]


class GangWatch:
    """Which gangs are partly bound, and since when. `members` says, for each gang, its minimum and its pods."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}

    def look(self, gangs: dict[str, tuple[int, list[Pod]]], seconds: float, excused: frozenset[str]) -> None:
        """`excused` are those that say so themselves, in a condition."""
        for name, (least, pods) in gangs.items():
            holding = sum(1 for pod in pods if pod.holds_resources and not pod.deleting)
            # Who has succeeded counts, but holds nothing: a gang that waits with such members alone is not half bound.
            present = holding + sum(1 for pod in pods if pod.phase == "Succeeded")
            if holding and present < least and name not in excused:
                since = self._since.setdefault(name, seconds)
                if seconds - since > HALF_BOUND_SECONDS:
                    raise LawBrokenError(
                        f"at {seconds:.1f} s: gang {name} has {present} of {least} pods bound since {since:.1f} s"
                    )
            else:
                self._since.pop(name, None)


class ReasonWatch:
    """Which pods wait without having been told why, and since when."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}

    def look(self, unexplained: list[str], seconds: float) -> None:
        """`unexplained` are the pods that have no node now and nothing that says why."""
        self._since = {name: self._since.get(name, seconds) for name in unexplained}
        for name, since in self._since.items():
            if seconds - since > UNEXPLAINED_SECONDS:
                raise LawBrokenError(f"at {seconds:.1f} s: pod {name} waits without a reason since {since:.1f} s")


class CapWatch:
    """What the pods of each capped queue hold on nodes, against the cap. Feed it every change of pods.

    A gang that has members on nodes, and fewer than its minimum, is completed whatever its queue holds by now.
    """

    def __init__(self, caps: dict[str, dict[str, int]]) -> None:
        self._caps = caps
        self._held: dict[str, dict[str, tuple[str, ResourceVector]]] = {queue: {} for queue in caps}

    def pod(self, queue: str, gang: str, least: int, pod: Pod, seconds: float, *, is_gone: bool) -> None:
        """`gang` and `least`: whose member it is, and how many of them must start together."""
        held = self._held.get(queue)
        if held is None:
            return
        if is_gone or not pod.holds_resources:
            held.pop(pod.uid, None)
            return
        is_new = pod.uid not in held
        completes = 0 < sum(other == gang for other, _ in held.values()) < least
        held[pod.uid] = (gang, pod.requests)
        for resource, most in self._caps[queue].items() if is_new and not completes else ():
            amount = sum(requests.get(resource) for _, requests in held.values())
            if amount > most:
                raise LawBrokenError(
                    f"at {seconds:.3f} s: pod {pod.key} puts queue {queue} over its cap: {amount} of {most} {resource}"
                )
