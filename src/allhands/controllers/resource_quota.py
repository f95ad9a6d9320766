"""The shell of ResourceQuotas: every object that can be charged is watched, as nothing more than its charge."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

from allhands.api.kinds import Resource
from allhands.controllers.watching import decoder
from allhands.lifecycle.instructions import NOTHING_TO_DO, Outcome
from allhands.lifecycle.quota_charges import Charged, claim_charge, object_charge, pod_charge, service_charge
from allhands.lifecycle.resource_quota import QUOTAS, Ledger, Quota, reconcile
from allhands.runtime.informer import Informer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from allhands.ports import Objects
    from allhands.runtime.workqueue import WorkQueue

PAUSE_SECONDS: Final = 0.1
"""Pods come and go in crowds; their quota is told once for all that came within this."""

_WITH_AMOUNTS: Final[tuple[tuple[Resource, Callable[[bytes], Charged]], ...]] = (
    (Resource("", "v1", "pods"), pod_charge),
    (Resource("", "v1", "persistentvolumeclaims"), claim_charge),
    (Resource("", "v1", "services"), service_charge),
)
COUNTED: Final = (
    Resource("", "v1", "configmaps"),
    Resource("", "v1", "secrets"),
    Resource("", "v1", "replicationcontrollers"),
    QUOTAS,
    Resource("batch", "v1", "jobs"),
    Resource("batch", "v1", "cronjobs"),
    Resource("apps", "v1", "deployments"),
    Resource("apps", "v1", "replicasets"),
    Resource("apps", "v1", "statefulsets"),
)
"""What a quota can count beside pods, claims and services."""


class ResourceQuotaController:
    name: Final = "resource-quota"

    def __init__(
        self, objects: Objects, counted: Sequence[Resource] = COUNTED, pause_seconds: float = PAUSE_SECONDS
    ) -> None:
        self._pause_seconds = pause_seconds
        self._quotas: Informer[Quota] = Informer(
            objects, QUOTAS, decoder(Quota), indexes={"namespace": lambda it: (it.metadata.namespace,)}
        )
        charges = [Informer(objects, resource, charge) for resource, charge in _WITH_AMOUNTS]
        charges += [
            Informer(objects, resource, functools.partial(object_charge, names=_names(resource)))
            for resource in counted
        ]
        self._charged: list[Informer[Charged]] = charges
        self._counted = frozenset(
            f"count/{informer.resource.plural}" + (f".{informer.resource.group}" if informer.resource.group else "")
            for informer in charges
        )
        self._ledger = Ledger()

    @property
    def informers(self) -> Sequence[Informer[Any]]:
        return (self._quotas, *self._charged)

    def wire(self, queue: WorkQueue) -> None:
        self._quotas.on_change(lambda key, _old, _new: queue.add(key))
        for informer in self._charged:
            informer.on_change(lambda _key, old, new: self._see(queue, old, new))

    def _see(self, queue: WorkQueue, old: Charged | None, new: Charged | None) -> None:
        if old == new:
            return
        self._ledger.change(old, new)
        one = new or old
        if one is not None:
            for key in self._quotas.keys_by("namespace", one.namespace):
                queue.add_after(key, self._pause_seconds)

    def reconcile(self, key: str, now_seconds: float) -> Outcome:  # noqa: ARG002 (nothing here depends on the time)
        quota = self._quotas.get(key)
        return NOTHING_TO_DO if quota is None else reconcile(quota, self._ledger, self._counted)


def _names(resource: Resource) -> tuple[str, ...]:
    if resource.group:
        return (f"count/{resource.plural}.{resource.group}",)
    return (f"count/{resource.plural}", resource.plural)
