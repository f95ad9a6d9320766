"""What a user may ask to be done about what happens to pods: events, actions, and the policy that joins them.

Types and documentation only. Which of them may be written is in `job_rules`, what they do in `lifecycle.volcano_job`.
"""

import enum
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from allhands.api.document import Manifest
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


ACTIONS_OF_COMMANDS: Final = frozenset(
    {
        Action.ABORT_JOB,
        Action.RESUME_JOB,
        Action.RESTART_JOB,
        Action.TERMINATE_JOB,
        Action.COMPLETE_JOB,
        Action.OPEN_QUEUE,
        Action.CLOSE_QUEUE,
    }
)
"""Those that a Command may name. It cannot say which task, pod or partition it means, so it restarts none of them."""


def choices(words: frozenset[Action] | frozenset[Event]) -> Manifest:
    """For a field whose type knows more words than may be written there."""
    return {"enum": sorted(it.value for it in words)}


PolicyEvent = Annotated[Event, Meta(extra_json_schema=choices(EVENTS_OF_USERS))]


class LifecyclePolicy(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """When this happens, do that."""

    action: Annotated[Action | None, Meta(description="What is done.", extra_json_schema=choices(ACTIONS_OF_USERS))] = (
        None
    )
    event: Annotated[
        Event | None,
        Meta(description="What must have happened; * is anything.", extra_json_schema=choices(EVENTS_OF_USERS)),
    ] = None
    events: Annotated[
        tuple[PolicyEvent, ...] | None, Meta(description="Several things, of which one must have happened.")
    ] = None
    exit_code: Annotated[
        Int32 | None,
        Meta(description="The exit code of a container of the pod that failed: from 1 to 255, and not with an event."),
    ] = None
    timeout: Annotated[
        str | None, Meta(description="How long it is waited before the action, such as 10m. Without it not at all.")
    ] = None
