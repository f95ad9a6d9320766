"""Higher priority first, but waiting raises it: by one step for every so many seconds.

All groups age alike, so their order never changes while they wait: it is that of creation, with a head start of
`wait_seconds` for every `step` of priority. So a group is passed only by groups that were created less than
`wait_seconds * (their priority - its own) / step` after it: however many come, its turn comes. Takes the place of
`priority` and `creation`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from allhands.core.snapshot import GroupEntry, Snapshot


class Ageing:
    name = "ageing"

    def __init__(self, wait_seconds: int = 3600, step: int = 1) -> None:
        if wait_seconds < 1 or step < 1:
            raise ValueError(f"ageing: at least one second and one step, got {wait_seconds} s and {step}")
        self._wait_seconds = wait_seconds
        self._step = step

    def rank(self, entry: GroupEntry, snapshot: Snapshot, now: int) -> int:  # noqa: ARG002
        group = entry.group
        return group.created_at_seconds * self._step - group.priority * self._wait_seconds

    def is_settled(self, entry: GroupEntry) -> bool:  # noqa: ARG002
        return True
