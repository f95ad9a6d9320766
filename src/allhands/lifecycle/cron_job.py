"""A CronJob makes Jobs at the minutes of its schedule, and keeps account of them; whichever kind of Job.

A Job's name says the minute it was made for, so the same minute never starts twice, whatever crashed in between. What
is active and what was scheduled last is read off the Jobs themselves; the status only tells it to others, and is
written before any Job that it was read off is thrown away.
"""

import datetime
import math
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, Final, Literal, Protocol

import msgspec

from allhands.api.document import Manifest
from allhands.api.kinds import Resource
from allhands.lifecycle.changes import merge_patch, object_reference, owner_reference, time_text
from allhands.lifecycle.cron_schedule import Schedule, ScheduleError, local_text, parse_schedule
from allhands.lifecycle.instructions import Create, Delete, Instruction, Outcome, Patch, Record
from allhands.lifecycle.observed import Condition, Metadata, Template, Timestamp, seconds_of

CRON_JOBS: Final = Resource("batch", "v1", "cronjobs")
JOBS: Final = Resource("batch", "v1", "jobs")
SCHEDULED_AT: Final = "batch.kubernetes.io/cronjob-scheduled-timestamp"
MANY_MISSED: Final = 100
"""More missed starts than this are worth a warning: a clock is wrong or the schedule was out of use for long."""


class CronKind(msgspec.Struct, frozen=True):
    """What a CronJob of one group is: CronJobs and Jobs have one group and version."""

    crons: Resource
    jobs: Resource
    scheduled_at: str
    """The annotation of a Job that says the moment it was made for."""

    @property
    def api_version(self) -> str:
        return self.jobs.api_version


BUILTIN: Final = CronKind(CRON_JOBS, JOBS, SCHEDULED_AT)


class CronJobSpec(msgspec.Struct, frozen=True, rename="camel"):
    schedule: str = ""
    time_zone: str | None = None
    suspend: bool | None = None
    concurrency_policy: str = "Allow"
    starting_deadline_seconds: int | None = None
    successful_jobs_history_limit: int | None = None
    failed_jobs_history_limit: int | None = None
    job_template: Template = Template()


class CronJobStatus(msgspec.Struct, frozen=True, rename="camel"):
    last_schedule_time: Timestamp | None = None
    last_successful_time: Timestamp | None = None
    active: tuple[Manifest, ...] | None = None


class CronJob(msgspec.Struct, frozen=True):
    """Another group's is a subclass with its own `of`."""

    of: ClassVar[CronKind] = BUILTIN

    metadata: Metadata = Metadata()
    spec: CronJobSpec = CronJobSpec()
    status: CronJobStatus = CronJobStatus()


class JobStatus(msgspec.Struct, frozen=True, rename="camel"):
    start_time: Timestamp | None = None
    completion_time: Timestamp | None = None
    conditions: tuple[Condition, ...] | None = None


class MadeJob(Protocol):
    """A Job, of whichever kind, as the CronJob that made it sees it."""

    @property
    def metadata(self) -> Metadata: ...

    @property
    def end(self) -> str:
        """`Complete` or `Failed`; empty while it may still run."""

    @property
    def started_seconds(self) -> float:
        """Infinite while it has not."""

    @property
    def succeeded_seconds(self) -> float:
        """When it was complete; 0 if nobody says."""


class CronsJob(msgspec.Struct, frozen=True):
    """A Job of batch/v1."""

    metadata: Metadata = Metadata()
    status: JobStatus = JobStatus()

    @property
    def end(self) -> str:
        """`Complete` or `Failed`; empty while it may still run."""
        ends = (it.type for it in self.status.conditions or () if it.status == "True")
        return next((it for it in ends if it in ("Complete", "Failed")), "")

    @property
    def started_seconds(self) -> float:
        return seconds_of(self.status.start_time, math.inf)

    @property
    def succeeded_seconds(self) -> float:
        return seconds_of(self.status.completion_time)


def reconcile(
    cron: CronJob,
    jobs: Sequence[MadeJob],
    now_seconds: float,
    is_taken: Callable[[str], bool] = lambda _name: False,
    refusal: str = "",
) -> Outcome:
    """`jobs` are all that the CronJob controls; `is_taken` says whether a Job of that name, whosever, is there;
    `refusal` is why the last attempt came to nothing."""
    own = sorted(jobs, key=lambda it: (it.metadata.created_seconds, it.metadata.name))
    status = _status(cron, own)
    instructions: list[Instruction] = [*_status_patch(cron, status), *_finished_events(cron, own)]
    if cron.metadata.is_going:
        return Outcome(tuple(instructions))
    instructions += _history(cron, own)
    if cron.spec.suspend:
        return Outcome(tuple(instructions))
    try:
        schedule = parse_schedule(cron.spec.schedule, cron.spec.time_zone)
    except ScheduleError as error:
        reason = "UnknownTimeZone" if str(error).startswith("invalid timeZone") else "UnparseableSchedule"
        return Outcome((*instructions, _warning(cron, reason, str(error))))
    due, more = _due(cron, own, schedule, now_seconds)
    instructions += more
    if due is not None:
        instructions += _start(cron, own, due, is_taken, refusal)
    next_seconds = schedule.next_after(now_seconds)
    if next_seconds is None and due is None:
        instructions.append(_warning(cron, "InvalidSchedule", f"{cron.spec.schedule!r} never comes in the next years"))
    return Outcome(tuple(instructions), None if next_seconds is None else float(next_seconds))


def _warning(cron: CronJob, reason: str, message: str) -> Record:
    return _event(cron, "Warning", reason, message)


def _event(cron: CronJob, type: Literal["Normal", "Warning"], reason: str, message: str) -> Record:
    return Record(object_reference(cron.of.api_version, "CronJob", cron.metadata), type, reason, message)


def _is_scheduled(cron: CronJob, job: MadeJob) -> bool:
    """Whether it was made for a minute of the schedule, not by hand from the template."""
    return _scheduled_seconds(cron, job) is not None


def _scheduled_seconds(cron: CronJob, job: MadeJob) -> int | None:
    minute = job.metadata.name.removeprefix(f"{cron.metadata.name}-")
    if minute == job.metadata.name or not minute.isdecimal() or len(minute) > 12:
        return None
    stated = job.metadata.annotation(cron.of.scheduled_at)
    try:
        exact = datetime.datetime.fromisoformat(stated).timestamp() if stated else int(minute) * 60
    except (ValueError, OverflowError):
        exact = int(minute) * 60
    return math.floor(exact)


def _last_scheduled_seconds(cron: CronJob, jobs: Iterable[MadeJob]) -> float | None:
    times = [float(it) for job in jobs if (it := _scheduled_seconds(cron, job)) is not None]
    if cron.status.last_schedule_time is not None:
        times.append(seconds_of(cron.status.last_schedule_time))
    return max(times, default=None)


def _is_active(cron: CronJob, job: MadeJob) -> bool:
    if job.end or not _is_scheduled(cron, job):
        return False
    return not (job.metadata.is_going and cron.spec.concurrency_policy == "Replace")


def _status(cron: CronJob, jobs: Sequence[MadeJob]) -> Manifest:
    status: Manifest = {"active": [_reference(cron, job) for job in jobs if _is_active(cron, job)]}
    last = _last_scheduled_seconds(cron, jobs)
    if last is not None:
        status["lastScheduleTime"] = time_text(last)
    successes = [job.succeeded_seconds for job in jobs if job.end == "Complete"]
    if cron.status.last_successful_time is not None:
        successes.append(seconds_of(cron.status.last_successful_time))
    if any(successes):
        status["lastSuccessfulTime"] = time_text(max(successes))
    return status


def _reference(cron: CronJob, job: MadeJob) -> Manifest:
    return object_reference(cron.of.api_version, "Job", job.metadata)


def _status_patch(cron: CronJob, status: Manifest) -> list[Instruction]:
    told: Manifest = {"active": list(cron.status.active or ())}
    if {it.get("uid") for it in told["active"]} == {it["uid"] for it in status["active"]}:
        status = {**status, "active": told["active"]}  # a Job that only changed need not be told anew
    for field, moment in (
        ("lastScheduleTime", cron.status.last_schedule_time),
        ("lastSuccessfulTime", cron.status.last_successful_time),
    ):
        if moment is not None:
            told[field] = time_text(seconds_of(moment))
    patch = merge_patch(told, status)
    if not patch:
        return []
    metadata = cron.metadata
    version = metadata.resource_version
    return [Patch(cron.of.crons, metadata.namespace, metadata.name, {"status": patch}, "status", version)]


def _finished_events(cron: CronJob, jobs: Sequence[MadeJob]) -> list[Instruction]:
    told = {it.get("uid"): it.get("name", "") for it in cron.status.active or ()}
    present = {job.metadata.uid: job for job in jobs}
    events: list[Instruction] = []
    for uid, name in told.items():
        job = present.get(uid or "")
        if job is None:
            events.append(_event(cron, "Normal", "MissingJob", f"Active job went missing: {name}"))
        elif job.end:
            events.append(_event(cron, "Normal", "SawCompletedJob", f"Saw completed job: {name}, condition: {job.end}"))
    return events


def _history(cron: CronJob, jobs: Sequence[MadeJob]) -> list[Instruction]:
    """Finished Jobs beyond what is to be kept go, oldest first."""
    instructions: list[Instruction] = []
    for end, limit in (
        ("Complete", cron.spec.successful_jobs_history_limit),
        ("Failed", cron.spec.failed_jobs_history_limit),
    ):
        if limit is None:
            continue
        finished = sorted((job for job in jobs if job.end == end), key=_by_start)
        surplus = finished[: max(0, len(finished) - max(0, limit))]
        for job in surplus:
            if not job.metadata.is_going:
                instructions += _deletion(cron, job)
    return instructions


def _by_start(job: MadeJob) -> tuple[float, str]:
    return job.started_seconds, job.metadata.name


def _deletion(cron: CronJob, job: MadeJob) -> list[Instruction]:
    metadata = job.metadata
    return [
        Delete(cron.of.jobs, metadata.namespace, metadata.name, metadata.uid, propagation="Background"),
        _event(cron, "Normal", "SuccessfulDelete", f"Deleted job {metadata.name}"),
    ]


def _due(
    cron: CronJob, jobs: Sequence[MadeJob], schedule: Schedule, now_seconds: float
) -> tuple[int | None, list[Instruction]]:
    """The latest moment that should have started a Job and has not; all before it are let go."""
    last = _last_scheduled_seconds(cron, jobs)
    earliest = cron.metadata.created_seconds if last is None else last
    deadline = cron.spec.starting_deadline_seconds
    if deadline is not None:
        earliest = max(earliest, now_seconds - max(0, deadline))
    due = schedule.last_within(earliest, now_seconds)
    if due is not None and _missed(schedule, earliest, due) > MANY_MISSED:
        text = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
        return due, [_warning(cron, "TooManyMissedTimes", text)]
    return due, []


def _missed(schedule: Schedule, earliest_seconds: float, due_seconds: int) -> int:
    """About how often it fired, by the distance of the first two times."""
    first = schedule.next_after(earliest_seconds)
    second = None if first is None else schedule.next_after(first)
    if first is None or second is None or second > due_seconds:
        return 1
    return (due_seconds - first) // (second - first) + 1


def _start(
    cron: CronJob, jobs: Sequence[MadeJob], due_seconds: int, is_taken: Callable[[str], bool], refusal: str
) -> list[Instruction]:
    name = f"{cron.metadata.name}-{due_seconds // 60}"
    if any(job.metadata.name == name for job in jobs):
        return []
    if is_taken(name):
        return [_warning(cron, "FailedCreate", f"Error creating job: a job {name} of somebody else is in the way")]
    active = [job for job in jobs if _is_active(cron, job)]
    instructions: list[Instruction] = []
    if refusal:
        instructions.append(_warning(cron, "FailedCreate", f"Error creating job: {refusal}"))
    if active and cron.spec.concurrency_policy == "Forbid":
        text = "Not starting job because prior execution is running and concurrency policy is Forbid"
        return [_event(cron, "Normal", "JobAlreadyActive", text)]
    if cron.spec.concurrency_policy == "Replace":
        for job in active:
            instructions += _deletion(cron, job)
    instructions.append(Create(cron.of.jobs, cron.metadata.namespace, _job(cron, name, due_seconds)))
    instructions.append(_event(cron, "Normal", "SuccessfulCreate", f"Created job {name}"))
    return instructions


def _job(cron: CronJob, name: str, due_seconds: int) -> Manifest:
    template = cron.spec.job_template
    return {
        "apiVersion": cron.of.api_version,
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": cron.metadata.namespace,
            "labels": dict(template.labels),
            "annotations": {
                **(template.metadata.get("annotations") or {}),
                cron.of.scheduled_at: local_text(due_seconds, cron.spec.time_zone),
            },
            "ownerReferences": [owner_reference(cron.of.api_version, "CronJob", cron.metadata)],
        },
        "spec": template.spec,
    }
