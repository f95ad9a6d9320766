"""The objects that every cluster has before anybody creates one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allhands.api.kinds import Resource
from allhands.store.admission import SYSTEM_PRIORITY_CLASSES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allhands.api.document import Manifest

NAMESPACES = Resource("", "v1", "namespaces")
PRIORITY_CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses")

_DESCRIPTIONS = {
    "system-cluster-critical": "Used for system critical pods that must run in the cluster, "
    "but can be moved to another node if necessary.",
    "system-node-critical": "Used for system critical pods that must not be moved from their current node.",
}


def first_objects() -> Iterator[tuple[Resource, Manifest]]:
    for name in ("kube-system", "kube-public", "kube-node-lease", "default"):
        yield NAMESPACES, {"metadata": {"name": name}}
    for name, value in SYSTEM_PRIORITY_CLASSES.items():
        yield PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value, "description": _DESCRIPTIONS[name]}
