"""The PodGroup of pods that nobody made one for: plain pods, and those of ReplicaSets, StatefulSets and batch/v1 Jobs.

As Volcano's users know it: one group for all pods of an owner, called after its uid, with the minimum that the owner's
annotation says. Pods that are in a group already are never touched, and no group is made before its owner was seen: it
might ask for more than one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from allhands.api.kinds import Resource
from allhands.api.volcano.budget_rules import MAX_UNAVAILABLE, MIN_AVAILABLE
from allhands.api.volcano.podgroup import POD_GROUP
from allhands.api.volcano.workloads import MIN_MEMBER, OWNERS, MinMemberError, group_name, least_of, min_member_of
from allhands.lifecycle.changes import merge_patch, object_reference, owner_reference
from allhands.lifecycle.instructions import NOTHING_TO_DO, Create, Delete, Outcome, Patch, Record
from allhands.lifecycle.observed import NO_LABELS, Metadata
from allhands.lifecycle.volcano_job.names import (
    COOLDOWN,
    GROUP_NAME,
    POD_GROUPS,
    PODS,
    PREEMPTABLE,
    REVOCABLE_ZONE,
)
from allhands.model.pod_document import PodDocument
from allhands.model.pod_requests import effective_requests

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from allhands.api.document import Manifest
    from allhands.lifecycle.instructions import Instruction
    from allhands.lifecycle.observed import OwnerReference

QUEUE_NAMES: Final = ("allhands.dev/queue", "scheduling.volcano.sh/queue-name")
OUR_MINIMUM: Final = "allhands.dev/min-available"
"""On a Job: it is a gang without any PodGroup."""
INHERITED: Final = "volcano.sh/"
TOPOLOGY_MODE: Final = "volcano.sh/network-topology-mode"
TOPOLOGY_TIER: Final = "volcano.sh/network-topology-highest-tier"
_FROM_POD: Final = (PREEMPTABLE, COOLDOWN, REVOCABLE_ZONE)
_LABELS_FROM_POD: Final = (PREEMPTABLE, COOLDOWN)
REPLICA_SETS: Final = Resource("apps", "v1", "replicasets")
STATEFUL_SETS: Final = Resource("apps", "v1", "statefulsets")
JOBS: Final = Resource("batch", "v1", "jobs")


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    priority_class_name: str = ""


class _Status(msgspec.Struct, frozen=True):
    phase: str = "Pending"


class WorkloadPod(msgspec.Struct, frozen=True):
    """A pod as it counts here. `group`: the PodGroup that it is in, of whatever kind; `raw`: all that it says."""

    metadata: Metadata = Metadata()
    spec: _Spec = _Spec()
    status: _Status = _Status()
    group: str = ""
    raw: bytes = b""

    @property
    def needs_group(self) -> bool:
        return not self.group and self.is_alive

    @property
    def is_alive(self) -> bool:
        return not self.metadata.is_going and self.status.phase not in ("Succeeded", "Failed")


class _OwnerSpec(msgspec.Struct, frozen=True):
    replicas: int | None = None
    parallelism: int | None = None
    completions: int | None = None


class Workload(msgspec.Struct, frozen=True):
    """A ReplicaSet, StatefulSet or Job, as its group sees it. Jobs have no `replicas`, and others nothing else."""

    metadata: Metadata = Metadata()
    spec: _OwnerSpec = _OwnerSpec()
    api_version: str = msgspec.field(default="", name="apiVersion")
    kind: str = ""

    @property
    def most_at_once(self) -> int | None:
        """How many pods it wants at the moment. Those of a Job that have succeeded still count for their group, so
        what is left to do is no limit of its own. None: it does not say."""
        named = (self.spec.replicas, self.spec.parallelism, self.spec.completions)
        return min((it for it in named if it is not None), default=None)

    @property
    def is_empty(self) -> bool:
        return self.kind != "Job" and self.spec.replicas == 0


class WorkloadGroup(msgspec.Struct, frozen=True):
    """A PodGroup: what of it may have to be told anew."""

    metadata: Metadata = Metadata()
    spec: dict[str, object] = {}


def group_of(pod: Metadata) -> str:
    """What the group of a pod is called."""
    controller = pod.controller
    return group_name(pod.uid if controller is None else controller.uid)


def _is_asked(reference: OwnerReference | None) -> bool:
    """Whether the owner's annotations count."""
    return reference is not None and (reference.api_version.partition("/")[0], reference.kind) in OWNERS


def reconcile(
    pods: Sequence[WorkloadPod],
    owner: Workload | None,
    group: WorkloadGroup | None,
    *,
    refused: str = "",
    in_gang_queue: bool = False,
) -> Outcome:
    """`pods`: all of one owner, and no others; `in_gang_queue`: Jobs there are gangs by themselves; `refused`: what the
    server said to the last attempt."""
    alive = [pod for pod in pods if pod.is_alive]
    if not alive:
        return _without_pods(pods, owner, group)
    reference = alive[0].metadata.controller
    if owner is None and _is_asked(reference):
        return NOTHING_TO_DO
    if owner is not None and owner.kind == "Job" and _is_gang_of_ours(owner, in_gang_queue=in_gang_queue):
        return NOTHING_TO_DO
    instructions: list[Instruction] = []
    example = max(alive, key=lambda it: (it.metadata.created_seconds, it.metadata.name))
    name = group_of(example.metadata)
    waiting = [pod for pod in alive if pod.needs_group]
    spec = _spec(example, owner)
    if group is None:
        if not waiting:
            return NOTHING_TO_DO
        instructions += _complaints(example, owner, refused)
        instructions.append(_new_group(name, example, owner, spec))
    elif patch := _changes(group, spec):
        instructions += _complaints(example, owner, refused)
        instructions.append(patch)
    instructions += [_joining(pod, name) for pod in waiting]
    return Outcome(tuple(instructions))


def _without_pods(pods: Sequence[WorkloadPod], owner: Workload | None, group: WorkloadGroup | None) -> Outcome:
    """A ReplicaSet that is kept only to be gone back to has no group."""
    if pods or group is None or owner is None or not owner.is_empty or group.metadata.is_going:
        return NOTHING_TO_DO
    manager = group.metadata.controller
    if manager is None or manager.uid != owner.metadata.uid:
        return NOTHING_TO_DO
    found = group.metadata
    return Outcome((Delete(POD_GROUPS, found.namespace, found.name, uid=found.uid),))


def _is_gang_of_ours(owner: Workload, *, in_gang_queue: bool) -> bool:
    """Unless its owner asks for a group of Volcano's."""
    annotations = owner.metadata.annotations or NO_LABELS
    return OUR_MINIMUM in annotations or (in_gang_queue and MIN_MEMBER not in annotations)


def _complaints(pod: WorkloadPod, owner: Workload | None, refused: str) -> list[Instruction]:
    found: list[Instruction] = []
    whose = _reference(pod, owner)
    if owner is not None:
        try:
            min_member_of(owner.metadata.annotations)
        except MinMemberError as error:
            message = f"{error}; the pods start one by one"
            found.append(Record(whose, "Warning", "InvalidAnnotation", message))
    if refused:
        found.append(Record(whose, "Warning", "PodGroupRefused", refused))
    return found


def _reference(pod: WorkloadPod, owner: Workload | None) -> Manifest:
    if owner is None:
        return object_reference("v1", "Pod", pod.metadata)
    api_version = owner.api_version or ("batch/v1" if owner.kind == "Job" else "apps/v1")
    return object_reference(api_version, owner.kind, owner.metadata)


def _new_group(name: str, pod: WorkloadPod, owner: Workload | None, spec: Manifest) -> Create:
    meta = pod.metadata
    metadata: Manifest = {
        "name": name,
        "namespace": meta.namespace,
        "annotations": _annotations(pod, owner),
        "ownerReferences": _owner_references(pod),
    }
    if labels := {key: meta.label(key) for key in _LABELS_FROM_POD if meta.label(key)}:
        metadata["labels"] = labels
    manifest = {"apiVersion": POD_GROUPS.api_version, "kind": POD_GROUP.kind, "metadata": metadata, "spec": spec}
    return Create(POD_GROUPS, meta.namespace, manifest, unless_there=True)


def _owner_references(pod: WorkloadPod) -> list[Manifest]:
    """Those of the pods; a plain pod owns its group itself."""
    if pod.metadata.controller is None:
        return [owner_reference("v1", "Pod", pod.metadata)]
    found: list[Manifest] = msgspec.json.decode(pod.raw)["metadata"]["ownerReferences"]
    return found


def _annotations(pod: WorkloadPod, owner: Workload | None) -> dict[str, str]:
    """Of the owner what is Volcano's; of the pod what is about the group."""
    above = {} if owner is None else owner.metadata.annotations or {}
    found = {key: text for key, text in above.items() if key.startswith(INHERITED)}
    own = pod.metadata.annotations or NO_LABELS
    found |= {key: own[key] for key in _FROM_POD if key in own}
    for key in (MIN_AVAILABLE, MAX_UNAVAILABLE):
        if key in own:
            found[key] = own[key]
            break
    return found


def _spec(pod: WorkloadPod, owner: Workload | None) -> Manifest:
    above = NO_LABELS if owner is None else owner.metadata.annotations or NO_LABELS
    own = pod.metadata.annotations or NO_LABELS
    least = _least(owner)
    spec: Manifest = {"minMember": least}
    if queue := next((it[key] for it in (own, above) for key in QUEUE_NAMES if it.get(key)), ""):
        spec["queue"] = queue
    if pod.spec.priority_class_name:
        spec["priorityClassName"] = pod.spec.priority_class_name
    total = effective_requests(_documents.decode(pod.raw)) * least
    if resources := {name: text for name, text in total.to_quantities().items() if total[name]}:
        spec["minResources"] = resources
    if topology := _topology(own):
        spec["networkTopology"] = topology
    return spec


def _least(owner: Workload | None) -> int:
    """Never more than its owner wants at the moment: a Deployment that is rolled out brings the new pods in few by few,
    and would wait for ever for the first of them; so would a Job of which fewer pods run side by side."""
    if owner is None:
        return 1
    least, most = least_of(owner.metadata.annotations), owner.most_at_once
    return least if most is None else min(least, max(1, most))


_documents: Final = msgspec.json.Decoder(PodDocument)


def _topology(annotations: Mapping[str, str]) -> Manifest:
    """What makes no sense in it is the server's to refuse, with the path of the field."""
    mode, tier = annotations.get(TOPOLOGY_MODE), annotations.get(TOPOLOGY_TIER)
    if mode is None and tier is None:
        return {}
    found: Manifest = {"mode": (mode or "hard").lower()}
    if tier is not None:
        found["highestTierAllowed"] = int(tier) if tier.isascii() and tier.isdigit() else tier
    return found


_KEPT_UP: Final = ("minMember", "minResources", "priorityClassName")
"""What follows the owner; the queue and all else are as somebody has set them since."""


def _changes(group: WorkloadGroup, wanted: Manifest) -> Patch | None:
    patch = merge_patch({it: group.spec.get(it) for it in _KEPT_UP}, {it: wanted.get(it) for it in _KEPT_UP})
    if not patch or group.metadata.is_going:
        return None
    meta = group.metadata
    return Patch(POD_GROUPS, meta.namespace, meta.name, {"metadata": {"uid": meta.uid}, "spec": patch})


def _joining(pod: WorkloadPod, group: str) -> Patch:
    meta = pod.metadata
    patch: Manifest = {"metadata": {"uid": meta.uid, "annotations": {GROUP_NAME: group}}}
    return Patch(PODS, meta.namespace, meta.name, patch)
