"""The informers that several controllers need, with the indexes by which they look things up. It decides nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

import msgspec

from allhands.controllers import sparing
from allhands.lifecycle.controller_revision import REVISIONS, Revision
from allhands.lifecycle.deployment.kinds import DEPLOYMENTS, Deployment
from allhands.lifecycle.observed import NO_LABELS
from allhands.lifecycle.replica_set import PODS, REPLICA_SETS, Refusal, ReplicaSet
from allhands.runtime.informer import Informer

if TYPE_CHECKING:
    from collections.abc import Callable

    from allhands.api.errors import StatusError
    from allhands.api.selectors import LabelSelector
    from allhands.lifecycle.observed import Metadata, OwnerReference, Pod
    from allhands.ports import Objects
    from allhands.runtime.workqueue import WorkQueue

T = TypeVar("T")


def decoder(type: type[T]) -> Callable[[bytes], T]:
    return msgspec.json.Decoder(type).decode


def controller_uid(metadata: Metadata) -> tuple[str, ...]:
    controller = metadata.controller
    return () if controller is None else (controller.uid,)


def orphan_namespace(metadata: Metadata) -> tuple[str, ...]:
    """Found under its namespace while nobody manages it."""
    return (metadata.namespace,) if metadata.controller is None else ()


def pods_by_controller(objects: Objects, kind: str = "ReplicaSet") -> Informer[Pod]:
    """By `controller` (uid) and `orphan` (namespace). Pods of other kinds' managers are only known to be there."""
    return Informer(
        objects,
        PODS,
        sparing.pods_of(kind),
        indexes={
            "controller": lambda pod: controller_uid(pod.metadata),
            "orphan": lambda pod: orphan_namespace(pod.metadata),
        },
    )


def pods_by_namespace(objects: Objects) -> Informer[Pod]:
    """By `namespace`. Of each only what a budget looks at."""
    return Informer(
        objects, PODS, sparing.pod_for_budgets, indexes={"namespace": lambda pod: (pod.metadata.namespace,)}
    )


def pods_by_node(objects: Objects) -> Informer[sparing.PlacedPod]:
    """By `node`. Of each only where it is, until somebody asks for more."""
    return Informer(
        objects,
        PODS,
        sparing.placed_pod,
        indexes={"node": lambda pod: (pod.node_name,) if pod.node_name else ()},
    )


def replica_sets(objects: Objects) -> Informer[ReplicaSet]:
    """By `controller` (uid), `orphan` (namespace) and `namespace`."""
    return Informer(
        objects,
        REPLICA_SETS,
        decoder(ReplicaSet),
        indexes={
            "controller": lambda it: controller_uid(it.metadata),
            "orphan": lambda it: orphan_namespace(it.metadata),
            "namespace": lambda it: (it.metadata.namespace,),
        },
    )


def deployments(objects: Objects) -> Informer[Deployment]:
    """By `namespace`."""
    return Informer(
        objects, DEPLOYMENTS, decoder(Deployment), indexes={"namespace": lambda it: (it.metadata.namespace,)}
    )


def revisions_by_controller(objects: Objects) -> Informer[Revision]:
    """By `controller` (uid) and `orphan` (namespace)."""
    return Informer(
        objects,
        REVISIONS,
        decoder(Revision),
        indexes={
            "controller": lambda it: controller_uid(it.metadata),
            "orphan": lambda it: orphan_namespace(it.metadata),
        },
    )


class _Selecting(Protocol):
    @property
    def metadata(self) -> Metadata: ...

    @property
    def selector(self) -> LabelSelector: ...


S = TypeVar("S", bound=_Selecting)


def see_revision(
    queue: WorkQueue, kind: str, managers: Informer[S], old: Revision | None, new: Revision | None
) -> None:
    """A revision's change is its manager's business, an orphan's that of all who select it. `managers` are indexed by
    `namespace`."""
    for each in (old, new):
        if each is None:
            continue
        namespace = each.metadata.namespace
        controller = controller_of(each.metadata, "apps", kind)
        if controller is not None:
            queue.add(f"{namespace}/{controller.name}")
        elif each is new and each.metadata.controller is None:
            for manager in managers.by("namespace", namespace):
                if manager.selector.matches(each.metadata.labels or NO_LABELS):
                    queue.add(manager.metadata.key)


def controller_of(metadata: Metadata, group: str, kind: str) -> OwnerReference | None:
    """The object's manager, if it is of this kind."""
    controller = metadata.controller
    if controller is None or controller.kind != kind or not controller.api_version.startswith(f"{group}/"):
        return None
    return controller


class Refusals:
    """Why the last attempt at a key was refused, as long as none has succeeded since."""

    def __init__(self) -> None:
        self._messages: dict[str, str] = {}

    def of(self, key: str) -> Refusal | None:
        message = self._messages.get(key)
        return None if message is None else Refusal(message)

    def hear(self, key: str, refusal: StatusError | None, queue: WorkQueue | None) -> None:
        """That somebody was faster says nothing to a user. After a success the reason must be taken back."""
        if refusal is None:
            if self._messages.pop(key, None) is not None and queue is not None:
                queue.add(key)
        elif refusal.reason not in ("Conflict", "AlreadyExists"):
            self._messages[key] = refusal.message
