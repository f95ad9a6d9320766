"""Random pods that are in the cluster already: bound ones, some ending or ended, and ones another scheduler nominated.

They decide what is left for the unbound pods; nothing here keeps a node within its room, as nothing does in real life.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.judge.landscape import GPU, LONG_AGO
from tests.judge.parts import (
    PRIORITY_CLASSES,
    RUNTIME_OVERHEAD,
    container,
    host_ports,
    large_requests,
    pod,
    pod_term,
    small_requests,
    weighted,
)
from tests.judge.volumes import KINDS, csi_claim, inline_disk, private_claim, shared_claim

if TYPE_CHECKING:
    from tests.judge.landscape import Landscape

Manifest = dict[str, Any]

HOLD = "example.com/hold"
"""Keeps the judge from trying a nominated pod itself; a nomination counts nevertheless."""


def bound_pods(land: Landscape, count: int) -> list[Manifest]:
    return [_bound_pod(land, f"bound-{number}") for number in range(count)]


def nominated_pods(land: Landscape, count: int) -> list[Manifest]:
    """Unbound pods of another scheduler, with a node in their status that counts as theirs for equals and inferiors."""
    return [_nominated_pod(land, f"nominated-{number}") for number in range(count)]


def _bound_pod(land: Landscape, name: str) -> Manifest:
    node = land.one_of(land.node_names) if land.likely(0.97) else "vanished"
    manifest = pod(land, name, nodeName=node)
    _fill(land, manifest)
    spec, fate = manifest["spec"], land.chance.random()
    if fate < 0.06:
        manifest["metadata"]["deletionTimestamp"] = LONG_AGO
    elif fate < 0.12:
        manifest["status"] = {"phase": land.one_of(("Succeeded", "Failed"))}
    elif fate < 0.2 and spec["containers"][0].get("resources"):
        manifest["status"] = _resized(land, spec["containers"][0])
    return manifest


def _nominated_pod(land: Landscape, name: str) -> Manifest:
    manifest = pod(land, name, schedulerName="rival", schedulingGates=[{"name": HOLD}])
    if land.likely(0.6):
        _fill(land, manifest)
    else:
        _keep_away(land, manifest["spec"])
    manifest["spec"]["priorityClassName"] = land.one_of(("bottom", "middle", "top"))
    manifest["status"] = {"nominatedNodeName": land.one_of(land.node_names)}
    return manifest


def _fill(land: Landscape, manifest: Manifest) -> None:
    """Requests, ports, volumes and terms, each with a small chance."""
    spec, namespace = manifest["spec"], manifest["metadata"]["namespace"]
    if land.likely(0.3):
        spec["containers"] = [container(land, "main", large_requests(land))]
    if land.likely(0.1):
        requests = {GPU: land.one_of(("1", "2")), "cpu": "100m"}
        spec["containers"].append(container(land, "gpu", requests))
    if land.likely(0.1):
        sidecar = container(land, "sidecar", {"cpu": "200m", "memory": "128Mi"}, restartPolicy="Always")
        spec["initContainers"] = [sidecar, container(land, "init", large_requests(land))]
    if land.likely(0.1):
        spec["runtimeClassName"] = land.one_of(tuple(RUNTIME_OVERHEAD))
    if land.likely(0.3):
        spec["containers"][0]["ports"] = host_ports(land)
        spec["hostNetwork"] = land.likely(0.1)
    if land.likely(0.3):
        spec["priorityClassName"] = land.one_of(tuple(PRIORITY_CLASSES))
    if land.likely(0.2):
        _keep_away(land, spec)
    elif land.likely(0.1):
        preferred = [weighted(land, pod_term(land))]
        spec["affinity"] = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    if land.likely(0.25):
        make = land.one_of((csi_claim, csi_claim, csi_claim, private_claim, inline_disk, *KINDS))
        shared = shared_claim(land, namespace) if land.likely(0.2) else None
        spec["volumes"] = [shared or make(land, namespace)]


def _keep_away(land: Landscape, spec: Manifest) -> None:
    required = [pod_term(land, wide=land.likely(0.4)) for _ in range(1 + land.likely(0.2))]
    spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def _resized(land: Landscape, running: Manifest) -> Manifest:
    """The node has another size in force than the spec asks for."""
    actual = small_requests(land) or large_requests(land)
    state = {
        "name": running["name"],
        "image": running["image"],
        "imageID": "",
        "ready": True,
        "restartCount": 0,
        "resources": {"requests": actual},
        "allocatedResources": actual,
    }
    status: Manifest = {"phase": "Running", "containerStatuses": [state]}
    if land.likely(0.5):
        condition = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
        status["conditions"] = [condition]
    return status
