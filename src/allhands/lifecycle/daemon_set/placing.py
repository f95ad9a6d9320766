"""On which nodes the pods of a DaemonSet belong, and how each is bound to its own.

Who binds them is the scheduler, as any other pod; a pod only says which one node it is for. Being cordoned or ill does
not keep them away: they are what looks after such nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from allhands.lifecycle.controller_revision import HASH_LABEL
from allhands.lifecycle.daemon_set.kinds import GENERATION_LABEL
from allhands.model.affinity import NAME_FIELD
from allhands.model.affinity_document import AffinityDocument, node_affinity_of
from allhands.model.node import Taint, TaintEffect, Toleration

if TYPE_CHECKING:
    from allhands.api.document import Json, Manifest
    from allhands.lifecycle.daemon_set.kinds import DaemonNode, DaemonSet
    from allhands.lifecycle.ownership import Manager

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_ALWAYS_TOLERATED: Final = (
    ("node.kubernetes.io/not-ready", TaintEffect.NO_EXECUTE),
    ("node.kubernetes.io/unreachable", TaintEffect.NO_EXECUTE),
    ("node.kubernetes.io/disk-pressure", TaintEffect.NO_SCHEDULE),
    ("node.kubernetes.io/memory-pressure", TaintEffect.NO_SCHEDULE),
    ("node.kubernetes.io/pid-pressure", TaintEffect.NO_SCHEDULE),
    ("node.kubernetes.io/unschedulable", TaintEffect.NO_SCHEDULE),
)
_ON_HOST_NETWORK: Final = ("node.kubernetes.io/network-unavailable", TaintEffect.NO_SCHEDULE)


class _Wishes(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of a pod's spec that say where it may run."""

    node_name: str = ""
    node_selector: dict[str, str] | None = None
    affinity: AffinityDocument | None = None
    tolerations: tuple[Toleration, ...] | None = None


class Places:
    """Where the pods of one template may be."""

    def __init__(self, spec: Manifest) -> None:
        wishes = msgspec.convert({**spec, "tolerations": tolerations(spec)}, _Wishes)
        self._node_name = wishes.node_name
        self._selector = (wishes.node_selector or {}).items()
        self._affinity = node_affinity_of(wishes.affinity)
        self._tolerations = wishes.tolerations or ()

    def verdict(self, node: DaemonNode) -> tuple[bool, bool]:
        """Whether a pod should run there, and whether one that does may stay."""
        if self._node_name not in ("", node.name):
            return False, False
        if not (self._selector <= node.labels.items() and self._affinity.matches(node.labels, node.name)):
            return False, False
        hated = [it.effect for it in node.taints if it.repels and not self._tolerates(it)]
        return not hated, TaintEffect.NO_EXECUTE not in hated

    def _tolerates(self, taint: Taint) -> bool:
        return any(it.tolerates(taint) for it in self._tolerations)


def tolerations(spec: Manifest) -> list[Manifest]:
    """Those of the template, and what every daemon bears, for as long as it lasts."""
    found: list[Manifest] = list(spec.get("tolerations") or ())
    borne = (*_ALWAYS_TOLERATED, _ON_HOST_NETWORK) if spec.get("hostNetwork") else _ALWAYS_TOLERATED
    for key, effect in borne:
        wanted: Manifest = {"key": key, "operator": "Exists", "effect": effect.value}
        same = [index for index, it in enumerate(found) if {**it, "tolerationSeconds": None} == _unlimited(wanted)]
        for index in same:
            found[index] = wanted
        if not same:
            found.append(wanted)
    return found


def _unlimited(toleration: Manifest) -> Manifest:
    return {**toleration, "tolerationSeconds": None}


def new_pod(manager: Manager, daemon: DaemonSet, digest: str, node: str) -> Manifest:
    template = daemon.spec.template
    labels = {**template.labels, HASH_LABEL: digest}
    if generation := daemon.template_generation:
        labels[GENERATION_LABEL] = generation
    metadata: Manifest = {
        "generateName": f"{daemon.metadata.name}-",
        "labels": labels,
        "ownerReferences": [manager.reference],
    }
    for field in ("annotations", "finalizers"):
        if template.metadata.get(field):
            metadata[field] = template.metadata[field]
    spec: Manifest = {
        **template.spec,
        "tolerations": tolerations(template.spec),
        "affinity": _affinity(template.spec.get("affinity"), node),
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _affinity(affinity: Json, node: str) -> Manifest:
    """What the template requires of nodes was asked already; now it is this one."""
    whole: Manifest = dict(affinity) if isinstance(affinity, dict) else {}
    field = {"key": NAME_FIELD, "operator": "In", "values": [node]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {**whole, "nodeAffinity": {**(whole.get("nodeAffinity") or {}), _REQUIRED: required}}
