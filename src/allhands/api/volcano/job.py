"""The kind Job (batch.volcano.sh/v1alpha1): tasks of equal pods that start together, and what to do when pods fail.

Types and documentation only, field by field as Volcano's users write them. What is filled in is in `job_defaults`, what
is refused in `job_rules`, what becomes of a Job in `lifecycle.volcano_job`.
"""

import enum
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from allhands.api.definitions import AGE, OURS, Column, Definition, Version
from allhands.api.field_types import Count, ObjectName, Positive
from allhands.api.schema.of_structs import RULES
from allhands.api.volcano.job_status import JobCondition, JobState, TaskState
from allhands.api.volcano.lifecycle_policy import LifecyclePolicy
from allhands.api.volcano.network_topology import TopologyLimit
from allhands.api.volcano.pod_template import PodTemplate, VolumeClaim
from allhands.api.volcano.queue import DEFAULT

DEFAULT_MAX_RETRY: Final = 3
NAME_LABEL: Final = "volcano.sh/job-name"


class TopologyPolicy(enum.StrEnum):
    """How the CPUs of a pod are to lie on its node."""

    NONE = "none"
    BEST_EFFORT = "best-effort"
    RESTRICTED = "restricted"
    SINGLE_NUMA_NODE = "single-numa-node"


class Iteration(enum.StrEnum):
    """How many of the named tasks are waited for."""

    ANY = "any"
    ALL = "all"


class DependsOn(msgspec.Struct, frozen=True, omit_defaults=True):
    """Which tasks must have come up, or have ended, before the pods of this one are made."""

    name: Annotated[tuple[str, ...] | None, Meta(description="Names of other tasks of the same Job.")] = None
    iteration: Annotated[
        Iteration | None, Meta(description="Whether one of them is enough (any) or all are waited for (all).")
    ] = None


class PartitionPolicy(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """The pods of a task in parts of equal size, each of which is placed, and restarted, as one."""

    total_partitions: Annotated[Positive, Meta(description="How many parts there are.")]
    partition_size: Annotated[Positive, Meta(description="How many pods each part has.")]
    min_partitions: Annotated[Count, Meta(description="How many parts must start together.")] = 0
    network_topology: Annotated[
        TopologyLimit | None, Meta(description="How close to each other the pods of a part must be.")
    ] = None


class TaskSpec(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """A number of equal pods with one role, such as the workers of a training."""

    name: Annotated[
        str,
        Meta(
            max_length=63,
            pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
            description="The role. Pods are called JOB-NAME-INDEX. Without one it is default and the task's index.",
        ),
    ] = ""
    replicas: Annotated[Count, Meta(description="How many pods there are.")] = 0
    min_available: Annotated[
        Count | None,
        Meta(
            description="How many of them must start together. Without it all; with a partition policy that says how "
            "many parts, the pods of these."
        ),
    ] = None
    template: Annotated[PodTemplate | None, Meta(description="What each pod is made from.")] = None
    policies: Annotated[
        tuple[LifecyclePolicy, ...] | None,
        Meta(description="What to do about what happens to pods of this task. Goes before the policies of the Job."),
    ] = None
    topology_policy: Annotated[
        TopologyPolicy | None, Meta(description="How the CPUs of each pod are to lie on its node.")
    ] = None
    max_retry: Annotated[
        Count, Meta(description="How many times the task may be restarted. 0 is as if nothing were said.")
    ] = DEFAULT_MAX_RETRY
    depends_on: Annotated[
        DependsOn | None, Meta(description="Which tasks must be up, or over, before pods of this one are made.")
    ] = None
    partition_policy: Annotated[
        PartitionPolicy | None, Meta(description="The pods in parts that are placed and restarted as one.")
    ] = None


Task = Annotated[
    TaskSpec,
    Meta(
        extra_json_schema={
            RULES: [
                {
                    "rule": "!has(self.minAvailable) || self.minAvailable <= self.replicas",
                    "message": "minAvailable must not be more than replicas; a task that said nothing got the replicas "
                    "that it came with: to have fewer pods, lower both",
                    "fieldPath": ".minAvailable",
                },
            ]
        }
    ),
]
"""A task of a Job, with the rule that a server checks by itself; `job_rules` has all of them. For more, a server that
does not know how many tasks there will be gives no time."""


class VolumeSpec(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """A volume that every container of the Job gets."""

    mount_path: Annotated[
        str, Meta(min_length=1, pattern="^[^:]+$", description="Where containers see it. Must not have a colon.")
    ]
    volume_claim_name: Annotated[
        str,
        Meta(
            max_length=253,
            description="The PersistentVolumeClaim. With volumeClaim it is made by this name, or by one that is made "
            "up; without it must be there.",
        ),
    ] = ""
    volume_claim: Annotated[
        VolumeClaim | None, Meta(description="What to claim, if the claim is made for the Job.")
    ] = None


class JobSpec(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """What to run, and what to do when something happens to it."""

    scheduler_name: Annotated[
        str, Meta(max_length=63, description="Who places the pods. Without one, the scheduler that serves here.")
    ] = ""
    min_available: Annotated[
        Count | None,
        Meta(
            description="How many pods must start together; they start all or none. Without it, and with 0, the "
            "minimums of the tasks together."
        ),
    ] = None
    volumes: Annotated[tuple[VolumeSpec, ...] | None, Meta(description="Volumes that every container gets.")] = None
    tasks: Annotated[
        Annotated[tuple[Task, ...], Meta(min_length=1)] | None,
        Meta(description="The roles, each with its pods. At least one."),
    ] = None
    policies: Annotated[
        tuple[LifecyclePolicy, ...] | None, Meta(description="What to do about what happens to pods of the Job.")
    ] = None
    plugins: Annotated[
        dict[str, tuple[str, ...] | None] | None,
        Meta(description="What pods get so that they find each other: name of the plugin, and its flags."),
    ] = None
    running_estimate: Annotated[
        str | None,
        Meta(
            description="How long it will run, such as 1h30m. Others may start in the meantime if they end before it "
            "is needed, and who waits is told until when."
        ),
    ] = None
    queue: Annotated[
        ObjectName,
        Meta(description="The queue that it is submitted to: one that is open and has no queues below it."),
    ] = DEFAULT
    max_retry: Annotated[
        Count,
        Meta(description="How many times it may be restarted before it has failed. 0 is as if nothing were said."),
    ] = DEFAULT_MAX_RETRY
    ttl_seconds_after_finished: Annotated[
        Count | None, Meta(description="How many seconds after its end it is deleted. Without it, it stays.")
    ] = None
    priority_class_name: Annotated[ObjectName, Meta(description="Its importance: the name of a PriorityClass.")] = ""
    min_success: Annotated[
        Positive | None,
        Meta(description="How many pods must succeed for the whole to be complete, whatever the others do."),
    ] = None
    network_topology: Annotated[TopologyLimit | None, Meta(description="How close to each other the pods must be.")] = (
        None
    )


class JobStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """How far it is. The controller's business."""

    state: Annotated[JobState | None, Meta(description="The phase, since when, and why.")] = None
    min_available: Annotated[Count | None, Meta(description="The minimum that is in force.")] = None
    task_status_count: Annotated[
        dict[str, TaskState] | None, Meta(description="Task to phase to number of its pods.")
    ] = None
    pending: Annotated[Count | None, Meta(description="Pods that wait.")] = None
    running: Annotated[Count | None, Meta(description="Pods that run.")] = None
    succeeded: Annotated[Count | None, Meta(description="Pods that have ended well.")] = None
    failed: Annotated[Count | None, Meta(description="Pods that have failed.")] = None
    terminating: Annotated[Count | None, Meta(description="Pods that were told to go and are still there.")] = None
    unknown: Annotated[Count | None, Meta(description="Pods of whose nodes nothing is heard.")] = None
    version: Annotated[Count | None, Meta(description="How many times its pods were made anew.")] = None
    retry_count: Annotated[Count | None, Meta(description="How many times it was restarted.")] = None
    running_duration: Annotated[str | None, Meta(description="How long it took, once it has ended.")] = None
    controlled_resources: Annotated[
        dict[str, str] | None, Meta(description="What plugins and volumes have made for the Job.")
    ] = None
    conditions: Annotated[
        tuple[JobCondition, ...] | None,
        Meta(description="The phases that it went through, in their order: a history, not conditions as elsewhere."),
    ] = None


class Job(msgspec.Struct, frozen=True):
    """Pods in several roles that start together and are led as one: what runs, where it may run, what happens when a
    pod fails, and when the whole is over."""

    spec: Annotated[JobSpec | None, Meta(description="What to run.")] = None
    status: Annotated[JobStatus | None, Meta(description="How far it is.")] = None


JOB: Final = Definition(
    group="batch.volcano.sh",
    kind="Job",
    plural="jobs",
    short_names=("vcjob", "vj"),
    categories=(OURS,),
    versions=(
        Version(
            name="v1alpha1",
            type=Job,
            columns=(
                Column("STATUS", ".status.state.phase", description="The phase."),
                Column("minAvailable", ".status.minAvailable", "integer", description="How many start together."),
                Column("RUNNINGS", ".status.running", "integer", description="Pods that run."),
                AGE,
                Column("QUEUE", ".spec.queue", description="The queue that it is in.", priority=1),
            ),
        ),
    ),
)
