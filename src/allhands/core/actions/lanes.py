"""Who is asked next: the waiting groups of each queue in their order, and the queues in theirs.

It only orders. Whether a group may start is asked elsewhere, and what it answers comes back as `started` or `refused`.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections import deque
from typing import TYPE_CHECKING

from allhands.core.charges import past_shares, tenant_keys
from allhands.core.in_turn import nobody
from allhands.core.quota.order import QueueRanking
from allhands.core.roll import Line
from allhands.model.queue import QueueOrder, ShareBy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from allhands.core.charges import Charges
    from allhands.core.policy import Policy
    from allhands.core.quota.tenants import Tenants
    from allhands.core.quota.usage import UsageKey
    from allhands.core.roll import Place
    from allhands.core.snapshot import GroupEntry, Snapshot
    from allhands.core.work import Work
    from allhands.model.queue import Queue


def in_order(entries: Iterable[GroupEntry], policy: Policy, snapshot: Snapshot, now: int) -> list[GroupEntry]:
    """By the policy's criteria, one after the other; the name decides last."""
    rows = list(entries)
    if len(rows) < 2:
        return rows
    ranks = [[order.rank(entry, snapshot, now) for entry in rows] for order in policy.orders]
    names = [entry.group.key for entry in rows]
    # Names differ, so entries themselves are never compared.
    return [row[-1] for row in sorted(zip(*ranks, names, rows, strict=True))]


class Lane:
    """The waiting groups of one queue, in their order."""

    def __init__(self, entries: Sequence[GroupEntry], *, is_strict: bool) -> None:
        self._entries = entries
        self._next = 0
        self.is_strict = is_strict

    def take(self) -> GroupEntry | None:
        if self._next >= len(self._entries):
            return None
        self._next += 1
        return self._entries[self._next - 1]

    def upcoming(self, most: int) -> Sequence[GroupEntry]:
        """At most so many of those that are given next."""
        return self._entries[self._next : self._next + most]

    def go_on_after(self, place: Place) -> None:
        """From here, those behind a place in line are given."""
        assert isinstance(self._entries, Line)
        self._next = bisect_right(self._entries.places, place)

    def behind(self) -> Sequence[GroupEntry]:
        """Those that have not been given."""
        return self._entries[self._next :]

    def close(self) -> None:
        """Nobody is given any more."""
        self._next = len(self._entries)


class SharedLane(Lane):
    """A queue in which users or namespaces take turns: whoever has the least, now and before, is next."""

    def __init__(
        self, entries: Sequence[GroupEntry], queue: Queue, tenants: Tenants, past: Mapping[UsageKey, int]
    ) -> None:
        super().__init__(entries, is_strict=queue.order is QueueOrder.FIFO_STRICT)
        by_user = queue.share_by is ShareBy.USER
        self._tenants = tenants
        self._past = past
        self._lines: dict[UsageKey, deque[GroupEntry]] = {}
        for entry in entries:
            of_user, of_namespace = tenant_keys(entry)
            self._lines.setdefault(of_user if by_user else of_namespace, deque()).append(entry)
        self._heap = [(self._share(key), key) for key in self._lines]
        heapq.heapify(self._heap)

    def take(self) -> GroupEntry | None:
        while self._heap:
            share, key = self._heap[0]
            if not self._lines[key]:
                heapq.heappop(self._heap)
            elif (current := self._share(key)) != share:
                heapq.heapreplace(self._heap, (current, key))
            else:
                return self._lines[key].popleft()
        return None

    def behind(self) -> Sequence[GroupEntry]:
        return [entry for line in self._lines.values() for entry in line]

    def close(self) -> None:
        self._heap.clear()

    def _share(self, key: UsageKey) -> int:
        return self._tenants.share(key) + self._past.get(key, 0)


class Lanes:
    """All queues. `take` gives the next group; each is given once."""

    def __init__(self, entries: Sequence[GroupEntry], charges: Charges, work: Work, only: str | None = None) -> None:
        """`only` is the queue of all of them, if it is known to be one."""
        queues, facts = work.queues, work.snapshot.facts
        past = past_shares(facts, work.policy) if facts.past_usage.entries else {}
        by_queue: dict[str, Sequence[GroupEntry]] = {only: entries} if only is not None else _by_queue(entries)
        self._lanes = {
            name: _lane(waiting, queues.get(name), charges.tenants, past) for name, waiting in sorted(by_queue.items())
        }
        known = charges.book.layout.row_by_name
        # Groups of queues that do not exist are asked too: each must hear why it does not start.
        self._strays = [name for name in reversed(self._lanes) if name not in known]
        self._only = next(iter(self._lanes.values())) if len(self._lanes) == 1 else None
        if self._only is not None:
            # It is always its turn.
            return
        self._ranking = QueueRanking(
            charges.book,
            work.policy.queue_choice.value,
            [name for name in self._lanes if name in known],
            {key.queue: share for key, share in past.items() if key.by is ShareBy.NONE},
        )

    @property
    def take(self) -> Callable[[], GroupEntry | None]:
        """Gives the next group, of the queue whose turn it is; None after the last. It is not kept: it would keep all
        that a cycle has made until the collector comes."""
        return self._take if self._only is None else self._only.take

    def _take(self) -> GroupEntry | None:
        while (name := self._ranking.next() or self._stray()) is not None:
            entry = self._lanes[name].take()
            if entry is not None:
                return entry
            if self._strays and self._strays[-1] == name:
                self._strays.pop()
            self._ranking.remove(name)
        return None

    @property
    def upcoming(self) -> Callable[[int], Sequence[GroupEntry]]:
        """At most so many of those that are given next, as far as that is known. Not kept either."""
        return self._only.upcoming if type(self._only) is Lane else nobody

    @property
    def names(self) -> Iterable[str]:
        return self._lanes.keys()

    @property
    def are_one_in_order(self) -> bool:
        """Whether there is but one queue, in which anybody may pass, and its order is that of the line."""
        only = self._only
        return type(only) is Lane and not only.is_strict and isinstance(only._entries, Line)

    def go_on_after(self, place: Place) -> None:
        """The next is the one behind this place, where they are one in order."""
        assert self._only is not None
        self._only.go_on_after(place)

    def is_strict(self, queue: str) -> bool:
        """Whether nobody passes the first that does not start."""
        return self._lanes[queue].is_strict

    def refused(self, entry: GroupEntry) -> Sequence[GroupEntry]:
        """The group did not start; in a strict queue nobody may pass it: those behind it, who wait for it now."""
        lane = self._lanes[entry.group.queue]
        if not lane.is_strict:
            return ()
        behind = lane.behind()
        lane.close()
        return behind

    def close(self, queue: str) -> None:
        """Nobody of this queue is given any more."""
        self._lanes[queue].close()

    def _stray(self) -> str | None:
        return self._strays[-1] if self._strays else None


def _by_queue(entries: Iterable[GroupEntry]) -> dict[str, Sequence[GroupEntry]]:
    found: dict[str, list[GroupEntry]] = {}
    for entry in entries:
        found.setdefault(entry.group.queue, []).append(entry)
    return dict(found)


def _lane(
    waiting: Sequence[GroupEntry], queue: Queue | None, tenants: Tenants | None, past: Mapping[UsageKey, int]
) -> Lane:
    if queue is None:
        return Lane(waiting, is_strict=False)
    if tenants is not None and (queue.share_by is not ShareBy.NONE or queue.order is QueueOrder.FAIR):
        return SharedLane(waiting, queue, tenants, past)
    return Lane(waiting, is_strict=queue.order is QueueOrder.FIFO_STRICT)
