"""Two schedulers on counts of processors, in as few lines as possible: what the core is compared with, job by job.

`committed` follows the rules of RLScheduler's published environment, which sticks to the job that it has chosen;
`resorting` looks at everybody again whenever something happens. Both are written from those rules and know nothing of
the core. They use floating point, which is good enough to compare with.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from allhands.sim.traces.job import TraceJob

Score = Callable[[TraceJob, int], object]
"""Of a job at a moment; the lowest goes first."""

NEVER: Final = 1 << 60


def _log10(number: int) -> float:
    return math.log10(number) if number > 0 else -1.0


SCORES: Final[dict[str, Score]] = {
    "fcfs": lambda job, _: job.submit_seconds,
    "sjf": lambda job, _: (job.expected_seconds, job.submit_seconds),
    "saf": lambda job, _: job.expected_seconds * job.width,
    "f1": lambda job, _: _log10(job.expected_seconds) * job.width + 870 * _log10(job.submit_seconds),
    "f2": lambda job, _: math.sqrt(job.expected_seconds) * job.width + 25_600 * _log10(job.submit_seconds),
    "wfp3": lambda job, now: -(((now - job.submit_seconds) / job.expected_seconds) ** 3) * job.width,
    # The published table takes -1 minus the time of submission for the wait.
    "wfp3-slip": lambda job, _: (((1 + job.submit_seconds) / job.expected_seconds) ** 3) * job.width,
    "unicep-slip": lambda job, _: (1 + job.submit_seconds) / (math.log2(job.width + 1e-15) * job.expected_seconds),
}


class _Clock:
    """What runs on how many processors, one event after the other: arrivals before ends of the same second."""

    def __init__(self, jobs: Sequence[TraceJob], units: int) -> None:
        self.jobs = jobs
        self.free = units
        self.now = jobs[0].submit_seconds
        self.queue: list[int] = []
        self.running: list[int] = []
        self.began: dict[int, int] = {}
        self._following = 0

    def end_of(self, number: int) -> int:
        return self.began[number] + self.jobs[number].run_seconds

    def requested_end_of(self, number: int) -> int:
        return self.began[number] + self.jobs[number].expected_seconds

    def fits(self, number: int) -> bool:
        return self.jobs[number].width <= self.free

    def start(self, number: int) -> None:
        self.began[number] = self.now
        self.running.append(number)
        self.queue.remove(number)
        self.free -= self.jobs[number].width

    def step(self) -> bool:
        """One arrival or one end; False if there is none."""
        first = min(self.running, key=self.end_of, default=None)
        end = NEVER if first is None else self.end_of(first)
        if self._following < len(self.jobs) and self.jobs[self._following].submit_seconds <= end:
            self.now = max(self.now, self.jobs[self._following].submit_seconds)
            self.queue.append(self._following)
            self._following += 1
        elif first is not None:
            self.now = max(self.now, end)
            self.running.remove(first)
            self.free += self.jobs[first].width
        return first is not None or bool(self.queue)

    @property
    def next_event(self) -> int:
        end = min((self.end_of(number) for number in self.running), default=NEVER)
        later = self.jobs[self._following].submit_seconds if self._following < len(self.jobs) else NEVER
        return min(end, later)


def committed(jobs: Sequence[TraceJob], units: int, score: Score, *, backfill: bool) -> list[int]:
    """When each job starts: choose the best, wait until it fits, choose again.

    With `backfill`, others go meanwhile, first come first served, if by their requests they end before the moment at
    which the chosen one should fit by the requests of those that run; that moment is worked out once.
    """
    clock = _Clock(jobs, units)
    while clock.step():
        while clock.queue:
            clock.queue.sort(key=lambda number: score(jobs[number], clock.now))  # type: ignore[arg-type,return-value]
            first = clock.queue[0]
            promised = _promised(clock, first) if backfill and not clock.fits(first) else -1
            while not clock.fits(first):
                if backfill:
                    clock.queue.sort(key=lambda number: jobs[number].submit_seconds)
                    for number in list(clock.queue):
                        if clock.now + jobs[number].expected_seconds < promised and clock.fits(number):
                            clock.start(number)
                clock.step()
            clock.start(first)
    return [clock.began[number] for number in range(len(jobs))]


def _promised(clock: _Clock, first: int) -> int:
    free, moment = clock.free, clock.now
    for number in sorted(clock.running, key=clock.requested_end_of):
        free += clock.jobs[number].width
        moment = clock.requested_end_of(number)
        if free >= clock.jobs[first].width:
            break
    return moment


def resorting(
    jobs: Sequence[TraceJob], units: int, score: Score, way: str, *, spares_only_needed: bool = False
) -> list[int]:
    """When each job starts: `strict`, nobody passes the first; `greedy`, all who fit; `easy`, who does not delay it.

    What textbooks leave open about `easy` is as the core has it, or else (`spares_only_needed`) as the table has it.
    """
    clock = _Clock(jobs, units)
    while clock.step():
        if clock.next_event <= clock.now:
            continue
        clock.queue.sort(key=lambda number: (score(jobs[number], clock.now), number))
        reserved: tuple[int, int] | None = None
        for number in list(clock.queue):
            width = jobs[number].width
            if reserved is None:
                if clock.fits(number):
                    clock.start(number)
                elif way == "strict":
                    break
                elif way == "easy":
                    reserved = (_needed if spares_only_needed else _reservation)(clock, number)
            elif clock.fits(number):
                moment, spare = reserved
                if clock.now + jobs[number].expected_seconds > moment:
                    if width > spare:
                        continue
                    reserved = (moment, spare - width)
                clock.start(number)
    return [clock.began[number] for number in range(len(jobs))]


def _reservation(clock: _Clock, first: int) -> tuple[int, int]:
    """When the first fits by the requests of those that run, and what is then to spare beside it.

    Who has outlived its request is expected to take twice as long, and so on.
    """
    ends = sorted((_expected_end(clock, number), clock.jobs[number].width) for number in clock.running)
    free, width = clock.free, clock.jobs[first].width
    for position, (moment, freed) in enumerate(ends):
        free += freed
        is_last_then = position + 1 == len(ends) or ends[position + 1][0] > moment
        if free >= width and is_last_then:
            return moment, free - width
    raise AssertionError("it is wider than the machine")


def _needed(clock: _Clock, first: int) -> tuple[int, int]:
    """The same, with what those leave that it takes, one after the other as they came where they end together; and
    whoever has outlived its request is expected to end at once."""
    free, width = clock.free, clock.jobs[first].width
    for number in sorted(clock.running, key=lambda number: (clock.requested_end_of(number), number)):
        free += clock.jobs[number].width
        if free >= width:
            return clock.requested_end_of(number), free - width
    raise AssertionError("it is wider than the machine")


def _expected_end(clock: _Clock, number: int) -> int:
    seconds = clock.jobs[number].expected_seconds
    while clock.began[number] + seconds <= clock.now:
        seconds *= 2
    return clock.began[number] + seconds
