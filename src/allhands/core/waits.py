"""Collects why groups wait and until when, and says which of it is news to their owners."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allhands.core.plan import Wait
from allhands.model.reason import EVICTED, FIRST_NEVER, Explanation, Reason, explain

if TYPE_CHECKING:
    from collections.abc import Iterable

    from allhands.core.plan import Evict
    from allhands.core.snapshot import GroupEntry
    from allhands.core.work import Work
    from allhands.model.group_status import Said

NEWS_PARTS = 10
"""An expected start is news if it moves by more than this part of the remaining wait."""
TOLD_EXACTLY = frozenset((Reason.INVALID, Reason.DEPENDENCY_PENDING, Reason.QUEUE_HELD))
"""Reasons whose words change only because somebody has changed something: then they are news."""
LACKS_PODS = frozenset((Reason.GANG_INCOMPLETE, Reason.SUB_GROUP_INCOMPLETE))


class Waits:
    def __init__(self, work: Work) -> None:
        self._work = work
        self._why: dict[str, tuple[GroupEntry, Explanation]] = {}
        self._until: dict[str, tuple[int | None, str]] = {}
        self._evicted: dict[str, int] = {}
        """Group -> how many of its members."""

    def add(
        self, entry: GroupEntry, why: Explanation, expected_start: int | None = None, unknown_because_of: str = ""
    ) -> None:
        """The last word about a group counts. Who was evicted is not told that its pods are gone before they are."""
        key, said = entry.group.key, entry.status.said
        if entry.leaving and said is not None and said.explanation.reason in EVICTED and why.reason in LACKS_PODS:
            why = said.explanation
        self._why[key] = (entry, why)
        if expected_start is not None or unknown_because_of:
            self._until[key] = (expected_start, unknown_because_of)

    def add_evicted(self, evictions: Iterable[Evict]) -> None:
        """Groups of which nothing is left from here on; who can spare its members is not told to wait."""
        for evict in evictions:
            self._evicted[evict.group] = self._evicted.get(evict.group, 0) + 1
            entry = self._work.snapshot.groups[evict.group]
            if self._evicted[evict.group] == len(entry.bound):
                self.add(entry, evict.why)

    def add_behind(self, entry: GroupEntry, first: GroupEntry, position: int, waiting: int = 0) -> None:
        """In a strict queue, everyone behind the first that cannot start; `waiting` are all of them, if known."""
        numbers: dict[str, int | str] = {"position": position, "waiting": max(position, waiting)}
        numbers["queue"] = entry.group.queue
        self.add(entry, explain(Reason.BEHIND_OTHERS, **numbers, first=first.group.key))

    def expect(
        self, entry: GroupEntry, start: int | None, because_of: str = "", why: Explanation | None = None
    ) -> None:
        """When a group that waits is expected to start, or whose unknown end prevents an answer.

        `why` replaces what was said before, if that was for the same reason; if it rules a start out for good, it is
        added to that.
        """
        key = entry.group.key
        known = self._why.get(key)
        if known is None:
            return
        self._until[key] = (start, because_of)
        if why is not None and why.reason is Reason.GROUP_NEVER_FITS:
            # What a group has already is the more important news.
            reason = Reason.PARTLY_BOUND if known[1].reason is Reason.PARTLY_BOUND else why.reason
            numbers = {**dict(why.numbers), **dict(known[1].numbers)}
            both = Explanation(reason, f"{known[1].message} {why.message}", tuple(sorted(numbers.items())))
            self._why[key] = (entry, both)
        elif why is not None and known[1].reason is why.reason:
            self._why[key] = (entry, why)

    def all(self) -> tuple[Wait, ...]:
        until = self._until
        waits = []
        for key in sorted(self._why):
            entry, why = self._why[key]
            if why.reason is Reason.BEHIND_OTHERS:
                why = self._with_first(why)
            start, because_of = until.get(key, (None, ""))
            waits.append(Wait(key, why, start, because_of, self._is_news(entry.status.said, why, start)))
        return tuple(waits)

    def _with_first(self, why: Explanation) -> Explanation:
        """Who stands behind one who can never start waits for somebody to do something about that one."""
        first = self._why.get(str(dict(why.numbers).get("first", "")))
        return why.with_more(FIRST_NEVER) if first is not None and first[1].is_never else why

    def _is_news(self, said: Said | None, why: Explanation, start: int | None) -> bool:
        if said is None or said.explanation.reason is not why.reason or said.explanation.is_never != why.is_never:
            return True
        if why.reason in TOLD_EXACTLY and said.explanation != why:
            return True
        if why.reason is Reason.BEHIND_OTHERS and (FIRST_NEVER in why.message) != (
            FIRST_NEVER in said.explanation.message
        ):
            return True
        before = said.expected_start_seconds
        if start is None or before is None:
            return start != before
        moved = abs(start - before)
        now = self._work.now
        if moved * NEWS_PARTS > max(1, before - now):
            return True
        if moved:
            # The closer the start, the more a difference matters.
            self._work.wake_at(before - moved * NEWS_PARTS + 1)
        return False
