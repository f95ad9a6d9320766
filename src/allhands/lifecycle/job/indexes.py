"""Sets of completion indexes as ordered, disjoint intervals, the way a Job's status writes them: `0-3,7,9,10`.

All work is bound by the number of intervals and of new indexes, never by the number of completions.
"""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

Interval = tuple[int, int]
_LONGEST_NUMBER: Final = 10


class Indexes:
    """Immutable. Both ends of an interval belong to it; neighbouring intervals are one."""

    __slots__ = ("intervals", "total")

    def __init__(self, intervals: tuple[Interval, ...] = ()) -> None:
        self.intervals = intervals
        self.total = sum(last - first + 1 for first, last in intervals)

    @staticmethod
    def parse(text: str | None, completions: int) -> Indexes:
        """What a status or a rule says, as far as it is below `completions`; what is no interval is passed over."""
        if not text:
            return NO_INDEXES
        found = []
        for part in text.split(","):
            begin, dash, end = part.partition("-")
            first = _number(begin)
            last = _number(end) if dash else first
            if first is None or last is None:
                continue
            if first >= completions:
                break
            found.append((first, min(last, completions - 1)))
        return Indexes(_merged(found))

    @staticmethod
    def of(indexes: Iterable[int]) -> Indexes:
        return Indexes(_merged([(index, index) for index in sorted(indexes)]))

    def __bool__(self) -> bool:
        return bool(self.intervals)

    def __contains__(self, index: int) -> bool:
        place = bisect.bisect_right(self.intervals, index, key=lambda it: it[0])
        return place > 0 and self.intervals[place - 1][1] >= index

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Indexes) and self.intervals == other.intervals

    def __hash__(self) -> int:
        return hash(self.intervals)

    def __str__(self) -> str:
        return ",".join(_interval_text(first, last) for first, last in self.intervals)

    def __or__(self, other: Indexes) -> Indexes:
        if not other.intervals:
            return self
        if not self.intervals:
            return other
        return Indexes(_merged(sorted((*self.intervals, *other.intervals))))

    def overlap(self, other: Indexes) -> int:
        """How many indexes are in both."""
        count = mine = theirs = 0
        while mine < len(self.intervals) and theirs < len(other.intervals):
            first, last = self.intervals[mine]
            other_first, other_last = other.intervals[theirs]
            count += max(0, min(last, other_last) - max(first, other_first) + 1)
            if last <= other_last:
                mine += 1
            if other_last <= last:
                theirs += 1
        return count

    def first_missing(self, count: int, completions: int) -> list[int]:
        """The lowest indexes below `completions` that are not in it, at most `count` of them."""
        missing: list[int] = []
        candidate = 0
        for first, last in self.intervals:
            missing.extend(range(candidate, min(first, completions, candidate + count - len(missing))))
            candidate = max(candidate, last + 1)
            if len(missing) >= count:
                return missing
        missing.extend(range(candidate, min(completions, candidate + count - len(missing))))
        return missing


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER else None


def _merged(ordered: list[Interval]) -> tuple[Interval, ...]:
    merged: list[Interval] = []
    for first, last in ordered:
        if last < first:
            continue
        if merged and first <= merged[-1][1] + 1:
            if last > merged[-1][1]:
                merged[-1] = (merged[-1][0], last)
        else:
            merged.append((first, last))
    return tuple(merged)


def _interval_text(first: int, last: int) -> str:
    if last == first:
        return str(first)
    return f"{first},{last}" if last == first + 1 else f"{first}-{last}"


NO_INDEXES: Final = Indexes()
