"""The kind Queue (scheduling.volcano.sh/v1beta1): a part of the cluster that groups of pods are submitted to.

Types and documentation only. What the fields mean to scheduling is in `dialects.queues`, what contradicts itself in
`queue_rules`.
"""

import enum
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from allhands.api.definitions import AGE, OURS, Column, Definition, Version
from allhands.api.field_types import Conditions, Count, Int32, ResourceList

ROOT: Final = "root"
"""The queue above all others. Nothing is submitted to it."""
DEFAULT: Final = "default"
"""Where a group goes that names no queue."""
MAX_WEIGHT: Final = 65535


class DequeueStrategy(enum.StrEnum):
    """Whom a group that cannot start holds up."""

    FIFO = "fifo"
    TRAVERSE = "traverse"


class QueueState(enum.StrEnum):
    """Whether a queue takes new groups."""

    OPEN = "Open"
    CLOSED = "Closed"
    CLOSING = "Closing"
    UNKNOWN = "Unknown"


class Guarantee(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is kept free for the queue even while it does not use it."""

    resource: Annotated[
        ResourceList | None, Meta(description="Resource name to the amount that nobody else may use.")
    ] = None


class NodeGroupAffinity(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Node groups, by the value of the node label volcano.sh/nodegroup-name."""

    required_during_scheduling_ignored_during_execution: Annotated[
        tuple[str, ...] | None, Meta(description="Node groups that must be used, or avoided, in any case.")
    ] = None
    preferred_during_scheduling_ignored_during_execution: Annotated[
        tuple[str, ...] | None, Meta(description="Node groups that should be used, or avoided, where possible.")
    ] = None


class Affinity(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Which node groups the pods of the queue go to."""

    node_group_affinity: Annotated[
        NodeGroupAffinity | None, Meta(description="Node groups that pods of the queue go to.")
    ] = None
    node_group_anti_affinity: Annotated[
        NodeGroupAffinity | None, Meta(description="Node groups that pods of the queue stay away from.")
    ] = None


class Cluster(msgspec.Struct, frozen=True, omit_defaults=True):
    """Another cluster that work of the queue may be sent to."""

    name: Annotated[str, Meta(description="The name of the cluster.")] = ""
    weight: Annotated[Int32 | None, Meta(description="Its part of the work, beside the other clusters.")] = None
    capacity: Annotated[ResourceList | None, Meta(description="How much the queue may use there.")] = None


class QueueSpec(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """What the queue may use, and how it shares."""

    weight: Annotated[
        int,
        Meta(
            ge=1,
            le=MAX_WEIGHT,
            extra_json_schema={"format": "int32"},
            description="Its part, beside its siblings, of what is not given out by deserved. A queue of weight 2 "
            "gets twice as much as one of weight 1.",
        ),
    ] = 1
    capability: Annotated[
        ResourceList | None,
        Meta(
            description="The most that its groups, with those of the queues below, ever use. A resource that is "
            "not named is not limited."
        ),
    ] = None
    deserved: Annotated[
        ResourceList | None,
        Meta(
            description="Its fair part. Beyond it, what is free may be borrowed, and is given back when its owner "
            "needs it. At most capability, at least guarantee."
        ),
    ] = None
    guarantee: Annotated[
        Guarantee | None, Meta(description="What is kept free for the queue even while it does not use it.")
    ] = None
    reclaimable: Annotated[
        bool,
        Meta(description="Whether other queues may take back what this one uses beyond what it deserves."),
    ] = True
    parent: Annotated[
        str,
        Meta(
            description="The queue that this one is a part of; use is charged to both. Without one it is a part of "
            "root. Must exist, and must not be below this queue."
        ),
    ] = ""
    priority: Annotated[
        int,
        Meta(
            ge=0,
            le=2**31 - 1,
            extra_json_schema={"format": "int32"},
            description="Queues with a higher priority are served first, and are reclaimed from last.",
        ),
    ] = 0
    dequeue_strategy: Annotated[
        DequeueStrategy,
        Meta(
            description="Whom a group that cannot start holds up: with fifo everyone behind it, with traverse "
            "nobody who fits."
        ),
    ] = DequeueStrategy.TRAVERSE
    affinity: Annotated[Affinity | None, Meta(description="Which node groups the pods of the queue go to.")] = None
    type: Annotated[str, Meta(description="A word of the owner's choice. Nothing reads it.")] = ""
    extend_clusters: Annotated[
        tuple[Cluster, ...] | None, Meta(description="Other clusters that work of the queue may be sent to.")
    ] = None


class Reservation(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is locked for the queue."""

    nodes: Annotated[tuple[str, ...] | None, Meta(description="Names of the nodes.")] = None
    resource: Annotated[ResourceList | None, Meta(description="The resources of these nodes together.")] = None


class QueueStatus(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What the queue holds now. The server's business; a user writes only `state`, to close or to open it."""

    state: Annotated[
        QueueState | None,
        Meta(
            description="Open takes groups and starts them. Closing does neither and still has groups; Closed has none."
        ),
    ] = None
    unknown: Annotated[Count | None, Meta(description="Groups that ran and have lost members.")] = None
    pending: Annotated[Count | None, Meta(description="Groups that wait.")] = None
    inqueue: Annotated[Count | None, Meta(description="Groups that are admitted and not yet whole.")] = None
    running: Annotated[Count | None, Meta(description="Groups with at least their minimum of pods running.")] = None
    completed: Annotated[Count | None, Meta(description="Groups that have ended and still exist.")] = None
    reservation: Annotated[Reservation | None, Meta(description="What is locked for the queue.")] = None
    allocated: Annotated[
        ResourceList,
        Meta(description="What the pods of its groups hold on nodes, with those of the queues below."),
    ]
    conditions: Annotated[
        Conditions,
        Meta(
            description="Accepted: whether the queue makes sense. While it does not, it starts nothing, and the "
            "message says why."
        ),
    ] = ()


class Queue(msgspec.Struct, frozen=True):
    """A part of the cluster that groups of pods are submitted to: how much it may use, and how it shares with others.

    Queues form a tree below the queue root. A group names its queue; one that names none is in the queue default.
    """

    spec: Annotated[QueueSpec | None, Meta(description="What the queue may use, and how it shares.")] = None
    status: Annotated[QueueStatus | None, Meta(description="What the queue holds now, and whether it is open.")] = None


QUEUE: Final = Definition(
    group="scheduling.volcano.sh",
    kind="Queue",
    plural="queues",
    namespaced=False,
    short_names=("q", "queue-v1beta1"),
    categories=(OURS,),
    versions=(
        Version(
            name="v1beta1",
            type=Queue,
            columns=(
                Column("Parent", ".spec.parent", description="The queue that it is a part of."),
                Column("State", ".status.state", description="Whether it takes and starts groups."),
                Column("Weight", ".spec.weight", "integer", description="Its part beside its siblings.", priority=1),
                Column("Pending", ".status.pending", "integer", description="Groups that wait."),
                Column("Inqueue", ".status.inqueue", "integer", description="Groups that are admitted.", priority=1),
                Column("Running", ".status.running", "integer", description="Groups that run."),
                Column(
                    "Accepted",
                    '.status.conditions[?(@.type=="Accepted")].status',
                    description="Whether it makes sense.",
                    priority=1,
                ),
                AGE,
            ),
        ),
    ),
)
