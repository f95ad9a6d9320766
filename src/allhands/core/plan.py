"""What a cycle returns: what to prepare, bind and evict, what is held for whom, and why everyone else waits.

A plan is a value: it names pods, nodes and groups, and can be compared, printed and replayed. Whoever carries it out
checks it against fresh state first; nothing here knows how that is done.
"""

from typing import Final, NamedTuple

import msgspec

from allhands.core.plan_volumes import PrepareVolume
from allhands.core.snapshot import SetAside
from allhands.model.reason import Explanation


class Bind(NamedTuple):
    """`uid` is empty for a pod that does not exist yet: its room is held until it does."""

    pod: str
    uid: str
    node: str


class Start(msgspec.Struct, frozen=True, gc=False):
    """A group that starts, is completed, or grows: all of these binds, or none."""

    group: str
    binds: tuple[Bind, ...]
    prepare: tuple[PrepareVolume, ...] = ()
    """To be done before the first bind."""
    domain: str = ""
    """The topology domain that it was put into, if it asked for one."""
    flavor: str = ""
    is_whole: bool = True
    """False only for a group that was partly bound before and gets what there is."""

    @property
    def is_admission(self) -> bool:
        """Whether some of its pods are yet to be created."""
        return any(not bind.uid for bind in self.binds)


class Evict(msgspec.Struct, frozen=True):
    pod: str
    uid: str
    node: str
    group: str
    for_group: str
    why: Explanation
    grace_seconds: int | None = None


class Hold(msgspec.Struct, frozen=True):
    """Room that is kept for a group: until victims have left, or until it is expected to start.

    Where it `awaits_leaving`, the group's status must say so (`preempting_since_seconds`: since this cycle, if it did
    not say so before or more are evicted for it now) and name these nodes (`nominated_nodes`), or the next cycle may
    give the room to others. Any other hold is a promise of the calendar: it is made anew in each cycle, and nothing is
    to be written.
    """

    group: str
    nodes: tuple[str, ...]
    start_seconds: int | None
    awaits_leaving: bool = False
    """Whether pods are on their way out that the group counts on: evicted for it, or leaving anyway."""
    binds: tuple[Bind, ...] = ()
    """Where each of its pods will be, if it awaits leaving: for others who look for room on these nodes."""


class Wait(msgspec.Struct, frozen=True):
    """Why a group does not start now, and when it is expected to; or who prevents an answer."""

    group: str
    explanation: Explanation
    expected_start_seconds: int | None = None
    unknown_because_of: str = ""
    """The group without a known end that stands in the way, if no start can be expected."""
    say: bool = True
    """Whether it differs enough from what the group's object already says."""


class Release(msgspec.Struct, frozen=True):
    """A start that failed: its pods go, and it is tried again not before then, and not on these nodes."""

    group: str
    retry_at_seconds: int
    avoid_nodes: tuple[str, ...]


class Plan(msgspec.Struct, frozen=True):
    starts: tuple[Start, ...] = ()
    evictions: tuple[Evict, ...] = ()
    releases: tuple[Release, ...] = ()
    holds: tuple[Hold, ...] = ()
    waits: tuple[Wait, ...] = ()
    set_aside: tuple[SetAside, ...] = ()

    @property
    def binds(self) -> tuple[Bind, ...]:
        return tuple(bind for start in self.starts for bind in start.binds)


NOTHING: Final = Plan()
