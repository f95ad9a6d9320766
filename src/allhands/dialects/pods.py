"""A Pod object as the scheduler keeps it: the pod itself, and which group it says it belongs to."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from allhands.dialects import coscheduling, volcano_groups
from allhands.dialects.annotations import QUEUE, SCHEDULING
from allhands.dialects.scheduling_record import read_record
from allhands.model.group_status import NO_STATUS, GroupStatus
from allhands.model.pod import Pod
from allhands.model.pod_document import OwnerReference, PodDocument, PodMetadata, PodSpec
from allhands.model.pod_requests import effective_requests
from allhands.model.resources import EMPTY, ResourceVector

JOB_KIND = "Job"
JOB_GROUP = "batch"


class SchedulingGroup(msgspec.Struct, frozen=True, rename="camel"):
    pod_group_name: str = ""


class _Spec(PodSpec, frozen=True, rename="camel"):
    scheduling_group: SchedulingGroup | None = None


class _Owner(OwnerReference, frozen=True, rename="camel"):
    api_version: str = ""

    @property
    def is_batch_job(self) -> bool:
        """Other groups have a kind Job too."""
        return self.kind == JOB_KIND and self.api_version.partition("/")[0] == JOB_GROUP


class _Metadata(PodMetadata, frozen=True, rename="camel"):
    owner_references: tuple[_Owner, ...] | None = None


class _Document(PodDocument, frozen=True):
    metadata: _Metadata = _Metadata()
    spec: _Spec = _Spec()

    @property
    def group_name(self) -> str:
        """Of several, the native one first."""
        named = self.spec.scheduling_group
        if named is not None and named.pod_group_name:
            return named.pod_group_name
        annotations, labels = self.metadata.annotations, self.metadata.labels
        found = volcano_groups.group_named_by(annotations) if annotations else ""
        return found or (coscheduling.group_named_by(labels) if labels else "")

    @property
    def task(self) -> str:
        annotations = self.metadata.annotations
        return annotations.get(volcano_groups.TASK_ANNOTATION, "") if annotations else ""

    @property
    def job(self) -> tuple[str, str]:
        """Name and uid."""
        owner = next((it for it in self.metadata.owner_references or () if it.controller), None)
        return (owner.name, owner.uid) if owner is not None and owner.is_batch_job else ("", "")

    @property
    def is_told(self) -> bool:
        if self.spec.node_name:
            return False
        said = (it for it in self.status.conditions or () if it.type == "PodScheduled" and it.status == "False")
        return any(it.reason != "SchedulingGated" for it in said)  # that is the API server's own word

    @property
    def queue(self) -> str:
        annotations = self.metadata.annotations
        return annotations.get(QUEUE, "") if annotations else ""


_decoder = msgspec.json.Decoder(_Document)


class PodRecord(msgspec.Struct, frozen=True):
    pod: Pod
    group_name: str = ""
    """The PodGroup that it names, with the prefix of its kind ("" for a native one)."""
    job_name: str = ""
    """The batch/v1 Job that made it, and which of that name."""
    job_uid: str = ""
    queue: str = ""
    status: GroupStatus = NO_STATUS
    """Of a pod that is a group of its own."""
    is_told: bool = False
    """Whether it says why it has no node."""
    task: str = ""
    """Which task of its group it is one of."""


class PodUse(NamedTuple):
    """A pod as those see it who only count: whose it is, and what it holds on its node."""

    namespace: str
    name: str
    scheduler_name: str
    is_bound: bool
    phase: str
    holds: ResourceVector
    group_name: str
    job_name: str
    queue: str


def read_pod(raw: bytes) -> PodRecord:
    document = _decoder.decode(raw)
    metadata = document.metadata
    pod = Pod.from_document(document)
    annotations = metadata.annotations
    return PodRecord(
        pod,
        document.group_name,
        *document.job,
        document.queue,
        read_record(annotations) if annotations and SCHEDULING in annotations else NO_STATUS,
        document.is_told,
        document.task,
    )


def read_pod_use(raw: bytes) -> PodUse:
    """The same object, for those who only add up. It costs less."""
    document = _decoder.decode(raw)
    metadata, spec = document.metadata, document.spec
    phase = document.status.phase or "Pending"
    holds = spec.node_name != "" and phase not in ("Succeeded", "Failed")
    return PodUse(
        metadata.namespace,
        metadata.name,
        spec.scheduler_name,
        spec.node_name != "",
        phase,
        effective_requests(document) if holds else EMPTY,
        document.group_name,
        document.job[0],
        document.queue,
    )
