"""A Volcano Job as people see it, beside the Jobs of Kubernetes: which pods it wants, how far it is, how it ended.

Its PodGroup, which has a name of its own, is a part of it and never a line for itself.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import msgspec

from allhands.api.volcano.job import Iteration
from allhands.api.volcano.job_status import JobPhase
from allhands.api.volcano.lifecycle_policy import Action
from allhands.dialects.annotations import MOST_SECONDS
from allhands.dialects.groups import GroupRecord, Metadata
from allhands.dialects.volcano_groups import PREFIX
from allhands.lifecycle.volcano_job.durations import duration_seconds
from allhands.lifecycle.volcano_job.retries import pause_seconds
from allhands.model.pod_document import Timestamp, seconds_of
from allhands.views.picture import VCJOB, JobSeen, TaskSeen, joined

if TYPE_CHECKING:
    from collections.abc import Iterable

_FAILED: Final = frozenset((JobPhase.FAILED, JobPhase.TERMINATED))
_ENDING: Final = frozenset((JobPhase.COMPLETING, JobPhase.TERMINATING))
_PUT_BY: Final = frozenset((JobPhase.ABORTING, JobPhase.ABORTED))


class _DependsOn(msgspec.Struct, frozen=True):
    name: tuple[str, ...] | None = None
    iteration: str = ""


class _Partitions(msgspec.Struct, frozen=True, rename="camel"):
    partition_size: int = 0
    min_partitions: int = 0


class _PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    priority_class_name: str = ""


class _Template(msgspec.Struct, frozen=True):
    spec: _PodSpec | None = None


class _Task(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    template: _Template | None = None
    replicas: int = 0
    min_available: int | None = None
    depends_on: _DependsOn | None = None
    partition_policy: _Partitions | None = None

    @property
    def names_class(self) -> bool:
        return (
            self.template is not None
            and self.template.spec is not None
            and bool(self.template.spec.priority_class_name)
        )

    @property
    def minimum(self) -> int:
        policy = self.partition_policy
        if self.min_available is None and policy is not None and policy.min_partitions and policy.partition_size:
            return min(policy.min_partitions * policy.partition_size, self.replicas)
        return self.replicas if self.min_available is None else min(self.min_available, self.replicas)


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    scheduler_name: str = ""
    min_available: int | None = None
    tasks: tuple[_Task, ...] | None = None
    queue: str = ""
    priority_class_name: str = ""
    running_estimate: str = ""
    min_success: int | None = None


class _State(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: Timestamp | None = None


class _Entered(msgspec.Struct, frozen=True, rename="camel"):
    status: str = ""
    last_transition_time: Timestamp | None = None


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    state: _State | None = None
    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    retry_count: int = 0
    conditions: tuple[_Entered, ...] | None = None


class _Job(msgspec.Struct, frozen=True):
    metadata: Metadata = Metadata()
    spec: _Spec = _Spec()
    status: _Status = _Status()


_jobs = msgspec.json.Decoder(_Job)


def see_volcano_job(raw: bytes) -> JobSeen:
    document = _jobs.decode(raw)
    metadata, spec, status = document.metadata, document.spec, document.status
    state = status.state or _State()
    tasks = spec.tasks or ()
    size = sum(max(0, it.replicas) for it in tasks)
    phase = state.phase
    is_over = phase in _FAILED or phase == JobPhase.COMPLETED
    return JobSeen(
        record=GroupRecord(
            name=metadata.name,
            namespace=metadata.namespace,
            uid=metadata.uid,
            created_at_seconds=seconds_of(metadata.creation_timestamp) or 0,
            prefix=PREFIX,
            annotations=metadata.annotations or {},
            min_count=spec.min_available or sum(it.minimum for it in tasks),
            size=size,
            queue=spec.queue,
            expected_duration_seconds=_estimate(spec.running_estimate),
            # A class that only tasks name is their pods' alone: the group has none, and so the Job.
            priority=0 if not spec.priority_class_name and any(it.names_class for it in tasks) else None,
            priority_class=spec.priority_class_name,
            suspended=phase in _PUT_BY,
            scheduler_name=spec.scheduler_name,
        ),
        kind=VCJOB,
        completions=spec.min_success or size,
        active=status.pending + status.running,
        ready=status.running,
        succeeded=status.succeeded,
        failed=status.failed,
        started_at_seconds=_first_entered(status.conditions or (), JobPhase.RUNNING),
        finished_at_seconds=seconds_of(state.last_transition_time) if is_over else None,
        is_complete=phase == JobPhase.COMPLETED,
        is_failed=phase in _FAILED,
        is_ending=phase in _ENDING,
        verdict=joined(state.reason, state.message) if phase in _FAILED else "",
        told=_told(state),
        phase=phase,
        group_name=f"{PREFIX}{metadata.name}-{metadata.uid}",
        scheduler_name=spec.scheduler_name,
        tasks=tuple(_task_seen(number, it) for number, it in enumerate(tasks)),
        pauses_until_seconds=_pauses_until(status),
    )


def _task_seen(number: int, task: _Task) -> TaskSeen:
    depends = task.depends_on or _DependsOn()
    after = depends.name or ()
    is_any = len(after) > 1 and depends.iteration == Iteration.ANY
    return TaskSeen(task.name or f"default{number}", max(0, task.replicas), max(0, task.minimum), after, is_any)


def _pauses_until(status: _Status) -> int | None:
    """Of a restart that was not asked for, as the machine of Jobs reckons it."""
    state = status.state or _State()
    since = seconds_of(state.last_transition_time)
    if state.phase != JobPhase.RESTARTING or state.reason == Action.RESUME_JOB or since is None:
        return None
    pause = pause_seconds(status.retry_count)
    return since + math.ceil(pause) if pause else None


def _estimate(text: str) -> int | None:
    seconds = duration_seconds(text)
    return math.ceil(seconds) if seconds is not None and 0 < seconds <= MOST_SECONDS else None


def _first_entered(history: Iterable[_Entered], phase: JobPhase) -> int | None:
    return next((seconds_of(it.last_transition_time) for it in history if it.status == phase), None)


def _told(state: _State) -> str:
    """What it says of its waiting; a restart has a reason too, and a pause before it."""
    if state.phase == JobPhase.RESTARTING:
        return f"It is being restarted: {joined(state.reason, state.message)}"
    if state.phase in _PUT_BY and state.message:
        return f"It is suspended: {state.message}"
    return state.message if state.phase == JobPhase.PENDING else ""
