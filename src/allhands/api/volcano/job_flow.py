"""The kind JobFlow (flow.volcano.sh/v1alpha1): Jobs that start one after the other, as they depend on each other.

Types and documentation only. What is refused is in `job_flow_rules`.
"""

import enum
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from allhands.api.definitions import AGE, OURS, Column, Definition, Version
from allhands.api.field_types import Count, Moment
from allhands.api.schema.of_structs import OVERLAY
from allhands.api.volcano.job import JobSpec
from allhands.api.volcano.job_status import TaskState

OUTSIDE_JOB: Final = "job.batch/"
"""A target that begins so is a Job of batch/v1 in the namespace of the flow, not a step."""
Port = Annotated[int, Meta(ge=0, le=65535)]


class RetainPolicy(enum.StrEnum):
    """What becomes of the Jobs when the flow has ended."""

    RETAIN = "retain"
    DELETE = "delete"


class FlowPhase(enum.StrEnum):
    """Where a flow is in its life."""

    SUCCEED = "Succeed"
    TERMINATING = "Terminating"
    FAILED = "Failed"
    RUNNING = "Running"
    PENDING = "Pending"


class Header(msgspec.Struct, frozen=True):
    """A header of a request."""

    name: Annotated[str, Meta(description="Its name.")]
    value: Annotated[str, Meta(description="Its value.")]


class HttpGet(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """Every pod of a task answers a request with a status from 200 to 399."""

    task_name: Annotated[str, Meta(max_length=253, description="The task whose pods are asked.")] = ""
    path: Annotated[str, Meta(description="What is asked for.")] = ""
    port: Annotated[Port | None, Meta(description="The port of the pods.")] = None
    http_header: Annotated[Header | None, Meta(description="A header that is sent.")] = None


class TcpSocket(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """Every pod of a task takes connections."""

    task_name: Annotated[str, Meta(max_length=253, description="The task whose pods are asked.")] = ""
    port: Annotated[Port, Meta(description="The port of the pods.")]


class TaskStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """Every pod of a task is in a phase."""

    task_name: Annotated[str, Meta(max_length=253, description="The task whose pods are looked at.")] = ""
    phase: Annotated[str, Meta(max_length=63, description="The phase that they must be in, such as Running.")] = ""


class FlowProbe(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """When a Job that is depended on counts as up: all that is named here must hold."""

    http_get_list: Annotated[tuple[HttpGet, ...] | None, Meta(description="Requests that must be answered.")] = None
    tcp_socket_list: Annotated[tuple[TcpSocket, ...] | None, Meta(description="Ports that must take connections.")] = (
        None
    )
    task_status_list: Annotated[tuple[TaskStatus, ...] | None, Meta(description="Phases that pods must be in.")] = None


class FlowDependsOn(msgspec.Struct, frozen=True, omit_defaults=True):
    """What must be so before the Job is made."""

    targets: Annotated[
        tuple[str, ...] | None,
        Meta(
            description="Names of other steps of the flow that are waited for; job.batch/NAME is a Job of batch/v1 in "
            "the same namespace, which must be complete."
        ),
    ] = None
    probe: Annotated[
        FlowProbe | None,
        Meta(description="When a step that is waited for counts as up. Without it when its Job is completed."),
    ] = None


class FlowPatch(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What is different from the template."""

    job_spec: Annotated[
        JobSpec | None,
        Meta(
            description="Fields that go over those of the template. What is not named here stays as it is there.",
            extra_json_schema={OVERLAY: True},
        ),
    ] = None


class Flow(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """One step: a Job that is made from a template when it is its turn."""

    name: Annotated[
        str, Meta(min_length=1, description="The JobTemplate that it is made from. The Job is called FLOW-NAME.")
    ]
    depends_on: Annotated[FlowDependsOn | None, Meta(description="What must be so before the Job is made.")] = None
    patch: Annotated[FlowPatch | None, Meta(description="What is different from the template.")] = None


class JobFlowSpec(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """The steps, and what becomes of their Jobs."""

    flows: Annotated[tuple[Flow, ...] | None, Meta(description="The steps. They must not wait for each other.")] = None
    job_retain_policy: Annotated[
        RetainPolicy | None,
        Meta(description="Whether the Jobs stay when the flow has ended. Without it they stay."),
    ] = None


class FlowRun(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """One time that a Job of the flow ran."""

    start_timestamp: Annotated[Moment | None, Meta(description="When it began.")] = None
    end_timestamp: Annotated[Moment | None, Meta(description="When it ended.")] = None
    state: Annotated[str, Meta(description="The phase that it was in.")] = ""


class FlowJobStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """How far one Job of the flow is."""

    name: Annotated[str, Meta(description="Its name.")] = ""
    state: Annotated[str, Meta(description="Its phase.")] = ""
    start_timestamp: Annotated[Moment | None, Meta(description="When it began.")] = None
    end_timestamp: Annotated[Moment | None, Meta(description="When it ended.")] = None
    restart_count: Annotated[Count | None, Meta(description="How many times it was restarted.")] = None
    running_histories: Annotated[tuple[FlowRun, ...] | None, Meta(description="Every time that it ran.")] = None


class FlowCondition(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """What one Job of the flow looks like now."""

    phase: Annotated[str, Meta(description="Its phase.")] = ""
    create_time: Annotated[Moment | None, Meta(description="When it was made.")] = None
    running_duration: Annotated[str | None, Meta(description="How long it took, once it has ended.")] = None
    task_status_count: Annotated[
        dict[str, TaskState] | None, Meta(description="Task to phase to number of its pods.")
    ] = None


class FlowState(msgspec.Struct, frozen=True, omit_defaults=True):
    """The flow as a whole."""

    phase: Annotated[FlowPhase | None, Meta(description="Where it is in its life.")] = None
    reason: Annotated[str, Meta(description="Why it does not go on, as one word for programs.")] = ""
    message: Annotated[str, Meta(description="Why it does not go on, as a sentence for people.")] = ""


_Names = tuple[str, ...] | None


class JobFlowStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """How far it is. The controller's business."""

    pending_jobs: Annotated[_Names, Meta(description="Jobs that wait.")] = None
    running_jobs: Annotated[_Names, Meta(description="Jobs that run.")] = None
    failed_jobs: Annotated[_Names, Meta(description="Jobs that have failed.")] = None
    completed_jobs: Annotated[_Names, Meta(description="Jobs that are completed.")] = None
    terminated_jobs: Annotated[_Names, Meta(description="Jobs that were terminated.")] = None
    un_know_jobs: Annotated[_Names, Meta(description="Jobs in none of these states.")] = None
    job_status_list: Annotated[tuple[FlowJobStatus, ...] | None, Meta(description="All Jobs that were made.")] = None
    conditions: Annotated[
        dict[str, FlowCondition] | None, Meta(description="Name of a Job to what it looks like now.")
    ] = None
    state: Annotated[FlowState | None, Meta(description="The flow as a whole.")] = None


class JobFlow(msgspec.Struct, frozen=True):
    """Jobs that start one after the other: each step names a JobTemplate and the steps that it waits for."""

    spec: Annotated[JobFlowSpec | None, Meta(description="The steps, and what becomes of their Jobs.")] = None
    status: Annotated[JobFlowStatus | None, Meta(description="How far it is.")] = None


JOB_FLOW: Final = Definition(
    group="flow.volcano.sh",
    kind="JobFlow",
    plural="jobflows",
    short_names=("jf",),
    categories=(OURS,),
    versions=(
        Version(
            name="v1alpha1",
            type=JobFlow,
            columns=(Column("Status", ".status.state.phase", description="Where it is in its life."), AGE),
        ),
    ),
)
