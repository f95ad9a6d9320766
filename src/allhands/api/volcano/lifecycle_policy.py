"""What a user may ask to be done about what happens to pods: events, actions, and the policy that joins them.

Types and documentation only. Which of them may be written is in `job_rules`, what they do in `lifecycle.volcano_job`.
"""

import enum
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from allhands.api.field_types import Int32


class Event(enum.StrEnum):
    """What happened to a pod, a task or the Job."""

    ANY = "*"
    POD_PENDING = "PodPending"
    POD_RUNNING = "PodRunning"
    POD_FAILED = "PodFailed"
    POD_EVICTED = "PodEvicted"
    JOB_UNKNOWN = "Unknown"
    TASK_COMPLETED = "TaskCompleted"
    TASK_FAILED = "TaskFailed"
    OUT_OF_SYNC = "OutOfSync"
    COMMAND_ISSUED = "CommandIssued"
    JOB_UPDATED = "JobUpdated"


EVENTS_OF_USERS: Final = frozenset(
    {
        Event.ANY,
        Event.POD_FAILED,
        Event.POD_EVICTED,
        Event.POD_PENDING,
        Event.JOB_UNKNOWN,
        Event.TASK_COMPLETED,
        Event.TASK_FAILED,
        Event.JOB_UPDATED,
    }
)
"""Those that a policy may name."""


class Action(enum.StrEnum):
    """What is done about it."""

    ABORT_JOB = "AbortJob"
    RESTART_JOB = "RestartJob"
    RESTART_TASK = "RestartTask"
    RESTART_POD = "RestartPod"
    RESTART_PARTITION = "RestartPartition"
    TERMINATE_JOB = "TerminateJob"
    COMPLETE_JOB = "CompleteJob"
    RESUME_JOB = "ResumeJob"
    SYNC_JOB = "SyncJob"
    ENQUEUE_JOB = "EnqueueJob"
    SYNC_QUEUE = "SyncQueue"
    OPEN_QUEUE = "OpenQueue"
    CLOSE_QUEUE = "CloseQueue"


ACTIONS_OF_USERS: Final = frozenset(
    {
        Action.ABORT_JOB,
        Action.RESTART_JOB,
        Action.RESTART_TASK,
        Action.RESTART_POD,
        Action.RESTART_PARTITION,
        Action.TERMINATE_JOB,
        Action.COMPLETE_JOB,
        Action.RESUME_JOB,
    }
)
"""Those that a policy may name; the others are words that controllers use among themselves."""


class LifecyclePolicy(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """When this happens, do that."""

    action: Annotated[Action | None, Meta(description="What is done.")] = None
    event: Annotated[Event | None, Meta(description="What must have happened; * is anything.")] = None
    events: Annotated[
        tuple[Event, ...] | None, Meta(description="Several things, of which one must have happened.")
    ] = None
    exit_code: Annotated[
        Int32 | None,
        Meta(description="The exit code of a container of the pod that failed. Not 0, and not together with an event."),
    ] = None
    timeout: Annotated[
        str | None, Meta(description="How long it is waited before the action, such as 10m. Without it not at all.")
    ] = None
