"""The first promise of a cycle in the plain case, in plain numbers: few pods run, all with a known end, and the group
that waits asks for one shape, anywhere.

It finds what `search` would find, sooner, and only where nobody asks for more than that: who prevents a start, or how
many domains could hold the group, is not said. Where anything is not plain, it says nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from allhands.core.actions.placing import Placed, place_group
from allhands.core.calendar.elsewhere import OtherRoom, WorkElsewhere
from allhands.core.calendar.estimates import FOREVER, LONGEST_SECONDS
from allhands.core.calendar.promises import amounts_of
from allhands.core.calendar.search import Found

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from allhands.core.calendar.estimates import Estimates
    from allhands.core.calendar.runs import Release
    from allhands.core.calendar.search import Ask
    from allhands.core.columns import Column, Request
    from allhands.core.snapshot import GroupEntry
    from allhands.core.work import Work

MOST_PODS: Final = 512
MOST_NODES: Final = 64
"""With more, arrays are faster."""


class Soon:
    """The ends of one cycle."""

    def __init__(self, work: Work, estimates: Estimates, begun: Collection[str]) -> None:
        now = min(work.now, LONGEST_SECONDS)
        self._work = work
        self._releases: list[Release] = []
        self.has_unknown = False
        """Whether nobody knows of some group that runs when it ends."""
        self.is_plain = not begun and len(work.snapshot.columns) <= MOST_NODES
        for run in work.memo.runs.of(work):
            entry = run.entry
            if entry.leaving:
                self.is_plain = False
            if run.end <= now:
                seconds = estimates.duration(entry.group)
                if seconds is None:
                    self.has_unknown = True
                    continue
                run.expect(seconds, now)
            if begun and entry.status.started_at_seconds is None and entry.group.key in begun:
                self.has_unknown = True
            else:
                self._releases += run.releases

    def first(self, ask: Ask, started: Sequence[tuple[GroupEntry, Placed, int]]) -> tuple[Found, Column] | None:
        """When it fits and where, and what is free then; None if that is not plain."""
        if not self.is_plain or self.has_unknown or not _is_plain(self._work, ask):
            return None
        releases = self._releases + [it for one in started for it in self._releases_of(*one)]
        if len(releases) > MOST_PODS or any(end >= FOREVER for _, _, end in started):
            return None
        releases.sort(key=_time)
        if releases:
            # Then those who are still there are expected to take longer.
            self._work.wake_at(releases[0][0])
        if started:
            # Their ends are counted from now, so a second later they are others.
            self._work.wake_at(self._work.now + 1)
        found = self._fits_after(ask, releases)
        return None if found is None else self._place(ask, *found)

    def _releases_of(self, entry: GroupEntry, placed: Placed, end: int) -> list[Release]:
        columns, runs = self._work.snapshot.columns.column_by_resource, self._work.memo.runs
        return [
            (end, row, runs.units(entry.pending[take.members].shape, columns))
            for take, picks in placed.picks
            for row in picks
        ]

    def _fits_after(self, ask: Ask, releases: list[Release]) -> tuple[int, list[list[int]], list[int]] | None:
        """The first time at which so many fit; and what is free then, and how many fit, node by node."""
        (take,) = ask.part.takes
        state = self._work.state(ask.entry.pending[take.members].shape)
        request, need = state.request, take.number
        free: list[list[int]] = self._work.room.free.T.tolist()
        usable: list[bool] = state.static.tolist()
        fits = [_fit(here, request) if ok else 0 for here, ok in zip(free, usable, strict=True)]
        total = sum(fits)
        if total >= need:
            # It was refused for another reason than room.
            return None
        scarce, missing = max(
            ((column, need * units - sum(max(here[column], 0) for here in free)) for column, units in request),
            key=_second,
        )
        stale: set[int] = set()
        last = len(releases) - 1
        for index, (time, node, units) in enumerate(releases):
            here = free[node]
            for column, amount in units:
                here[column] += amount
                if column == scarce:
                    missing -= amount
            stale.add(node)
            # As long as all nodes together have too little, nothing need be counted.
            if missing <= 0 and (index == last or releases[index + 1][0] != time):
                for row in stale:
                    if usable[row]:
                        fit = _fit(free[row], request)
                        total += fit - fits[row]
                        fits[row] = fit
                stale.clear()
                if total >= need:
                    return time, free, fits
        return None

    def _place(self, ask: Ask, time: int, free: list[list[int]], fits: list[int]) -> tuple[Found, Column] | None:
        work = self._work
        then = np.array(free, dtype=np.int64).T.copy()
        (take,) = ask.part.takes
        able = [row for row, fit in enumerate(fits) if fit]
        if len(able) == 1:
            placed: Placed | None = Placed(((take, able * take.number),), "")
        else:
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


def _fit(free: list[int], request: Request) -> int:
    fewest = -1
    for column, units in request:
        fit = free[column] // units
        if fit <= 0:
            return 0
        if fewest < 0 or fit < fewest:
            fewest = fit
    return fewest


def _time(release: Release) -> int:
    return release[0]


def _second(pair: tuple[int, int]) -> int:
    return pair[1]
