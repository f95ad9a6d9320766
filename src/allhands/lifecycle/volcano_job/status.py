"""The status of a Volcano Job while it is being worked out, and the patch that brings the stored one there.

Fields and values are those that vcctl, Argo and Kubeflow read. The patch holds what differs and nothing else; there is
none if nothing does. The history of phases is bounded: each phase is in it once, where it was last entered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from allhands.api.volcano.job_status import JobCondition, JobPhase, JobState, TaskState
from allhands.lifecycle.changes import merge_patch, time_text
from allhands.lifecycle.job.moments import moment_seconds
from allhands.lifecycle.volcano_job.durations import duration_text

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.api.volcano.job import JobStatus
    from allhands.lifecycle.volcano_job.tally import Tally
    from allhands.lifecycle.volcano_job.transitions import Transition

LONGEST_MESSAGE: Final = 1024
_ENDED: Final = ("Succeeded", "Failed")


class StatusDraft:
    """Begins as what is stored. `phase` is None for a Job that nobody has looked at."""

    def __init__(self, stored: JobStatus, created_at_seconds: float, now_seconds: float) -> None:
        state = stored.state or JobState()
        self._stored = stored
        self._created_at_seconds = created_at_seconds
        self._now_seconds = now_seconds
        self.phase = state.phase
        self.reason = state.reason
        self.message = state.message
        self._since = state.last_transition_time
        self.version = stored.version or 0
        self.retries = stored.retry_count or 0
        self.controlled = dict(stored.controlled_resources or {})
        self._conditions = stored.conditions or ()
        self._running_duration = stored.running_duration
        self._counts: dict[str, int] = {}
        self._tasks: dict[str, TaskState] = stored.task_status_count or {}
        self._minimum = stored.min_available

    @property
    def since_seconds(self) -> float:
        """Since when it is in its phase."""
        return moment_seconds(self._since) or self._now_seconds

    def begin(self) -> None:
        """Of a Job that has no status: it has been waiting since it was made."""
        self._enter(JobPhase.PENDING, self._created_at_seconds or self._now_seconds)

    @property
    def has_news(self) -> bool:
        """Whether there is more to say of a new Job than that it waits."""
        counted = any(self._counts.values()) or bool(self.controlled) or bool(self.version) or bool(self.retries)
        return counted or self.phase is not JobPhase.PENDING or bool(self.reason or self.message)

    def enter(self, phase: JobPhase, reason: str = "", message: str = "") -> None:
        self._enter(phase, self._now_seconds, reason, message)

    def _enter(self, phase: JobPhase, seconds: float, reason: str = "", message: str = "") -> None:
        now = time_text(seconds)
        self.phase, self._since = phase, now
        self.say(reason, message)
        kept = tuple(it for it in self._conditions if it.status != phase)
        self._conditions = (*kept, JobCondition(status=phase, last_transition_time=now))
        if phase.is_over:
            self._running_duration = duration_text(self._now_seconds - self._created_at_seconds)

    def follow(self, row: Transition, reason: str = "", message: str = "") -> None:
        """What a row of the table says."""
        self.enter(row.target, reason or row.cause.value, message)
        self.retries += row.retry
        self.version += row.renews

    def say(self, reason: str, message: str) -> None:
        self.reason = reason
        self.message = message if len(message) <= LONGEST_MESSAGE else f"{message[: LONGEST_MESSAGE - 1]}…"

    def count(self, tally: Tally, terminating: int, minimum: int) -> None:
        """What ended stays counted when the whole is over, even if somebody tidies the pods up."""
        over = self.phase is not None and self.phase.is_over
        self._minimum = self._minimum if over else minimum
        tasks: dict[str, TaskState] = {}
        for name, count in tally.of.items():
            phases = dict(count.phases)
            known = self._tasks.get(name)
            for phase in _ENDED if over and known is not None else ():
                phases[phase] = max(phases.get(phase, 0), ((known.phase if known else None) or {}).get(phase, 0))
            phases = {phase: phases[phase] for phase in sorted(phases) if phases[phase]}
            if phases:
                tasks[name] = TaskState(phase=phases)
        self._tasks = tasks
        self._counts = {"terminating": terminating}
        for phase in ("Pending", "Running", "Succeeded", "Failed", "Unknown"):
            self._counts[phase.lower()] = sum((it.phase or {}).get(phase, 0) for it in tasks.values())

    def patch(self) -> Manifest:
        """What differs."""
        new = msgspec.structs.replace(
            self._stored,
            state=JobState(
                phase=self.phase, reason=self.reason, message=self.message, last_transition_time=self._since
            ),
            min_available=self._minimum,
            task_status_count=self._tasks,
            version=self.version,
            retry_count=self.retries,
            running_duration=self._running_duration,
            controlled_resources=self.controlled,
            conditions=self._conditions,
            **self._counts,
        )
        return merge_patch(_plain(self._stored), _plain(new))


def _plain(status: JobStatus) -> Manifest:
    """As it comes over the wire, where a list is a list."""
    plain: Manifest = msgspec.json.decode(msgspec.json.encode(status))
    return plain
