"""How long a group runs, as far as anybody knows: what it says itself, else its queue's default, else the median of
the queue's past runs, else nobody knows.

An estimate that a group has outlived is doubled until its end lies ahead. That depends on nothing but start, estimate
and now, so that two cycles at the same moment, with or without a memory, expect the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allhands.core.columns import Column
    from allhands.core.facts import PastRuns
    from allhands.model.podgroup import PodGroup
    from allhands.model.queue import Queue

LONGEST_SECONDS: Final = 1 << 40
"""Nothing is expected to run longer; sums of a few such times stay far within 64 bits."""
FOREVER: Final = 1 << 60
"""In place of the end of something whose end nobody knows; later than every other time."""
LEAVING_SECONDS: Final = 30
"""What is taken for the duration of pods that are being deleted. It is doubled like any other, so that one that never
goes, on a node that is lost, is not expected to go in a moment for ever."""


class Estimates:
    """Durations of the groups of one snapshot."""

    def __init__(self, queues: Mapping[str, Queue], past_runs: Mapping[str, PastRuns]) -> None:
        self._queues = queues
        self._past_runs = past_runs
        self._of_queue: dict[str, int | None] = {}

    def duration(self, group: PodGroup) -> int | None:
        """Seconds, at least one; None if nobody knows."""
        seconds = group.expected_duration_seconds
        if seconds is None:
            queue = group.queue
            if queue not in self._of_queue:
                self._of_queue[queue] = self._usual(queue)
            seconds = self._of_queue[queue]
        return None if seconds is None else min(max(seconds, 1), LONGEST_SECONDS)

    def end(self, group: PodGroup, now: int) -> int:
        """When it would end if it started now."""
        seconds = self.duration(group)
        return FOREVER if seconds is None else now + seconds

    def _usual(self, queue: str) -> int | None:
        known = self._queues.get(queue)
        if known is not None and known.default_duration_seconds is not None:
            return known.default_duration_seconds
        past = self._past_runs.get(queue)
        return past.median_seconds if past is not None and past.count > 0 else None


def expected_end(start: int, seconds: int, now: int) -> int:
    """The first of start + seconds, start + 2 * seconds, start + 4 * seconds ... that lies ahead."""
    return int(expected_ends(np.array([start]), np.array([seconds]), now)[0])


def expected_ends(starts: Column, seconds: Column, now: int) -> Column:
    """The same for many."""
    now = min(now, LONGEST_SECONDS)
    starts = np.clip(starts, -LONGEST_SECONDS, LONGEST_SECONDS)
    seconds = np.clip(seconds, 1, LONGEST_SECONDS)
    ends: Column = starts + seconds
    while (over := ends <= now).any():
        seconds = np.where(over, seconds * 2, seconds)
        ends = starts + seconds
    return ends


def leaving_ends(since: Column, now: int) -> Column:
    """When pods that are being deleted are expected to be gone; `since` is when they started."""
    return expected_ends(since, np.full(len(since), LEAVING_SECONDS), now)
