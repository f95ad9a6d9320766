"""Numbers about a history: completion and waiting times, slowdown, utilisation, fairness, fragmentation, makespan.

Every number is defined in docs/traces.md. They are for people to compare; nothing is decided by them.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import msgspec

from allhands.sim.bounds import makespan_bound_seconds, mean_completion_bound_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allhands.sim.history import History, Ran

SHORTEST_SECONDS: Final = 10
"""Slowdown is bounded: a run counts as at least this long, so that jobs of a second do not decide everything."""


class Spread(msgspec.Struct, frozen=True):
    mean: float
    p50: float
    p99: float
    largest: float


class Summary(msgspec.Struct, frozen=True):
    policy: str
    jobs_succeeded: int
    jobs_failed: int
    """Wider than the machine, or still waiting when nothing could happen any more."""
    jct_mean_seconds: float
    jct_p50_seconds: float
    jct_p99_seconds: float
    jct_mean_bound_seconds: float
    wait_mean_seconds: float
    wait_p50_seconds: float
    wait_p99_seconds: float
    wait_max_seconds: float
    bounded_slowdown_mean: float
    bounded_slowdown_p99: float
    utilisation: float
    """Of the machine, from the first submission to the last end."""
    fairness: float
    """Jain's index of the mean bounded slowdown of users (queues, jobs where no users are known): 1 is even."""
    fragmentation: float
    """Of the machine, what lay idle although somebody waited."""
    makespan_seconds: float
    lower_bound_seconds: float
    """Of the makespan."""
    preemptions: int
    cycles: int


def summarise(history: History) -> Summary:
    ran = history.ran
    jobs = [it.job for it in ran]
    completion = spread([it.completion_seconds for it in ran])
    wait = spread([it.wait_seconds for it in ran])
    slowdown = spread([bounded_slowdown(it) for it in ran])
    first = min((job.submit_seconds for job in jobs), default=0)
    makespan = max((it.end_seconds for it in ran), default=first) - first
    capacity = history.machine.units * makespan
    area = sum(job.area for job in jobs)
    return Summary(
        policy=history.policy,
        jobs_succeeded=len(ran),
        jobs_failed=len(history.too_wide) + len(history.unfinished),
        jct_mean_seconds=completion.mean,
        jct_p50_seconds=completion.p50,
        jct_p99_seconds=completion.p99,
        jct_mean_bound_seconds=mean_completion_bound_seconds(
            jobs, history.machine.units, start_whole=history.start_whole
        ),
        wait_mean_seconds=wait.mean,
        wait_p50_seconds=wait.p50,
        wait_p99_seconds=wait.p99,
        wait_max_seconds=wait.largest,
        bounded_slowdown_mean=slowdown.mean,
        bounded_slowdown_p99=slowdown.p99,
        utilisation=area / capacity if capacity else 0.0,
        fairness=fairness(ran),
        fragmentation=idle_while_waiting(history) / capacity if capacity else 0.0,
        makespan_seconds=makespan,
        lower_bound_seconds=makespan_bound_seconds(jobs, history.machine.units),
        preemptions=sum(it.preemptions for it in ran),
        cycles=history.cycles,
    )


def bounded_slowdown(ran: Ran) -> float:
    return max(1.0, ran.completion_seconds / max(ran.job.run_seconds, SHORTEST_SECONDS))


def spread(values: Sequence[float]) -> Spread:
    """Of nothing, zeros."""
    if not values:
        return Spread(0.0, 0.0, 0.0, 0.0)
    ordered = sorted(values)
    mean = sum(values) / len(values)
    return Spread(mean, float(percentile(ordered, 50)), float(percentile(ordered, 99)), float(ordered[-1]))


def percentile(ordered: Sequence[float], percent: int) -> float:
    """The smallest value that so many per cent of all do not exceed."""
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


def fairness(ran: Sequence[Ran]) -> float:
    by_whom: dict[str, list[float]] = {}
    for number, it in enumerate(ran):
        whose = f"user {it.job.user}" if it.job.user else f"queue {it.job.queue}" if it.job.queue else f"job {number}"
        by_whom.setdefault(whose, []).append(bounded_slowdown(it))
    means = [sum(slowdowns) / len(slowdowns) for slowdowns in by_whom.values()]
    squares = sum(mean * mean for mean in means)
    return sum(means) ** 2 / (len(means) * squares) if squares else 1.0


def idle_while_waiting(history: History) -> float:
    """Units times seconds."""
    return sum(
        (after.at_seconds - at.at_seconds) * (history.machine.units - at.used)
        for at, after in pairwise(history.moments)
        if at.waiting
    )
