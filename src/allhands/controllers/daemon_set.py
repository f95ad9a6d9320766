"""The shell of DaemonSets: a pod's change is its manager's business, an orphan's that of all who select it, and a
node's that of all.

Changes of pods and nodes are gathered for a moment, longer for more of them, since every look is at all nodes. What is
remembered here (pods that failed) may be lost; it only makes pauses right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from allhands.controllers import sparing
from allhands.controllers.gathering import gather_seconds
from allhands.controllers.watching import (
    Refusals,
    controller_of,
    controller_uid,
    decoder,
    orphan_namespace,
    revisions_by_controller,
    see_revision,
)
from allhands.lifecycle.daemon_set.kinds import DAEMON_SETS, DaemonNode, DaemonPod, DaemonSet
from allhands.lifecycle.daemon_set.machine import reconcile
from allhands.lifecycle.daemon_set.patience import NO_PATIENCE, Patience
from allhands.lifecycle.daemon_set.reading import read_node, target_of
from allhands.lifecycle.instructions import NOTHING_TO_DO, Outcome
from allhands.lifecycle.node import NODES
from allhands.lifecycle.observed import NO_LABELS
from allhands.lifecycle.replica_set import PODS
from allhands.runtime.informer import Informer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allhands.api.errors import StatusError
    from allhands.ports import Objects
    from allhands.runtime.workqueue import WorkQueue

FOREIGN: Final = DaemonPod(sparing.FOREIGN.metadata)
_decode_pod: Final = sparing.pods_of("DaemonSet")


def daemon_pod(raw: bytes) -> DaemonPod:
    pod = _decode_pod(raw)
    if pod is sparing.FOREIGN:
        return FOREIGN
    return DaemonPod(pod.metadata, pod.spec, pod.status, pod.spec.node_name or target_of(raw))


class DaemonSetController:
    name: Final = "daemon-set"

    def __init__(self, objects: Objects, *, gathers: bool = True) -> None:
        self._sets: Informer[DaemonSet] = Informer(
            objects, DAEMON_SETS, decoder(DaemonSet), indexes={"namespace": lambda it: (it.metadata.namespace,)}
        )
        self._pods: Informer[DaemonPod] = Informer(
            objects,
            PODS,
            daemon_pod,
            indexes={
                "controller": lambda pod: controller_uid(pod.metadata),
                "orphan": lambda pod: orphan_namespace(pod.metadata),
            },
        )
        self._nodes: Informer[DaemonNode] = Informer(objects, NODES, read_node)
        self._revisions = revisions_by_controller(objects)
        self._refusals = Refusals()
        self._patience: dict[str, Patience] = {}
        self._gathers = gathers
        self._queue: WorkQueue | None = None

    @property
    def informers(self) -> Sequence[Informer[Any]]:
        return (self._sets, self._pods, self._nodes, self._revisions)

    def wire(self, queue: WorkQueue) -> None:
        self._queue = queue
        self._sets.on_change(lambda key, _old, _new: queue.add(key))
        self._pods.on_change(lambda _key, old, new: self._see_pod(queue, old, new))
        self._nodes.on_change(lambda _key, old, new: self._see_node(queue, old, new))
        self._revisions.on_change(lambda _key, old, new: see_revision(queue, "DaemonSet", self._sets, old, new))

    def _see_pod(self, queue: WorkQueue, old: DaemonPod | None, new: DaemonPod | None) -> None:
        for pod in (old, new):
            if pod is None:
                continue
            namespace = pod.metadata.namespace
            controller = controller_of(pod.metadata, "apps", "DaemonSet")
            if controller is not None:
                self._add(queue, f"{namespace}/{controller.name}", self._pods.count_by("controller", controller.uid))
            elif pod is new and pod.metadata.controller is None:
                labels = pod.metadata.labels or NO_LABELS
                for each in self._sets.by("namespace", namespace):
                    if each.selector.matches(labels):
                        self._add(queue, each.metadata.key, 1)

    def _see_node(self, queue: WorkQueue, old: DaemonNode | None, new: DaemonNode | None) -> None:
        """Most changes of nodes are signs of life, and concern nobody here."""
        if old == new:
            return
        for each in self._sets.all():
            self._add(queue, each.metadata.key, len(self._nodes))

    def _add(self, queue: WorkQueue, key: str, size: int) -> None:
        if self._gathers:
            queue.add_after(key, gather_seconds(size))
        else:
            queue.add(key)

    def heard(self, key: str, refusal: StatusError | None) -> None:
        """How the last attempt at a key ended."""
        self._refusals.hear(key, refusal, self._queue)

    def reconcile(self, key: str, now_seconds: float) -> Outcome:
        daemon = self._sets.get(key)
        if daemon is None:
            self._patience.pop(key, None)
            return NOTHING_TO_DO
        uid, namespace = daemon.metadata.uid, daemon.metadata.namespace
        outcome, self._patience[key] = reconcile(
            daemon,
            [*self._pods.by("controller", uid), *self._pods.by("orphan", namespace)],
            self._nodes.all(),
            [*self._revisions.by("controller", uid), *self._revisions.by("orphan", namespace)],
            now_seconds,
            find_revision=lambda name: self._revisions.get(f"{namespace}/{name}"),
            patience=self._patience.get(key, NO_PATIENCE),
            refusal=self._refusals.of(key),
        )
        return outcome
