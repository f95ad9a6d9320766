"""What a pod that asks for other resources is told by its namespace and by its node.

The order is the real server's: limit ranges, what the node says it can do, how large it is. The pod itself has been
checked before; quotas are charged after. Nothing is changed here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from allhands.api.errors import StatusError, not_allowed
from allhands.model.pod_document import PodDocument
from allhands.model.pod_requests import effective_requests
from allhands.model.quantity import Quantity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allhands.api.document import Manifest
    from allhands.api.kinds import Kind
    from allhands.store.store import Store

_OF_INIT: Final = "InPlacePodVerticalScalingInitContainers"
_OF_WHOLE: Final = "InPlacePodLevelResourcesVerticalScaling"


def admit_resize(store: Store, kind: Kind, new: Manifest, old: Manifest) -> None:
    """Refuses what the pod may not have where it is."""
    if new["metadata"]["namespace"] in store.limited:
        store.limits.check_ranges(kind, new)
    name = new["spec"].get("nodeName", "")
    if not name or new["metadata"].get("generation") == old["metadata"].get("generation"):
        return
    node = store.lookup.manifest("", "nodes", "", name)
    if node is None:
        raise _refused(new, f'node "{name}" not found')
    able = node.get("status", {}).get("declaredFeatures", ())
    lacking = [feature for feature in _needed(new["spec"], old["spec"]) if feature not in able]
    if lacking:
        why = f'pod update requires features {", ".join(lacking)} which are not available on node "{name}"'
        raise _refused(new, why)
    system = node["metadata"].get("labels", {}).get("kubernetes.io/os", "linux")
    if system != "linux":
        why = f'pod resize is only supported on linux nodes, node "{name}" is "{system}"'
        raise _refused(new, why, "UnsupportedPlatform")
    excess = "; ".join(_excess(new["spec"], node.get("status", {}).get("allocatable", {})))
    if excess:
        raise _refused(new, f"node didn't have enough allocatable resources: {excess}", "NodeCapacity")


def _needed(spec: Manifest, before: Manifest) -> Iterator[str]:
    """What the node must have said that it can do."""
    pairs = zip(spec.get("initContainers", ()), before.get("initContainers", ()), strict=True)
    if any(it.get("restartPolicy") != "Always" and it.get("resources") != was.get("resources") for it, was in pairs):
        yield _OF_INIT
    if spec.get("resources") != before.get("resources"):
        yield _OF_WHOLE


def _excess(spec: Manifest, allocatable: dict[str, str]) -> Iterator[str]:
    wanted = effective_requests(msgspec.convert({"metadata": {}, "spec": spec}, PodDocument)).to_quantities()
    for name, shown in (("cpu", Quantity.milli_value), ("memory", Quantity.value)):
        asked, room = Quantity.parse(wanted.get(name, "0")), Quantity.parse(allocatable.get(name, "0"))
        if asked > room:
            yield f"{name}, requested: {shown(asked)}, allocatable: {shown(room)}"


def _refused(pod: Manifest, why: str, cause: str = "") -> StatusError:
    refusal = not_allowed("", "pods", pod["metadata"].get("name", ""), why)
    if not cause:
        return refusal
    details = {**(refusal.details or {}), "causes": [{"reason": cause}]}
    return StatusError(refusal.code, refusal.reason, refusal.message, details)
