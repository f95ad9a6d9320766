"""The claims of a StatefulSet's pods: made before the pod, kept for its next life, owned as the retention policy says.

An owner is what makes a claim go: the set, if claims are deleted with it, or the pod of a place that is given up. A
claim that somebody else manages is never touched, and none is ever deleted here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import msgspec

from allhands.lifecycle.changes import owner_reference
from allhands.lifecycle.instructions import Create, Patch
from allhands.lifecycle.observed import Metadata, OwnerReference
from allhands.lifecycle.ownership import owned_by
from allhands.lifecycle.volume_kinds import CLAIMS

if TYPE_CHECKING:
    from collections.abc import Callable

    from allhands.api.document import Manifest
    from allhands.lifecycle.ownership import Manager
    from allhands.lifecycle.stateful_set.kinds import StatefulSet


class KeptClaim(msgspec.Struct, frozen=True):
    """A claim: whose it is, and whether it goes."""

    metadata: Metadata = Metadata()


Find: TypeAlias = "Callable[[str], KeptClaim | None]"
"""Any claim of the set's namespace, by its name."""


def template_name(template: Manifest) -> str:
    return str((template.get("metadata") or {}).get("name") or "")


def claim_name(stateful: StatefulSet, template: Manifest, ordinal: int) -> str:
    return f"{template_name(template)}-{stateful.metadata.name}-{ordinal}"


def _all(stateful: StatefulSet, ordinal: int) -> list[tuple[str, Manifest]]:
    return [(claim_name(stateful, it, ordinal), it) for it in stateful.spec.claim_templates or ()]


def lacking(manager: Manager, stateful: StatefulSet, ordinal: int, find: Find) -> list[Create]:
    return [
        _creation(manager, stateful, name, template) for name, template in _all(stateful, ordinal) if find(name) is None
    ]


def _creation(manager: Manager, stateful: StatefulSet, name: str, template: Manifest) -> Create:
    namespace = stateful.metadata.namespace
    selected = (stateful.spec.selector or {}).get("matchLabels") or {}
    metadata: Manifest = {**(template.get("metadata") or {}), "name": name, "namespace": namespace}
    metadata["labels"] = {**(metadata.get("labels") or {}), **selected}
    if stateful.spec.retention.when_deleted == "Delete":
        metadata["ownerReferences"] = [manager.reference]
    manifest = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": template.get("spec") or {},
    }
    return Create(CLAIMS, namespace, manifest)


def in_the_way(stateful: StatefulSet, pod_name: str, ordinal: int, find: Find) -> str:
    """Why no pod can be made for this place as yet: the claim of its former life is still going. "" if it can."""
    for name, _ in _all(stateful, ordinal):
        claim = find(name)
        if claim is None:
            continue
        if claim.metadata.is_going:
            return f"pvc {name} is being deleted"
        owners = claim.metadata.owner_references or ()
        if stateful.spec.retention.when_scaled == "Delete" and any(_is_pod(it, pod_name) for it in owners):
            return f"pvc {name} goes with the former pod {pod_name}"
    return ""


def ownership(manager: Manager, stateful: StatefulSet, pod: Metadata, ordinal: int, find: Find) -> list[Patch]:
    """What makes the owners of a pod's claims those that the policy wants."""
    patches = []
    for name, _ in _all(stateful, ordinal):
        claim = find(name)
        owners = None if claim is None else _wanted_owners(manager, stateful, pod, ordinal, claim)
        if claim is not None and owners is not None:
            patches.append(owned_by(CLAIMS, claim.metadata, owners))
    return patches


def _wanted_owners(
    manager: Manager, stateful: StatefulSet, pod: Metadata, ordinal: int, claim: KeptClaim
) -> list[Manifest] | None:
    """None if they are right, or not ours to say."""
    present = claim.metadata.owner_references or ()
    set_uid = manager.metadata.uid
    ours = [it for it in present if _is_set(it, manager) or _is_pod(it, pod.name)]
    if any(it.uid not in (set_uid, pod.uid) for it in ours):
        return None  # of a set or a pod that had this name before: it goes with them
    others = [it for it in present if it not in ours]
    wanted = _wanted_owner(manager, stateful, pod, ordinal)
    if any(it.controller for it in others):
        wanted = None
    if [(it.uid, bool(it.controller)) for it in ours] == ([] if wanted is None else [(wanted["uid"], True)]):
        return None
    return [*map(msgspec.to_builtins, others), *([] if wanted is None else [wanted])]


def _wanted_owner(manager: Manager, stateful: StatefulSet, pod: Metadata, ordinal: int) -> Manifest | None:
    retention = stateful.spec.retention
    if retention.when_scaled == "Delete" and ordinal not in stateful.ordinals:
        return owner_reference("v1", "Pod", pod)
    return manager.reference if retention.when_deleted == "Delete" else None


def _is_set(reference: OwnerReference, manager: Manager) -> bool:
    named = (reference.api_version, reference.kind, reference.name)
    return named == (manager.api_version, manager.kind, manager.metadata.name)


def _is_pod(reference: OwnerReference, name: str) -> bool:
    return (reference.api_version, reference.kind, reference.name) == ("v1", "Pod", name)
