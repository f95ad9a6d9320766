"""A cheap guess of when groups far behind in line start: their demand poured, in order, into what comes free.

Nothing is placed: of each resource, the n-th group starts when as much has come free on all nodes together as the
first n ask for; the scarcest resource decides. Beyond the last known end, what there is is taken to be handed on once
in the mean duration of those who wait. So it is too early where room is scattered, and never a promise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from allhands.core.calendar.estimates import FOREVER, LONGEST_SECONDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allhands.core.calendar.releases import Releases
    from allhands.core.columns import Column
    from allhands.core.gang import Part
    from allhands.core.snapshot import GroupEntry
    from allhands.core.work import Work


class Guess(NamedTuple):
    """When the group may start; or None, and the group that prevents an answer."""

    start: int | None
    because_of: str = ""


class Guesses(NamedTuple):
    """When each group may start, FOREVER where nobody knows; the running group that prevents an answer, if one does."""

    starts: Column
    because_of: str


def pour(releases: Releases, free: Column, demands: Column, seconds: Sequence[int | None]) -> Guesses:
    """`free` is what is free now, by resource; `demands` has a row a group, `seconds` how long each will run.

    The groups are in the order of their turn.
    """
    known = releases.known
    blocker = releases.owner_at(known) if known < len(releases.times) else ""
    if not known:
        return Guesses(np.full(len(demands), FOREVER), blocker)
    there = free + releases.given_back[:known]
    wanted = np.cumsum(np.minimum(demands, FOREVER // max(1, len(demands))), axis=0)
    index = np.zeros(len(wanted), dtype=np.int64)
    for column in np.flatnonzero(wanted[-1]).tolist():
        np.maximum(index, np.searchsorted(there[:, column], wanted[:, column]), out=index)
    unbounded = next((number for number, it in enumerate(seconds) if it is None), len(seconds))
    later = _handed_on(releases, there[-1], wanted, seconds[:unbounded])
    later[unbounded + 1 :] = FOREVER
    return Guesses(np.where(index < known, releases.times[np.minimum(index, known - 1)], later), blocker)


def _handed_on(releases: Releases, there: Column, wanted: Column, seconds: Sequence[int | None]) -> Column:
    """When all that is there has been handed on so often that each group's turn has come; FOREVER if it never is."""
    running = np.cumsum(np.array([0, *(it or 0 for it in seconds)], dtype=np.int64))
    before = np.minimum(np.arange(len(wanted)), len(seconds))
    mean = running[before] // np.maximum(before, 1)
    rounds = np.zeros(len(wanted), dtype=np.float64)
    for column in np.flatnonzero(wanted[-1]).tolist():
        missing = np.maximum(wanted[:, column] - there[column], 0)
        if there[column] > 0:
            rounds = np.maximum(rounds, missing / there[column])
        else:
            rounds = np.where(missing > 0, np.inf, rounds)
    last = int(releases.times[releases.known - 1])
    finite = np.isfinite(rounds)
    waited = np.minimum(np.where(finite, rounds, 0.0) * mean, float(LONGEST_SECONDS)).astype(np.int64)
    return np.where(finite, last + waited, FOREVER)


def demand_of(work: Work, entry: GroupEntry, part: Part) -> Column:
    """What the members ask for together, by resource."""
    demand = np.zeros(len(work.snapshot.columns.resources), dtype=np.int64)
    most = FOREVER // max(1, part.count)
    for take in part.all_takes():
        for column, units in work.state(entry.pending[take.members].shape).request:
            demand[column] += min(units, most) * take.number
    return demand
