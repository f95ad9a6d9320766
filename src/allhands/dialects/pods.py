"""A Pod object as the scheduler keeps it: the pod itself, and which group it says it belongs to.

A pod is read several times, and most pods say what others have said before: what texts were read as is remembered.
Nobody can tell from what is read whether it was.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from allhands.api.volcano.workloads import OWNERS, SCHEDULER_NAME
from allhands.dialects import coscheduling, volcano_groups
from allhands.dialects.annotations import SCHEDULING, queue_named
from allhands.dialects.pod_text import ABSENT, ConditionText, PodText, SchedulingGroup, decode_text
from allhands.dialects.scheduling_record import read_record
from allhands.model.affinity_document import looks_at_own_labels
from allhands.model.group_status import NO_STATUS, GroupStatus
from allhands.model.pod import NO_LABELS, Pod, labels_of_shared_texts, owner_name, phase_named, shared_text
from allhands.model.pod_document import OwnerReference, PodDocument, PodMetadata, PodSpec, Timestamp, seconds_of
from allhands.model.pod_requests import effective_requests
from allhands.model.resources import EMPTY, ResourceVector
from allhands.model.text_memory import TextMemory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

JOB_KIND = "Job"
JOB_GROUP = "batch"
FINISHED: Final = frozenset({"Succeeded", "Failed"})
GATED: Final = "SchedulingGated"
"""The API server's own word for why a pod has no node."""
MOST_ALIKE: Final = 1 << 12
MOST_LABELS: Final = 1 << 14
MOST_BYTES: Final = 1 << 23
"""Of so many kinds of pods, and of so many labels and owners, it is remembered what they were read as."""


class _Spec(PodSpec, frozen=True, rename="camel"):
    scheduling_group: SchedulingGroup | None = None


class _Owner(OwnerReference, frozen=True, rename="camel"):
    api_version: str = ""

    @property
    def is_batch_job(self) -> bool:
        """Other groups have a kind Job too."""
        return self.kind == JOB_KIND and self.api_version.partition("/")[0] == JOB_GROUP

    @property
    def is_asked(self) -> bool:
        """Whether it may say, in Volcano's words, how many of its pods start together."""
        return (self.api_version.partition("/")[0], self.kind) in OWNERS


class _Metadata(PodMetadata, frozen=True, rename="camel"):
    resource_version: str = ""
    owner_references: tuple[_Owner, ...] | None = None


class _Document(PodDocument, frozen=True):
    metadata: _Metadata = _Metadata()
    spec: _Spec = _Spec()

    @property
    def is_told(self) -> bool:
        if self.spec.node_name:
            return False
        said = (it for it in self.status.conditions or () if it.type == "PodScheduled" and it.status == "False")
        return any(it.reason != GATED for it in said)


_GROUP_ANNOTATIONS: Final = frozenset(volcano_groups.GROUP_ANNOTATIONS)
_documents = msgspec.json.Decoder(_Document)
_label_texts = msgspec.json.Decoder(dict[str, str] | None)
_owner_texts = msgspec.json.Decoder(tuple[_Owner, ...] | None)


class PodRecord(msgspec.Struct, frozen=True, gc=False):
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
    group_to_be: str = ""
    """Of one that was written for Volcano and is in no group: the PodGroup, with its prefix, that is made for it and
    all pods of its owner."""
    asks_owner: bool = False
    """Whether its owner may say how many of these start together."""


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


class _Owned(NamedTuple):
    """By whom, and by which Job if it is one."""

    owner: str = ""
    job_name: str = ""
    job_uid: str = ""
    uid: str = ""
    is_asked: bool = False
    """Whether the owner may say how many of its pods start together."""


_BARE: Final = _Owned()


class PodReader:
    """Reads pods with a memory of this size."""

    def __init__(
        self, most_alike: int = MOST_ALIKE, most_labels: int = MOST_LABELS, most_bytes: int = MOST_BYTES
    ) -> None:
        self._alike: TextMemory[Pod] = TextMemory(most_alike, most_bytes)
        """One of all the pods that are alike."""
        self._looking: TextMemory[bool] = TextMemory(most_alike, most_bytes)
        """Those that are alike only if their labels are."""
        self._requests: TextMemory[ResourceVector] = TextMemory(most_alike, most_bytes)
        self._labels: TextMemory[Mapping[str, str]] = TextMemory(most_labels, most_bytes)
        self._owned: TextMemory[_Owned] = TextMemory(most_labels, most_bytes)

    def read(self, raw: bytes) -> PodRecord:
        return self.read_versioned(raw)[0]

    def read_versioned(self, raw: bytes) -> tuple[PodRecord, str]:
        """With the version of the object, as it says it."""
        try:
            text = decode_text(raw)
            record = self._record(text, raw)
        except msgspec.MsgspecError:
            record = None  # the other way says where it is wrong
        return read_whole(raw) if record is None else (record, text.metadata.resource_version)

    def read_use(self, raw: bytes) -> PodUse:
        try:
            text = decode_text(raw)
            labels, owned = self._labels_of(text.metadata.labels), self._owned_by(text.metadata.owner_references)
            return _use(text, labels, owned, lambda: self._requested(text, raw))
        except msgspec.MsgspecError:
            return read_whole_use(raw)

    def _record(self, text: PodText, raw: bytes) -> PodRecord | None:
        """None for the first of its kind: it is quicker read as a whole."""
        metadata, spec, status = text.metadata, text.spec, text.status
        bound_at, is_told, is_resize_infeasible = _said(text)
        alike = self._one_alike(text, raw, is_resize_infeasible=is_resize_infeasible)
        if alike is None:
            return None
        annotations = metadata.annotations
        labels = self._labels_of(metadata.labels)
        owned = self._owned_by(metadata.owner_references)
        pod = msgspec.structs.replace(
            alike,
            name=metadata.name,
            uid=metadata.uid,
            labels=labels,
            node_name=shared_text(spec.node_name),
            phase=phase_named(status.phase),
            deleting=metadata.deletion_timestamp is not None,
            nominated_node=status.nominated_node_name,
            created_at_seconds=_seconds(metadata.creation_timestamp) or 0,
            started_at_seconds=_seconds(status.start_time),
            bound_at_seconds=_seconds(bound_at),
            owner=owned.owner,
        )
        group = _group_named(spec.scheduling_group, annotations, labels)
        return _record(pod, group, owned, annotations, is_told=is_told)

    def _one_alike(self, text: PodText, raw: bytes, *, is_resize_infeasible: bool) -> Pod | None:
        """Some pod that differs from this one only in what each has of its own."""
        key = text.key(is_resize_infeasible=is_resize_infeasible)
        found = self._alike.get(key)
        if found is None and self._looking.get(key):
            found = self._alike.get(_with_labels(key, text))
        if found is None:
            if self._alike.is_new(key):
                return None
            document = _documents.decode(raw)
            spec, found = document.spec, Pod.from_document(document)
            if looks_at_own_labels(spec.affinity, spec.topology_spread_constraints):
                self._looking.put(key, True)
                key = _with_labels(key, text)
            if not found.ephemeral_claims:  # those have the name of their pod
                self._alike.put(key, found)
        return found

    def _requested(self, text: PodText, raw: bytes) -> ResourceVector:
        key = text.key_of_requests(is_resize_infeasible=_said(text)[2])
        found = self._requests.get(key)
        if found is None:
            found = effective_requests(_documents.decode(raw))
            self._requests.put(key, found)
        return found

    def _labels_of(self, text: msgspec.Raw) -> Mapping[str, str]:
        if text is ABSENT:
            return NO_LABELS
        key = bytes(text)
        found = self._labels.get(key)
        if found is None:
            labels = _label_texts.decode(key)
            found = labels_of_shared_texts(labels) if labels else NO_LABELS
            self._labels.put(key, found)
        return found

    def _owned_by(self, text: msgspec.Raw) -> _Owned:
        if text is ABSENT:
            return _BARE
        key = bytes(text)
        found = self._owned.get(key)
        if found is None:
            found = _owned_by(_owner_texts.decode(key))
            self._owned.put(key, found)
        return found


_reader = PodReader()
read_pod = _reader.read
read_versioned_pod = _reader.read_versioned
read_pod_use = _reader.read_use
"""The same object, for those who only add up. It costs less."""


def read_whole(raw: bytes) -> tuple[PodRecord, str]:
    """As one reads who remembers nothing."""
    document = _documents.decode(raw)
    metadata = document.metadata
    annotations, owned = metadata.annotations, _owned_by(metadata.owner_references)
    group = _group_named(document.spec.scheduling_group, annotations, metadata.labels)
    record = _record(Pod.from_document(document), group, owned, annotations, is_told=document.is_told)
    return record, metadata.resource_version


def read_whole_use(raw: bytes) -> PodUse:
    document = _documents.decode(raw)
    metadata = document.metadata
    return _use(document, metadata.labels, _owned_by(metadata.owner_references), lambda: effective_requests(document))


def _record(
    pod: Pod, group_name: str, owned: _Owned, annotations: Mapping[str, str] | None, *, is_told: bool
) -> PodRecord:
    gets_group = pod.scheduler_name == SCHEDULER_NAME and not group_name
    if annotations and volcano_groups.TASK_PRIORITY in annotations:
        rank = volcano_groups.rank_named(annotations[volcano_groups.TASK_PRIORITY])
        pod = msgspec.structs.replace(pod, rank=rank)
    return PodRecord(
        pod,
        group_name,
        owned.job_name,
        owned.job_uid,
        queue_named(annotations),
        read_record(annotations) if annotations and SCHEDULING in annotations else NO_STATUS,
        is_told,
        annotations.get(volcano_groups.TASK_ANNOTATION, "") if annotations else "",
        volcano_groups.group_to_be(owned.uid or pod.uid) if gets_group else "",
        gets_group and owned.is_asked,
    )


def _use(
    read: PodText | _Document,
    labels: Mapping[str, str] | None,
    owned: _Owned,
    requested: Callable[[], ResourceVector],
) -> PodUse:
    """`requested` is asked only for one that holds anything."""
    metadata, spec = read.metadata, read.spec
    phase = read.status.phase or "Pending"
    holds = spec.node_name != "" and phase not in FINISHED
    return PodUse(
        metadata.namespace,
        metadata.name,
        spec.scheduler_name,
        spec.node_name != "",
        phase,
        requested() if holds else EMPTY,
        _group_named(spec.scheduling_group, metadata.annotations, labels),
        owned.job_name,
        queue_named(metadata.annotations),
    )


def _group_named(
    native: SchedulingGroup | None, annotations: Mapping[str, str] | None, labels: Mapping[str, str] | None
) -> str:
    """Of several, the native one first."""
    if native is not None and native.pod_group_name:
        return native.pod_group_name
    is_annotated = annotations and not _GROUP_ANNOTATIONS.isdisjoint(annotations)
    found = volcano_groups.group_named_by(annotations) if annotations and is_annotated else ""
    return found or (coscheduling.group_named_by(labels) if labels else "")


def _owned_by(references: tuple[_Owner, ...] | None) -> _Owned:
    owner = next((it for it in references or () if it.controller), None)
    if owner is None:
        return _BARE
    job = (owner.name, owner.uid) if owner.is_batch_job else ("", "")
    return _Owned(owner_name(owner), *job, owner.uid, owner.is_asked)


def _said(text: PodText) -> tuple[str | None, bool, bool]:
    """What its conditions say: when it was bound, whether it is told why it has no node, and whether a resize was found
    infeasible. Of several of a type the first counts."""
    conditions = text.status.conditions
    if not conditions:
        return None, False, False
    bound: ConditionText | None = None
    resize: ConditionText | None = None
    is_told = False
    for condition in conditions:
        if condition.type == "PodScheduled":
            if condition.status == "True":
                bound = bound or condition
            elif condition.status == "False":
                is_told = is_told or condition.reason != GATED
        elif condition.type == "PodResizePending":
            resize = resize or condition
    return (
        None if bound is None else bound.last_transition_time,
        is_told and not text.spec.node_name,
        resize is not None and resize.reason == "Infeasible",
    )


def _with_labels(key: bytes, text: PodText) -> bytes:
    # No text of JSON goes on so.
    return b"%b\0%b" % (key, bytes(text.metadata.labels))


@functools.lru_cache(maxsize=1 << 12)
def _seconds(text: str | None) -> int | None:
    return None if text is None else seconds_of(msgspec.convert(text, Timestamp))
