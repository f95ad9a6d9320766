"""Lets a group pass one of higher priority that was told when it will start only if it ends before that moment.

What a group was told is in its status, and counts until it starts: a later and better guess does not move it. So those
who pass are judged by a promise that stays, where `backfill: easy` judges by one that is made anew in every cycle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from allhands.core.gates.maxrunning import runs
from allhands.core.orders.sizes import Sizes
from allhands.model.reason import Explanation, Reason
from allhands.model.time_text import utc_text

if TYPE_CHECKING:
    from allhands.core.snapshot import GroupEntry, Snapshot

SENTENCE = "It would not end before {time}, when {owner} is to start, which comes before it."


class Promised(NamedTuple):
    priority: int
    start: int
    owner: str


class BeforePromised:
    name = "beforepromised"

    def __init__(self) -> None:
        self._sizes = Sizes()
        self._snapshot: Snapshot | None = None
        self._promises: tuple[Promised, ...] = ()

    def refusal(self, entry: GroupEntry, snapshot: Snapshot, now: int) -> Explanation | None:
        if runs(entry):
            return None
        for promise in self._promised(snapshot):
            if promise.priority > entry.group.priority:
                end = now + self._sizes.of(entry, snapshot).seconds
                if end >= promise.start:
                    numbers = (("owner", promise.owner), ("time", utc_text(promise.start)))
                    return Explanation(Reason.ROOM_RESERVED, SENTENCE, numbers)
        return None

    def _promised(self, snapshot: Snapshot) -> tuple[Promised, ...]:
        if snapshot is not self._snapshot:
            self._snapshot = snapshot
            self._promises = tuple(
                Promised(entry.group.priority, told.expected_start_seconds, entry.key)
                for entry in snapshot.groups.values()
                if (told := entry.status.said) is not None
                and told.expected_start_seconds is not None
                and entry.pending
                and not runs(entry)
            )
        return self._promises
