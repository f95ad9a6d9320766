"""A kubelet for tests, over the port: every pod takes one step in its life. It knows no server and no clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from allhands.api.errors import StatusError
from allhands.api.kinds import Resource
from allhands.ports import DeleteOptions, Objects, Query

if TYPE_CHECKING:
    from collections.abc import Callable

    from allhands.api.document import Manifest

PODS = Resource("", "v1", "pods")


async def step(
    objects: Objects, now: str, namespace: str = "", is_broken: Callable[[Manifest], bool] | None = None
) -> bool:
    """It gets a node, runs and becomes ready, unless it is broken; or goes, if it is to. Whether anything moved."""
    page = await objects.list(PODS, Query(namespace=namespace))
    moved = False
    for raw in page.items:
        pod = msgspec.json.decode(raw)
        try:
            moved = await _step(objects, pod, now, broken=is_broken is not None and is_broken(pod)) or moved
        except StatusError as refusal:
            if refusal.code not in (404, 409):
                raise
    return moved


async def _step(objects: Objects, pod: Manifest, now: str, *, broken: bool) -> bool:
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    if "deletionTimestamp" in pod["metadata"]:
        await objects.delete(PODS, name, namespace, DeleteOptions(grace_seconds=0, uid=pod["metadata"]["uid"]))
    elif not pod["spec"].get("nodeName"):
        node = _only_node(pod) or f"n{sum(map(ord, name)) % 3}"
        await objects.bind(namespace, name, {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}})
    elif pod.get("status", {}).get("phase", "Pending") == "Pending":
        conditions = [{"type": "Ready", "status": "False" if broken else "True", "lastTransitionTime": now}]
        patch = {"status": {"phase": "Running", "conditions": conditions}}
        await objects.patch(PODS, name, "merge", patch, namespace, subresource="status")
    else:
        return False
    return True


def _only_node(pod: Manifest) -> str:
    """The one that a DaemonSet has made it for."""
    affinity = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {})
    fields = [field for term in required.get("nodeSelectorTerms", ()) for field in term.get("matchFields", ())]
    return str(fields[0]["values"][0]) if fields else ""
