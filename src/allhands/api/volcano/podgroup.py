"""The kind PodGroup (scheduling.volcano.sh/v1beta1): pods that start together, and how close to each other.

Types and documentation only. What the fields mean to scheduling is in `dialects.volcano_groups`, what is refused in
`podgroup_rules`. The status is no sub-resource: whoever writes it updates the whole object, as upstream has it.
"""

import enum
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from allhands.api.definitions import AGE, OURS, Column, Definition, Version
from allhands.api.field_types import Count, Int32, Moment, ObjectName, Positive, ResourceList
from allhands.api.volcano.network_topology import TopologyLimit
from allhands.api.volcano.pod_template import LabelSelector
from allhands.api.volcano.queue import DEFAULT


class PodGroupPhase(enum.StrEnum):
    """How far a group is."""

    PENDING = "Pending"
    RUNNING = "Running"
    UNKNOWN = "Unknown"
    INQUEUE = "Inqueue"
    COMPLETED = "Completed"


class SubGroupPolicy(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """Some of the pods, in parts that are placed as one."""

    name: Annotated[str, Meta(max_length=253, description="What these parts are called.")] = ""
    network_topology: Annotated[
        TopologyLimit | None, Meta(description="How close to each other the pods of a part must be.")
    ] = None
    sub_group_size: Annotated[Positive, Meta(description="How many pods each part has; it is placed whole.")] = 1
    min_sub_groups: Annotated[Count, Meta(description="How many parts must start together.")] = 0
    label_selector: Annotated[
        LabelSelector | None, Meta(description="Which pods of the group this is about. Without it none.")
    ] = None
    match_label_keys: Annotated[
        tuple[str, ...] | None,
        Meta(
            description="Labels that tell the parts apart: pods with the same values are in the same part.",
            extra_json_schema={"x-kubernetes-list-type": "atomic"},
        ),
    ] = None


class PodGroupSpec(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """What must start together, and where."""

    min_member: Annotated[Count, Meta(description="How many pods must start together; they start all or none.")] = 0
    min_task_member: Annotated[
        dict[str, Int32] | None, Meta(description="Task to how many of its pods must be among them.")
    ] = None
    queue: Annotated[
        ObjectName,
        Meta(
            description="The queue that it is in. One that is in default goes to the queue that the annotation "
            "scheduling.volcano.sh/queue-name of its namespace names, if there is one."
        ),
    ] = DEFAULT
    priority_class_name: Annotated[
        str, Meta(max_length=253, description="Its importance: the name of a PriorityClass.")
    ] = ""
    min_resources: Annotated[
        ResourceList | None, Meta(description="What the pods that must start together need, as far as it is known.")
    ] = None
    network_topology: Annotated[TopologyLimit | None, Meta(description="How close to each other the pods must be.")] = (
        None
    )
    sub_group_policy: Annotated[
        tuple[SubGroupPolicy, ...] | None, Meta(description="Parts of it that are placed as one.")
    ] = None


class PodGroupCondition(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """One aspect of how far it is."""

    type: Annotated[str, Meta(description="Which aspect: Unschedulable or Scheduled.")] = ""
    status: Annotated[str, Meta(description="Whether it holds.")] = ""
    transition_id: Annotated[str, Meta(description="Which decision found it.")] = msgspec.field(
        default="", name="transitionID"
    )
    last_transition_time: Annotated[Moment | None, Meta(description="Since when.")] = None
    reason: Annotated[str, Meta(description="Why, as one word for programs.")] = ""
    message: Annotated[str, Meta(description="Why, as a sentence for people.")] = ""


class PodGroupStatus(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """How far it is. The scheduler's business."""

    phase: Annotated[PodGroupPhase | None, Meta(description="How far it is, in one word.")] = None
    conditions: Annotated[
        tuple[PodGroupCondition, ...] | None, Meta(description="Whether it was placed, or why not.")
    ] = None
    running: Annotated[Count | None, Meta(description="Pods that run.")] = None
    succeeded: Annotated[Count | None, Meta(description="Pods that have ended well.")] = None
    failed: Annotated[Count | None, Meta(description="Pods that have failed.")] = None


class PodGroup(msgspec.Struct, frozen=True):
    """Pods that start together, all or none, and how close to each other they must be."""

    spec: Annotated[PodGroupSpec | None, Meta(description="What must start together, and where.")] = None
    status: Annotated[PodGroupStatus | None, Meta(description="How far it is.")] = None


POD_GROUP: Final = Definition(
    group="scheduling.volcano.sh",
    kind="PodGroup",
    plural="podgroups",
    short_names=("pg", "podgroup-v1beta1"),
    categories=(OURS,),
    versions=(
        Version(
            name="v1beta1",
            type=PodGroup,
            status=False,
            columns=(
                Column("STATUS", ".status.phase", description="How far it is."),
                Column("minMember", ".spec.minMember", "integer", description="How many start together."),
                Column("RUNNINGS", ".status.running", "integer", description="Pods that run."),
                AGE,
                Column("QUEUE", ".spec.queue", description="The queue that it is in.", priority=1),
            ),
        ),
    ),
)
