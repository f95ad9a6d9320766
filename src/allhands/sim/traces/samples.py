"""Small traces of our own, for trying things and for tests: made from a seed, the same on every machine.

They look like real ones in what matters to a scheduler (bursts of arrivals, powers of two, run times over six orders of
magnitude, requests that are too long), and are nobody's data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.sim.traces.job import TraceJob

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Iterator

USERS: Final = 12
_PARTS: Final = 1_000_000


def sample_jobs(chance: random.Random, count: int, units: int, load_percent: int = 90) -> Iterator[TraceJob]:
    """As many jobs, for a machine of so many processors, that ask for so much of it on average."""
    now = 0
    for number in range(1, count + 1):
        width = min(1 << _small(chance, units.bit_length() - 1), units)
        run = _run_seconds(chance)
        user = 1 + _small(chance, USERS - 1)
        requested = _rounded_up(run + run * chance.randrange(0, 400) // 100)
        yield TraceJob(str(number), now, run, width, requested, user=str(user), queue=str(user % 3))
        # The next comes when this one's work would be done at the given load; half of them come in bursts.
        gap = width * run * 100 // (units * load_percent)
        now += 2 * gap if chance.randrange(2) else 0


def swf_lines(jobs: Iterable[TraceJob], units: int, seed: int) -> Iterator[str]:
    """As a file of the Standard Workload Format."""
    yield "; Version: 2.2"
    yield f"; Note: made by allhands (allhands.sim.traces.samples) with the seed {seed}; nobody's data"
    yield f"; MaxProcs: {units}"
    for job in jobs:
        columns = [-1] * 18
        columns[0], columns[1], columns[3], columns[4] = int(job.name), job.submit_seconds, job.run_seconds, job.width
        columns[7], columns[8], columns[10] = job.width, job.expected_seconds, 1
        columns[11], columns[14] = int(job.user or -1), int(job.queue or -1)
        yield " ".join(str(column) for column in columns)


def philly_lines(jobs: Iterable[TraceJob]) -> Iterator[str]:
    """As a table of GPU jobs, from the first of January 2024 on."""
    from datetime import UTC, datetime, timedelta  # noqa: PLC0415 (only who writes one needs it)

    first = datetime(2024, 1, 1, tzinfo=UTC)
    yield "timestamp,duration,num_gpus,gpu_time,cluster"
    for job in jobs:
        submitted = (first + timedelta(seconds=job.submit_seconds)).strftime("%Y-%m-%d %H:%M:%S")
        yield f"{submitted},{job.run_seconds}.0,{job.width},{job.run_seconds * job.width}.0,vc{job.queue}"


def muri_lines(jobs: Iterable[TraceJob]) -> Iterator[str]:
    """As a table in milliseconds."""
    yield "job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,priority"
    for number, job in enumerate(jobs):
        yield f"{number},{job.width},{job.submit_seconds * 1000},{job.run_seconds},none,1,{job.run_seconds * 1000},0"


def _small(chance: random.Random, most: int) -> int:
    """From 0 to `most`, small ones more often."""
    return min(chance.randrange(most + 1), chance.randrange(most + 1))


def _run_seconds(chance: random.Random) -> int:
    """From seconds to a day, evenly over the orders of magnitude, in whole numbers alone."""
    magnitude = chance.randrange(17)
    return max(1, (1 << magnitude) * (_PARTS + chance.randrange(_PARTS)) // _PARTS)


def _rounded_up(seconds: int) -> int:
    """As people ask: to whole minutes, or whole hours where it is more."""
    step = 60 if seconds < 3600 else 3600
    return -(-seconds // step) * step
