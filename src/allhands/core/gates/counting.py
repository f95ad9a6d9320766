"""The limits of a policy during one cycle: each counts what starts, so that together they never let too much start."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from allhands.core.policy import Policy
    from allhands.core.snapshot import GroupEntry, Snapshot
    from allhands.model.reason import Explanation


class Counting:
    def __init__(self, policy: Policy, snapshot: Snapshot, now: int) -> None:
        self._tallies = [limit.tally(snapshot, now) for limit in policy.limits]

    def refusal(self, entry: GroupEntry) -> Explanation | None:
        """Why a group that waits must not start now; the first limit that is reached."""
        for tally in self._tallies:
            if (why := tally.refusal(entry)) is not None:
                return why
        return None

    def started(self, entry: GroupEntry) -> None:
        for tally in self._tallies:
            tally.started(entry)
