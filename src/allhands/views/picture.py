"""What a person may ask about, as the API showed it at one moment: jobs, groups, pods, nodes, queues, events.

Objects are decoded once, only as far as somebody looks at them. One that cannot be read is named with the reason, and
never hides the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from allhands.dialects.group_kinds import NATIVE, GroupKind
from allhands.dialects.group_progress import written_status
from allhands.dialects.groups import GroupRecord, read_job
from allhands.dialects.hyper_nodes import HyperNodeRecord  # noqa: TC001 (msgspec reads the annotation)
from allhands.dialects.pods import PodRecord, read_pod
from allhands.dialects.queues import QueueRecord, read_queue
from allhands.lifecycle.job_flow.documents import FlowDocument
from allhands.model.node import Node, NodeDocument
from allhands.model.pod_document import Timestamp, seconds_of
from allhands.model.reason import Reason
from allhands.model.resources import EMPTY, ResourceVector

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Condition(msgspec.Struct, frozen=True, rename="camel"):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: Timestamp | None = None


JobKind = Literal["job", "vcjob"]
"""The Jobs of Kubernetes and those of Volcano, by the words in which their users ask for them."""
JOB: Final = "job"
VCJOB: Final = "vcjob"
API_GROUPS: Final[dict[JobKind, str]] = {JOB: "batch", VCJOB: "batch.volcano.sh"}


class TaskSeen(msgspec.Struct, frozen=True):
    """A task of a Job that has several, or some that wait: its pods are made when all of `after` are up, or one."""

    name: str
    replicas: int = 0
    minimum: int = 0
    after: tuple[str, ...] = ()
    after_any: bool = False


class JobSeen(msgspec.Struct, frozen=True):
    """A Job. `group_name` is the PodGroup that its template names, or that is made for it."""

    record: GroupRecord
    kind: JobKind = JOB
    completions: int | None = None
    active: int = 0
    ready: int = 0
    succeeded: int = 0
    failed: int = 0
    started_at_seconds: int | None = None
    finished_at_seconds: int | None = None
    is_complete: bool = False
    is_failed: bool = False
    is_ending: bool = False
    """How it ends is decided, and its last pods are on their way out."""
    verdict: str = ""
    """Why it failed."""
    told: str = ""
    """What it says itself about its waiting."""
    phase: str = ""
    """In the words of its kind, where that has phases."""
    group_name: str = ""
    scheduler_name: str = ""
    tasks: tuple[TaskSeen, ...] = ()
    pauses_until_seconds: int | None = None
    """Before that it is not tried again."""


class PodGroupSeen(msgspec.Struct, frozen=True):
    """A PodGroup of any system; `api_group` says of which."""

    record: GroupRecord
    told: str = ""
    """What its condition says about its waiting."""
    api_group: str = NATIVE.resource.group
    is_never: bool = False
    """Whether that can never change, as things are."""


class PodSeen(msgspec.Struct, frozen=True):
    record: PodRecord
    is_ready: bool = False
    told: str = ""
    """Why it is not on a node, as its condition says."""
    trouble: str = ""
    """What is wrong with it on its node: a container that cannot start, an exit code, an eviction."""
    restarts: int = 0
    containers: tuple[str, ...] = ()
    finished_at_seconds: int | None = None


class WrittenUse(msgspec.Struct, frozen=True):
    """What a queue holds, with those below it, and its own groups, as its status counts them."""

    held: ResourceVector = EMPTY
    running: int = 0
    waiting: int = 0


class QueueSeen(msgspec.Struct, frozen=True):
    """`record` is None if its quotas make no sense; then `problem` says why."""

    name: str
    record: QueueRecord | None
    problem: str = ""
    written_state: str = ""
    """What its status says, in its own word."""
    written: WrittenUse | None = None
    """What its status says is in it."""


class EventSeen(msgspec.Struct, frozen=True):
    kind: str
    namespace: str
    name: str
    uid: str
    type: str
    reason: str
    message: str
    count: int
    first_seconds: int
    last_seconds: int
    source: str = ""
    version: int = 0
    """Of two in one second, the one with the larger is the later."""


class Picture(msgspec.Struct, frozen=True):
    """`queues` and `flows` are None where the cluster does not know them, or does not show them to us. `hidden` names
    what it surely has and does not show to us."""

    jobs: Sequence[JobSeen] = ()
    pod_groups: Sequence[PodGroupSeen] = ()
    pods: Sequence[PodSeen] = ()
    nodes: Sequence[Node] = ()
    queues: Sequence[QueueSeen] | None = None
    events: Sequence[EventSeen] = ()
    hyper_nodes: Sequence[HyperNodeRecord] = ()
    flows: Sequence[FlowDocument] | None = None
    hidden: frozenset[str] = frozenset()


class _JobStatus(msgspec.Struct, frozen=True, rename="camel"):
    active: int = 0
    ready: int | None = None
    succeeded: int = 0
    failed: int = 0
    start_time: Timestamp | None = None
    completion_time: Timestamp | None = None
    conditions: tuple[Condition, ...] | None = None


class _GroupName(msgspec.Struct, frozen=True, rename="camel"):
    pod_group_name: str = ""


class _TemplateSpec(msgspec.Struct, frozen=True, rename="camel"):
    scheduling_group: _GroupName | None = None
    scheduler_name: str = ""


class _Template(msgspec.Struct, frozen=True):
    spec: _TemplateSpec = _TemplateSpec()


class _JobSpec(msgspec.Struct, frozen=True):
    completions: int | None = None
    template: _Template = _Template()


class _Job(msgspec.Struct, frozen=True):
    spec: _JobSpec = _JobSpec()
    status: _JobStatus = _JobStatus()


_jobs = msgspec.json.Decoder(_Job)
_DECIDED = ("SuccessCriteriaMet", "FailureTarget")


def see_job(raw: bytes) -> JobSeen:
    document = _jobs.decode(raw)
    status, template = document.status, document.spec.template.spec
    ends = {it.type: it for it in status.conditions or () if it.status == "True" and it.type in ("Complete", "Failed")}
    failed = ends.get("Failed")
    is_ending = any(it.type in _DECIDED and it.status == "True" for it in status.conditions or ())
    over = failed or ends.get("Complete")
    ended_at = status.completion_time or (over.last_transition_time if over is not None else None)
    return JobSeen(
        record=read_job(raw),
        completions=document.spec.completions,
        active=status.active,
        ready=status.ready or 0,
        succeeded=status.succeeded,
        failed=status.failed,
        started_at_seconds=seconds_of(status.start_time),
        finished_at_seconds=seconds_of(ended_at),
        is_complete="Complete" in ends,
        is_failed=failed is not None,
        is_ending=is_ending and not ends,
        verdict=joined(failed.reason, failed.message) if failed is not None else "",
        group_name=template.scheduling_group.pod_group_name if template.scheduling_group is not None else "",
        scheduler_name=template.scheduler_name,
    )


class _PodGroup(msgspec.Struct, frozen=True):
    status: Any = None


_pod_groups = msgspec.json.Decoder(_PodGroup)
_WAITS: Final = (("PodGroupScheduled", "False"), ("Unschedulable", "True"))
"""How the native kind and Volcano's say that they wait."""


def see_pod_group(raw: bytes, kind: GroupKind = NATIVE) -> PodGroupSeen:
    """Its status is whatever somebody wrote: it never hides the group."""
    conditions = written_status(_pod_groups.decode(raw).status).conditions
    waits = [it for it in conditions if (it.get("type"), it.get("status")) in _WAITS]
    told: dict[str, Any] = next((it for it in waits if isinstance(it.get("message"), str)), {})
    is_never = told.get("reason") == Reason.GROUP_NEVER_FITS.value
    return PodGroupSeen(kind.read(raw), told.get("message", ""), kind.resource.group, is_never)


def seeing_pod_groups(kind: GroupKind) -> Callable[[bytes], PodGroupSeen]:
    return lambda raw: see_pod_group(raw, kind)


class _Waiting(msgspec.Struct, frozen=True):
    reason: str = ""
    message: str = ""


class _Terminated(msgspec.Struct, frozen=True, rename="camel"):
    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    message: str = ""
    finished_at: Timestamp | None = None


class _State(msgspec.Struct, frozen=True):
    waiting: _Waiting | None = None
    terminated: _Terminated | None = None


class _ContainerStatus(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    restart_count: int = 0
    state: _State = _State()
    last_state: _State = _State()


class _PodStatus(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: tuple[Condition, ...] | None = None
    init_container_statuses: tuple[_ContainerStatus, ...] | None = None
    container_statuses: tuple[_ContainerStatus, ...] | None = None


class _Named(msgspec.Struct, frozen=True):
    name: str = ""


class _PodSpec(msgspec.Struct, frozen=True):
    containers: tuple[_Named, ...] | None = None


class _Pod(msgspec.Struct, frozen=True):
    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()


_pods = msgspec.json.Decoder(_Pod)
_ORDINARY = frozenset(("", "ContainerCreating", "PodInitializing"))
"""What every container goes through on its way."""


def see_pod(raw: bytes) -> PodSeen:
    document = _pods.decode(raw)
    status = document.status
    conditions = {it.type: it for it in status.conditions or ()}
    scheduled, ready = conditions.get("PodScheduled"), conditions.get("Ready")
    statuses = (*(status.init_container_statuses or ()), *(status.container_statuses or ()))
    ends = [it.state.terminated.finished_at for it in statuses if it.state.terminated is not None]
    return PodSeen(
        record=read_pod(raw),
        is_ready=ready is not None and ready.status == "True",
        told=scheduled.message if scheduled is not None and scheduled.status != "True" else "",
        trouble=_trouble(status, statuses),
        restarts=sum(it.restart_count for it in statuses),
        containers=tuple(it.name for it in document.spec.containers or ()),
        finished_at_seconds=max((seconds for end in ends if (seconds := seconds_of(end)) is not None), default=None),
    )


def _trouble(status: _PodStatus, statuses: Sequence[_ContainerStatus]) -> str:
    if status.reason:
        return joined(status.reason, status.message)
    for it in statuses:
        if it.state.waiting is not None and it.state.waiting.reason not in _ORDINARY:
            return joined(it.state.waiting.reason, it.state.waiting.message or _ending(it.last_state.terminated))
    if status.phase != "Succeeded":
        for it in statuses:
            if it.state.terminated is not None and (it.state.terminated.exit_code or it.state.terminated.signal):
                return f'container "{it.name}" {_ending(it.state.terminated)}'
    return ""


def _ending(ended: _Terminated | None) -> str:
    if ended is None:
        return ""
    how = f"was ended by signal {ended.signal}" if ended.signal else f"exited with code {ended.exit_code}"
    why = "" if ended.reason in ("", "Error", "Completed") else ended.reason
    return joined(f"{how} ({why})" if why else how, ended.message)


def joined(reason: str, message: str) -> str:
    """Both on one line, as far as they are there."""
    return ": ".join(part for part in (reason, " ".join(message.split())) if part)


class _Event(msgspec.Struct, frozen=True, rename="camel"):
    class Involved(msgspec.Struct, frozen=True):
        kind: str = ""
        namespace: str = ""
        name: str = ""
        uid: str = ""

    class Source(msgspec.Struct, frozen=True):
        component: str = ""

    class Series(msgspec.Struct, frozen=True, rename="camel"):
        count: int = 0
        last_observed_time: Timestamp | None = None

    class Meta(msgspec.Struct, frozen=True, rename="camel"):
        creation_timestamp: Timestamp | None = None
        resource_version: str = ""

    metadata: Meta = Meta()
    involved_object: Involved = Involved()
    type: str = ""
    reason: str = ""
    message: str = ""
    count: int | None = None
    first_timestamp: Timestamp | None = None
    last_timestamp: Timestamp | None = None
    event_time: Timestamp | None = None
    series: Series | None = None
    source: Source = Source()
    reporting_component: str = ""


_events = msgspec.json.Decoder(_Event)


def see_event(raw: bytes) -> EventSeen:
    """Of either generation of clients: those that count, and those that keep a series."""
    it = _events.decode(raw)
    born = seconds_of(it.first_timestamp or it.event_time or it.metadata.creation_timestamp) or 0
    series_end = seconds_of(it.series.last_observed_time) if it.series is not None else None
    return EventSeen(
        kind=it.involved_object.kind,
        namespace=it.involved_object.namespace,
        name=it.involved_object.name,
        uid=it.involved_object.uid,
        type=it.type,
        reason=it.reason,
        message=" ".join(it.message.split()),
        count=max(1, it.series.count if it.series is not None else it.count or 1),
        first_seconds=born,
        last_seconds=seconds_of(it.last_timestamp) or series_end or born,
        source=it.source.component or it.reporting_component,
        version=int(version) if (version := it.metadata.resource_version).isascii() and version.isdigit() else 0,
    )


class _QueueMeta(msgspec.Struct, frozen=True):
    class Meta(msgspec.Struct, frozen=True):
        name: str = ""

    class Status(msgspec.Struct, frozen=True):
        state: str = ""
        pending: int = 0
        inqueue: int = 0
        running: int = 0
        allocated: dict[str, str | int | float] | None = None

    metadata: Meta = Meta()
    status: Status | None = None


_queues = msgspec.json.Decoder(_QueueMeta)
_nodes = msgspec.json.Decoder(NodeDocument)
_flows = msgspec.json.Decoder(FlowDocument)


def see_queue(raw: bytes) -> QueueSeen:
    document = _queues.decode(raw)
    name, status = document.metadata.name, document.status or _QueueMeta.Status()
    try:
        held = ResourceVector.from_quantities(status.allocated)
        written = WrittenUse(held, status.running, status.pending + status.inqueue)
        return QueueSeen(name, read_queue(raw), written_state=status.state, written=written)
    except (msgspec.MsgspecError, ValueError) as error:
        return QueueSeen(name, None, str(error), status.state)


def see_flow(raw: bytes) -> FlowDocument:
    return _flows.decode(raw)


def see_node(raw: bytes) -> Node:
    return Node.from_document(_nodes.decode(raw))
