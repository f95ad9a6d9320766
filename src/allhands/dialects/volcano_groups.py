"""Volcano's PodGroups (`scheduling.volcano.sh/v1beta1`) as pod-groups, and their status as its users know it.

| field | what it means here |
|---|---|
| spec.minMember | so many of its pods start together or none |
| spec.minTaskMember | so many of each task (pod annotation `volcano.sh/task-spec`), unless they add up to more than minMember: then, as in Volcano, minMember alone counts |
| spec.queue | the queue that is charged; `default` where it says nothing |
| spec.priorityClassName | its priority |
| spec.networkTopology | mode hard or soft, and the highest tier by number or name |
| spec.minResources | nothing: room is looked for pod by pod on nodes, not as a sum over the cluster |
| spec.subGroupPolicy | not read yet: a group that has one waits and says so |
| annotation `volcano.sh/preemptable: "false"` | nobody preempts it |
| status | phase, running, succeeded, failed and the conditions Unschedulable and Scheduled are written here |

Pods name their group by the annotation `scheduling.k8s.io/group-name`, or by `scheduling.volcano.sh/group-name`.
"""  # noqa: E501 (a row of a table is one line)

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from allhands.api.kinds import Resource
from allhands.dialects.annotations import QUEUE, expected_or_problem
from allhands.dialects.group_progress import written_status
from allhands.dialects.groups import GroupRecord, Metadata, unreadable
from allhands.dialects.scheduling_record import read_record
from allhands.model.pod_document import seconds_of
from allhands.model.podgroup import TaskMinimum, TopologyMode, TopologyRule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allhands.api.document import Manifest
    from allhands.dialects.group_progress import Progress

PREFIX: Final = "volcano:"
GROUP_ANNOTATIONS: Final = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
TASK_ANNOTATION: Final = "volcano.sh/task-spec"
PREEMPTABLE: Final = "volcano.sh/preemptable"
RESOURCE: Final = Resource("scheduling.volcano.sh", "v1beta1", "podgroups")
DEFAULT_QUEUE: Final = "default"
TOO_FEW_PODS, TOO_LITTLE_ROOM = "NotEnoughTasks", "NotEnoughResources"
_MODES: Final = {"": TopologyMode.HARD, "hard": TopologyMode.HARD, "soft": TopologyMode.SOFT}


class _Topology(msgspec.Struct, frozen=True, rename="camel"):
    mode: str = ""
    highest_tier_allowed: int | None = None
    highest_tier_name: str = ""


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    min_member: int = 0
    min_task_member: dict[str, int] | None = None
    queue: str = ""
    priority_class_name: str = ""
    network_topology: _Topology | None = None
    sub_group_policy: Any = None


class _Document(msgspec.Struct, frozen=True):
    metadata: Metadata = Metadata()
    spec: _Spec = _Spec()
    status: Any = None


_documents = msgspec.json.Decoder(_Document)


def group_named_by(annotations: Mapping[str, str]) -> str:
    name = next((found for key in GROUP_ANNOTATIONS if (found := annotations.get(key, ""))), "")
    return f"{PREFIX}{name}" if name else ""


def read_group(raw: bytes) -> GroupRecord:
    try:
        document = _documents.decode(raw)
    except msgspec.DecodeError as error:
        return unreadable(raw, error, PREFIX)
    metadata, spec = document.metadata, document.spec
    annotations = metadata.annotations or {}
    expected, problem = expected_or_problem(annotations)
    problem = _problem(spec) or problem
    return GroupRecord(
        name=metadata.name,
        namespace=metadata.namespace,
        uid=metadata.uid,
        created_at_seconds=seconds_of(metadata.creation_timestamp) or 0,
        prefix=PREFIX,
        annotations=annotations,
        status=read_record(annotations),
        min_count=spec.min_member,
        task_minimums=() if problem else _task_minimums(spec),
        queue="" if spec.queue == DEFAULT_QUEUE else spec.queue or annotations.get(QUEUE, ""),
        rule=None if problem or spec.network_topology is None else _rule(spec.network_topology),
        preemptible=annotations.get(PREEMPTABLE, "") != "false",
        expected_duration_seconds=expected,
        priority_class=spec.priority_class_name,
        problem=problem,
        written=written_status(document.status),
    )


def _problem(spec: _Spec) -> str:
    if spec.min_member < 0:
        return f"spec.minMember: {spec.min_member} is less than none"
    for task, count in sorted((spec.min_task_member or {}).items()):
        if count < 0:
            return f"spec.minTaskMember[{task}]: {count} is less than none"
    if spec.sub_group_policy:
        return "spec.subGroupPolicy: sub-groups by labels are not supported yet"
    topology = spec.network_topology
    if topology is None:
        return ""
    if topology.mode not in _MODES:
        return f'spec.networkTopology.mode: "{topology.mode[:40]}" is neither "hard" nor "soft"'
    if topology.highest_tier_allowed is not None and topology.highest_tier_name:
        return "spec.networkTopology: a tier is given by highestTierAllowed or by highestTierName, not by both"
    if topology.highest_tier_allowed is not None and topology.highest_tier_allowed < 1:
        return f"spec.networkTopology.highestTierAllowed: {topology.highest_tier_allowed} is not a tier from 1 on"
    return ""


def _task_minimums(spec: _Spec) -> tuple[TaskMinimum, ...]:
    wanted = {task: count for task, count in (spec.min_task_member or {}).items() if count}
    if sum(wanted.values()) > spec.min_member:
        return ()  # an elastic job: Volcano's job controller names all replicas of each task there
    return tuple(TaskMinimum(task, count) for task, count in sorted(wanted.items()))


def _rule(topology: _Topology) -> TopologyRule:
    return TopologyRule(
        _MODES[topology.mode],
        highest_tier=topology.highest_tier_allowed,
        tier_name=topology.highest_tier_name or None,
    )


def status_of(record: GroupRecord, progress: Progress, now: str) -> Manifest:
    """What its status should say; empty if it does."""
    written = record.written
    status: Manifest = {}
    phase = _phase(record, progress)
    if phase != written.phase:
        status["phase"] = phase
    for name in ("running", "succeeded", "failed"):
        if getattr(progress, name) != getattr(written, name):
            status[name] = getattr(progress, name)
    conditions = _conditions(record, progress, now)
    if conditions != list(written.conditions):
        status["conditions"] = conditions
    return status


def _phase(record: GroupRecord, progress: Progress) -> str:
    """Inqueue is somebody's word that pods may be made: it is not taken back."""
    least = max(1, record.min_count)
    if progress.succeeded >= least and not progress.bound and progress.succeeded + progress.failed == progress.pods:
        return "Completed"
    if progress.bound + progress.succeeded >= least:
        return "Running"
    was_whole = progress.was_whole or record.written.phase in ("Running", "Unknown")
    if was_whole and (progress.bound or progress.failed):
        return "Unknown"
    return "Inqueue" if record.written.phase == "Inqueue" else "Pending"


def _conditions(record: GroupRecord, progress: Progress, now: str) -> list[Manifest]:
    """Those of others stay as they are, and where they are."""
    conditions = [dict(it) for it in record.written.conditions]
    if progress.waits:
        reason = TOO_FEW_PODS if progress.pods < record.min_count else TOO_LITTLE_ROOM
        _set(conditions, "Unschedulable", "True", reason, progress.waits, now)
    elif progress.was_whole:
        text = "All pods that must run together are bound."
        _set(conditions, "Scheduled", "True", "Scheduled", text, now)
        if any(it.get("type") == "Unschedulable" for it in conditions):
            _set(conditions, "Unschedulable", "False", "Scheduled", text, now)
    return conditions


def _set(conditions: list[Manifest], type: str, status: str, reason: str, message: str, now: str) -> None:
    new = {"type": type, "status": status, "reason": reason, "message": message}
    for number, condition in enumerate(conditions):
        if condition.get("type") == type:
            if any(condition.get(name) != value for name, value in new.items()):
                conditions[number] = {**condition, **new, "lastTransitionTime": now}
            return
    conditions.append({**new, "lastTransitionTime": now})
