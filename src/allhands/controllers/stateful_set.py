"""The shell of StatefulSets: whose a pod or a claim is, or would be, its name says.

Changes of pods are gathered for a moment, longer for bigger sets, so that the work grows with the pods and not with
their square.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from allhands.controllers.gathering import gather_seconds
from allhands.controllers.watching import (
    Refusals,
    controller_of,
    decoder,
    pods_by_controller,
    revisions_by_controller,
    see_revision,
)
from allhands.lifecycle.instructions import NOTHING_TO_DO, Outcome
from allhands.lifecycle.stateful_set.claims import KeptClaim, template_name
from allhands.lifecycle.stateful_set.kinds import STATEFUL_SETS, StatefulSet
from allhands.lifecycle.stateful_set.machine import reconcile
from allhands.lifecycle.stateful_set.members import place_of
from allhands.lifecycle.volume_kinds import CLAIMS
from allhands.runtime.informer import Informer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allhands.api.errors import StatusError
    from allhands.lifecycle.observed import Pod
    from allhands.ports import Objects
    from allhands.runtime.workqueue import WorkQueue


class StatefulSetController:
    name: Final = "stateful-set"

    def __init__(self, objects: Objects, *, gathers: bool = True) -> None:
        self._sets: Informer[StatefulSet] = Informer(
            objects,
            STATEFUL_SETS,
            decoder(StatefulSet),
            indexes={"namespace": lambda it: (it.metadata.namespace,), "claims": _claims_of},
        )
        self._pods = pods_by_controller(objects, "StatefulSet")
        self._revisions = revisions_by_controller(objects)
        self._claims: Informer[KeptClaim] = Informer(objects, CLAIMS, decoder(KeptClaim))
        self._refusals = Refusals()
        self._gathers = gathers
        self._queue: WorkQueue | None = None

    @property
    def informers(self) -> Sequence[Informer[Any]]:
        return (self._sets, self._pods, self._revisions, self._claims)

    def wire(self, queue: WorkQueue) -> None:
        self._queue = queue
        self._sets.on_change(lambda key, _old, _new: queue.add(key))
        self._pods.on_change(lambda key, old, new: self._see_pod(queue, key, old, new))
        self._revisions.on_change(lambda _key, old, new: see_revision(queue, "StatefulSet", self._sets, old, new))
        self._claims.on_change(lambda key, _old, _new: self._see_claim(queue, key))

    def _see_pod(self, queue: WorkQueue, key: str, old: Pod | None, new: Pod | None) -> None:
        """Also of somebody else's pod: it may have a name that is needed."""
        place = place_of(key)
        keys = {"" if place is None else place[0]}
        for pod in (old, new):
            controller = None if pod is None else controller_of(pod.metadata, "apps", "StatefulSet")
            if pod is not None and controller is not None:
                keys.add(f"{pod.metadata.namespace}/{controller.name}")
        for each in keys:
            if (found := self._sets.get(each)) is not None:
                self._add(queue, each, found)

    def _add(self, queue: WorkQueue, key: str, stateful: StatefulSet) -> None:
        if self._gathers:
            queue.add_after(key, gather_seconds(self._pods.count_by("controller", stateful.metadata.uid)))
        else:
            queue.add(key)

    def _see_claim(self, queue: WorkQueue, key: str) -> None:
        for each in self._sets.keys_by("claims", key.rpartition("-")[0]):
            queue.add(each)

    def heard(self, key: str, refusal: StatusError | None) -> None:
        """How the last attempt at a key ended."""
        self._refusals.hear(key, refusal, self._queue)

    def reconcile(self, key: str, now_seconds: float) -> Outcome:
        stateful = self._sets.get(key)
        if stateful is None:
            return NOTHING_TO_DO
        uid, namespace = stateful.metadata.uid, stateful.metadata.namespace
        mine, strays = self._pods.by("controller", uid), self._pods.by("orphan", namespace)
        return reconcile(
            stateful,
            [*mine, *strays],
            [*self._revisions.by("controller", uid), *self._revisions.by("orphan", namespace)],
            now_seconds,
            find_revision=lambda name: self._revisions.get(f"{namespace}/{name}"),
            find_claim=lambda name: self._claims.get(f"{namespace}/{name}"),
            is_taken=lambda name: f"{namespace}/{name}" in self._pods,
            refusal=self._refusals.of(key),
        )


def _claims_of(stateful: StatefulSet) -> list[str]:
    """What the keys of its claims begin with."""
    metadata = stateful.metadata
    return [f"{metadata.namespace}/{template_name(it)}-{metadata.name}" for it in stateful.spec.claim_templates or ()]
