"""Takes an installation away again: what runs first, then its rights and its namespace, at last our kinds.

It looks before it deletes. Queues that people made would go with their kind, and whatever else lives in our namespace
with it: then nothing is deleted until that was asked for. What belongs to somebody else is never touched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from allhands.api.definitions import MANAGED_BY, OURS
from allhands.api.errors import StatusError
from allhands.api.kinds import Resource
from allhands.api.volcano.queue import QueueSpec
from allhands.ports import DeleteOptions, Query
from allhands.runtime.installation.applying import Done, installed
from allhands.runtime.installation.places import NOT_FOUND, SHARED, Place, check_no_release, is_ours
from allhands.runtime.installing import KINDS, first_queues

if TYPE_CHECKING:
    from collections.abc import Callable

    from allhands.api.document import Manifest
    from allhands.kube.objects import KubeObjects

LOOKED_AT: Final = (
    Resource("", "v1", "pods"),
    Resource("", "v1", "configmaps"),
    Resource("", "v1", "persistentvolumeclaims"),
    Resource("", "v1", "services"),
    Resource("apps", "v1", "deployments"),
    Resource("apps", "v1", "statefulsets"),
    Resource("batch", "v1", "jobs"),
)
"""What people put into a namespace that is worth a question."""
OF_THE_CLUSTER: Final = frozenset({"kube-root-ca.crt"})
_LAST: Final = ("Namespace", "CustomResourceDefinition")
_LEASES: Final = Resource("coordination.k8s.io", "v1", "leases")
_CONFIG_MAPS: Final = Resource("", "v1", "configmaps")
LEFT_BY_US: Final = (
    (_LEASES, "allhands-scheduler"),
    (_LEASES, "allhands-controllers"),
    (_CONFIG_MAPS, "usage-ledger"),
)
"""What our processes write into the namespace that they live in."""


class Standing(msgspec.Struct, frozen=True):
    """What is there of us, in the order in which it is to go, and what of others would go with it."""

    objects: tuple[tuple[Place, Manifest], ...]
    homes: tuple[str, ...] = ()
    """Namespaces that we live in."""
    would_be_lost: tuple[str, ...] = ()


async def look(objects: KubeObjects, *, keep_kinds: bool = False) -> Standing:
    """Raises if Helm brought it: then Helm has to take it away."""
    found = await installed(objects)
    check_no_release(it for place, it in found if place.kind not in SHARED)
    ours = [(place, it) for place, it in found if is_ours(it)]
    if keep_kinds:
        ours = [(place, it) for place, it in ours if place.kind != "CustomResourceDefinition"]
    homes = sorted({place.namespace for place, _ in ours if place.namespace})
    lost: list[str] = []
    for place, _ in ours:
        if place.kind == "CustomResourceDefinition":
            lost += await _instances(objects, place.name)
        elif place.kind == "Namespace":
            lost += await _inhabitants(objects, place.name)
    first = [it for it in reversed(ours) if it[0].kind not in _LAST]
    last = [it for kind in _LAST for it in ours if it[0].kind == kind]
    return Standing((*first, *last), tuple(homes), tuple(lost))


async def remove(objects: KubeObjects, standing: Standing, say: Callable[[Done], None]) -> None:
    """What is gone already is fine. Deployments go first: who has no rights any more cannot write anything anew."""
    for place, manifest in standing.objects:
        if place.kind in _LAST:
            continue
        await _delete(objects, place.resource, place.name, place.namespace, manifest["metadata"]["uid"])
        say(Done(place, "deleted"))
    for home in standing.homes:
        for resource, name in LEFT_BY_US:
            await _delete(objects, resource, name, home)
    for place, manifest in standing.objects:
        if place.kind in _LAST:
            await _delete(objects, place.resource, place.name, "", manifest["metadata"]["uid"])
            say(Done(place, "deleted"))


async def _delete(objects: KubeObjects, resource: Resource, name: str, namespace: str, uid: str = "") -> None:
    try:
        await objects.delete(resource, name, namespace, DeleteOptions(uid=uid, propagation="Background"))
    except StatusError as refusal:
        if refusal.code != NOT_FOUND:
            raise


# -- what would be lost


async def _instances(objects: KubeObjects, definition_name: str) -> list[str]:
    """Objects of a kind of ours that are somebody's: the first queues, as we made them, are nobody's."""
    definition = next((it for it in KINDS if it.name == definition_name), None)
    if definition is None:
        return []  # of another release of ours; it can have no objects that this one knows how to name
    made_by_us = {it["metadata"]["name"]: it["spec"] for it in first_queues()}
    try:
        page = await objects.list(definition.resource)
    except StatusError as refusal:
        if refusal.code == NOT_FOUND:
            return []
        raise
    found = []
    for raw in page.items:
        item: Manifest = msgspec.json.decode(raw)
        name, namespace = item["metadata"]["name"], item["metadata"].get("namespace", "")
        if name in made_by_us and _is_same_queue(item.get("spec"), made_by_us[name]):
            continue
        found.append(f"{definition.kind.lower()}.{definition.group}/{name}" + (f" in {namespace}" if namespace else ""))
    return found


def _is_same_queue(found: Any, made: Manifest) -> bool:
    try:
        return msgspec.convert(found, QueueSpec) == msgspec.convert(made, QueueSpec)
    except msgspec.ValidationError:
        return False


async def _inhabitants(objects: KubeObjects, namespace: str) -> list[str]:
    """What in our namespace is not ours. What belongs to another object goes and comes with that one."""
    found = []
    for resource in LOOKED_AT:
        for raw in (await objects.list(resource, Query(namespace=namespace))).items:
            metadata: Manifest = msgspec.json.decode(raw)["metadata"]
            is_part = (metadata.get("labels") or {}).get(MANAGED_BY) == OURS
            if is_part or metadata.get("ownerReferences") or metadata["name"] in OF_THE_CLUSTER:
                continue
            found.append(f"{resource}/{metadata['name']} in {namespace}")
    return found
