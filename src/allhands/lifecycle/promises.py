"""For how long a group that was let in has a claim to the room that it was promised.

A promise keeps others out, so it counts only for those who can start once others end, or whose pods are just being
made. Who waits for something else (a node that matches, a claim, an object that is not there) may wait for ever: it
keeps what it was let in for, its pods, and competes for room as all do when what it lacks comes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from allhands.model.reason import Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from allhands.model.reason import Explanation

MAKING_SECONDS: Final = 60.0
"""So long without a new pod, the pods of a group are taken to be on their way."""
MADE_PER_SECOND: Final = 100
"""Pods: where many are to be made, each group waits longer for its own."""
LACKS_PODS: Final = frozenset({Reason.GANG_INCOMPLETE, Reason.SUB_GROUP_INCOMPLETE})
ENDS_WITH_OTHERS: Final = frozenset(
    {
        Reason.INSUFFICIENT_RESOURCES,
        Reason.TOPOLOGY,
        Reason.QUEUE_OVER_CAPABILITY,
        Reason.QUEUE_OVER_DESERVED,
        Reason.NAMESPACE_QUOTA,
        Reason.BORROWING_LIMIT,
        Reason.QUEUE_RUNNING_LIMIT,
        Reason.USER_LIMIT,
        Reason.USER_RUNNING_LIMIT,
        Reason.BEHIND_OTHERS,
        Reason.ROOM_RESERVED,
        Reason.BACKING_OFF,
        Reason.START_FAILED,
        Reason.AWAITING_PREEMPTION,
        Reason.PREEMPTED,
        Reason.RECLAIMED,
        Reason.AWAITING_NODES,
        Reason.PARTLY_BOUND,
        Reason.AT_MAXIMUM,
    }
)
"""Room, quotas, order and reservations: these come with time."""


class Making(NamedTuple):
    """A group that was let in: since when it has had so many pods, of how many."""

    since_seconds: float
    pods: int
    needed: int

    @property
    def missing(self) -> int:
        return max(0, self.needed - self.pods)


def given_up(groups: Mapping[str, Making], now_seconds: float) -> set[str]:
    """Those whose pods nobody seems to make."""
    patience = MAKING_SECONDS + sum(it.missing for it in groups.values()) / MADE_PER_SECOND
    return {key for key, it in groups.items() if now_seconds - it.since_seconds > patience}


def may_still_start(
    said: Explanation | None,
    *,
    lacks_pods: bool,
    is_given_up: bool,
    said_of: Callable[[str], Explanation | None],
) -> bool:
    """Whether what it was promised counts, by what it was last told. `said_of`: what another group was told."""
    if said is not None and said.is_never:
        return False
    if lacks_pods or (said is not None and said.reason in LACKS_PODS):
        return not is_given_up
    if said is None:
        return True
    if said.reason is Reason.BEHIND_OTHERS:
        # Nobody passes the first: if that cannot start, neither can who is behind it.
        first = said_of(str(dict(said.numbers).get("first", "")))
        return first is None or first.reason in LACKS_PODS or _ends_with_others(first)
    return _ends_with_others(said)


def _ends_with_others(said: Explanation) -> bool:
    if said.is_never or said.reason not in ENDS_WITH_OTHERS:
        return False
    return said.reason is not Reason.TOPOLOGY or dict(said.numbers).get("domains", 1) != 0
