"""The groups from cycle to cycle: which changed, which stand in line and in what order, which must be looked at anew.

It only saves work: where a group stands is remembered as long as neither time nor anything else than the group itself
has a say in that. All others are `open`, and are asked about in every cycle (`census`).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from operator import is_not
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allhands.core.facts import Facts
    from allhands.core.policy import Policy
    from allhands.core.snapshot import GroupEntry, Snapshot

Place: TypeAlias = tuple[Any, ...]
"""What the orders say of a group, its key, and the group: places compare as the groups do."""


FEW: Final = 64
"""So many are put into line one by one; more are sorted together."""


class Roll:
    """Belongs to one memo and one policy."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._is_settled = [getattr(order, "is_settled", None) for order in policy.orders]
        self._looks_at_facts = any(getattr(order, "looks_at_facts", False) for order in policy.orders)
        self._facts: Facts | None = None
        self._groups: Mapping[str, GroupEntry] = {}
        self._line: list[Place] = []
        self._place: dict[str, Place] = {}
        self._in_queue: dict[str, int] = {}
        self._alike: dict[tuple[str, int], int] = {}
        """Signature and priority -> how many such stand in line."""
        self.holding_by_rank: dict[str, dict[int, int]] = {}
        """Queue -> priority -> how many groups with pods on nodes."""
        self.open: dict[str, GroupEntry] = {}
        """Those that must be asked about in every cycle; in no particular order."""
        self.holding_groups: dict[str, GroupEntry] = {}
        """Those with pods on nodes, in no particular order."""
        self._looking: dict[str, GroupEntry] = {}
        self.changed: list[str] = []
        """Keys of groups that are new, or not as they were in the cycle before."""
        self.gone: list[str] = []
        self.version = self.version_before = -1
        """Of this snapshot, and of the one that `changed` is the difference to."""

    def follow(self, snapshot: Snapshot) -> None:
        if self._looks_at_facts and snapshot.facts is not self._facts:
            self._forget()
        self._facts = snapshot.facts
        groups, known = snapshot.groups, self._groups
        self.version_before, self.version = self.version, snapshot.version
        self.changed, self.gone = _difference(known, groups)
        self._groups = groups
        for key in self.gone:
            self._remove(key)
        if known:
            for key in self.changed:
                self._remove(key)
        few = len(self.changed) <= FEW
        for key in self.changed:
            place = self._add(key, groups[key], snapshot)
            if place is not None:
                if few:
                    insort(self._line, place)
                else:
                    self._line.append(place)
        if not few:
            self._line.sort()

    def _forget(self) -> None:
        """Everybody is new."""
        for kept in (self._place, self._in_queue, self._alike, self.open, self.holding_groups, self.holding_by_rank):
            kept.clear()
        self._looking.clear()
        self._line.clear()
        self._groups, self.version = {}, -1

    def line(self) -> list[GroupEntry]:
        """Groups that wait to be started, and have nothing else to wait for, in the order of the policy."""
        return [place[-1] for place in self._line]

    def only_queue(self) -> str | None:
        """The queue of all that stand in line, if it is one."""
        return next(iter(self._in_queue)) if len(self._in_queue) == 1 else None

    @property
    def is_of_one_kind(self) -> bool:
        """Whether all that stand in line ask for the same, with the same priority."""
        return len(self._alike) == 1

    def holding(self) -> list[GroupEntry]:
        """Groups with pods on nodes, by key."""
        return [self.holding_groups[key] for key in sorted(self.holding_groups)]

    def looking(self) -> list[GroupEntry]:
        """Groups of which a waiting member looks at other pods, by key."""
        return [self._looking[key] for key in sorted(self._looking)]

    def _remove(self, key: str) -> None:
        place = self._place.pop(key, None)
        if place is not None:
            # Places differ at the latest in the key, so that the entry itself is never compared.
            del self._line[bisect_left(self._line, place)]
            queue = place[-1].group.queue
            self._in_queue[queue] -= 1
            if not self._in_queue[queue]:
                del self._in_queue[queue]
            kind = (place[-1].signature, place[-1].group.priority)
            self._alike[kind] -= 1
            if not self._alike[kind]:
                del self._alike[kind]
        self.open.pop(key, None)
        if (held := self.holding_groups.pop(key, None)) is not None:
            ranks = self.holding_by_rank[held.group.queue]
            ranks[held.group.priority] -= 1
            if not ranks[held.group.priority]:
                del ranks[held.group.priority]
                if not ranks:
                    del self.holding_by_rank[held.group.queue]
        self._looking.pop(key, None)

    def _add(self, key: str, entry: GroupEntry, snapshot: Snapshot) -> Place | None:
        """Its place, if it stands in line."""
        if entry.bound or entry.leaving:
            self.holding_groups[key] = entry
            by_rank = self.holding_by_rank.setdefault(entry.group.queue, {})
            by_rank[entry.group.priority] = by_rank.get(entry.group.priority, 0) + 1
        for members in entry.pending:
            if members.shape.namespace and members.shape.selects_pods:
                self._looking[key] = entry
        if self._stands_in_line(entry):
            # These ranks do not depend on the time.
            ranks = [order.rank(entry, snapshot, 0) for order in self._policy.orders]
            place = self._place[key] = (*ranks, key, entry)
            queue = entry.group.queue
            self._in_queue[queue] = self._in_queue.get(queue, 0) + 1
            kind = (entry.signature, entry.group.priority)
            self._alike[kind] = self._alike.get(kind, 0) + 1
            return place
        if not is_quiet(entry):
            self.open[key] = entry
        return None

    def _stands_in_line(self, entry: GroupEntry) -> bool:
        if not entry.pending or entry.bound or entry.problem is not None or self._policy.gates:
            return False
        group, status = entry.group, entry.status
        if group.suspended or group.not_before_seconds is not None or (entry.present and entry.is_whole):
            return False
        if (
            status.retry_at_seconds
            or status.admitted_at_seconds is not None
            or status.preempting_since_seconds is not None
        ):
            return False
        for is_settled in self._is_settled:  # noqa: SIM110 - asked of every group that changes
            if is_settled is None or not is_settled(entry):
                return False
        return True


def _difference(known: Mapping[str, GroupEntry], groups: Mapping[str, GroupEntry]) -> tuple[list[str], list[str]]:
    """The keys of groups that are new or other than before, and of those that are gone.

    Both are sorted by key, and mostly little lies between what they have in common at the start and at the end.
    """
    before, now = list(known.values()), list(groups.values())
    first = _alike(before, now)
    before.reverse()
    now.reverse()
    last = min(_alike(before, now), len(before) - first, len(now) - first)
    keys = list(groups)[first : len(now) - last]
    changed = [key for key in keys if known.get(key) is not groups[key]]
    return changed, [key for key in list(known)[first : len(before) - last] if key not in groups]


def _alike(one: list[GroupEntry], other: list[GroupEntry]) -> int:
    """How many are the very same from the beginning."""
    differs = list(map(is_not, one, other))
    return differs.index(True) if True in differs else len(differs)


def is_quiet(entry: GroupEntry) -> bool:
    """Whether it has all that it asks for, and all of it has begun to run: nothing is to be done for it."""
    if entry.pending or entry.gated or not entry.is_whole or entry.unstarted:
        return False
    return bool(entry.bound) or entry.problem is None
