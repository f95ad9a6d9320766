"""Volcano Jobs through their whole life in virtual time: group, queue, pods, run, end; and what ten times as many cost.

Every size is a fresh process. `allhands bench jobs` measures the way to the last bind on a real API server.
"""

from __future__ import annotations

from bench.figures import Figure, Goal, Report, command_line, in_fresh_process
from bench.job_lives import PODS_PER_JOB, RUN_SECONDS, WAVES, Lived

JOBS = 10_000
GOAL_SECONDS = 180


def report(*, quick: bool) -> Report:
    few, many = (JOBS // 200, JOBS // 20) if quick else (JOBS // 10, JOBS)
    small, large = _run(few), _run(many)
    growth = (large.cpu_seconds / large.jobs) / (small.cpu_seconds / small.jobs)
    scaled = JOBS / large.jobs
    return Report(
        name="jobs",
        title=f"{large.jobs:,} Volcano Jobs of {PODS_PER_JOB} pods through their whole life, in virtual time",
        command=command_line("jobs", quick=quick),
        settings=(
            f"{small.jobs:,} and {large.jobs:,} Jobs at once, nodes hold 1 of {WAVES}; each runs {RUN_SECONDS} s",
            f"scheduler, controllers and kubelets in one process; {large.virtual_seconds:,.0f} s of the simulation",
        ),
        figures=(
            _figure(
                f"seconds for {JOBS:,} Jobs{'' if scaled == 1 else ', reckoned'}",
                "s",
                large.wall_seconds * scaled,
                Goal("at most", GOAL_SECONDS),
            ),
            _figure("processor time of each Job", "ms", large.cpu_seconds / large.jobs * 1e3),
            _figure("the same ÷ with a tenth of the Jobs", "×", growth, Goal("at most", 1.5)),
            _figure("most memory", "MiB", large.peak_mib),
        ),
    )


def _figure(name: str, unit: str, value: float, goal: Goal | None = None) -> Figure:
    return Figure(name=name, unit=unit, rounds=(value,), goal=goal)


def _run(jobs: int) -> Lived:
    return in_fresh_process("bench.job_lives", jobs, answers=Lived)
