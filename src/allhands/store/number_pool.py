"""Numbers of which each can be given once, such as addresses of a range or ports of a node.

Which one is next is a function of those that are taken and of a draw, whatever happened before: a pool that was built
anew from what is stored gives the same. It costs a search in what is taken, never a walk over the range.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sortedcontainers import SortedList

if TYPE_CHECKING:
    from collections.abc import Iterator


class NumberPool:
    """The numbers from `first` to `last`. The lowest `by_request` are given to who asks for no particular one only when
    there are no others, so that who does ask can count on them."""

    def __init__(self, first: int, last: int, by_request: int) -> None:
        self.first = first
        self.last = last
        self._others = first + by_request
        self._taken: SortedList[int] = SortedList()
        self._holders: dict[int, int] = {}

    def __contains__(self, number: int) -> bool:
        """Whether it is one of the pool, taken or not."""
        return self.first <= number <= self.last

    def __len__(self) -> int:
        """How many are taken."""
        return len(self._taken)

    def __iter__(self) -> Iterator[int]:
        """Those that are taken, ascending."""
        return iter(self._taken)

    def is_taken(self, number: int) -> bool:
        return number in self._holders

    def hold(self, number: int) -> None:
        """One more has it: there can be two who got it before anybody looked."""
        if number not in self:
            return
        self._holders[number] = self._holders.get(number, 0) + 1
        if self._holders[number] == 1:
            self._taken.add(number)

    def release(self, number: int) -> None:
        if number not in self._holders:
            return
        self._holders[number] -= 1
        if not self._holders[number]:
            del self._holders[number]
            self._taken.remove(number)

    def free(self, draw: int) -> int | None:
        """The free number that this draw points to; another draw points to another one, as long as there are more."""
        found = self._free_between(self._others, self.last, draw)
        return self._free_between(self.first, self._others - 1, draw) if found is None else found

    def _free_between(self, low: int, high: int, draw: int) -> int | None:
        begin = int(self._taken.bisect_left(low))
        taken = int(self._taken.bisect_right(high)) - begin
        free = high - low + 1 - taken
        if free <= 0:
            return None
        wanted = draw % free
        # So many of the taken ones lie below the wanted free one: the i-th does if fewer than it are free before it.
        below, above = 0, taken
        while below < above:
            middle = (below + above) // 2
            if self._taken[begin + middle] - low - middle <= wanted:
                below = middle + 1
            else:
                above = middle
        return low + wanted + below
