"""What the volumes of one shape of pods come down to: the claims, volumes, disks and attachments that decide its place.

A claim that keeps its pod from every node is found here, in the order in which kube-scheduler looks; whether a given
node will do is not. It depends on storage alone, never on nodes or on other pods.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

import msgspec

from allhands.model.pod_volume import Attachment, InlineVolume
from allhands.model.reason import Explanation, Reason, explain
from allhands.model.volume_migration import driver_of_provisioner

if TYPE_CHECKING:
    from allhands.model.shape import PodShape
    from allhands.model.volume import PersistentVolume, PersistentVolumeClaim, VolumeFacts

_EXCLUSIVE_KINDS: Final = frozenset(("awsElasticBlockStore", "gcePersistentDisk", "iscsi", "rbd"))
_YET_TO_BE_MADE: Final = "yet to be made: "
"""No handle of a driver is like this, so a claim without a volume is never taken for another one's volume."""


class VolumeProblem(enum.StrEnum):
    """What is wrong with a claim, or with a disk that the pod names itself; `problem` of the explanation."""

    MISSING = "it does not exist"
    NOT_MADE_YET = "it is not made for the pod yet"
    NOT_ITS_OWN = "it was not made for the pod"
    LOST = "its volume is lost"
    LEAVING = "it is being deleted"
    NO_BINDING_MODE = "its class does not say when to bind"
    NOT_BOUND = "it is not bound yet"
    BAD_SELECTOR = "its selector cannot be parsed"
    NO_VOLUME = "its volume does not exist"
    OUT_OF_REACH = "no node that it may use reaches its volume"
    NO_ROOM = "no free volume matches it and none can be made"
    ONE_POD_ONLY = "another pod uses it"
    TOO_MANY_ATTACHED = "no node can attach so many volumes"
    DISK_IN_USE = "other pods use the disk"


class BoundClaim(msgspec.Struct, frozen=True, gc=False):
    """`zoned`: the zone labels of its volume count. They do not for claims that were made for the pod."""

    key: str
    volume: PersistentVolume
    zoned: bool


class VolumeUse(msgspec.Struct, frozen=True, gc=False):
    """What a pod has once it is on a node, as far as it keeps others away."""

    for_one_pod: tuple[str, ...] = ()
    """Keys of claims that a single pod may use at a time."""
    attachments: tuple[tuple[Attachment, str], ...] = ()
    """None of them twice, each with the claim or disk that it comes from."""
    disks: tuple[InlineVolume, ...] = ()
    """Those that cannot be on a node together with certain others."""


NO_USE: Final = VolumeUse()


class VolumeNeeds(msgspec.Struct, frozen=True, gc=False):
    """What a pod asks for that is not on a node yet."""

    use: VolumeUse
    problem: Explanation | None = None
    """Then no node will do, and the rest is empty."""
    bound: tuple[BoundClaim, ...] = ()
    waiting: tuple[PersistentVolumeClaim, ...] = ()
    """Without a volume until a node is chosen; the smallest first, since it is served first."""


def use_of(shape: PodShape, facts: VolumeFacts) -> VolumeUse:
    """Claims that do not exist are passed over: what a pod that runs has cannot be known from them."""
    attachments: dict[Attachment, str] = {}
    for_one_pod = []
    for name in shape.claims:
        claim = facts.claims.get(f"{shape.namespace}/{name}")
        if claim is None:
            continue
        if claim.is_for_one_pod and name not in shape.ephemeral_claims:
            for_one_pod.append(claim.key)
        if (attached := _attachment(claim, facts)) is not None:
            attachments.setdefault(attached, claim.key)
    for disk in shape.volumes:
        if (attached := disk.attachment) is not None:
            attachments.setdefault(attached, disk_name(disk))
    if not (attachments or for_one_pod or shape.volumes):
        return NO_USE
    return VolumeUse(
        for_one_pod=tuple(for_one_pod),
        attachments=tuple(sorted(attachments.items())),
        disks=tuple(it for it in shape.volumes if it.kind in _EXCLUSIVE_KINDS) if shape.volumes else (),
    )


def needs_of(shape: PodShape, use: VolumeUse, facts: VolumeFacts) -> VolumeNeeds:
    bound: list[BoundClaim] = []
    waiting: list[PersistentVolumeClaim] = []
    for name in shape.claims:
        key, own = f"{shape.namespace}/{name}", name in shape.ephemeral_claims
        if (problem := claim_problem(key, facts, owner_uid=shape.pod_uid if own else None)) is not None:
            return VolumeNeeds(use, problem)
        claim = facts.claims[key]
        if claim.is_bound:
            bound.append(BoundClaim(key, facts.volumes[claim.volume_name], not own))
        else:
            waiting.append(claim)
    waiting.sort(key=lambda it: (it.request_bytes or 0, it.key))
    return VolumeNeeds(use, bound=tuple(bound), waiting=tuple(waiting))


def claim_problem(key: str, facts: VolumeFacts, *, owner_uid: str | None) -> Explanation | None:
    """Why no node will do for a pod with this claim. With `owner_uid`, it must have been made for that pod."""
    problem = _problem(facts.claims.get(key), facts, owner_uid=owner_uid)
    return None if problem is None else not_ready(key, problem)


def disk_name(disk: InlineVolume) -> str:
    return " ".join((disk.kind, *disk.source))


def not_ready(claim: str, problem: VolumeProblem) -> Explanation:
    return explain(Reason.VOLUME_NOT_READY, claim=claim, problem=problem.value)


def _problem(claim: PersistentVolumeClaim | None, facts: VolumeFacts, *, owner_uid: str | None) -> VolumeProblem | None:
    if claim is None:
        return VolumeProblem.MISSING if owner_uid is None else VolumeProblem.NOT_MADE_YET
    if claim.lost:
        return VolumeProblem.LOST
    if claim.deleting:
        return VolumeProblem.LEAVING
    if owner_uid is not None and claim.owner_uid != owner_uid:
        return VolumeProblem.NOT_ITS_OWN
    if claim.is_bound:
        return None if claim.volume_name in facts.volumes else VolumeProblem.NO_VOLUME
    storage_class = facts.classes.get(claim.class_name) if claim.class_name else None
    if storage_class is not None and not storage_class.binding_mode:
        return VolumeProblem.NO_BINDING_MODE
    # A claim that names its volume without being bound to it is the volume controller's business, as is any other
    # claim that need not wait for a pod.
    if storage_class is None or not storage_class.waits_for_consumer or claim.volume_name:
        return VolumeProblem.NOT_BOUND
    if claim.selected_node is None and claim.selector is not None and not claim.selector.is_valid:
        return VolumeProblem.BAD_SELECTOR
    return None


def _attachment(claim: PersistentVolumeClaim, facts: VolumeFacts) -> Attachment | None:
    """How a claim counts: as its volume, or, if it has none, as one more volume of the driver that will make it."""
    volume = facts.volumes.get(claim.volume_name) if claim.volume_name else None
    if volume is None:
        storage_class = facts.classes.get(claim.class_name) if claim.class_name else None
        driver = "" if storage_class is None else driver_of_provisioner(storage_class.provisioner)
        found = Attachment(driver, f"{_YET_TO_BE_MADE}{claim.key}")
    elif volume.attachment is None:
        return None
    else:
        found = volume.attachment
    return found if found.driver and found.handle else None
