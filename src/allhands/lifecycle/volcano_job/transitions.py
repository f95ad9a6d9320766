"""All phases of a Volcano Job and what leads from one to the next, as one table. The machine asks it, and the diagram
in the docs is drawn from it.

What somebody asks for (an action of a policy or a command) that has no row in the present phase is not done. For every
action, the phase that it leads to has no row for it: whoever asks twice, or is cut off between acting and throwing the
request away, gets it once.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final, NamedTuple

from allhands.api.volcano.job_status import JobPhase
from allhands.api.volcano.lifecycle_policy import Action

if TYPE_CHECKING:
    from collections.abc import Iterator


class Finding(enum.StrEnum):
    """What the machine finds by looking."""

    MINIMUM_IS_UP = "MinimumIsUp"
    MINIMUM_IS_NOT_UP = "MinimumIsNotUp"
    ENOUGH_SUCCEEDED = "EnoughSucceeded"
    TOO_FEW_SUCCEEDED = "TooFewSucceeded"
    CANNOT_GO_ON = "CannotGoOn"
    OLD_PODS_ARE_GOING = "OldPodsAreGoing"
    NOTHING_RUNS = "NothingRuns"
    RETRIES_ARE_USED_UP = "RetriesAreUsedUp"


Cause = Action | Finding


class Transition(NamedTuple):
    """`retry`: it counts as one. `renews`: all pods are made anew, and those that are there do not count any more."""

    source: JobPhase
    cause: Cause
    target: JobPhase
    when: str
    retry: bool = False
    renews: bool = False


_LIVE: Final = (JobPhase.PENDING, JobPhase.RUNNING)
_PARTIAL: Final = {
    Action.RESTART_TASK: "a policy asks for it: the pods of one task are made anew",
    Action.RESTART_POD: "a policy asks for it: one pod is made anew",
    Action.RESTART_PARTITION: "a policy asks for it: the pods of one partition are made anew",
}
PARTIAL: Final = frozenset(_PARTIAL)
"""Actions that are about some of its pods; the others stay, and so does the group."""


def _rows() -> Iterator[Transition]:
    pending, running, restarting = JobPhase.PENDING, JobPhase.RUNNING, JobPhase.RESTARTING
    for phase in _LIVE:
        text = "a policy or a command asks for it"
        yield Transition(phase, Action.RESTART_JOB, restarting, text, retry=True, renews=True)
        for action, text in _PARTIAL.items():
            yield Transition(phase, action, restarting, text, retry=True)
    for phase in (*_LIVE, restarting):
        yield Transition(phase, Action.ABORT_JOB, JobPhase.ABORTING, "a policy or a command asks for it")
        yield Transition(phase, Action.COMPLETE_JOB, JobPhase.COMPLETING, "a policy or a command asks for it")
    for phase in (*_LIVE, restarting, JobPhase.ABORTING, JobPhase.ABORTED):
        yield Transition(phase, Action.TERMINATE_JOB, JobPhase.TERMINATING, "a policy or a command asks for it")
    for phase in (JobPhase.ABORTING, JobPhase.ABORTED):
        yield Transition(
            phase, Action.RESUME_JOB, restarting, "a command asks for it; no retry is used up", renews=True
        )
    yield Transition(pending, Finding.MINIMUM_IS_UP, running, "minAvailable pods run or have ended")
    yield Transition(running, Finding.MINIMUM_IS_NOT_UP, pending, "too many pods wait for minAvailable to be up")
    for phase in _LIVE:
        yield Transition(phase, Finding.CANNOT_GO_ON, JobPhase.FAILED, "a task waits for another that never comes up")
    text = "minSuccess pods have succeeded, or all have ended and minAvailable of them have succeeded"
    yield Transition(running, Finding.ENOUGH_SUCCEEDED, JobPhase.COMPLETED, text)
    text = "all have ended and too few have succeeded: of a task, or of all"
    yield Transition(running, Finding.TOO_FEW_SUCCEEDED, JobPhase.FAILED, text)
    yield Transition(
        restarting, Finding.RETRIES_ARE_USED_UP, JobPhase.FAILED, "maxRetry attempts have failed, the first included"
    )
    text = "what is made anew is going or gone, and the pause before the next attempt is over"
    yield Transition(restarting, Finding.OLD_PODS_ARE_GOING, pending, text)
    for phase, end in (
        (JobPhase.ABORTING, JobPhase.ABORTED),
        (JobPhase.COMPLETING, JobPhase.COMPLETED),
        (JobPhase.TERMINATING, JobPhase.TERMINATED),
    ):
        yield Transition(phase, Finding.NOTHING_RUNS, end, "no pod waits, runs or is going")


TRANSITIONS: Final = tuple(_rows())
_BY_CAUSE: Final = {(it.source, it.cause): it for it in TRANSITIONS}


def transition_table() -> tuple[Transition, ...]:
    """Every transition that there is."""
    return TRANSITIONS


def transition(phase: JobPhase, cause: Cause) -> Transition | None:
    return _BY_CAUSE.get((phase, cause))
