"""Lets only groups of at least some priority start: for a maintenance window, or to drain a cluster gently."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from allhands.model.reason import Explanation, Reason

if TYPE_CHECKING:
    from allhands.core.snapshot import GroupEntry, Snapshot

SENTENCE = "Only groups of priority {least} or higher start now; this one has {priority}."


class MinPriority:
    name = "minpriority"

    def __init__(self, priority: Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)] = 0) -> None:
        self._least = priority

    def refusal(self, entry: GroupEntry, snapshot: Snapshot, now: int) -> Explanation | None:  # noqa: ARG002
        priority = entry.group.priority
        if priority >= self._least or entry.bound or entry.status.admitted_at_seconds is not None:
            return None
        return Explanation(Reason.QUEUE_HELD, SENTENCE, (("least", self._least), ("priority", priority)))
