"""What one cycle reads: the nodes as columns, the bound pods as rows, and every pod-group with its members counted.

A Snapshot is made by `World` (from events) or by `dump.load` (from a file) and is never written to. Nothing in it may
depend on the order in which events arrived: two worlds with the same objects give the same snapshot.
"""

import enum
from collections.abc import Mapping
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from allhands.core.columns import NodeColumns
from allhands.core.facts import Facts
from allhands.model.group_status import NO_STATUS, GroupStatus
from allhands.model.podgroup import PodGroup, Slot
from allhands.model.reason import Explanation
from allhands.model.shape import PodShape


class PodFlag(enum.IntFlag):
    STARTED = 1
    """Its containers have run."""
    LEAVING = 2
    """It is being deleted and holds what it has until it is gone."""
    BARE = 4
    """No controller would make it again."""
    NOMINATED = 8
    """Another scheduler means to put it there."""


class PodTable(msgspec.Struct, frozen=True, eq=False):
    """Bound pods that hold resources, one row each. A free row has the node -1. Rows are in no particular order."""

    keys: list[str]
    uids: list[str]
    node: NDArray[np.int32]
    shape: NDArray[np.int32]
    priority: NDArray[np.int32]
    since: NDArray[np.int64]
    """When it was started, or bound if it has not been, in seconds."""
    flags: NDArray[np.uint8]
    shapes: tuple[PodShape, ...]
    """What the column `shape` points to."""
    looking: tuple[int, ...] | None = None
    """Which of `shapes` have terms about other pods; None where nobody has looked."""
    nominated: tuple[int, ...] | None = None
    """The rows that are flagged so, ascending; None where nobody has looked."""

    def __len__(self) -> int:
        return len(self.keys)


class PodRef(NamedTuple):
    """A pod that awaits placement. The uid is empty for one that does not exist yet (it is predicted)."""

    key: str
    uid: str


class Members(msgspec.Struct, frozen=True):
    """Members of a group that are alike: one slot, one shape, one rank in the group. In the order of their numbers."""

    slot: Slot
    shape: PodShape
    pods: tuple[PodRef, ...]


class GroupEntry(msgspec.Struct, frozen=True):
    """A pod-group, its waiting members by slot and shape, and the rows of those that hold room."""

    group: PodGroup
    pending: tuple[Members, ...] = ()
    gated: tuple[tuple[str, int], ...] = ()
    """Scheduling gate -> how many members it holds back."""
    present: tuple[tuple[Slot, int], ...] = ()
    """Members that count towards the minimum: bound, running or succeeded, and not leaving."""
    bound: tuple[int, ...] = ()
    """Rows of the pod table, in the order of the pods' names; not those that are leaving."""
    bound_parts: tuple[str, ...] = ()
    """The sub-group of each of `bound`."""
    leaving: tuple[int, ...] = ()
    """In the same order."""
    holding: tuple[tuple[str, int], ...] = ()
    """Resource -> units that its bound and leaving members hold together, by name."""
    unstarted: int = 0
    """How many of `bound` have not begun to run."""
    is_whole: bool = False
    """Whether those present suffice."""
    status: GroupStatus = NO_STATUS
    problem: Explanation | None = None
    """Why it is set aside; then it is never placed."""
    signature: str = ""
    """Equal for groups of one user and namespace that ask for the same in the same place of the queue tree, with the
    same members present."""
    never_preempts: bool = False
    """Whether a waiting member's preemption policy is Never: then nobody is evicted for the group, on any ground."""

    @property
    def key(self) -> str:
        return self.group.key

    @property
    def present_counts(self) -> dict[Slot, int]:
        return dict(self.present)


class SetAside(NamedTuple):
    """An object that cannot be used; everything else goes on without it."""

    kind: str
    name: str
    why: Explanation


class Changes(NamedTuple):
    """The keys of groups in the order in which they changed, up to this snapshot. The list only ever grows, so who has
    read it to some place need only read on; another list means that nobody can say what changed."""

    keys: list[str]
    end: int


class Snapshot(msgspec.Struct, frozen=True, eq=False):
    columns: NodeColumns
    pods: PodTable
    groups: Mapping[str, GroupEntry]
    """By key, sorted."""
    facts: Facts
    """Queues, domains, flavors, volumes, namespaces, reservations, budgets, past usage."""
    set_aside: tuple[SetAside, ...]
    version: int
    """Rises with every change of the world that made it."""
    changes: Changes | None = None
    """Which groups changed since an earlier snapshot of the same world; None where nobody kept that."""
