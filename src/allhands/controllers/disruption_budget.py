"""The shell of disruption budgets: a pod matters to the budgets of its namespace that select it, a manager to all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from allhands.api.kinds import Resource
from allhands.controllers.watching import decoder, deployments, pods_by_namespace, replica_sets
from allhands.lifecycle.disruption_budget import BUDGETS, Budget, Scale, reconcile
from allhands.lifecycle.instructions import NOTHING_TO_DO, Outcome
from allhands.lifecycle.observed import NO_LABELS, Metadata
from allhands.lifecycle.selection import selector_of
from allhands.runtime.informer import Informer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allhands.lifecycle.observed import OwnerReference, Pod
    from allhands.ports import Objects
    from allhands.runtime.workqueue import WorkQueue

STATEFUL_SETS: Final = Resource("apps", "v1", "statefulsets")


class _SizedSpec(msgspec.Struct, frozen=True):
    replicas: int = 1


class _Sized(msgspec.Struct, frozen=True):
    metadata: Metadata = Metadata()
    spec: _SizedSpec = _SizedSpec()


class DisruptionBudgetController:
    name: Final = "disruption-budget"

    def __init__(self, objects: Objects) -> None:
        self._budgets: Informer[Budget] = Informer(
            objects, BUDGETS, decoder(Budget), indexes={"namespace": lambda it: (it.metadata.namespace,)}
        )
        self._pods = pods_by_namespace(objects)
        self._sets = replica_sets(objects)
        self._deployments = deployments(objects)
        self._stateful: Informer[_Sized] = Informer(objects, STATEFUL_SETS, decoder(_Sized))

    @property
    def informers(self) -> Sequence[Informer[Any]]:
        return (self._budgets, self._pods, self._sets, self._deployments, self._stateful)

    def wire(self, queue: WorkQueue) -> None:
        self._budgets.on_change(lambda key, _old, _new: queue.add(key))
        self._pods.on_change(lambda _key, old, new: self._see_pod(queue, old, new))
        for informer in (self._sets, self._deployments, self._stateful):
            informer.on_change(lambda _key, old, new: self._see_scale(queue, old, new))

    def _see_pod(self, queue: WorkQueue, old: Pod | None, new: Pod | None) -> None:
        one = new or old
        if one is None:
            return
        for budget in self._budgets.by("namespace", one.metadata.namespace):
            selector = selector_of(budget.spec.selector)
            if any(it is not None and selector.matches(it.metadata.labels or NO_LABELS) for it in (old, new)):
                queue.add(budget.metadata.key)

    def _see_scale(self, queue: WorkQueue, old: Any, new: Any) -> None:
        if old is not None and new is not None and old.spec.replicas == new.spec.replicas:
            return
        for key in self._budgets.keys_by("namespace", (new or old).metadata.namespace):
            queue.add(key)

    def _scale(self, owner: OwnerReference, namespace: str) -> Scale | None:
        """A ReplicaSet that belongs to a Deployment stands for the whole of it."""
        key = f"{namespace}/{owner.name}"
        if owner.kind == "StatefulSet":
            stateful = self._stateful.get(key)
            same = stateful is not None and stateful.metadata.uid == owner.uid
            return Scale(owner.uid, stateful.spec.replicas) if stateful is not None and same else None
        replicas = self._sets.get(key) if owner.kind == "ReplicaSet" else None
        if replicas is None or replicas.metadata.uid != owner.uid:
            return None
        manager = replicas.metadata.controller
        if manager is None or manager.kind != "Deployment":
            return Scale(owner.uid, replicas.spec.replicas)
        deployment = self._deployments.get(f"{namespace}/{manager.name}")
        if deployment is None or deployment.metadata.uid != manager.uid:
            return None
        return Scale(manager.uid, deployment.spec.replicas)

    def reconcile(self, key: str, now_seconds: float) -> Outcome:
        budget = self._budgets.get(key)
        if budget is None:
            return NOTHING_TO_DO
        selector = selector_of(budget.spec.selector)
        selected = [
            pod
            for pod in self._pods.by("namespace", budget.metadata.namespace)
            if selector.matches(pod.metadata.labels or NO_LABELS)
        ]
        return reconcile(budget, selected, self._scale, now_seconds)
