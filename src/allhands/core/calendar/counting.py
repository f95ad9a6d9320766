"""Whether a group fits at a time, by numbers alone: how many of its pods the nodes hold then, less what is promised.

For members that are all alike and may go anywhere this is exact, and costs the same on a hundred nodes as on a
hundred thousand: what running groups leave is summed up once, and only nodes with promises are looked at again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from allhands.core.calendar.promises import UNTIL_IT_STARTS

if TYPE_CHECKING:
    from allhands.core.calendar.future import Future
    from allhands.core.columns import Column, Rows
    from allhands.core.shapes import ShapeState

COUNT_COST: Final = 1
PLACE_COST: Final = 4
"""What a count and a trial placement cost, in counted work."""
WORK_PER_GROUP: Final = 4
WORK_PER_PROMISE: Final = 24
LEAST_WORK: Final = 128
"""How much of it a cycle may do for each group whose start is worked out, or promised; and in any case."""
COUNTED_PODS: Final = 1 << 18
"""With more running pods than this, nothing is summed up beforehand."""


class Budget:
    """Counted work that may still be done in this cycle."""

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left

    def spend(self, work: int) -> bool:
        """False if nothing is left."""
        if self.left <= 0:
            return False
        self.left -= work
        return True


class Count:
    """For `need` pods of one shape."""

    def __init__(self, future: Future, state: ShapeState, need: int) -> None:
        self.state = state
        self.need = need
        self._future = future
        releases, room = future.releases, future.main
        self.is_summed = len(releases.node) <= COUNTED_PODS
        self._by_time: Column = np.zeros(0, dtype=np.int64)
        """How many fit now and after each release, if nothing were promised; empty where it is written out already."""
        self.enough_at = 0
        """Before this, too few fit wherever they were put."""
        if (profile := future.profile()) is not None:
            self.enough_at = profile.enough_at(state, need)
        elif self.is_summed:
            self._by_time = releases.fits_by_time(room, state.request, state.static, need)
            index = int(np.searchsorted(self._by_time, need))
            if index:
                self.enough_at = int(releases.times[index - 1]) if index < len(self._by_time) else UNTIL_IT_STARTS

    def fits(self, start: int, end: int, entitled: tuple[int, ...]) -> bool:
        """Whether so many fit from `start` to `end`."""
        future = self._future
        if (profile := future.profile()) is not None:
            return profile.holds(self.state, self.need, start, end)
        total = int(self._by_time[np.searchsorted(future.releases.times, start, side="right")])
        if total < self.need:
            return False
        seen = future.narrow(start, end, entitled)
        if seen.rows.size:
            total += int((self._on(seen.rows, seen.least) - self._on(seen.rows, seen.plain)).sum())
        return total >= self.need

    def _on(self, rows: Rows, free: Column) -> Column:
        fits = np.full(len(rows), self.need, dtype=np.int64)
        for column, units in self.state.request:
            np.minimum(fits, free[column] // units, out=fits)
        return np.where(self.state.static[rows], np.maximum(fits, 0), 0)
