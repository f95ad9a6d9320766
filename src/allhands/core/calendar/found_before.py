"""What was found in this cycle for groups that ask for the same, by how long they run: none of them fits earlier than
one before it that runs no longer.

It only remembers times; whether they still hold is up to who asks: in one cycle room only ever goes.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from allhands.core.calendar.search import Found


class FoundBefore:
    """Of one kind of groups."""

    def __init__(self) -> None:
        self.latest = 0
        """The last time that was found for any of them."""
        self._lengths: list[int] = []
        self._times: list[int] = []
        """By length: the last time that was found for one that runs no longer. Both only rise."""
        self._hopeless: list[tuple[int, Found | None]] = []
        """Those for which no time is known, in the order in which they asked."""

    def hopeless(self, length: int) -> tuple[Found | None] | None:
        """What the first was told that runs no longer, and has no time; None if there is none such."""
        return next(((found,) for other, found in self._hopeless if other <= length), None)

    def not_before(self, length: int) -> int:
        """No such group fits earlier."""
        index = bisect_right(self._lengths, length)
        return self._times[index - 1] if index else 0

    def add(self, length: int, found: Found | None) -> None:
        """`found` is None if there is no room for it at all."""
        if found is None or not found.is_known:
            self._hopeless.append((length, found))
            return
        time = found.time
        self.latest = max(self.latest, time)
        index = bisect_right(self._lengths, length)
        if index and self._times[index - 1] >= time:
            return
        # Those who run longer fit no earlier either.
        after = index
        while after < len(self._times) and self._times[after] <= time:
            after += 1
        self._lengths[index:after] = [length]
        self._times[index:after] = [time]
