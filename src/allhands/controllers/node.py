"""The shell of node health. A renewed lease is only noted; a node is looked at when it changes or its time is up.

So ten thousand nodes that renew every ten seconds cost a note each, and a look only once in a grace period. Silence is
measured by the event loop's clock, which does not jump.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from allhands.api.kinds import Resource
from allhands.controllers.watching import decoder, pods_by_node
from allhands.lifecycle.instructions import NOTHING_TO_DO, Outcome
from allhands.lifecycle.node import NODES, reconcile, reconcile_gone
from allhands.lifecycle.observed import Lease, Node
from allhands.ports import Query
from allhands.runtime.informer import Informer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from allhands.controllers.sparing import PlacedPod
    from allhands.lifecycle.observed import Pod
    from allhands.ports import Objects
    from allhands.runtime.workqueue import WorkQueue

LEASES: Final = Resource("coordination.k8s.io", "v1", "leases")
LEASE_NAMESPACE: Final = "kube-node-lease"


def _loop_time() -> float:
    return asyncio.get_running_loop().time()


class NodeController:
    name: Final = "node"

    def __init__(self, objects: Objects, monotonic: Callable[[], float] = _loop_time) -> None:
        self._monotonic = monotonic
        self._nodes: Informer[Node] = Informer(objects, NODES, decoder(Node))
        self._leases: Informer[Lease] = Informer(
            objects, LEASES, decoder(Lease), query=Query(namespace=LEASE_NAMESPACE)
        )
        self._pods = pods_by_node(objects)
        self._heard: dict[str, float] = {}
        """When each node last gave a sign of life."""
        self._well: set[str] = set()
        """Nodes that are ready. Only whether there are any is asked."""
        self._gone: dict[str, float] = {}
        """Since when nodes that pods are bound to have been missing."""

    @property
    def informers(self) -> Sequence[Informer[Any]]:
        return (self._nodes, self._leases, self._pods)

    def wire(self, queue: WorkQueue) -> None:
        self._nodes.on_change(lambda key, old, new: self._see_node(queue, key, old, new))
        self._leases.on_change(lambda _key, old, new: self._see_lease(queue, old, new))
        self._pods.on_change(lambda _key, _old, new: self._see_pod(queue, new))

    def _see_node(self, queue: WorkQueue, name: str, old: Node | None, new: Node | None) -> None:
        if new is None:
            self._heard.pop(name, None)
        elif old is None or _heartbeat(old) != _heartbeat(new) or old.metadata.uid != new.metadata.uid:
            self._heard[name] = self._monotonic()
            self._gone.pop(name, None)
        had_any = bool(self._well)
        if new is not None and _is_well(new):
            self._well.add(name)
        else:
            self._well.discard(name)
        if had_any != bool(self._well):
            for each in list(self._nodes.keys()):
                queue.add(each)
        queue.add(name)

    def _see_lease(self, queue: WorkQueue, old: Lease | None, new: Lease | None) -> None:
        if new is None or (old is not None and old.spec.renew_time == new.spec.renew_time):
            return
        name = new.metadata.name
        self._heard[name] = self._monotonic()
        node = self._nodes.get(name)
        if node is None or old is None or old.spec.lease_duration_seconds != new.spec.lease_duration_seconds:
            queue.add(name)

    def _see_pod(self, queue: WorkQueue, pod: PlacedPod | None) -> None:
        """A pod matters here only where its node is gone or drives pods away."""
        name = "" if pod is None else pod.node_name
        if not name:
            return
        node = self._nodes.get(name)
        if node is None or any(it.effect == "NoExecute" for it in node.spec.taints or ()):
            queue.add(name)

    def _pods_on(self, name: str) -> Iterator[Pod]:
        """Looked up only if somebody asks: of a node that is well, nobody does."""
        for pod in self._pods.by("node", name):
            yield pod.whole()

    def reconcile(self, key: str, now_seconds: float) -> Outcome:
        now = self._monotonic()
        node = self._nodes.get(key)
        if node is not None:
            lease = self._leases.get(f"{LEASE_NAMESPACE}/{key}")
            duration = None if lease is None else lease.spec.lease_duration_seconds
            silent = now - self._heard.setdefault(key, now)
            nobody = not self._well
            return reconcile(node, self._pods_on(key), silent, now_seconds, duration, nobody_is_well=nobody)
        left = list(self._pods_on(key))
        if not left:
            self._gone.pop(key, None)
            return NOTHING_TO_DO
        return reconcile_gone(left, now - self._gone.setdefault(key, now), now_seconds)


def _is_well(node: Node) -> bool:
    ready = node.condition("Ready")
    return ready is not None and ready.status == "True"


def _heartbeat(node: Node) -> tuple[str | None, str]:
    ready = node.condition("Ready")
    return (
        (None, "") if ready is None else (ready.last_heartbeat_time, "" if ready.status == "Unknown" else ready.status)
    )
