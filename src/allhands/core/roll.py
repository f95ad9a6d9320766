"""The groups from cycle to cycle: which changed, which stand in line and in what order, which must be looked at anew.

It only saves work: where a group stands is remembered as long as neither time nor anything else than the group itself
has a say in that. All others are `open`, and are asked about in every cycle (`census`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, overload

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allhands.core.calendar.kinds import KindNumbers
    from allhands.core.facts import Facts
    from allhands.core.policy import Policy
    from allhands.core.snapshot import Changes, GroupEntry, Snapshot

Place: TypeAlias = tuple[Any, ...]
"""What the orders say of a group, its key, and the group: places compare as the groups do."""


FEW: Final = 64
"""So many are put into line one by one; more are sorted together."""


class Line(Sequence["GroupEntry"]):
    """The groups of some places, in their order. Holds as long as the roll does not move on."""

    __slots__ = ("places",)

    def __init__(self, places: list[Place]) -> None:
        self.places = places

    def __len__(self) -> int:
        return len(self.places)

    @overload
    def __getitem__(self, index: int) -> GroupEntry: ...
    @overload
    def __getitem__(self, index: slice) -> list[GroupEntry]: ...
    def __getitem__(self, index: int | slice) -> GroupEntry | list[GroupEntry]:
        if isinstance(index, slice):
            return [place[-1] for place in self.places[index]]
        entry: GroupEntry = self.places[index][-1]
        return entry

    def __iter__(self) -> Iterator[GroupEntry]:
        for place in self.places:
            yield place[-1]


class Alike:
    """Those in line who ask for the same, in their order and by how long they say that they run."""

    __slots__ = ("by_length", "places")

    def __init__(self) -> None:
        self.places: list[Place] = []
        self.by_length: list[tuple[int, Place]] = []

    def append(self, place: Place) -> None:
        """The last so far; `by_length` is not sorted any more."""
        self.places.append(place)
        self.by_length.append((_length(place), place))

    def add(self, place: Place) -> None:
        insort(self.places, place)
        insort(self.by_length, (_length(place), place))

    def remove(self, place: Place) -> None:
        # Places differ at the latest in the key, so that the entry itself is never compared.
        del self.places[bisect_left(self.places, place)]
        del self.by_length[bisect_left(self.by_length, (_length(place), place))]

    def first(self, after: Place | None, at_most_seconds: int | None = None) -> Place | None:
        """The first behind a place, and of those who do not say that they run longer than that."""
        index = 0 if after is None else bisect_right(self.places, after)
        if at_most_seconds is None:
            return self.places[index] if index < len(self.places) else None
        count = bisect_left(self.by_length, (at_most_seconds + 1,))
        if count * count < len(self.places):
            return min([place for _, place in self.by_length[:count] if after is None or place > after], default=None)
        # Where many are short, one of them is not far.
        return next((place for place in self.places[index:] if _length(place) <= at_most_seconds), None)


def _length(place: Place) -> int:
    """0 if it does not say."""
    seconds: int | None = place[-1].group.expected_duration_seconds
    return 0 if seconds is None else max(seconds, 1)


class Roll:
    """Belongs to one memo and one policy."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._kinds: KindNumbers | None = None
        self.by_kind: dict[int, Alike] = {}
        """The line once more, by the numbers of `renumber`; empty if nobody gave any."""
        self._is_settled = [getattr(order, "is_settled", None) for order in policy.orders]
        self._looks_at_facts = any(getattr(order, "looks_at_facts", False) for order in policy.orders)
        self._facts: Facts | None = None
        self._known: dict[str, GroupEntry] = {}
        self._read: Changes | None = None
        """How far the list of changes was read."""
        self._line: list[Place] = []
        self._place: dict[str, Place] = {}
        self._in_queue: dict[str, int] = {}
        self._alike: dict[tuple[str, int], int] = {}
        """Signature and priority -> how many such stand in line."""
        self.holding_by_rank: dict[str, dict[int, int]] = {}
        """Queue -> priority -> how many groups with pods on nodes."""
        self.open: dict[str, GroupEntry] = {}
        """Those that must be asked about in every cycle; in no particular order."""
        self.unsettled: dict[str, GroupEntry] = {}
        """Those of them that only wait, and would stand in line if their place did not change with time."""
        self.unsettled_kinds: dict[int, int] = {}
        """By the numbers of `renumber`: how many such are unsettled."""
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
        groups, known, kinds = snapshot.groups, self._known, self._kinds
        self.version_before, self.version = self.version, snapshot.version
        self.changed, self.gone = self._difference(snapshot)
        few = len(self.changed) + len(self.gone) <= FEW
        if not few:
            # It is made anew in the end.
            self.by_kind = {}
        for key in self.gone:
            self._remove(key)
            del known[key]
        for key in self.changed:
            if key in known:
                self._remove(key)  # all of them before any is added: the line must be in order to find them
        for key in self.changed:
            entry = known[key] = groups[key]
            place = self._add(key, entry, snapshot)
            if place is not None:
                if few:
                    insort(self._line, place)
                    if kinds is not None:
                        self._alike_of(kinds.number(entry)).add(place)
                else:
                    self._line.append(place)
        if not few:
            self._line.sort()
            if kinds is not None:
                self.renumber(kinds)

    def _difference(self, snapshot: Snapshot) -> tuple[list[str], list[str]]:
        """The keys of groups that are new or other than before, and of those that are gone; both sorted."""
        groups, known, changes = snapshot.groups, self._known, snapshot.changes
        read, self._read = self._read, changes
        if changes is None or read is None or changes.keys is not read.keys or not known:
            changed = [key for key, entry in groups.items() if known.get(key) is not entry]
            return changed, sorted(key for key in known if key not in groups)
        keys = changes.keys[read.end : changes.end]
        if len(keys) > 1:
            keys = sorted(set(keys))
        changed = [key for key in keys if key in groups and known.get(key) is not groups[key]]
        return changed, [key for key in keys if key in known and key not in groups]

    def _forget(self) -> None:
        """Everybody is new."""
        for kept in (self._place, self._in_queue, self._alike, self.open, self.holding_groups, self.holding_by_rank):
            kept.clear()
        for numbered in (self.unsettled, self.unsettled_kinds, self.by_kind):
            numbered.clear()
        self._looking.clear()
        self._line.clear()
        self._known.clear()
        self._read, self.version = None, -1

    def renumber(self, kinds: KindNumbers) -> None:
        """Keeps the line by kind, too: by these numbers from now on."""
        self._kinds = kinds
        self.by_kind = {}
        for place in self._line:
            self._alike_of(kinds.number(place[-1])).append(place)
        for alike in self.by_kind.values():
            alike.by_length.sort()
        self.unsettled_kinds = {}
        for entry in self.unsettled.values():
            self._count_unsettled(entry, 1)

    def _alike_of(self, kind: int) -> Alike:
        found = self.by_kind.get(kind)
        if found is None:
            found = self.by_kind[kind] = Alike()
        return found

    def line(self) -> Line:
        """Groups that wait to be started, and have nothing else to wait for, in the order of the policy."""
        return Line(self._line)

    def place_of(self, entry: GroupEntry) -> Place:
        """Of one that stands in line."""
        return self._place[entry.key]

    def is_in_line(self, key: str) -> bool:
        return key in self._place

    def only_queue(self) -> str | None:
        """The queue of all that stand in line, if it is one."""
        return next(iter(self._in_queue)) if len(self._in_queue) == 1 else None

    @property
    def is_of_one_kind(self) -> bool:
        """Whether all that stand in line ask for the same, with the same priority."""
        return len(self._alike) == 1

    def highest_priority(self) -> int:
        """Of those that stand in line, of whom there must be some."""
        return max(priority for _, priority in self._alike)

    def holding(self) -> list[GroupEntry]:
        """Groups with pods on nodes, by key."""
        return [self.holding_groups[key] for key in sorted(self.holding_groups)]

    @property
    def has_looking(self) -> bool:
        return bool(self._looking)

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
            if self._kinds is not None:
                number = self._kinds.number(place[-1])
                if (same := self.by_kind.get(number)) is not None:
                    same.remove(place)
                    if not same.places:
                        del self.by_kind[number]
        if self.open.pop(key, None) is not None and (unsettled := self.unsettled.pop(key, None)) is not None:
            self._count_unsettled(unsettled, -1)
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
        only_waits = self._only_waits(entry)
        if only_waits and self._is_in_its_place(entry):
            # These ranks do not depend on the time.
            ranks = [order.rank(entry, snapshot, 0) for order in self._policy.orders]
            place = self._place[key] = (*ranks, key, entry)
            queue = entry.group.queue
            self._in_queue[queue] = self._in_queue.get(queue, 0) + 1
            kind = (entry.signature, entry.group.priority)
            self._alike[kind] = self._alike.get(kind, 0) + 1
            return place
        if not is_quiet(entry) and (self._policy.explains or _is_decided_about(entry)):
            self.open[key] = entry
            if only_waits:
                self.unsettled[key] = entry
                self._count_unsettled(entry, 1)
        return None

    def _count_unsettled(self, entry: GroupEntry, by: int) -> None:
        if self._kinds is not None:
            kind = self._kinds.number(entry)
            count = self.unsettled_kinds.get(kind, 0) + by
            if count:
                self.unsettled_kinds[kind] = count
            else:
                del self.unsettled_kinds[kind]

    def _only_waits(self, entry: GroupEntry) -> bool:
        if not entry.pending or entry.bound or entry.problem is not None or self._policy.gates:
            return False
        group, status = entry.group, entry.status
        if group.suspended or group.not_before_seconds is not None or (entry.present and entry.is_whole):
            return False
        if status.retry_at_seconds or status.admitted_at_seconds is not None:
            return False
        return status.preempting_since_seconds is None

    def _is_in_its_place(self, entry: GroupEntry) -> bool:
        for is_settled in self._is_settled:  # noqa: SIM110 - asked of every group that changes
            if is_settled is None or not is_settled(entry):
                return False
        return True


def _is_decided_about(entry: GroupEntry) -> bool:
    """Whether anything may come of asking about it where nobody is told why he waits. Nothing does for a group that has
    nobody to place and nobody of whom it is not sure yet that he begins: that of a Job whose pods are not made yet."""
    return bool(entry.pending or entry.unstarted)


def is_quiet(entry: GroupEntry) -> bool:
    """Whether it has all that it asks for, and all of it has begun to run: nothing is to be done for it."""
    if entry.pending or entry.gated or not entry.is_whole or entry.unstarted:
        return False
    return bool(entry.bound) or entry.problem is None
