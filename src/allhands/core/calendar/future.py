"""The room at a later time: what is free now, what running groups have given back by then, less what is promised.

It is one room that is moved through time: going from one moment to another touches only the nodes where something
changes in between. A group that starts at a time must fit until its end, so what it sees of a node is the least that
the node has at any moment of its run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from allhands.core.calendar.elsewhere import OtherRoom, WorkElsewhere
from allhands.core.calendar.profile import profile_of

if TYPE_CHECKING:
    from allhands.core.calendar.profile import Profile
    from allhands.core.calendar.promises import Promises
    from allhands.core.calendar.releases import Releases
    from allhands.core.calendar.windows import Windows
    from allhands.core.columns import Column, Rows
    from allhands.core.work import Work


NONE: Final[Rows] = np.zeros(0, dtype=np.int64)


class Future:
    """Look at a run, and `work` is the cycle's work in the room that the run would find."""

    def __init__(self, work: Work, releases: Releases, windows: Windows, promises: Promises) -> None:
        self.main = work.room
        self.work = WorkElsewhere(work, OtherRoom(work.room))
        self.releases = releases
        self.promises = promises
        """Read whenever the room is looked at: more may come."""
        self._windows = windows
        self._given_back = np.zeros_like(work.room.free)
        self._index = 0
        """How many of the release times have passed."""
        self._seen = len(work.room.log)
        self._narrowed: Rows = NONE
        """Nodes on which promises or windows count at the moment that is looked at."""
        self._promised: _Promised | None = None
        self._profile: tuple[Profile | None, Promises, int] | None = None
        """With which promises, and after which tries in the room now."""
        self._profiled = 0
        """How many promises are in it."""

    def look(self, start: int, end: int, entitled: tuple[int, ...] = ()) -> None:
        """Makes the room that of a run from `start` to `end` by somebody who is entitled to these windows."""
        changed = [self._narrowed, self._move(start)]
        if self._seen < len(self.main.log):
            changed.append(np.array(self.main.log[self._seen :], dtype=np.int64))
            self._seen = len(self.main.log)
        rows = np.concatenate(changed)
        seen = self.narrow(start, end, entitled)
        self._narrowed = narrowed = seen.rows
        room = self.work.room
        if 2 * (rows.size + narrowed.size) < len(room.columns):
            room.free[:, rows] = self.main.free[:, rows] + self._given_back[:, rows]
            room.log.extend(rows.tolist())
            room.log.extend(narrowed.tolist())
        else:
            np.add(self.main.free, self._given_back, out=room.free)
            self.work.forget_columns()
        if narrowed.size:
            room.free[:, narrowed] = seen.least
        room.forget_most()

    def profile(self) -> Profile | None:
        """The same written out for all moments, with all promises; None if there are windows, or too much to write."""
        known = self._profile
        if known is None or known[1] is not self.promises or known[2] != len(self.main.log):
            made = None if self._windows.windows else profile_of(self.main.free, self.releases)
            known = self._profile = (made, self.promises, len(self.main.log))
            self._profiled = 0
        profile = known[0]
        if profile is not None and self._profiled < len(self.promises):
            profile.keep(self.promises.since(self._profiled))
            self._profiled = len(self.promises)
        return profile

    def free_at(self, time: int) -> Column:
        """(R, N): what is free at that moment, promises kept. Windows that close nodes are not in it."""
        if (profile := self.profile()) is not None:
            return profile.at(time)
        self._move(time)
        free: Column = self.main.free + self._given_back
        for promise in self.promises:
            if promise.start <= time < promise.end:
                free[:, promise.rows] -= promise.amounts
        # The room shows another moment now.
        self._narrowed = np.arange(free.shape[1])
        return free

    def _move(self, time: int) -> Rows:
        """Gives back what ends by then, or takes it again; the nodes that it concerns, some more than once."""
        index = int(np.searchsorted(self.releases.times, time, side="right"))
        low, high = min(index, self._index), max(index, self._index)
        sign = 1 if index > self._index else -1
        self._index = index
        return self.releases.add(self._given_back, low, high, sign)

    def narrow(self, start: int, end: int, entitled: tuple[int, ...]) -> Narrow:
        """The nodes on which anything is promised or closed, as a run sees them."""
        closed = self._windows.closed(start, end, entitled)
        here = self._promised_nodes(closed)
        promises = self.promises
        kept = promises.during(start, end, entitled) if len(promises) else NONE
        starts = np.maximum(promises.start[kept], start)
        # All that matters happens at the start of the run, or at that of a promise.
        moments = np.array(sorted({start, *starts.tolist()}), dtype=np.int64)
        # One moment more than there are, for what happens later than all of them.
        changes = np.zeros((len(moments) + 1, len(self.main.free), len(here.rows)), dtype=np.int64)
        _add_at(changes, moments.searchsorted(here.times), here.places, here.units)
        changes[0] += self.main.free[:, here.rows]
        plain = changes[0].copy()
        if kept.size:
            places, amounts = here.promised[kept], promises.amount[:, kept].T
            _add_at(changes, moments.searchsorted(starts), places, -amounts)
            _add_at(changes, moments.searchsorted(promises.end[kept]), places, amounts)
        least: Column = np.minimum.reduce(np.add.accumulate(changes[:-1], axis=0), axis=0)
        if closed.size:
            shut = np.searchsorted(here.rows, closed)
            least[:, shut] = np.minimum(least[:, shut], 0)
        return Narrow(here.rows, plain, least)

    def _promised_nodes(self, closed: Rows) -> _Promised:
        known = self._promised
        if closed.size or known is None or known.seen != len(self.promises):
            promises, releases = self.promises, self.releases
            rows = np.unique(np.concatenate((promises.row, closed)))
            pods = releases.on_rows(rows)
            known = _Promised(
                len(promises) if not closed.size else -1,
                rows,
                releases.time_of_pods(pods),
                np.searchsorted(rows, releases.node[pods]),
                releases.units[releases.shape[pods]],
                np.searchsorted(rows, promises.row),
            )
            self._promised = known
        return known


class Narrow(NamedTuple):
    """What some nodes have free at a time (`plain`), and the least that is left of it during a run: (R, rows)."""

    rows: Rows
    plain: Column
    least: Column


class _Promised(NamedTuple):
    """The nodes of all promises, and the running pods on them: when they end, on which of the nodes, what they have."""

    seen: int
    rows: Rows
    times: Column
    places: Rows
    units: Column
    promised: Rows
    """For each entry of the promises, which of the nodes it is on."""


def _add_at(changes: Column, moments: Rows, places: Rows, amounts: Column) -> None:
    """Adds to (moments, R, places); `amounts` has a row for each pair of moment and place."""
    np.add.at(changes, (moments[:, None], np.arange(changes.shape[1])[None, :], places[:, None]), amounts)
