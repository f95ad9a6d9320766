"""The words of a Volcano Job's status: the phases it goes through, their history, and its pods counted by task.

Types and documentation only. Other programs (vcctl, Argo, Kubeflow) read these fields: names and values are fixed.
"""

import enum
from typing import Annotated

import msgspec
from msgspec import Meta

from allhands.api.field_types import Count, Moment


class JobPhase(enum.StrEnum):
    """Where a Job is in its life."""

    PENDING = "Pending"
    RUNNING = "Running"
    RESTARTING = "Restarting"
    ABORTING = "Aborting"
    ABORTED = "Aborted"
    COMPLETING = "Completing"
    COMPLETED = "Completed"
    TERMINATING = "Terminating"
    TERMINATED = "Terminated"
    FAILED = "Failed"

    @property
    def is_over(self) -> bool:
        """Whether it never runs again. An aborted Job may be resumed."""
        return self in (JobPhase.COMPLETED, JobPhase.TERMINATED, JobPhase.FAILED)


class JobState(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """The phase, since when, and why."""

    phase: Annotated[JobPhase | None, Meta(description="Where it is in its life.")] = None
    reason: Annotated[str, Meta(description="Why, as one word for programs.")] = ""
    message: Annotated[str, Meta(description="Why, as a sentence for people.")] = ""
    last_transition_time: Annotated[Moment | None, Meta(description="Since when it is in this phase.")] = None


class JobCondition(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """A phase that the Job entered, and when."""

    status: Annotated[JobPhase, Meta(description="The phase.")]
    last_transition_time: Annotated[Moment | None, Meta(description="When it was entered.")] = None


class TaskState(msgspec.Struct, frozen=True, omit_defaults=True):
    """The pods of one task."""

    phase: Annotated[dict[str, Count] | None, Meta(description="Phase of pods to how many are in it.")] = None
