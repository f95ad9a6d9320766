"""A Volcano Job as people see it, beside the Jobs of Kubernetes: which pods it wants, how far it is, how it ended.

Its PodGroup, which has a name of its own, is a part of it and never a line for itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from allhands.api.volcano.job_status import JobPhase
from allhands.dialects.annotations import MOST_SECONDS, AnnotationError, duration_seconds
from allhands.dialects.groups import GroupRecord, Metadata
from allhands.dialects.volcano_groups import PREFIX
from allhands.model.pod_document import Timestamp, seconds_of
from allhands.views.picture import VCJOB, JobSeen, joined

if TYPE_CHECKING:
    from collections.abc import Iterable

_FAILED: Final = frozenset((JobPhase.FAILED, JobPhase.TERMINATED))
_ENDING: Final = frozenset((JobPhase.COMPLETING, JobPhase.TERMINATING))
_PUT_BY: Final = frozenset((JobPhase.ABORTING, JobPhase.ABORTED))


class _Task(msgspec.Struct, frozen=True, rename="camel"):
    replicas: int = 0
    min_available: int | None = None


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


class _Status(msgspec.Struct, frozen=True):
    state: _State | None = None
    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
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
            min_count=spec.min_available or _least(tasks),
            size=size,
            queue=spec.queue,
            expected_duration_seconds=_estimate(spec.running_estimate),
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
    )


def _least(tasks: Iterable[_Task]) -> int:
    return sum(it.replicas if it.min_available is None else it.min_available for it in tasks)


def _estimate(text: str) -> int | None:
    try:
        seconds = duration_seconds("spec.runningEstimate", text) if text else 0
    except AnnotationError:
        return None
    return seconds if 0 < seconds <= MOST_SECONDS else None


def _first_entered(history: Iterable[_Entered], phase: JobPhase) -> int | None:
    return next((seconds_of(it.last_transition_time) for it in history if it.status == phase), None)


def _told(state: _State) -> str:
    """What it says of its waiting; a restart has a reason too, and a pause before it."""
    if state.phase == JobPhase.RESTARTING:
        return f"It is being restarted: {joined(state.reason, state.message)}"
    return state.message if state.phase == JobPhase.PENDING else ""
