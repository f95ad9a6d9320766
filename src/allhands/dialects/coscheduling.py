"""PodGroups of the coscheduling plugin (`scheduling.x-k8s.io/v1alpha1`) as pod-groups, and their status in its words.

| field | what it means here |
|---|---|
| spec.minMember | so many of its pods start together or none |
| spec.minResources | nothing: room is looked for pod by pod on nodes, not as a sum over the cluster |
| spec.scheduleTimeoutSeconds | nothing: no member holds room while it waits for the others |
| status.phase, running, succeeded, failed, scheduleStartTime, occupiedBy | written here, counted from its pods |

Pods name their group by the label `scheduling.x-k8s.io/pod-group`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from allhands.api.kinds import Resource
from allhands.dialects.annotations import expected_or_problem, queue_named
from allhands.dialects.group_progress import written_status
from allhands.dialects.groups import GroupRecord, Metadata, unreadable
from allhands.dialects.scheduling_record import read_record
from allhands.model.pod_document import seconds_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allhands.api.document import Manifest
    from allhands.dialects.group_progress import Progress

PREFIX: Final = "coscheduling:"
GROUP_LABEL: Final = "scheduling.x-k8s.io/pod-group"
RESOURCE: Final = Resource("scheduling.x-k8s.io", "v1alpha1", "podgroups")


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    min_member: int = 1


class _Document(msgspec.Struct, frozen=True):
    metadata: Metadata = Metadata()
    spec: _Spec = _Spec()
    status: Any = None


_documents = msgspec.json.Decoder(_Document)


def group_named_by(labels: Mapping[str, str]) -> str:
    return f"{PREFIX}{name}" if (name := labels.get(GROUP_LABEL, "")) else ""


def read_group(raw: bytes) -> GroupRecord:
    try:
        document = _documents.decode(raw)
    except msgspec.DecodeError as error:
        return unreadable(raw, error, PREFIX)
    metadata = document.metadata
    annotations = metadata.annotations or {}
    least = document.spec.min_member
    expected, problem = expected_or_problem(annotations)
    if least < 1:
        problem = f"spec.minMember: {least} is not a number of pods from 1 on"
    return GroupRecord(
        name=metadata.name,
        namespace=metadata.namespace,
        uid=metadata.uid,
        created_at_seconds=seconds_of(metadata.creation_timestamp) or 0,
        prefix=PREFIX,
        annotations=annotations,
        status=read_record(annotations),
        min_count=least,
        queue=queue_named(annotations),
        expected_duration_seconds=expected,
        priority_of_pods=True,
        problem=problem,
        written=written_status(document.status),
    )


def status_of(record: GroupRecord, progress: Progress, now: str) -> Manifest:
    """What its status should say; empty if it does. Phases follow from the counts as the plugin's own controller has
    it: Pending until enough pods exist, Scheduling until enough run, then Running, and Finished or Failed at its end,
    after which nothing is written any more.
    """
    written = record.written
    if written.phase in ("Finished", "Failed"):
        return {}
    phase = _phase(record.min_count, progress)
    status: Manifest = {}
    if phase != written.phase:
        status["phase"] = phase
    for name in ("running", "succeeded", "failed"):
        if getattr(progress, name) != getattr(written, name):
            status[name] = getattr(progress, name)
    if phase != "Pending" and not written.schedule_start_time:
        status["scheduleStartTime"] = now
    if phase != "Pending" and not written.occupied_by and progress.owner:
        status["occupiedBy"] = f"{record.namespace}/{progress.owner}"
    return status


def _phase(least: int, progress: Progress) -> str:
    alive = progress.running + progress.succeeded
    if progress.succeeded >= least:
        return "Finished"
    if progress.failed and progress.failed + alive >= least:
        return "Failed"
    if progress.pods < least:
        return "Pending"
    return "Running" if alive >= least else "Scheduling"
