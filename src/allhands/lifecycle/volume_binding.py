"""Brings claims and volumes together: finds a volume for a claim, or makes one, and gives up those that are left over.

The volume is reserved first and the claim follows at the next look, so two claims can never hold one volume. A volume
made for a claim is named after it, so it is never made twice. What somebody else has made is never deleted.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Literal

from allhands.api.document import Manifest
from allhands.lifecycle.changes import merge_patch, object_reference
from allhands.lifecycle.instructions import NOTHING_TO_DO, Create, Delete, Instruction, Outcome, Patch, Record
from allhands.lifecycle.volume_kinds import (
    BOUND_BY_CONTROLLER,
    CLAIMS,
    PROVISIONED_BY,
    VOLUMES,
    Claim,
    StorageClass,
    Volume,
)
from allhands.model.volume import BIND_COMPLETED, NO_PROVISIONER, STORAGE

PROVISIONER: Final = "allhands.dev/host-path"
MISSING_SECONDS: Final = 5.0
"""So long a claim may be unseen before its volume counts as left over: the volume may have been seen first."""
HOSTNAME: Final = "kubernetes.io/hostname"
_PROVISIONER_NOTE: Final = "volume.kubernetes.io/storage-provisioner"


def reconcile_claim(
    claim: Claim,
    volumes: Iterable[Volume],
    find: Callable[[str], Volume | None],
    storage_class: StorageClass | None,
    labels_of_node: Callable[[str], Mapping[str, str] | None],
    folder: str,
) -> Outcome:
    """`volumes` are those of its class and those kept for it; `find` gives any by its name.

    `folder` is where the volumes that are made here are kept.
    """
    if claim.metadata.is_going:
        return NOTHING_TO_DO
    if claim.spec.volume_name:
        return _named(claim, find(claim.spec.volume_name))
    everyone = sorted(volumes, key=lambda it: (it.capacity_bytes, it.metadata.name))
    kept = next((it for it in everyone if it.is_kept_for(claim)), None)
    if kept is not None:
        return _follow(claim, kept)
    if storage_class is not None and storage_class.waits_for_consumer and not claim.selected_node:
        text = "waiting for first consumer to be created before binding"
        return _waiting(claim, "WaitForFirstConsumer", text)
    node_labels = labels_of_node(claim.selected_node) if claim.selected_node else None
    if claim.selected_node and node_labels is None:
        return _waiting(claim, "ProvisioningFailed", f'node "{claim.selected_node}" not found', warning=True)
    free = next((it for it in everyone if it.spec.claim_ref is None and it.suits(claim, node_labels)), None)
    if free is not None:
        return Outcome((_reserve(free, claim),))
    return _provide(claim, storage_class, node_labels, folder)


# -- a claim that has its volume, or names it


def _named(claim: Claim, volume: Volume | None) -> Outcome:
    name = claim.spec.volume_name
    if volume is None:
        if claim.is_complete:
            return _lost(claim, f'Bound claim has lost its PersistentVolume "{name}". Data on the volume is lost!')
        return _waiting(claim, "FailedBinding", f'volume "{name}" does not exist', warning=True)
    if volume.spec.claim_ref is None:
        return Outcome((_reserve(volume, claim),))
    if not volume.is_kept_for(claim):
        if claim.is_complete:
            return _lost(claim, "Bound claim has lost its PersistentVolume: it is bound to another claim")
        return _waiting(claim, "FailedBinding", f'volume "{name}" already bound to a different claim.', warning=True)
    return _follow(claim, volume)


def _follow(claim: Claim, volume: Volume) -> Outcome:
    """The volume is the claim's; now the claim says so too, and what it got."""
    reference = volume.spec.claim_ref
    if reference is not None and not reference.uid:
        return Outcome((_reserve(volume, claim),))
    metadata = claim.metadata
    instructions: list[Instruction] = []
    body: Manifest = {}
    if not claim.spec.volume_name:
        body["spec"] = {"volumeName": volume.metadata.name}
        body["metadata"] = {"annotations": {BOUND_BY_CONTROLLER: "yes"}}
    if not claim.is_complete:
        annotations = body.setdefault("metadata", {}).setdefault("annotations", {})
        annotations[BIND_COMPLETED] = "yes"
    if body:
        instructions.append(Patch(CLAIMS, metadata.namespace, metadata.name, body, version=metadata.resource_version))
    status = {
        **claim.status,
        "phase": "Bound",
        "accessModes": list(volume.spec.access_modes or ()),
        "capacity": {**(claim.status.get("capacity") or {}), STORAGE: (volume.spec.capacity or {}).get(STORAGE)},
    }
    if patch := merge_patch(claim.status, status):
        instructions.append(Patch(CLAIMS, metadata.namespace, metadata.name, {"status": patch}, "status"))
    return Outcome(tuple(instructions))


def _reserve(volume: Volume, claim: Claim) -> Patch:
    metadata, reference = volume.metadata, volume.spec.claim_ref
    body: Manifest = {"spec": {"claimRef": _claim_reference(claim)}}
    if reference is None:
        body["metadata"] = {"annotations": {BOUND_BY_CONTROLLER: "yes"}}
    return Patch(VOLUMES, "", metadata.name, body, version=metadata.resource_version)


def _claim_reference(claim: Claim) -> Manifest:
    return object_reference("v1", "PersistentVolumeClaim", claim.metadata)


def _lost(claim: Claim, message: str) -> Outcome:
    if claim.status.get("phase") == "Lost":
        return NOTHING_TO_DO
    metadata = claim.metadata
    patch = {"status": {"phase": "Lost", "accessModes": None, "capacity": None}}
    return Outcome(
        (
            Patch(CLAIMS, metadata.namespace, metadata.name, patch, "status"),
            _event(claim, "Warning", "ClaimLost", message),
        )
    )


def _waiting(claim: Claim, reason: str, message: str, *, warning: bool = False) -> Outcome:
    return Outcome((*_pending(claim), _event(claim, "Warning" if warning else "Normal", reason, message)))


def _pending(claim: Claim) -> list[Instruction]:
    if claim.status.get("phase") == "Pending":
        return []
    metadata = claim.metadata
    return [Patch(CLAIMS, metadata.namespace, metadata.name, {"status": {"phase": "Pending"}}, "status")]


def _event(claim: Claim, type: Literal["Normal", "Warning"], reason: str, message: str) -> Record:
    return Record(_claim_reference(claim), type, reason, message)


# -- a claim that needs a new volume


def _provide(
    claim: Claim, storage_class: StorageClass | None, node_labels: Mapping[str, str] | None, folder: str
) -> Outcome:
    if not claim.class_name:
        text = "no persistent volumes available for this claim and no storage class is set"
        return _waiting(claim, "FailedBinding", text)
    if storage_class is None:
        text = f'storageclass.storage.k8s.io "{claim.class_name}" not found'
        return _waiting(claim, "ProvisioningFailed", text, warning=True)
    provisioner = storage_class.provisioner
    if provisioner in ("", NO_PROVISIONER):
        return _waiting(claim, "FailedBinding", "no persistent volumes available for this claim", warning=True)
    noted = claim.metadata.annotation(_PROVISIONER_NOTE)
    note: list[Instruction] = []
    if noted != provisioner:
        body = {"metadata": {"annotations": {_PROVISIONER_NOTE: provisioner}}}
        note = [Patch(CLAIMS, claim.metadata.namespace, claim.metadata.name, body)]
    if provisioner != PROVISIONER:
        text = (
            f"Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by "
            "the system administrator. If volume creation is delayed, please verify that the provisioner is running "
            "and correctly registered."
        )
        return Outcome((*note, *_pending(claim), _event(claim, "Normal", "ExternalProvisioning", text)))
    if claim.spec.selector is not None:
        text = "a claim with a selector cannot be provisioned: volumes that are made for it carry no labels"
        return _waiting(claim, "ProvisioningFailed", text, warning=True)
    creation = Create(VOLUMES, "", _volume(claim, storage_class, node_labels, folder))
    told = _event(claim, "Normal", "ProvisioningSucceeded", f"Successfully provisioned volume {volume_name(claim)}")
    return Outcome((*note, creation, told))


def volume_name(claim: Claim) -> str:
    return f"pvc-{claim.metadata.uid}"


def _volume(claim: Claim, storage_class: StorageClass, node_labels: Mapping[str, str] | None, folder: str) -> Manifest:
    name = volume_name(claim)
    requests = (claim.spec.resources.requests if claim.spec.resources else None) or {}
    spec: Manifest = {
        "capacity": {STORAGE: requests.get(STORAGE, "0")},
        "accessModes": list(claim.spec.access_modes or ()),
        "storageClassName": claim.class_name,
        "persistentVolumeReclaimPolicy": storage_class.reclaim_policy or "Delete",
        "volumeMode": claim.spec.volume_mode or "Filesystem",
        "claimRef": _claim_reference(claim),
        "hostPath": {"path": f"{folder.rstrip('/')}/{name}", "type": "DirectoryOrCreate"},
    }
    if storage_class.mount_options:
        spec["mountOptions"] = list(storage_class.mount_options)
    host = (node_labels or {}).get(HOSTNAME)
    if host:
        expression = {"key": HOSTNAME, "operator": "In", "values": [host]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    metadata = {"name": name, "annotations": {PROVISIONED_BY: PROVISIONER}}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec}


# -- volumes


def reconcile_volume(volume: Volume, claim: Claim | None, missing_seconds: float, now_seconds: float) -> Outcome:
    """`claim` is the one of the name that the volume is kept for, unseen for so many seconds if it is None."""
    reference = volume.spec.claim_ref
    if reference is None or not reference.uid:
        return _phase(volume, "Available")
    if claim is not None and claim.metadata.uid == reference.uid:
        if claim.spec.volume_name == volume.metadata.name:
            return _phase(volume, "Bound")
        if not claim.spec.volume_name:
            return _phase(volume, "Available") if not volume.phase else NOTHING_TO_DO
        return _free(volume)
    if missing_seconds < MISSING_SECONDS:
        return Outcome((), now_seconds + MISSING_SECONDS - missing_seconds)
    released = _phase(volume, "Released")
    is_ours = volume.metadata.annotation(PROVISIONED_BY) == PROVISIONER
    if is_ours and volume.spec.persistent_volume_reclaim_policy == "Delete" and not volume.metadata.is_going:
        gone = Delete(VOLUMES, "", volume.metadata.name, volume.metadata.uid)
        return Outcome((*released.instructions, gone))
    return released


def _phase(volume: Volume, phase: str) -> Outcome:
    if volume.phase == phase:
        return NOTHING_TO_DO
    return Outcome((Patch(VOLUMES, "", volume.metadata.name, {"status": {"phase": phase}}, "status"),))


def _free(volume: Volume) -> Outcome:
    """The claim took another one. What we reserved is free again; what a user reserved stays so, by name."""
    metadata = volume.metadata
    if metadata.annotation(PROVISIONED_BY) == PROVISIONER:
        return Outcome((Delete(VOLUMES, "", metadata.name, metadata.uid),))
    if metadata.annotation(BOUND_BY_CONTROLLER):
        body: Manifest = {"spec": {"claimRef": None}, "metadata": {"annotations": {BOUND_BY_CONTROLLER: None}}}
    else:
        body = {"spec": {"claimRef": {"uid": None, "resourceVersion": None}}}
    return Outcome((Patch(VOLUMES, "", metadata.name, body, version=metadata.resource_version),))
