"""When which running group gives its room back, as columns: one row a pod, sorted by the expected end of its group.

All pods of a group end together. Groups whose end nobody knows come last, the oldest first, at times from FOREVER on,
so that one search finds either a time or the group that prevents one. Pods of other schedulers are not here: nobody
says that they end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from allhands.core.calendar.estimates import FOREVER, LONGEST_SECONDS, expected_ends, leaving_ends
from allhands.core.columns import ABSURD_UNITS
from allhands.model.resources import PODS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from allhands.core.actions.placing import Placed
    from allhands.core.calendar.estimates import Estimates
    from allhands.core.columns import Column, Mask, Request, Rows
    from allhands.core.room import Room
    from allhands.core.snapshot import GroupEntry
    from allhands.core.work import Work
    from allhands.model.shape import PodShape


class Started(NamedTuple):
    """A group that starts in this cycle, and when it is expected to end."""

    entry: GroupEntry
    placed: Placed
    end: int


class Releases:
    """`node`, `shape` and `run` have one entry a pod; those from `first[i]` to `first[i + 1]` end at `times[i]`."""

    def __init__(self, ends: Column, runs: Rows, nodes: Rows, shapes: Rows, keys: list[str], units: Column) -> None:
        of_pods = ends[runs]
        order = np.argsort(of_pods, kind="stable")
        of_pods = of_pods[order]
        self.node, self.shape, self.run = nodes[order], shapes[order], runs[order]
        self.keys = keys
        self.units = units
        """(shapes, R): what one pod gives back."""
        starts = np.flatnonzero(np.diff(of_pods, prepend=-1)) if of_pods.size else np.zeros(0, dtype=np.int64)
        self.times: Column = of_pods[starts]
        self.first = np.append(starts, of_pods.size)
        self.columns: list[int] = np.flatnonzero(units.any(axis=0)).tolist()
        """Resources of which anything is given back."""
        self._by_row: tuple[Rows, Rows] | None = None
        self._given_back: Column | None = None
        self._freed: Column | None = None

    @property
    def known(self) -> int:
        """How many of `times` are times at all."""
        return int(np.searchsorted(self.times, FOREVER))

    def pods(self, low: int, high: int) -> slice:
        """The pods that end at times[low:high]."""
        return slice(int(self.first[low]), int(self.first[high]))

    def add(self, to: Column, low: int, high: int, sign: int) -> Rows:
        """Adds to (R, N) columns what those pods give back, and says on which rows, some more than once."""
        of = self.pods(low, high)
        rows, shapes = self.node[of], self.shape[of]
        for column in self.columns:
            np.add.at(to[column], rows, sign * self.units[shapes, column])
        return rows

    @property
    def given_back(self) -> Column:
        """(times, R): what has been given back in all by each time, that time included."""
        if self._given_back is None:
            per_pod = self.units[self.shape]
            running = np.zeros((len(per_pod) + 1, self.units.shape[1]), dtype=np.int64)
            np.cumsum(per_pod, axis=0, out=running[1:])
            self._given_back = running[self.first[1:]]
        return self._given_back

    def on_rows(self, rows: Rows) -> Rows:
        """The pods on these nodes, as positions in the columns, node by node, each in the order of time."""
        order, sorted_nodes = self._node_by_node()
        low, high = np.searchsorted(sorted_nodes, rows), np.searchsorted(sorted_nodes, rows, side="right")
        lengths = high - low
        skipped = np.cumsum(lengths) - lengths
        found: Rows = order[np.arange(int(lengths.sum())) - np.repeat(skipped - low, lengths)]
        return found

    def _node_by_node(self) -> tuple[Rows, Rows]:
        if self._by_row is None:
            order = np.argsort(self.node, kind="stable")
            self._by_row = (order, self.node[order])
        return self._by_row

    def fits_by_time(self, room: Room, request: Request, usable: Mask, most: int) -> Column:
        """How many pods fit on these nodes together, counting at most so many on each: now, and at each time.

        Counted for all nodes and all times at once; it knows only resources, and nothing of what is promised.
        """
        order, nodes = self._node_by_node()
        if self._freed is None:
            freed = np.cumsum(self.units[self.shape[order]], axis=0)
            first = np.flatnonzero(np.diff(nodes, prepend=-1))
            lengths = np.diff(np.append(first, len(nodes)))
            before = np.concatenate((np.zeros((1, freed.shape[1]), dtype=np.int64), freed))[first]
            self._freed = np.ascontiguousarray((freed - np.repeat(before, lengths, axis=0)).T)
        now = np.where(usable, room.fit(request, slice(None), most), 0)
        fits = np.full(len(nodes), most, dtype=np.int64)
        for column, units in request:
            np.minimum(fits, (room.free[column, nodes] + self._freed[column]) // units, out=fits)
        fits = np.where(usable[nodes], np.maximum(fits, 0), 0)
        previous = np.concatenate((fits[:1], fits[:-1]))
        gained = np.zeros(len(fits) + 1, dtype=np.int64)
        gained[order + 1] = fits - np.where(np.diff(nodes, prepend=-1) != 0, now[nodes], previous)
        found: Column = int(now.sum()) + np.cumsum(gained)[self.first]
        return found

    def time_of_pods(self, positions: Rows) -> Column:
        index = np.searchsorted(self.first, positions, side="right") - 1
        return self.times[index]

    def owner_at(self, index: int) -> str:
        """The group that ends at times[index]; the first by its key if there are several."""
        return self.keys[int(self.run[self.pods(index, index + 1)].min())]

    def last_before(self, time: int, rows: Rows) -> str:
        """The group that is the last to give back room on these nodes by that time; "" if none does."""
        here = self.on_rows(rows)
        times = self.time_of_pods(here)
        here, times = here[times <= time], times[times <= time]
        return self.keys[int(self.run[here[times == times.max()]].min())] if here.size else ""


class Running:
    """What runs now, read once a cycle; `with_started` adds what the cycle has started so far."""

    def __init__(self, work: Work, estimates: Estimates, begun: Collection[str] = (), *, without: str = "") -> None:
        self._work = work
        self._begun = begun
        """Groups that have not all that they must have, so that their time is not running."""
        self._columns = work.snapshot.columns
        self._pods = work.snapshot.pods
        holding = work.memo.roll.holding()
        self.entries = [entry for entry in holding if entry.group.key != without] if without else holding
        self.keys = [entry.group.key for entry in self.entries]
        self._index: dict[str, int] | None = None
        counts = [len(entry.bound) for entry in self.entries]
        rows = np.fromiter((row for entry in self.entries for row in entry.bound), dtype=np.int64, count=sum(counts))
        runs = np.repeat(np.arange(len(counts)), counts)
        self.ends = self._ends(estimates, self._pods.since[rows], runs)
        self.all_ends, self._all_keys = self.ends, self.keys
        if any(entry.leaving for entry in self.entries):
            leaving = np.fromiter((row for entry in self.entries for row in entry.leaving), dtype=np.int64)
            # Each pod that leaves is a run of its own.
            rows, runs = np.append(rows, leaving), np.append(runs, len(self.entries) + np.arange(len(leaving)))
            self.all_ends = np.append(self.ends, leaving_ends(self._pods.since[leaving], work.now))
            self._all_keys = self.keys + [self._pods.keys[row] for row in leaving.tolist()]
        nodes = self._pods.node[rows].astype(np.int64)
        here = nodes >= 0
        self._runs, self._nodes = runs[here], nodes[here]
        self._shapes = self._pods.shape[rows[here]].astype(np.int64)
        self._units = work.memo.runs.table(self._pods.shapes, self._columns.column_by_resource, _units)

    def _ends(self, estimates: Estimates, since: Column, runs: Rows) -> Column:
        """From FOREVER on, in the order of their starts, for those whose end nobody knows."""
        starts = np.full(len(self.entries), FOREVER, dtype=np.int64)
        np.minimum.at(starts, runs, since)
        duration, begun = estimates.duration, self._begun
        seconds = np.array([duration(entry.group) or 0 for entry in self.entries], dtype=np.int64)
        for index, entry in enumerate(self.entries):
            if entry.status.started_at_seconds is not None:
                starts[index] = min(max(entry.status.started_at_seconds, -LONGEST_SECONDS), LONGEST_SECONDS)
            elif begun and entry.group.key in begun:
                seconds[index] = 0
        ends = expected_ends(starts, seconds, self._work.now)
        unknown = np.flatnonzero(seconds == 0)
        unknown = unknown[np.argsort(starts[unknown], kind="stable")]
        ends[unknown] = FOREVER + np.arange(len(unknown))
        return ends

    def end_of(self, entry: GroupEntry) -> int | None:
        """When a running group is expected to end, from FOREVER on if nobody knows; None if it does not run yet."""
        if self._index is None:
            self._index = {key: index for index, key in enumerate(self.keys)}
        index = self._index.get(entry.group.key)
        return None if index is None else int(self.ends[index])

    def with_started(self, started: Sequence[Started]) -> Releases:
        known = len(self._pods.shapes)
        numbers = {shape.digest: number for number, shape in enumerate(self._pods.shapes)}
        new_shapes: list[PodShape] = []
        ends: list[int] = []
        keys: list[str] = []
        runs: list[int] = []
        nodes: list[int] = []
        shapes: list[int] = []
        unknown = FOREVER + int(np.count_nonzero(self.ends >= FOREVER))
        for entry, placed, end in started:
            run = len(self._all_keys) + len(keys)
            keys.append(entry.group.key)
            ends.append(end if end < FOREVER else unknown)
            unknown += end >= FOREVER
            for take, picks in placed.picks:
                shape = entry.pending[take.members].shape
                number = numbers.setdefault(shape.digest, known + len(new_shapes))
                if number == known + len(new_shapes):
                    new_shapes.append(shape)
                nodes += picks
                runs += [run] * len(picks)
                shapes += [number] * len(picks)
        return Releases(
            _joined(self.all_ends, ends),
            _joined(self._runs, runs),
            _joined(self._nodes, nodes),
            _joined(self._shapes, shapes),
            self._all_keys + keys,
            self._units
            if not new_shapes
            else np.concatenate((self._units, _units(new_shapes, self._columns.column_by_resource))),
        )


def _joined(column: Column, more: list[int]) -> Column:
    return np.append(column, np.array(more, dtype=np.int64)) if more else column


def _units(shapes: Sequence[PodShape], columns: Mapping[str, int]) -> Column:
    """As the world counts them."""
    units = np.zeros((len(shapes), len(columns)), dtype=np.int64)
    for number, shape in enumerate(shapes):
        units[number, columns[PODS]] += 1
        for name, amount in shape.requests.entries:
            column = columns.get(name)
            if column is not None and amount > 0:
                units[number, column] += min(amount, ABSURD_UNITS)
    return units
