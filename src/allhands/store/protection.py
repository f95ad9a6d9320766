"""Finalizers by which the server keeps what is still in use: claims of pods, volumes of claims, groups of pods.

Admission adds them to every new object of the kind; once the object is to go, and nobody uses it, they are taken away.
On a real cluster the controller manager does this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allhands.api.kinds import Resource

if TYPE_CHECKING:
    from collections.abc import Callable

    from allhands.api.document import Manifest
    from allhands.store.record import Record
    from allhands.store.store import Store

PODS = Resource("", "v1", "pods")


def _used_by_a_pod(field: str) -> Callable[[Store, Record], bool]:
    def in_use(store: Store, record: Record) -> bool:
        namespace, name = record.key
        needle = f'"{field}":"{name}"'.encode()
        pods = store.collection(store.kind(PODS)).in_namespace(namespace)
        return any(needle in pod.raw and not _has_ended(pod) for pod in pods)

    return in_use


def _has_ended(pod: Record) -> bool:
    return (pod.manifest().get("status") or {}).get("phase") in ("Succeeded", "Failed")


def _volume_in_use(_store: Store, volume: Record) -> bool:
    document: Manifest = volume.manifest()
    return (document.get("status") or {}).get("phase") == "Bound"


PROTECTED: dict[tuple[str, str], tuple[str, Callable[[Store, Record], bool]]] = {
    ("", "PersistentVolumeClaim"): ("kubernetes.io/pvc-protection", _used_by_a_pod("claimName")),
    ("", "PersistentVolume"): ("kubernetes.io/pv-protection", _volume_in_use),
    ("scheduling.k8s.io", "PodGroup"): ("scheduling.k8s.io/podgroup-protection", _used_by_a_pod("podGroupName")),
}
"""(group, kind) -> (finalizer, whether it is still needed)."""
