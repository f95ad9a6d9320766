"""Native PodGroups and batch/v1 Jobs as pod-groups of the model.

A Job is a gang if an annotation of ours says how many of its pods must start together, or if its queue says so for
all. What an object says wrongly becomes the `problem` of its group, which then waits with this as its reason.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

import msgspec

from allhands.dialects.annotations import (
    MIN_AVAILABLE,
    MOST_SECONDS,
    AnnotationError,
    after_of,
    expected_or_problem,
    expected_seconds,
    min_available,
    queue_named,
    topology_of,
)
from allhands.dialects.decoding import what_is_wrong
from allhands.dialects.group_parts import PartRule, why_too_many, with_parts
from allhands.dialects.group_progress import NOTHING_WRITTEN, WrittenStatus, written_status
from allhands.dialects.hyper_nodes import TREE as HYPER_TREE
from allhands.dialects.scheduling_record import read_record
from allhands.model.group_status import NO_STATUS, GroupStatus
from allhands.model.pod_document import Timestamp, seconds_of
from allhands.model.podgroup import DisruptionLimit, PodGroup, SubGroup, TaskMinimum, TopologyMode, TopologyRule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allhands.model.resources import ResourceVector


class Metadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    namespace: str = "default"
    uid: str = ""
    generation: int = 0
    annotations: dict[str, str] | None = None
    creation_timestamp: Timestamp | None = None
    deletion_timestamp: str | None = None


SHARED_JOBS: Final = 256


class GroupRecord(msgspec.Struct, frozen=True):
    """A group as some object declares it. `is_gang` is None where its queue decides."""

    name: str
    namespace: str
    uid: str
    created_at_seconds: int
    prefix: str = ""
    """What its name is preceded by among the groups of its namespace, "" for a native PodGroup: objects of different
    kinds may have the same name."""
    annotations: Mapping[str, str] = msgspec.field(default_factory=dict)
    status: GroupStatus = NO_STATUS
    is_gang: bool | None = True
    min_count: int = 1
    size: int = 1
    queue: str = ""
    task_minimums: tuple[TaskMinimum, ...] = ()
    topology_key: str = ""
    rule: TopologyRule | None = None
    """What the object itself says of its topology; the tier by name as its owner wrote it."""
    parts: tuple[PartRule, ...] = ()
    """Its sub-groups, told by the labels of its pods."""
    preemptible: bool = True
    min_run_seconds: int = 0
    max_wait_seconds: int | None = None
    disruption_limit: DisruptionLimit | None = None
    expected_duration_seconds: int | None = None
    priority: int | None = None
    priority_class: str = ""
    priority_of_pods: bool = False
    """Whether, where it says nothing of its own priority, it has the highest of its pods."""
    suspended: bool = False
    scheduler_name: str = ""
    """Who is to place its pods, where the object says so."""
    end: str = ""
    """How it ended: "Complete" or "Failed"; "" while it has not."""
    succeeded: int = 0
    """How many of its pods have, those that are gone included."""
    after: tuple[str, ...] = ()
    """Jobs of its namespace that must be complete before it starts."""
    problem: str = ""
    min_resources: ResourceVector | None = None
    """What its pods will ask for together, where the object says so before there are pods."""
    min_limits: tuple[tuple[str, str], ...] = ()
    """What they may use together at most, if it says that, too: names of a quota and amounts."""
    generation: int = 0
    written: WrittenStatus = NOTHING_WRITTEN
    """What its status says, whoever wrote it."""

    @property
    def has_ended(self) -> bool:
        return self.end != ""

    @property
    def group_name(self) -> str:
        return f"{self.prefix}{self.name}"

    @property
    def looks_at_pods(self) -> bool:
        """Whether what it asks for depends on the pods that there are of it."""
        takes_priority = self.priority_of_pods and self.priority is None and not self.priority_class
        return takes_priority or bool(self.parts)


class _Envelope(msgspec.Struct, frozen=True):
    """What is left of an object whose spec cannot be read."""

    metadata: Metadata = Metadata()


_envelopes = msgspec.json.Decoder(_Envelope)


def unreadable(raw: bytes, error: msgspec.DecodeError, prefix: str = "") -> GroupRecord:
    """A gang that is never placed and says why; raises if not even its name can be read."""
    metadata = _envelopes.decode(raw).metadata
    return GroupRecord(
        name=metadata.name,
        namespace=metadata.namespace,
        uid=metadata.uid,
        created_at_seconds=seconds_of(metadata.creation_timestamp) or 0,
        prefix=prefix,
        problem=what_is_wrong(error),
    )


class _Gang(msgspec.Struct, frozen=True, rename="camel"):
    min_count: int = 1


class _Policy(msgspec.Struct, frozen=True):
    gang: _Gang | None = None


class _TopologyKey(msgspec.Struct, frozen=True):
    key: str = ""


class _Constraints(msgspec.Struct, frozen=True):
    topology: tuple[_TopologyKey, ...] | None = None


class _PodGroupSpec(msgspec.Struct, frozen=True, rename="camel"):
    scheduling_policy: _Policy = _Policy()
    scheduling_constraints: _Constraints | None = None
    priority_class_name: str = ""
    priority: int | None = None


class _PodGroupDocument(msgspec.Struct, frozen=True):
    metadata: Metadata = Metadata()
    spec: _PodGroupSpec = _PodGroupSpec()
    status: Any = None


_pod_groups = msgspec.json.Decoder(_PodGroupDocument)


def read_pod_group(raw: bytes) -> GroupRecord:
    """A scheduling.k8s.io PodGroup."""
    try:
        document = _pod_groups.decode(raw)
    except msgspec.DecodeError as error:
        return unreadable(raw, error)
    spec = document.spec
    gang = spec.scheduling_policy.gang
    topology = spec.scheduling_constraints.topology if spec.scheduling_constraints is not None else None
    annotations = document.metadata.annotations or {}
    expected, problem = expected_or_problem(annotations)
    return GroupRecord(
        name=document.metadata.name,
        namespace=document.metadata.namespace,
        uid=document.metadata.uid,
        created_at_seconds=seconds_of(document.metadata.creation_timestamp) or 0,
        annotations=annotations,
        status=read_record(annotations),
        is_gang=gang is not None,
        min_count=gang.min_count if gang is not None else 1,
        queue=queue_named(annotations),
        topology_key=topology[0].key if topology else "",
        expected_duration_seconds=expected,
        priority=spec.priority,
        priority_class=spec.priority_class_name,
        priority_of_pods=True,
        problem=problem,
        generation=document.metadata.generation,
        written=written_status(document.status),
    )


class _TemplateSpec(msgspec.Struct, frozen=True, rename="camel"):
    priority_class_name: str = ""
    scheduler_name: str = ""
    active_deadline_seconds: int | None = None


class _TemplateMetadata(msgspec.Struct, frozen=True):
    annotations: dict[str, str] | None = None


class _Template(msgspec.Struct, frozen=True):
    metadata: _TemplateMetadata | None = None
    spec: _TemplateSpec = _TemplateSpec()

    @property
    def annotations(self) -> Mapping[str, str] | None:
        return None if self.metadata is None else self.metadata.annotations


class _JobSpec(msgspec.Struct, frozen=True, rename="camel"):
    parallelism: int | None = None
    completions: int | None = None
    active_deadline_seconds: int | None = None
    suspend: bool | None = None
    template: _Template = _Template()


class _Condition(msgspec.Struct, frozen=True):
    type: str = ""
    status: str = ""


class _JobStatus(msgspec.Struct, frozen=True):
    conditions: tuple[_Condition, ...] | None = None
    succeeded: int | None = None

    @property
    def end(self) -> str:
        ends = (it.type for it in self.conditions or () if it.type in ("Complete", "Failed") and it.status == "True")
        return next(ends, "")


class _JobDocument(msgspec.Struct, frozen=True):
    metadata: Metadata = Metadata()
    spec: _JobSpec = _JobSpec()
    status: _JobStatus = _JobStatus()


_jobs = msgspec.json.Decoder(_JobDocument)


@functools.lru_cache(maxsize=SHARED_JOBS)
def read_job(raw: bytes) -> GroupRecord:
    """A batch/v1 Job: its limit of time, or what its owner expects, is what is known of its duration. Several watch
    the same Jobs in one process, and share what was read."""
    document = _jobs.decode(raw)
    spec = document.spec
    annotations = document.metadata.annotations or {}
    parallelism = 1 if spec.parallelism is None else spec.parallelism
    size = parallelism if spec.completions is None else min(parallelism, spec.completions)
    least, is_gang, expected, problem = size, None, None, ""
    after: tuple[str, ...] = ()
    try:
        expected = expected_seconds(annotations)
        after = after_of(annotations, document.metadata.name)
        if (text := annotations.get(MIN_AVAILABLE)) is not None:
            is_gang, least = True, min_available(text, size)
            if least > size:
                raise AnnotationError(f"{MIN_AVAILABLE}: {least} pods must start together, but at most {size} run")
    except AnnotationError as error:
        problem = str(error)
    return GroupRecord(
        name=document.metadata.name,
        namespace=document.metadata.namespace,
        uid=document.metadata.uid,
        created_at_seconds=seconds_of(document.metadata.creation_timestamp) or 0,
        annotations=annotations,
        status=read_record(annotations),
        is_gang=is_gang,
        min_count=least,
        size=size,
        queue=queue_named(annotations) or queue_named(spec.template.annotations),
        expected_duration_seconds=_duration(
            expected, spec.active_deadline_seconds, spec.template.spec.active_deadline_seconds
        ),
        priority_class=spec.template.spec.priority_class_name,
        suspended=bool(spec.suspend),
        scheduler_name=spec.template.spec.scheduler_name,
        end=document.status.end,
        succeeded=document.status.succeeded or 0,
        after=after,
        problem=problem,
    )


def _duration(expected: int | None, *limits: int | None) -> int | None:
    """What its owner expects, but no longer than it may run. A limit of more than ten years is as good as none."""
    known = [limit for limit in (expected, *limits) if limit is not None and 0 <= limit <= MOST_SECONDS]
    return min(known, default=None)


def job_group_name(job: str) -> str:
    """Names of objects hold no colon: a Job's group cannot be taken for a PodGroup of the same name."""
    return f"job:{job}"


class MembersSeen(msgspec.Struct, frozen=True):
    """What a group takes over from the pods that there are of it."""

    counts: Mapping[str, int] = msgspec.field(default_factory=dict)
    """Sub-group -> pods."""
    highest_priority: int | None = None


NO_MEMBERS: Final = MembersSeen()


def pod_group_of(
    record: GroupRecord,
    name: str,
    priorities: Mapping[str, int],
    tiers: tuple[str, ...],
    members: MembersSeen = NO_MEMBERS,
    *,
    hyper_tiers: tuple[str, ...] | None = None,
) -> tuple[PodGroup, str]:
    """The group, and what is wrong with it ("" if nothing is). `tiers` are the topology labels that are known;
    `hyper_tiers` the names of the tiers of HyperNodes, None where there are none: then labels stand for them."""
    problem = record.problem
    rule: TopologyRule | None = None
    try:
        rule = topology_of(record.annotations, tiers)
    except AnnotationError as error:
        problem = problem or str(error)
    if record.topology_key:
        rule = TopologyRule(TopologyMode.HARD, tier_name=record.topology_key)
    elif record.rule is not None:
        rule, unknown = _named_tier(record.rule, tiers, hyper_tiers)
        problem = problem or unknown
    if too_many := why_too_many(members.counts):
        problem, members = problem or f"spec.subGroupPolicy: {too_many}", NO_MEMBERS
    parts = []
    for part in record.parts:
        named, unknown = (None, "") if part.topology is None else _named_tier(part.topology, tiers, hyper_tiers)
        parts.append(msgspec.structs.replace(part, topology=named))
        problem = problem or unknown
    whole = SubGroup(min_count=max(0, record.min_count), task_minimums=record.task_minimums, topology=rule)
    group = PodGroup(
        record.namespace,
        name,
        record.queue,
        uid=record.uid,
        members=with_parts(whole, parts, members.counts),
        priority=_priority(record, priorities, members),
        created_at_seconds=record.created_at_seconds,
        expected_duration_seconds=record.expected_duration_seconds,
        preemptible=record.preemptible,
        min_run_seconds=record.min_run_seconds,
        suspended=record.suspended,
        disruption_limit=record.disruption_limit,
        max_wait_seconds=record.max_wait_seconds,
    )
    return group, problem


def _priority(record: GroupRecord, priorities: Mapping[str, int], members: MembersSeen) -> int:
    """Its own, or its class's; else, if its pods have one each, the highest of these: a group is considered as soon as
    the first of its pods is, and that one is the most important."""
    if record.priority is not None:
        return record.priority
    if record.priority_of_pods and not record.priority_class and members.highest_priority is not None:
        return members.highest_priority
    return priorities.get(record.priority_class, 0)


def _named_tier(
    rule: TopologyRule, tiers: tuple[str, ...], hyper_tiers: tuple[str, ...] | None
) -> tuple[TopologyRule, str]:
    """With the name of its tier as the label that is meant, and what is wrong if there is none. Where there are
    HyperNodes it is about them."""
    name = rule.tier_name
    if hyper_tiers is not None:
        known = ", ".join(hyper_tiers) or "none has a name"
        problem = f'topology: "{name}" is not one of the tiers of HyperNodes: {known}'
        return msgspec.structs.replace(rule, tree=HYPER_TREE), problem if name and name not in hyper_tiers else ""
    if name is None:
        return rule, ""
    found = [label for label in tiers if name == label] or [it for it in tiers if name == it.rpartition("/")[2]]
    if not found:
        known = ", ".join(label.rpartition("/")[2] for label in tiers)
        return rule, f'topology: "{name}" is not one of the tiers {known}'
    return msgspec.structs.replace(rule, tier_name=found[0]), ""
