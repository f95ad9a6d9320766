"""Lets at most so many groups run at a time in the whole cluster. Queues have limits of their own beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from allhands.model.reason import Explanation, Reason

if TYPE_CHECKING:
    from allhands.core.snapshot import GroupEntry, Snapshot

SENTENCE = "{running} groups run, and at most {limit} may run at a time."


class MaxRunning:
    name = "maxrunning"

    def __init__(self, groups: Annotated[int, Meta(ge=0)] = 10_000) -> None:
        self._limit = groups

    def tally(self, snapshot: Snapshot, now: int) -> RunningTally:  # noqa: ARG002
        running = sum(1 for entry in snapshot.groups.values() if runs(entry))
        return RunningTally(self._limit, running)


class RunningTally:
    def __init__(self, limit: int, running: int) -> None:
        self._limit = limit
        self._running = running

    def refusal(self, entry: GroupEntry) -> Explanation | None:
        if self._running < self._limit or runs(entry):
            return None
        return Explanation(Reason.BEHIND_OTHERS, SENTENCE, (("limit", self._limit), ("running", self._running)))

    def started(self, entry: GroupEntry) -> None:
        if not runs(entry):
            self._running += 1


def runs(entry: GroupEntry) -> bool:
    """Whether it counts already: it holds room, or its room was promised."""
    return bool(entry.holding) or entry.status.admitted_at_seconds is not None
