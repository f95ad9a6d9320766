"""The shell of volume binding. Keys with a namespace are claims, those without are volumes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from allhands.controllers.watching import decoder
from allhands.lifecycle.instructions import NOTHING_TO_DO, Outcome
from allhands.lifecycle.node import NODES
from allhands.lifecycle.observed import NO_LABELS, Node
from allhands.lifecycle.volume_binding import reconcile_claim, reconcile_volume
from allhands.lifecycle.volume_kinds import CLAIMS, CLASSES, VOLUMES, Claim, StorageClass, Volume
from allhands.runtime.informer import Informer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from allhands.ports import Objects
    from allhands.runtime.workqueue import WorkQueue


def _loop_time() -> float:
    return asyncio.get_running_loop().time()


class VolumeBindingController:
    name: Final = "volume-binding"

    def __init__(self, objects: Objects, folder: str, monotonic: Callable[[], float] = _loop_time) -> None:
        """`folder` is where the volumes that are made here are kept, on whichever node."""
        self._folder = folder
        self._monotonic = monotonic
        self._claims: Informer[Claim] = Informer(
            objects, CLAIMS, decoder(Claim), indexes={"unbound": lambda it: () if it.is_complete else (it.class_name,)}
        )
        self._volumes: Informer[Volume] = Informer(
            objects,
            VOLUMES,
            decoder(Volume),
            indexes={"class": lambda it: (it.class_name,), "claim": _claim_keys},
        )
        self._classes: Informer[StorageClass] = Informer(objects, CLASSES, decoder(StorageClass))
        self._nodes: Informer[Node] = Informer(objects, NODES, decoder(Node))
        self._missing: dict[str, float] = {}
        """Since when the claims of volumes have been missing."""

    @property
    def informers(self) -> Sequence[Informer[Any]]:
        return (self._claims, self._volumes, self._classes, self._nodes)

    def wire(self, queue: WorkQueue) -> None:
        self._claims.on_change(lambda key, _old, _new: self._see_claim(queue, key))
        self._volumes.on_change(lambda key, old, new: self._see_volume(queue, key, old, new))
        self._classes.on_change(lambda key, _old, _new: self._see_class(queue, key))

    def _see_claim(self, queue: WorkQueue, key: str) -> None:
        queue.add(key)
        for volume in self._volumes.keys_by("claim", key):
            queue.add(volume)

    def _see_volume(self, queue: WorkQueue, key: str, old: Volume | None, new: Volume | None) -> None:
        queue.add(key)
        for volume in (old, new):
            for claim in _claim_keys(volume) if volume is not None else ():
                queue.add(claim)
        if new is not None and new.spec.claim_ref is None:
            self._see_class(queue, new.class_name)

    def _see_class(self, queue: WorkQueue, name: str) -> None:
        for claim in self._claims.keys_by("unbound", name):
            queue.add(claim)

    def reconcile(self, key: str, now_seconds: float) -> Outcome:
        if "/" not in key:
            return self._reconcile_volume(key, now_seconds)
        claim = self._claims.get(key)
        if claim is None:
            return NOTHING_TO_DO
        same_class = self._volumes.by("class", claim.class_name)
        return reconcile_claim(
            claim,
            {it.metadata.name: it for it in (*self._volumes.by("claim", key), *same_class)}.values(),
            self._volumes.get,
            self._classes.get(claim.class_name),
            self._labels,
            self._folder,
        )

    def _labels(self, node: str) -> Mapping[str, str] | None:
        found = self._nodes.get(node)
        return None if found is None else found.metadata.labels or NO_LABELS

    def _reconcile_volume(self, key: str, now_seconds: float) -> Outcome:
        volume = self._volumes.get(key)
        if volume is None:
            self._missing.pop(key, None)
            return NOTHING_TO_DO
        claim_key = next(iter(_claim_keys(volume)), "")
        claim = self._claims.get(claim_key)
        reference = volume.spec.claim_ref
        if claim is not None and reference is not None and claim.metadata.uid == reference.uid:
            self._missing.pop(key, None)
            return reconcile_volume(volume, claim, 0.0, now_seconds)
        now = self._monotonic()
        return reconcile_volume(volume, claim, now - self._missing.setdefault(key, now), now_seconds)


def _claim_keys(volume: Volume) -> tuple[str, ...]:
    reference = volume.spec.claim_ref
    return () if reference is None else (f"{reference.namespace}/{reference.name}",)
