"""The shell of Deployments: a ReplicaSet's change is its manager's business, an orphan's that of all who select it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from allhands.controllers.watching import Refusals, controller_of, deployments, replica_sets
from allhands.lifecycle.deployment.machine import reconcile
from allhands.lifecycle.instructions import NOTHING_TO_DO, Outcome
from allhands.lifecycle.observed import NO_LABELS
from allhands.lifecycle.selection import managing_selector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allhands.api.errors import StatusError
    from allhands.lifecycle.replica_set import ReplicaSet
    from allhands.ports import Objects
    from allhands.runtime.informer import Informer
    from allhands.runtime.workqueue import WorkQueue


class DeploymentController:
    name: Final = "deployment"

    def __init__(self, objects: Objects) -> None:
        self._deployments = deployments(objects)
        self._sets = replica_sets(objects)
        self._refusals = Refusals()
        self._queue: WorkQueue | None = None

    @property
    def informers(self) -> Sequence[Informer[Any]]:
        return (self._deployments, self._sets)

    def wire(self, queue: WorkQueue) -> None:
        self._queue = queue
        self._deployments.on_change(lambda key, _old, _new: queue.add(key))
        self._sets.on_change(lambda _key, old, new: self._see_set(queue, old, new))

    def _see_set(self, queue: WorkQueue, old: ReplicaSet | None, new: ReplicaSet | None) -> None:
        for each in (old, new):
            if each is None:
                continue
            namespace = each.metadata.namespace
            controller = controller_of(each.metadata, "apps", "Deployment")
            if controller is not None:
                queue.add(f"{namespace}/{controller.name}")
            elif each is new and each.metadata.controller is None:
                labels = each.metadata.labels or NO_LABELS
                for deployment in self._deployments.by("namespace", namespace):
                    if managing_selector(deployment.spec.selector).matches(labels):
                        queue.add(deployment.metadata.key)

    def heard(self, key: str, refusal: StatusError | None) -> None:
        """How the last attempt at a key ended."""
        self._refusals.hear(key, refusal, self._queue)

    def reconcile(self, key: str, now_seconds: float) -> Outcome:
        deployment = self._deployments.get(key)
        if deployment is None:
            return NOTHING_TO_DO
        metadata = deployment.metadata
        candidates = [*self._sets.by("controller", metadata.uid), *self._sets.by("orphan", metadata.namespace)]
        return reconcile(
            deployment,
            candidates,
            now_seconds,
            find=lambda name: self._sets.get(f"{metadata.namespace}/{name}"),
            refusal=self._refusals.of(key),
        )
