"""Whose turn it is: the queue with the highest priority, then the one that has the least of its part, then by name.

A ranking follows its book by itself: a queue whose use grew is put back when it comes up, one whose use fell is moved
forward at once, and nobody else is looked at. So a pick costs the same whether there are ten queues or a thousand.

Policies: `drf` compares dominant shares of all queues at once; `hdrf` compares siblings, from the top of the tree down
(the share of an account is that of everything below it; unlike the published algorithm, shares of blocked children are
not scaled to their siblings', since a blocked queue is taken out of the ranking instead); `proportion` compares the
use of what is deserved; `fair` what is borrowed of all that is lent, siblings first; `priority` none of these.
"""

from __future__ import annotations

from heapq import heappop, heappush, heapreplace
from typing import TYPE_CHECKING, Final, NamedTuple

from allhands.core.quota.forest import NO_PARENT
from allhands.core.quota.shares import borrowed_share, dominant_share, use_of_deserved
from allhands.model.queue import Queue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from allhands.core.quota.book import QuotaBook

Entry = tuple[int, int, int, int]
"""Negated priority, share, rank of the name, and the version of the use that the share was worked out from."""


class Policy(NamedTuple):
    share: Callable[[QuotaBook, int], int]
    by_level: bool


def _none(_book: QuotaBook, _row: int) -> int:
    return 0


POLICIES: Final[Mapping[str, Policy]] = {
    "drf": Policy(dominant_share, by_level=False),
    "fair": Policy(borrowed_share, by_level=True),
    "hdrf": Policy(dominant_share, by_level=True),
    "priority": Policy(_none, by_level=False),
    "proportion": Policy(use_of_deserved, by_level=False),
}


class QueueRanking:
    """The queues that still have something to start, best first. `past` are millionths added to an account's share."""

    def __init__(
        self,
        book: QuotaBook,
        policy: str = "drf",
        queues: Iterable[str] | None = None,
        past: Mapping[str, int] | None = None,
    ) -> None:
        if policy not in POLICIES:
            raise ValueError(f'queue order "{policy}" is not known; there are {", ".join(POLICIES)}')
        self._book = book
        self._policy = POLICIES[policy]
        layout = book.layout
        self._past = {
            layout.row_by_name[name]: part for name, part in (past or {}).items() if name in layout.row_by_name
        }
        self._rank = {row: rank for rank, row in enumerate(sorted(layout.row_by_name.values(), key=self._name))}
        self._row_by_rank = sorted(self._rank, key=self._rank.__getitem__)
        self._urgency = [-account.priority for account in layout.accounts]
        self._heaps: dict[int, list[Entry]] = {}
        self._share: dict[int, int] = {}
        self._waiting: set[int] = set()
        self._below: dict[int, int] = {}
        self._lowered = book.lowered
        self._seen = len(book.lowered)
        self._epoch = book.epoch
        everything = (account.name for account in layout.accounts if isinstance(account, Queue))
        for name in everything if queues is None else queues:
            self.add(name)

    def _name(self, row: int) -> str:
        return self._book.layout.accounts[row].name

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, queue: str) -> None:
        """From here the queue has something to start. One that the book does not know is ignored."""
        row = self._book.layout.row_by_name.get(queue)
        if row is None or row in self._waiting:
            return
        self._waiting.add(row)
        for below, above in self._branch(row):
            self._below[below] = self._below.get(below, 0) + 1
            if self._below[below] == 1:
                self._push(below, above)

    def remove(self, queue: str) -> None:
        """From here the queue has nothing to start, or is blocked."""
        row = self._book.layout.row_by_name.get(queue)
        if row is None or row not in self._waiting:
            return
        self._waiting.remove(row)
        for below, _ in self._branch(row):
            self._below[below] -= 1
            if self._below[below] == 0:
                # Entries of a row without a share are dropped when they come up.
                self._share.pop(below, None)

    def next(self) -> str | None:
        """The queue whose turn it is, or None. It stays in the ranking; ask again after charging it."""
        if not self._waiting:
            return None
        self._catch_up()
        row = self._best(NO_PARENT)
        while row not in self._waiting:
            row = self._best(row)
        return self._name(row)

    def key(self, queue: str) -> tuple[tuple[int, int, str], ...]:
        """What the ranking compares for a queue, outermost level first: negated priority, share, name."""
        row = self._book.layout.row_by_name[queue]
        levels = [below for below, _ in self._branch(row)][::-1]
        return tuple((self._urgency[at], self._share_of(at), self._name(at)) for at in levels)

    def _branch(self, row: int) -> list[tuple[int, int]]:
        """The accounts that are compared for a queue, each with the level that it is compared in."""
        if not self._policy.by_level:
            return [(row, NO_PARENT)]
        parents = self._book.layout.parents
        return [(below, parents[below]) for below in self._book.layout.path(row)]

    def _share_of(self, row: int) -> int:
        share = self._policy.share(self._book, row)
        return share + self._past.get(row, 0) if self._past else share

    def _entry(self, row: int) -> Entry:
        share = self._share[row] = self._share_of(row)
        return (self._urgency[row], share, self._rank[row], self._book.versions[row])

    def _push(self, row: int, level: int) -> None:
        heappush(self._heaps.setdefault(level, []), self._entry(row))

    def _best(self, level: int) -> int:
        heap, versions = self._heaps[level], self._book.versions
        while True:
            _, share, rank, version = heap[0]
            row = self._row_by_rank[rank]
            if len(heap) == 1:
                return row
            if self._share.get(row) != share:
                heappop(heap)
            elif version != versions[row]:
                heapreplace(heap, self._entry(row))
            else:
                return row

    def _catch_up(self) -> None:
        """Moves forward those whose use fell since the last look."""
        book = self._book
        if book.epoch != self._epoch or book.lowered is not self._lowered:
            self._epoch, self._lowered, self._seen = book.epoch, book.lowered, len(book.lowered)
            self._heaps.clear()
            for row in sorted(self._share):
                self._push(row, book.layout.parents[row] if self._policy.by_level else NO_PARENT)
        elif self._seen < len(book.lowered):
            fallen = {row for rows in book.lowered[self._seen :] for row in rows if row in self._share}
            self._seen = len(book.lowered)
            for row in sorted(fallen):
                if self._share_of(row) < self._share[row]:
                    self._push(row, book.layout.parents[row] if self._policy.by_level else NO_PARENT)
