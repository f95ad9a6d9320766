"""The shell of ReplicaSets: a pod's change is its manager's business, and an orphan's that of all who select it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from allhands.controllers.watching import Refusals, controller_of, pods_by_controller, replica_sets
from allhands.lifecycle.instructions import NOTHING_TO_DO, Outcome
from allhands.lifecycle.observed import NO_LABELS
from allhands.lifecycle.replica_set import reconcile

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from allhands.api.errors import StatusError
    from allhands.lifecycle.observed import Pod
    from allhands.lifecycle.replica_set import ReplicaSet
    from allhands.ports import Objects
    from allhands.runtime.informer import Informer
    from allhands.runtime.workqueue import WorkQueue


class ReplicaSetController:
    name: Final = "replica-set"

    def __init__(self, objects: Objects) -> None:
        self._sets = replica_sets(objects)
        self._pods = pods_by_controller(objects)
        self._refusals = Refusals()
        self._queue: WorkQueue | None = None

    @property
    def informers(self) -> Sequence[Informer[Any]]:
        return (self._sets, self._pods)

    def wire(self, queue: WorkQueue) -> None:
        self._queue = queue
        self._sets.on_change(lambda key, _old, _new: queue.add(key))
        self._pods.on_change(lambda _key, old, new: self._see_pod(queue, old, new))

    def _see_pod(self, queue: WorkQueue, old: Pod | None, new: Pod | None) -> None:
        for pod in (old, new):
            if pod is None:
                continue
            namespace = pod.metadata.namespace
            controller = controller_of(pod.metadata, "apps", "ReplicaSet")
            if controller is not None:
                queue.add(f"{namespace}/{controller.name}")
            elif pod is new and pod.metadata.controller is None and pod.is_active:
                labels = pod.metadata.labels or NO_LABELS
                for each in self._sets.by("namespace", namespace):
                    if each.selector.matches(labels):
                        queue.add(each.metadata.key)

    def heard(self, key: str, refusal: StatusError | None) -> None:
        """How the last attempt at a key ended."""
        self._refusals.hear(key, refusal, self._queue)

    def reconcile(self, key: str, now_seconds: float) -> Outcome:
        replicas = self._sets.get(key)
        if replicas is None:
            return NOTHING_TO_DO
        metadata = replicas.metadata
        candidates = [*self._pods.by("controller", metadata.uid), *self._pods.by("orphan", metadata.namespace)]
        return reconcile(replicas, candidates, now_seconds, self._siblings(replicas), self._refusals.of(key))

    def _siblings(self, replicas: ReplicaSet) -> Iterator[Pod]:
        """The pods of all ReplicaSets with the same manager; looked up only if somebody asks."""
        owner = replicas.metadata.controller
        for each in self._sets.by("controller", owner.uid) if owner is not None else ():
            yield from self._pods.by("controller", each.metadata.uid)
