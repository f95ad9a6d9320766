"""What came of Volcano Jobs on the real API server, divided by the floor: rows, a table, and what is promised."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Final

import msgspec

from allhands.measure.api.jobs import NULL, OURS, JobsPlan, JobsRun

if TYPE_CHECKING:
    from collections.abc import Sequence

GOAL_RATIO: Final = 1.5
GOAL_CALLS: Final = 4.0
"""Per pod, beyond its creation."""
JUDGED_FROM_PODS: Final = 10_000


class JobsRow(msgspec.Struct, frozen=True, kw_only=True):
    """One system with one shape over all rounds; medians."""

    shape: str
    system: str
    seconds: float | None
    ratio: float | None
    ratio_lowest: float | None
    ratio_highest: float | None
    cpu_ratio: float | None
    """Processor time of everybody ÷ that of the floor: load of others hardly touches it."""
    calls_per_pod: float
    cpu_seconds: float
    peak_mib: float
    pods: int
    bound: int
    half_gangs: int
    overfull_nodes: int
    runs: list[JobsRun]


def rows_of(plan: JobsPlan, runs: Sequence[JobsRun]) -> list[JobsRow]:
    """Shape by shape, the floor first; without those that did not run."""
    rows = []
    for shape in plan.shapes:
        of_shape = [run for run in runs if run.shape == str(shape)]
        floor = {run.round: run for run in of_shape if run.system == NULL}
        for system in (NULL, OURS):
            own = [run for run in of_shape if run.system == system]
            if own:
                rows.append(_row(own, floor))
    return rows


def _row(runs: list[JobsRun], floor: dict[int, JobsRun]) -> JobsRow:
    seconds = [run.seconds for run in runs if run.seconds is not None]
    is_done = len(seconds) == len(runs)
    pairs = [(run, floor[run.round]) for run in runs if run.round in floor]
    ratios = [run.seconds / other.seconds for run, other in pairs if run.seconds and other.seconds]
    works = [run.all_cpu_seconds / other.all_cpu_seconds for run, other in pairs if other.all_cpu_seconds]
    has_ratio = is_done and bool(ratios)
    return JobsRow(
        shape=runs[0].shape,
        system=runs[0].system,
        seconds=statistics.median(seconds) if is_done else None,
        ratio=statistics.median(ratios) if has_ratio else None,
        ratio_lowest=min(ratios) if has_ratio else None,
        ratio_highest=max(ratios) if has_ratio else None,
        cpu_ratio=statistics.median(works) if is_done and works else None,
        calls_per_pod=statistics.median(run.calls_per_pod for run in runs),
        cpu_seconds=statistics.median(run.cpu_seconds for run in runs),
        peak_mib=max(run.peak_mib for run in runs),
        pods=runs[0].pods,
        bound=min(run.bound for run in runs),
        half_gangs=max(run.half_gangs for run in runs),
        overfull_nodes=max(run.overfull_nodes for run in runs),
        runs=runs,
    )


_COLUMNS: Final = "{:<10}{:<10}{:>9}{:>8}  {:<12}{:>7}{:>8}{:>7}{:>11}{:>12}  {}"
HEADING: Final = _COLUMNS.format(
    "JOBS", "SYSTEM", "SECONDS", "÷ NULL", "LOW-HIGH", "CALLS", "CPU S", "MIB", "SERVER CPU", "CPU ÷ NULL", ""
).rstrip()


def table(rows: Sequence[JobsRow]) -> list[str]:
    return [HEADING, *map(_line, rows), *verdicts(rows)]


def _line(row: JobsRow) -> str:
    seconds, ratio, spread = f"{row.seconds:.2f}" if row.seconds is not None else "-", "-", ""
    if row.ratio is not None and row.ratio_lowest is not None:
        ratio, spread = f"{row.ratio:.2f}", f"{row.ratio_lowest:.2f}-{row.ratio_highest:.2f}"
    troubles = []
    if row.bound < row.pods:
        troubles.append(f"{row.bound:,} of {row.pods:,} bound")
    if row.half_gangs:
        troubles.append(f"{row.half_gangs} half gangs")
    if row.overfull_nodes:
        troubles.append(f"{row.overfull_nodes} overfull nodes")
    server = statistics.median(run.server_cpu_seconds for run in row.runs)
    mib = f"{row.peak_mib:.0f}" if row.peak_mib else "-"
    return _COLUMNS.format(
        row.shape, row.system, seconds, ratio, spread, f"{row.calls_per_pod:.2f}", f"{row.cpu_seconds:.1f}", mib,
        f"{server:.1f}", "-" if row.cpu_ratio is None else f"{row.cpu_ratio:.2f}", ", ".join(troubles),
    ).rstrip()  # fmt: skip


def verdicts(rows: Sequence[JobsRow]) -> list[str]:
    """Of ours, if it ran."""
    ours = [row for row in rows if row.system == OURS]
    if not ours:
        return []
    if all(row.pods < JUDGED_FROM_PODS for row in ours):
        return ["", f"With fewer than {JUDGED_FROM_PODS:,} pods nothing is judged."]
    lines = [""]
    never = float("inf")
    for row in ours:
        for name, value, goal in (
            ("time ÷ null", row.ratio or never, GOAL_RATIO),
            ("calls per pod beyond its creation", row.calls_per_pod, GOAL_CALLS),
        ):
            met = "met" if value <= goal else "MISSED"
            lines.append(f"{row.shape}: {name}: {value:.2f}, goal ≤ {goal:g}: {met}")
    return lines
