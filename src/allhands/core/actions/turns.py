"""Who gets one of the few searches for victims that a cycle may make: half of them the first in order, half by turns.

So gangs that nothing helps cannot use up the searches of every cycle: each other gang gets its turn, about as soon as
all have been asked. Whose turn it is follows from the snapshot and the time alone: what earlier cycles searched is not
remembered, or an empty memo would give another plan.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from allhands.core.snapshot import GroupEntry
    from allhands.core.work import Work

TURN_SECONDS: Final = 10
_GOLDEN: Final = 0x9E3779B97F4A7C15
"""The golden part of 2^64. Steps of it, or of any multiple, go round evenly: so no regular rhythm of cycles meets the
same groups again and again."""
_BITS: Final = 64


class Turns:
    """For one cycle."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self.taken = 0
        self._most = work.policy.max_victim_searches
        self._of_turn: frozenset[tuple[str, int]] | None = None
        """The questions whose turn it is. Equal groups of equal priority are one question."""

    def take(self, entry: GroupEntry, may_ask: Callable[[GroupEntry], bool]) -> bool:
        """Whether a search may be made for this group now; if so, it counts as made. `may_ask` says of a waiting group
        whether anybody could have to leave for it; it is not kept, or the two would keep each other."""
        if self.taken >= self._most:
            return self._later()
        if self.taken >= self._most // 2 and not self._has_turn(entry, may_ask):
            return self._later()
        self.taken += 1
        return True

    def _has_turn(self, entry: GroupEntry, may_ask: Callable[[GroupEntry], bool]) -> bool:
        if self._of_turn is None:
            self._of_turn = self._questions(may_ask)
        return (entry.signature, entry.group.priority) in self._of_turn

    def _questions(self, may_ask: Callable[[GroupEntry], bool]) -> frozenset[tuple[str, int]]:
        waiting = {
            (entry.signature, entry.group.priority)
            for entry in self._work.snapshot.groups.values()
            if entry.pending and not entry.is_whole and entry.problem is None and may_ask(entry)
        }
        if len(waiting) <= self._most:
            return frozenset(waiting)
        ordered = sorted(waiting)
        turn = self._work.now // TURN_SECONDS * _GOLDEN & ((1 << _BITS) - 1)
        first, size = turn * len(ordered) >> _BITS, self._most - self._most // 2
        return frozenset((ordered + ordered)[first : first + size])

    def _later(self) -> bool:
        if self._most:
            self._work.wake_at((self._work.now // TURN_SECONDS + 1) * TURN_SECONDS)
        return False
