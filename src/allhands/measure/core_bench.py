"""Measures the cases of the core: each in a fresh process, several times, and as rows of plain numbers.

`python -m allhands.measure.core_bench full|quick INDEX ROUNDS` measures one case and prints its row as JSON; `row_of`
runs it so. Nothing but `cycle` is inside the clock: the snapshot is there, and nothing is written anywhere.
"""

from __future__ import annotations

import gc
import json
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from allhands.core.cycle import cycle
from allhands.core.memo import Memo
from allhands.core.policy import DEFAULT
from allhands.measure.comparison import Comparison, compare
from allhands.measure.core_cases import FULL, QUICK, Case, cases

if TYPE_CHECKING:
    from allhands.core.plan import Plan
    from allhands.core.snapshot import Snapshot

NOW_SECONDS = 100_000
_STATUS = Path("/proc/self/status")


class MeasureError(RuntimeError):
    """A case could not be measured; the message says which and why."""


class Row(TypedDict):
    """`seconds` is the median of a cycle; `load_seconds` is what building the snapshot took."""

    case: str
    nodes: int
    groups: int
    pods_per_group: int
    shapes: int
    seconds: float
    rss_mib: float
    goal_seconds: float | None
    goal_mib: int | None
    lowest: float
    highest: float
    rounds: int
    load_seconds: float
    binds: int
    evictions: int
    waits: int
    comparison: Comparison | None


def row_of(case: Case, rounds: int, *, quick: bool = False) -> Row:
    """Measures one of the cases in a process of its own, so that its memory is its own."""
    sizes = "quick" if quick else "full"
    index = cases(QUICK if quick else FULL).index(case)
    command = [sys.executable, "-m", "allhands.measure.core_bench", sizes, str(index), str(rounds)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 (our own module)
    if answer.returncode < 0:
        raise MeasureError(f"{case.title}: its process was killed by signal {-answer.returncode}; out of memory?")
    if answer.returncode:
        last = answer.stderr.strip().splitlines()[-1:]
        raise MeasureError(f"{case.title}: {last[0] if last else f'exit code {answer.returncode}'}")
    row: Row = json.loads(answer.stdout)
    return row


def measure(case: Case, rounds: int) -> Row:
    """In this process."""
    begin = time.perf_counter()
    measured = _Measured(case)
    load_seconds = time.perf_counter() - begin
    plan = measured.run()
    peak = peak_mib()
    base = None if case.base is None else _Measured(case.base)
    if base is not None:
        base.run()
    gc.collect()
    gc.freeze()
    own, others = [], []
    for _ in range(rounds):
        own.append(measured.seconds())
        if base is not None:
            others.append(base.seconds())
    return Row(
        case=case.name,
        nodes=case.nodes,
        groups=case.groups,
        pods_per_group=case.pods_per_group,
        shapes=case.shapes,
        seconds=round(statistics.median(own), 6),
        rss_mib=round(peak, 1),
        goal_seconds=case.goal_seconds,
        goal_mib=case.goal_mib,
        lowest=round(min(own), 6),
        highest=round(max(own), 6),
        rounds=rounds,
        load_seconds=round(load_seconds, 3),
        binds=len(plan.binds),
        evictions=len(plan.evictions),
        waits=len(plan.waits),
        comparison=compare(case, own, others) if others else None,
    )


class _Measured:
    """The snapshot of a case, and the memo that the next cycle gets."""

    def __init__(self, case: Case) -> None:
        self._is_cold = case.repeat == "cold"
        self._snapshot: Snapshot = case.build(case)
        self._memo = Memo()
        self._now = NOW_SECONDS

    def run(self) -> Plan:
        plan, self._memo = cycle(self._snapshot, DEFAULT, self._memo, self._now)
        return plan

    def seconds(self) -> float:
        if self._is_cold:
            self._memo = Memo()
        else:
            self._now += 1
        gc.collect()
        begin = time.perf_counter()
        self.run()
        return time.perf_counter() - begin


def peak_mib() -> float:
    """The most memory that this process has held. Where the system tells it, without what its parent held before."""
    if _STATUS.exists():
        for line in _STATUS.read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 * 1024 if sys.platform == "darwin" else 1024)


def main(sizes: str, index: str, rounds: str) -> None:
    chosen = cases(QUICK if sizes == "quick" else FULL)[int(index)]
    sys.stdout.write(json.dumps(measure(chosen, int(rounds))))


if __name__ == "__main__":
    main(*sys.argv[1:])
