"""Pods as small as each controller can do with: what it never looks at is dropped, and what is equal is shared.

A hundred thousand pods are watched by several controllers; whole records of them would fill the memory. Nothing that
is kept differs from what is stored.
"""

from __future__ import annotations

import functools
from sys import intern
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from allhands.lifecycle.observed import Condition, Metadata, OwnerReference, Pod, PodSpec, PodStatus
from allhands.lifecycle.replica_set import DELETION_COST

if TYPE_CHECKING:
    from collections.abc import Callable

    from allhands.model.node import Toleration

T = TypeVar("T")

FOREIGN: Final = Pod(Metadata(owner_references=(OwnerReference(controller=True),)))
"""Stands for every pod that is somebody else's business."""

_MOST_SHARED: Final = 1 << 14
_decode = msgspec.json.Decoder(Pod).decode


@functools.lru_cache(maxsize=_MOST_SHARED)
def _shared(value: tuple[Toleration, ...] | tuple[OwnerReference, ...] | Condition) -> object:
    return value


@functools.lru_cache(maxsize=_MOST_SHARED)
def _shared_map(pairs: tuple[tuple[str, str], ...]) -> dict[str, str]:
    return dict(pairs)


def _labels(labels: dict[str, str] | None) -> dict[str, str] | None:
    return _shared_map(tuple(labels.items())) if labels else None


def _owners(owners: tuple[OwnerReference, ...] | None) -> tuple[OwnerReference, ...] | None:
    return _shared(owners) if owners else None  # type: ignore[return-value]


def _conditions(conditions: tuple[Condition, ...] | None) -> tuple[Condition, ...] | None:
    return tuple(_shared(it) for it in conditions) if conditions else None  # type: ignore[misc]


def pods_of(kind: str) -> Callable[[bytes], Pod]:
    """Whole pods of managers of this kind and of nobody; all others are `FOREIGN`."""

    def decode(raw: bytes) -> Pod:
        pod = _decode(raw)
        metadata, status = pod.metadata, pod.status
        controller = metadata.controller
        if controller is not None and controller.kind != kind:
            return FOREIGN
        cost = metadata.annotation(DELETION_COST)
        return Pod(
            msgspec.structs.replace(
                metadata,
                namespace=intern(metadata.namespace),
                labels=_labels(metadata.labels),
                owner_references=_owners(metadata.owner_references),
                annotations={DELETION_COST: cost} if cost else None,
            ),
            PodSpec(node_name=intern(pod.spec.node_name)),
            msgspec.structs.replace(status, phase=intern(status.phase), conditions=_conditions(status.conditions)),
        )

    return decode


def pod_for_budgets(raw: bytes) -> Pod:
    """Whose it is, whether it is ready, whether it goes."""
    pod = _decode(raw)
    metadata, ready = pod.metadata, pod.ready
    return Pod(
        Metadata(
            name=metadata.name,
            namespace=intern(metadata.namespace),
            labels=_labels(metadata.labels),
            owner_references=_owners(metadata.owner_references),
            deletion_timestamp=metadata.deletion_timestamp,
        ),
        PodSpec(),
        PodStatus(intern(pod.status.phase), None if ready is None else (READY,)),
    )


READY: Final = Condition("Ready", "True")


class PlacedPod(msgspec.Struct, frozen=True, gc=False):
    """Where a pod is, and its text: of nearly all pods nobody here ever asks for more, since their nodes are well.
    Where the store is in this process, it holds that text anyway."""

    node_name: str
    raw: bytes

    def whole(self) -> Pod:
        return pod_for_nodes(self.raw)


class _Place(msgspec.Struct, frozen=True, gc=False):
    node_name: str = msgspec.field(default="", name="nodeName")


class _Placed(msgspec.Struct, gc=False):
    spec: _Place = _Place()


_placed = msgspec.json.Decoder(_Placed)


def placed_pod(raw: bytes) -> PlacedPod:
    return PlacedPod(intern(_placed.decode(raw).spec.node_name), raw)


def pod_for_nodes(raw: bytes) -> Pod:
    """Where it is, what it tolerates, and its conditions, since they can only be written as a whole."""
    pod = _decode(raw)
    metadata, spec = pod.metadata, pod.spec
    return Pod(
        Metadata(
            name=metadata.name,
            namespace=intern(metadata.namespace),
            uid=metadata.uid,
            resource_version=metadata.resource_version,
            deletion_timestamp=metadata.deletion_timestamp,
        ),
        PodSpec(
            node_name=intern(spec.node_name),
            tolerations=_shared(spec.tolerations) if spec.tolerations else None,  # type: ignore[arg-type]
        ),
        PodStatus(intern(pod.status.phase), _conditions(pod.status.conditions)),
    )
