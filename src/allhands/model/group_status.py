"""What the API remembers of a pod-group beside its pods: all that a new leader needs to go on where another ended."""

from typing import Final

import msgspec

from allhands.model.reason import Explanation


class Said(msgspec.Struct, frozen=True):
    """What the group's object already tells its owner, so that nothing is written twice."""

    explanation: Explanation
    expected_start_seconds: int | None = None


class GroupStatus(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the API remembers of a group beside its pods."""

    admitted_at_seconds: int | None = None
    started_at_seconds: int | None = None
    """When it was whole for the first time."""
    failed_starts: int = 0
    retry_at_seconds: int = 0
    avoid_nodes: tuple[str, ...] = ()
    preempting_since_seconds: int | None = None
    """Since when pods are leaving to make room for it."""
    nominated_nodes: tuple[str, ...] = ()
    """Where that room is."""
    said: Said | None = None
    after_completed: tuple[str, ...] = ()
    """Jobs that it waits for and that were seen to complete: they may have been removed since."""


NO_STATUS: Final = GroupStatus()
