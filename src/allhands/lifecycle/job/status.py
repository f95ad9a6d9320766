"""The status of a Job while it is being worked out, and the patch that brings the stored one there.

The patch holds what differs and nothing else; there is none if nothing does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from allhands.lifecycle.job.documents import JobCondition, JobStatus, UncountedPods

if TYPE_CHECKING:
    from allhands.api.document import Manifest


class StatusDraft:
    """Begins as what is stored."""

    def __init__(self, stored: JobStatus) -> None:
        uncounted = stored.uncounted_terminated_pods or UncountedPods()
        self._stored = stored
        self.conditions = list(stored.conditions or ())
        self.start_time = stored.start_time
        self.completion_time = stored.completion_time
        self.active = stored.active
        self.succeeded = stored.succeeded
        self.failed = stored.failed
        self.terminating = stored.terminating
        self.ready = stored.ready
        self.completed_indexes = stored.completed_indexes
        self.failed_indexes = stored.failed_indexes
        self.uncounted_succeeded = list(uncounted.succeeded or ())
        self.uncounted_failed = list(uncounted.failed or ())

    def set_condition(self, type: str, status: str, reason: str, message: str, now: str) -> bool:
        """Whether it is news. That something which never was is not so, is none."""
        condition = JobCondition(type, status, now, now, reason, message)
        for place, known in enumerate(self.conditions):
            if known.type == type:
                if (known.status, known.reason, known.message) == (status, reason, message):
                    return False
                self.conditions[place] = condition
                return True
        if status == "False":
            return False
        self.conditions.append(condition)
        return True

    def patch(self) -> Manifest:
        stored = self._stored
        patch: Manifest = {}
        if self.conditions != list(stored.conditions or ()):
            patch["conditions"] = [msgspec.to_builtins(it) for it in self.conditions]
        _note(patch, "startTime", stored.start_time, self.start_time)
        _note(patch, "completionTime", stored.completion_time, self.completion_time)
        _note(patch, "active", stored.active, self.active)
        _note(patch, "succeeded", stored.succeeded, self.succeeded)
        _note(patch, "failed", stored.failed, self.failed)
        _note(patch, "terminating", stored.terminating, self.terminating, zero_is_nothing=False)
        _note(patch, "ready", stored.ready, self.ready, zero_is_nothing=False)
        _note(patch, "completedIndexes", stored.completed_indexes, self.completed_indexes)
        _note(patch, "failedIndexes", stored.failed_indexes, self.failed_indexes, zero_is_nothing=False)
        uncounted = stored.uncounted_terminated_pods or UncountedPods()
        lists: Manifest = {}
        _note(lists, "succeeded", list(uncounted.succeeded or ()), self.uncounted_succeeded)
        _note(lists, "failed", list(uncounted.failed or ()), self.uncounted_failed)
        if lists or stored.uncounted_terminated_pods is None:
            patch["uncountedTerminatedPods"] = {
                field: it for field, it in lists.items() if it or stored.uncounted_terminated_pods
            }
        return patch


def _note(patch: Manifest, field: str, before: Any, after: Any, *, zero_is_nothing: bool = True) -> None:
    if before != after:
        patch[field] = None if zero_is_nothing and not after else after
