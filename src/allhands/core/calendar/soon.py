"""The first promise of a cycle in the plain case, in plain numbers: few pods run, all with a known end, and the group
that waits asks for one shape, anywhere.

It finds what `search` would find, sooner, and only where nobody asks for more than that: who prevents a start, or how
many domains could hold the group, is not said. Where anything is not plain, it says nothing.
"""

from __future__ import annotations

from heapq import merge
from typing import TYPE_CHECKING, Final

import numpy as np

from allhands.core.actions.placing import place_group
from allhands.core.calendar.elsewhere import OtherRoom, WorkElsewhere
from allhands.core.calendar.estimates import FOREVER
from allhands.core.calendar.promises import amounts_of, amounts_of_counts
from allhands.core.calendar.search import Found
from allhands.core.room import FEW
from allhands.core.shapes import UNLIMITED

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from allhands.core.calendar.estimates import Estimates
    from allhands.core.calendar.releases import Started
    from allhands.core.calendar.runs import End
    from allhands.core.calendar.search import Ask
    from allhands.core.columns import Column, Request, Rows
    from allhands.core.work import Work

MOST_NODES: Final = 64
"""With more, arrays are faster."""
NOT_YET: Final = -(1 << 62)
_ONLY_ROW: Final[Rows] = np.zeros(1, dtype=np.int64)
_ONLY_ROW.setflags(write=False)


class Soon:
    """The ends of one cycle."""

    def __init__(self, work: Work, estimates: Estimates, begun: Collection[str]) -> None:
        self._work = work
        runs = self._runs = work.memo.runs
        runs.follow(work, estimates)
        self.has_unknown = runs.has_unknown(begun)
        """Whether nobody knows of some group that runs when it ends."""
        self.is_plain = not begun and not runs.leaving and len(work.snapshot.columns) <= MOST_NODES

    def first(self, ask: Ask, started: Sequence[Started]) -> tuple[Found, Column] | None:
        """When it fits and where, and what is free then; None if that is not plain."""
        if not self.is_plain or self.has_unknown or not _is_plain(self._work, ask):
            return None
        if any(it.end >= FOREVER for it in started):
            return None
        ends: Iterable[End] = self._runs.ends
        if ends:
            # Then those who are still there are expected to take longer.
            self._work.wake_at(self._runs.ends[0][0])
        if started:
            # Their ends are counted from now, so a second later they are others.
            self._work.wake_at(self._work.now + 1, lets_start=False)
            ends = merge(ends, sorted(self._end_of(it) for it in started))
        if len(self._work.snapshot.columns) == 1:
            return self._on_the_only_node(ask, ends)
        found = self._fits_after(ask, ends)
        return None if found is None else self._place(ask, *found)

    def _end_of(self, started: Started) -> End:
        columns, runs, entry = self._work.snapshot.columns.column_by_resource, self._runs, started.entry
        held = tuple(
            (row, runs.units(entry.pending[take.members].shape, columns))
            for take, picks in started.placed.picks
            for row in picks
        )
        return started.end, entry.key, held

    def _on_the_only_node(self, ask: Ask, ends: Iterable[End]) -> tuple[Found, Column] | None:
        """The same as below where nothing but the time is to be found."""
        work = self._work
        (take,) = ask.part.takes
        state = work.state(ask.entry.pending[take.members].shape)
        free: list[int] = work.room.free[:, 0].tolist()
        wanted = [(column, units * take.number) for column, units in state.request]
        if not state.static.item(0) or _has_all(free, wanted):
            return None
        current = NOT_YET
        for time, _, held in ends:
            if time != current:  # all of a moment end together
                if _has_all(free, wanted):
                    break
                current = time
            for _, units in held:
                for column, amount in units:
                    free[column] += amount
        if not _has_all(free, wanted):
            return None
        amounts = [0] * len(free)
        for column, needed in wanted:
            amounts[column] = needed
        of_node = np.array([free, amounts], dtype=np.int64)
        return Found(current, _ONLY_ROW, of_node[1, :, None], "", None), of_node[0, :, None]

    def _fits_after(self, ask: Ask, ends: Iterable[End]) -> tuple[int, list[list[int]], list[int]] | None:
        """The first time at which so many fit; and what is free then, and how many fit, node by node."""
        (take,) = ask.part.takes
        state = self._work.state(ask.entry.pending[take.members].shape)
        request, need = state.request, take.number
        room = self._work.room
        usable: list[bool] = state.static.tolist()
        free: list[list[int]] = room.free.T.tolist()
        if len(free) <= FEW:
            fits = [_fit(here, request) if ok else 0 for here, ok in zip(free, usable, strict=True)]
            together = [sum(max(here[column], 0) for here in free) for column in range(len(room.free))]
        else:
            fits = np.where(state.static, room.fit(request, slice(None), UNLIMITED), 0).tolist()
            together = np.maximum(room.free, 0).sum(axis=1).tolist()
        total = sum(fits)
        if total >= need:
            # It was refused for another reason than room.
            return None
        scarce, missing = max(((column, need * units - together[column]) for column, units in request), key=_second)
        stale: set[int] = set()
        current = NOT_YET
        for time, _, held in ends:
            # As long as all nodes together have too little, nothing need be counted; and all of a moment end together.
            if time != current and missing <= 0 and stale:
                total += _count_again(stale, free, usable, fits, request)
                if total >= need:
                    return current, free, fits
            current = time
            for node, units in held:
                here = free[node]
                for column, amount in units:
                    here[column] += amount
                    if column == scarce:
                        missing -= amount
                stale.add(node)
        total += _count_again(stale, free, usable, fits, request)
        return (current, free, fits) if total >= need else None

    def _place(self, ask: Ask, time: int, free: list[list[int]], fits: list[int]) -> tuple[Found, Column] | None:
        work = self._work
        then = np.array(free, dtype=np.int64).T.copy()
        (take,) = ask.part.takes
        state = work.state(ask.entry.pending[take.members].shape)
        able = [row for row, fit in enumerate(fits) if fit]
        if len(able) == 1 or state.takes_first:
            counts, left = dict[int, int](), take.number
            for row in able:
                counts[row] = min(left, fits[row])
                left -= counts[row]
                if not left:
                    break
            return Found(time, *amounts_of_counts(work, state.request, counts), "", None), then
        room = OtherRoom(work.room)
        room.free = then.copy()
        mark = work.statement.mark()
        placed = place_group(WorkElsewhere(work, room), ask.entry, ask.part)
        work.statement.rollback(mark)
        if placed is None:
            return None
        return Found(time, *amounts_of(work, ask.entry, placed), "", None), then


def _is_plain(work: Work, ask: Ask) -> bool:
    part, entry = ask.part, ask.entry
    if len(part.takes) != 1 or part.children or part.rule is not None or ask.within is not None:
        return False
    if entry.bound or entry.status.avoid_nodes:
        return False
    return not work.state(entry.pending[part.takes[0].members].shape).is_dynamic


def _has_all(free: list[int], wanted: list[tuple[int, int]]) -> bool:
    for column, units in wanted:  # noqa: SIM110 - asked for every end; a generator costs more than all else
        if free[column] < units:
            return False
    return True


def _fit(free: list[int], request: Request) -> int:
    fewest = -1
    for column, units in request:
        fit = free[column] // units
        if fit <= 0:
            return 0
        if fewest < 0 or fit < fewest:
            fewest = fit
    return fewest


def _count_again(stale: set[int], free: list[list[int]], usable: list[bool], fits: list[int], request: Request) -> int:
    """How many more fit on these nodes than before; then they are not stale any more."""
    more = 0
    for row in stale:
        if usable[row]:
            fit = _fit(free[row], request)
            more += fit - fits[row]
            fits[row] = fit
    stale.clear()
    return more


def _second(pair: tuple[int, int]) -> int:
    return pair[1]
