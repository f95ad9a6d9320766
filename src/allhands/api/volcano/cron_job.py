"""The kind CronJob (batch.volcano.sh/v1alpha1): Volcano Jobs that are made again and again, by a schedule.

Types and documentation only. What is refused is in `cron_job_rules`.
"""

import enum
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from allhands.api.definitions import AGE, OURS, Column, Definition, Version
from allhands.api.field_types import INT64_MAX, Count, Moment
from allhands.api.volcano.job import JobSpec
from allhands.api.volcano.pod_template import TemplateMetadata


class ConcurrencyPolicy(enum.StrEnum):
    """What happens when it is time and the Job before still runs."""

    ALLOW = "Allow"
    FORBID = "Forbid"
    REPLACE = "Replace"


class JobTemplateSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """What each Job is made from."""

    metadata: Annotated[TemplateMetadata | None, Meta(description="Labels and annotations that each Job gets.")] = None
    spec: Annotated[JobSpec | None, Meta(description="What each Job runs.")] = None


class CronJobSpec(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """When Jobs are made, and from what."""

    schedule: Annotated[
        str, Meta(min_length=1, description="When: minute, hour, day of the month, month, day of the week; or @daily.")
    ]
    time_zone: Annotated[
        str | None, Meta(description="The time zone of the schedule, such as Europe/Berlin. Without one UTC.")
    ] = None
    starting_deadline_seconds: Annotated[
        Annotated[int, Meta(ge=0, le=INT64_MAX, extra_json_schema={"format": "int64"})] | None,
        Meta(description="How late a Job may be made, if its time was missed. Without it any time later."),
    ] = None
    concurrency_policy: Annotated[
        ConcurrencyPolicy,
        Meta(
            description="When it is time and the Job before still runs: Allow runs both, Forbid leaves this time out, "
            "Replace deletes the one that runs."
        ),
    ] = ConcurrencyPolicy.ALLOW
    suspend: Annotated[
        bool, Meta(description="Whether no more Jobs are made for now. Those that run are left alone.")
    ] = False
    job_template: Annotated[JobTemplateSpec, Meta(description="What each Job is made from.")]
    successful_jobs_history_limit: Annotated[
        Count, Meta(description="How many Jobs that have ended well are kept.")
    ] = 3
    failed_jobs_history_limit: Annotated[Count, Meta(description="How many Jobs that have failed are kept.")] = 1


class JobReference(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """A Job that was made."""

    api_version: Annotated[str, Meta(description="The group and version of its kind.")] = ""
    field_path: Annotated[str, Meta(description="Unused.")] = ""
    kind: Annotated[str, Meta(description="Its kind.")] = ""
    name: Annotated[str, Meta(description="Its name.")] = ""
    namespace: Annotated[str, Meta(description="Its namespace.")] = ""
    resource_version: Annotated[str, Meta(description="Its version at that time.")] = ""
    uid: Annotated[str, Meta(description="Its uid.")] = ""


_AtomicReference = Annotated[JobReference, Meta(extra_json_schema={"x-kubernetes-map-type": "atomic"})]


class CronJobStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """What was made of it so far. The controller's business."""

    active: Annotated[
        tuple[_AtomicReference, ...] | None,
        Meta(description="The Jobs that run.", extra_json_schema={"x-kubernetes-list-type": "atomic"}),
    ] = None
    last_schedule_time: Annotated[Moment | None, Meta(description="When a Job was made last.")] = None
    last_successful_time: Annotated[Moment | None, Meta(description="When a Job ended well last.")] = None


class CronJob(msgspec.Struct, frozen=True):
    """Jobs of batch.volcano.sh that are made again and again, by a schedule."""

    spec: Annotated[CronJobSpec | None, Meta(description="When Jobs are made, and from what.")] = None
    status: Annotated[CronJobStatus | None, Meta(description="What was made of it so far.")] = None


CRON_JOB: Final = Definition(
    group="batch.volcano.sh",
    kind="CronJob",
    plural="cronjobs",
    short_names=("cronvcjob", "cronvj"),
    categories=(OURS,),
    versions=(
        Version(
            name="v1alpha1",
            type=CronJob,
            columns=(
                Column("Schedule", ".spec.schedule", description="When Jobs are made."),
                Column("Suspend", ".spec.suspend", "boolean", description="Whether none are made for now."),
                Column("Last Schedule", ".status.lastScheduleTime", "date", description="When one was made last."),
                AGE,
            ),
        ),
    ),
)
