"""Groups that must start soon to be done by their deadline go first, those with the least time left before others.

The latest start is the deadline less the expected duration (the deadline itself, where nobody knows one), or when it
has waited as long as it says that it may, whichever comes first. It counts from `within_seconds` before that moment on;
until then, and for groups that say neither, the next order decides. A group that is too late stays in front: later
would be worse.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.core.calendar.estimates import FOREVER, Estimates
from allhands.model.queue import Queue

if TYPE_CHECKING:
    from collections.abc import Iterable

    from allhands.core.facts import Facts
    from allhands.core.snapshot import GroupEntry, Snapshot

NOT_URGENT: Final = FOREVER


class Deadline:
    name = "deadline"

    def __init__(self, within_seconds: int = 3600) -> None:
        if within_seconds < 0:
            raise ValueError(f"deadline: the time before the latest start must not be negative, got {within_seconds} s")
        self._within_seconds = within_seconds
        self._facts: Facts | None = None
        self._estimates = Estimates({}, {})

    def rank(self, entry: GroupEntry, snapshot: Snapshot, now: int) -> int:
        if self.is_settled(entry):
            return NOT_URGENT
        latest = self.latest_start(entry, snapshot)
        return NOT_URGENT if latest is None or now < latest - self._within_seconds else min(latest, NOT_URGENT)

    def is_settled(self, entry: GroupEntry) -> bool:
        return entry.group.deadline_seconds is None and entry.group.max_wait_seconds is None

    def next_change(self, entries: Iterable[GroupEntry], snapshot: Snapshot, now: int) -> int | None:
        bound = [entry for entry in entries if not self.is_settled(entry)]
        latest = [self.latest_start(entry, snapshot) for entry in bound]
        urgent_from = [start - self._within_seconds for start in latest if start is not None]
        return min((moment for moment in urgent_from if moment > now), default=None)

    def latest_start(self, entry: GroupEntry, snapshot: Snapshot) -> int | None:
        """After this it is too late; None for a group that says nothing of it."""
        group = entry.group
        waited = None if group.max_wait_seconds is None else group.created_at_seconds + group.max_wait_seconds
        deadline = group.deadline_seconds
        if deadline is None:
            return waited
        if snapshot.facts is not self._facts:
            queues = {it.name: it for it in snapshot.facts.accounts if isinstance(it, Queue)}
            self._facts, self._estimates = snapshot.facts, Estimates(queues, snapshot.facts.past_runs)
        latest = deadline - (self._estimates.duration(group) or 0)
        return latest if waited is None else min(latest, waited)
