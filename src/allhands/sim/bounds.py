"""What no scheduler of rigid jobs can beat, whether it knows the future and preempts for free or not.

Bounds are about the machine as one pool. A scheduler that shares processors between jobs, or changes their width, may
go below them and must not be compared with them.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from allhands.sim.history import PastJob


def makespan_bound_seconds(jobs: Sequence[PastJob], units: float) -> float:
    """From the first submission: no job ends before it could have run, and all that comes later must still be done.

    Where all times are whole seconds, so is the bound.
    """
    if not jobs:
        return 0
    by_submit = sorted(jobs, key=lambda job: job.submit_seconds)
    first = by_submit[0].submit_seconds
    longest = max(job.submit_seconds + job.run_seconds for job in jobs) - first
    area: float = 0
    bound: float = 0
    is_whole = all(isinstance(job.submit_seconds, int) and isinstance(job.run_seconds, int) for job in jobs)
    for job in reversed(by_submit):
        area += job.area
        rest = -(-area // units) if is_whole else area / units
        bound = max(bound, job.submit_seconds - first + rest)
    return max(bound, longest)


def mean_completion_bound_seconds(jobs: Sequence[PastJob], units: float, *, start_whole: bool = True) -> float:
    """Of the mean time from submission to end: the largest of three bounds.

    Every job runs; one machine that is as fast as all processors together does no worse with the shortest remaining
    first; and on that machine the mean of the times at which jobs are busy is least with the smallest area first,
    while a job of a given length is busy half of it after that mean. The last holds only if all jobs start whole.
    """
    if not jobs:
        return 0.0
    count = len(jobs)
    runs = sum(job.run_seconds for job in jobs) / count
    remaining = sum(end - jobs[number].submit_seconds for number, end in _ends(jobs, units)) / count
    if not start_whole:
        return max(runs, remaining)
    busy = _mean_busy_times(jobs, units)
    means = sum(busy[number] - job.submit_seconds + job.run_seconds / 2 for number, job in enumerate(jobs)) / count
    return max(runs, remaining, means)


def _ends(jobs: Sequence[PastJob], units: float) -> Iterator[tuple[int, float]]:
    """When jobs end on the one fast machine, the shortest remaining first."""
    left = [job.area / units for job in jobs]
    for number, _, end, is_last in _shares(jobs, left, lambda number: left[number]):
        if is_last:
            yield number, end


def _mean_busy_times(jobs: Sequence[PastJob], units: float) -> list[float]:
    left = [job.area / units for job in jobs]
    size = list(left)
    moments = [0.0] * len(jobs)
    for number, begin, end, _ in _shares(jobs, left, lambda number: size[number]):
        moments[number] += (end - begin) * (begin + end) / 2
    return [
        moment / size[number] if size[number] else jobs[number].submit_seconds for number, moment in enumerate(moments)
    ]


def _shares(
    jobs: Sequence[PastJob], left: list[float], rank: Callable[[int], float]
) -> Iterator[tuple[int, float, float, bool]]:
    """Who has the machine from when to when, and whether it is done then: the lowest rank first, preemptive."""
    order = sorted(range(len(jobs)), key=lambda number: jobs[number].submit_seconds)
    waiting: list[tuple[float, int]] = []
    now, position = 0.0, 0
    while position < len(order) or waiting:
        if not waiting:
            now = max(now, float(jobs[order[position]].submit_seconds))
        while position < len(order) and jobs[order[position]].submit_seconds <= now:
            heapq.heappush(waiting, (rank(order[position]), order[position]))
            position += 1
        _, number = heapq.heappop(waiting)
        until = now + left[number]
        following = jobs[order[position]].submit_seconds if position < len(order) else until
        if following < until:
            left[number] -= following - now
            yield number, now, following, False
            heapq.heappush(waiting, (rank(number), number))
            now = float(following)
        else:
            yield number, now, until, True
            now = until
