"""Objects for the views, written as the API shows them, with as little as a test needs to say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from allhands.dialects.annotations import SCHEDULING
from allhands.dialects.hyper_nodes import HyperNodeRecord, read_hyper_node
from allhands.dialects.scheduling_record import record_text
from allhands.model.group_status import GroupStatus, Said
from allhands.model.time_text import utc_text
from allhands.views import picture as seeing
from allhands.views.picture import EventSeen, JobSeen, Picture, PodGroupSeen, PodSeen, QueueSeen

if TYPE_CHECKING:
    from allhands.dialects.group_kinds import GroupKind
    from allhands.model.reason import Explanation

NOW = 1_800_000_000
CREATED = NOW - 100


def raw(document: dict[str, Any]) -> bytes:
    return msgspec.json.encode(document)


def said(explanation: Explanation, expected: int | None = None, **more: Any) -> dict[str, str]:
    """The annotation in which the scheduler keeps what it said."""
    return {SCHEDULING: record_text(GroupStatus(said=Said(explanation, expected), **more))}


def _metadata(name: str, annotations: dict[str, str] | None, created: int = CREATED) -> dict[str, Any]:
    return {
        "name": name,
        "namespace": "default",
        "uid": f"uid-{name}",
        "annotations": annotations,
        "creationTimestamp": utc_text(created),
    }


def job(
    name: str,
    *,
    size: int = 2,
    completions: int | None = None,
    gang: bool = True,
    annotations: dict[str, str] | None = None,
    status: dict[str, Any] | None = None,
    spec: dict[str, Any] | None = None,
) -> JobSeen:
    more = {"allhands.dev/min-available": "all"} if gang else {}
    document = {
        "metadata": _metadata(name, more | (annotations or {})),
        "spec": {"parallelism": size, "completions": completions, **(spec or {})},
        "status": status or {},
    }
    return seeing.see_job(raw(document))


def ended(kind: str, at: int, **more: str) -> dict[str, Any]:
    condition = {"type": kind, "status": "True", "lastTransitionTime": utc_text(at), **more}
    return {"conditions": [condition], "startTime": utc_text(CREATED)}


def foreign_group(kind: GroupKind, name: str, *, need: int = 2, status: Any = None, **more: Any) -> PodGroupSeen:
    """Volcano's or coscheduling's; the rest goes into its spec, but for its annotations."""
    document = {
        "metadata": _metadata(name, more.pop("annotations", None)) | {"uid": f"uid-{kind.prefix}{name}"},
        "spec": {"minMember": need, **more},
        "status": status,
    }
    return seeing.see_pod_group(raw(document), kind)


def pod_group(name: str, *, need: int = 2, told: str = "", annotations: dict[str, str] | None = None) -> PodGroupSeen:
    condition = {"type": "PodGroupScheduled", "status": "False", "message": told}
    document = {
        "metadata": _metadata(name, annotations),
        "spec": {"schedulingPolicy": {"gang": {"minCount": need}}},
        "status": {"conditions": [condition]} if told else {},
    }
    return seeing.see_pod_group(raw(document))


def pod(
    name: str,
    *,
    job: str = "",
    group: str = "",
    node: str = "",
    phase: str = "Pending",
    told: str = "",
    cpu: str = "1",
    status: dict[str, Any] | None = None,
    spec: dict[str, Any] | None = None,
    annotations: dict[str, str] | None = None,
    deleting: bool = False,
    requests: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
) -> PodSeen:
    metadata = _metadata(name, annotations) | ({"labels": labels} if labels else {})
    if job:
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": f"uid-{job}", "controller": True}
        metadata["ownerReferences"] = [owner]
    if deleting:
        metadata["deletionTimestamp"] = utc_text(NOW)
    conditions: list[dict[str, Any]] = []
    if told:
        conditions.append({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": told})
    if phase == "Running":
        conditions.append({"type": "Ready", "status": "True"})
    container = {"name": "main", "resources": {"requests": {"cpu": cpu} | (requests or {})}}
    document = {
        "metadata": metadata,
        "spec": {
            "nodeName": node,
            "containers": [container],
            "schedulingGroup": {"podGroupName": group} if group else None,
            **(spec or {}),
        },
        "status": {
            "phase": phase,
            "conditions": conditions,
            **({"startTime": utc_text(CREATED + 10)} if node else {}),
            **(status or {}),
        },
    }
    return seeing.see_pod(raw(document))


def node(name: str, *, cpu: str = "4", ready: bool = True, labels: dict[str, str] | None = None, **spec: Any) -> Any:
    document = {
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {
            "allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "10"},
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        },
    }
    return seeing.see_node(raw(document))


def queue(name: str, *, annotations: dict[str, str] | None = None, **spec: Any) -> QueueSeen:
    return seeing.see_queue(raw({"metadata": {"name": name, "annotations": annotations}, "spec": spec}))


def event(about: str, reason: str, message: str, *, at: int = NOW - 5, kind: str = "Job", count: int = 1) -> EventSeen:
    document = {
        "metadata": {"resourceVersion": str(at)},
        "involvedObject": {"kind": kind, "name": about, "namespace": "default", "uid": f"uid-{about}"},
        "type": "Normal",
        "reason": reason,
        "message": message,
        "count": count,
        "firstTimestamp": utc_text(at),
        "lastTimestamp": utc_text(at),
    }
    return seeing.see_event(raw(document))


def hyper_node(name: str, tier: int, *members: dict[str, Any], tier_name: str = "") -> HyperNodeRecord:
    spec = {"tier": tier, "tierName": tier_name, "members": list(members)}
    return read_hyper_node(raw({"metadata": {"name": name}, "spec": spec}))


def picture(*objects: Any, queues: tuple[QueueSeen, ...] | None = None) -> Picture:
    """Objects sorted into a picture by what they are."""

    def only(kind: type) -> list[Any]:
        return [it for it in objects if isinstance(it, kind)]

    known = {JobSeen, PodGroupSeen, PodSeen, EventSeen, HyperNodeRecord}
    return Picture(
        jobs=only(JobSeen),
        pod_groups=only(PodGroupSeen),
        pods=only(PodSeen),
        nodes=[it for it in objects if type(it) not in known],
        queues=queues,
        events=only(EventSeen),
        hyper_nodes=only(HyperNodeRecord),
    )
