"""The whole comparison: every case, every scheduler, round after round, and what comes of it as rows.

In a round each case is run by everybody, one right after the other, so that the machine's moods meet all alike; who
begins changes from round to round. A ratio is formed within a round, and only then the median is taken.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Final

import msgspec

from allhands.measure.api.contenders import NULL, OURS
from allhands.measure.api.running import Case, Run, Runner
from allhands.measure.api.workload import NODE_CPU, Shape

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from allhands.measure.api.cluster import BenchCluster
    from allhands.measure.api.contenders import Contender

FLIGHTS: Final = (16, 32, 64, 128)
SWEEP_PODS: Final = 2_000
"""Enough to see how many requests at a time are best."""
GOAL_RATIO: Final = 1.15
GOAL_CPU: Final = 0.25
GOAL_CALLS: Final = 1.2
GOAL_MIB: Final = 200.0
GOALS_FROM_PODS: Final = 10_000
"""With fewer pods, what a process needs to begin counts for too much: nothing is judged."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    shapes: tuple[Shape, ...]
    modes: tuple[bool, ...] = (False, True)
    """Without gangs, with gangs."""
    nodes: int
    rounds: int
    limit_seconds: float
    flight: int = 0
    """Of the null scheduler; 0: found by trying."""

    @property
    def cases(self) -> list[Case]:
        return [Case(shape, with_gangs) for with_gangs in self.modes for shape in self.shapes]

    def problem(self) -> str:
        """Why it cannot be run; "" if it can."""
        room = self.nodes * NODE_CPU
        if wide := [str(shape) for shape in self.shapes if shape.pods > room]:
            return f"{', '.join(wide)}: more pods than fit on {self.nodes} nodes, which hold {room}: add nodes"
        return ""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One scheduler on one case, over all rounds. Medians; memory is the most of all rounds."""

    shape: str
    with_gangs: bool
    scheduler: str
    seconds: float | None
    """None if any round was not finished in time."""
    ratio: float | None
    """Seconds ÷ those of the null scheduler in the same round."""
    ratio_lowest: float | None
    ratio_highest: float | None
    cpu_seconds: float
    peak_mib: float
    calls_per_pod: float
    group_writes_per_pod: float
    pods: int
    bound: int
    """In the worst round."""
    half_gangs: int
    overfull_nodes: int
    runs: list[Run]


class Goal(msgspec.Struct, frozen=True, kw_only=True):
    """What is promised of ours, and the worst row."""

    name: str
    value: float
    goal: float
    where: str

    @property
    def is_met(self) -> bool:
        return self.value <= self.goal


class Comparison:
    """`progress` is told what runs, how many pods of how many are bound, and the seconds since its start."""

    def __init__(
        self,
        cluster: BenchCluster,
        contenders: Sequence[Contender],
        plan: Plan,
        progress: Callable[[str, int, int, float], None] | None = None,
    ) -> None:
        self._contenders = list(contenders)
        self._plan = plan
        self._progress = progress
        self._runner = Runner(cluster, plan.limit_seconds, plan.flight or FLIGHTS[0])
        self.sweep: dict[int, float] = {}
        """Seconds of the null scheduler with so many requests at a time."""

    @property
    def flight(self) -> int:
        return self._runner.flight

    async def find_flight(self) -> None:
        """The null scheduler's best number of requests at a time."""
        if self._plan.flight:
            return
        pods = min(SWEEP_PODS, self._plan.shapes[0].pods)
        null = next(it for it in self._contenders if it.name == NULL)
        for flight in FLIGHTS:
            self._runner.flight = flight
            run = await self._run(null, Case(Shape(pods, 1), with_gangs=False), 0, f"null with {flight} in flight")
            if run.seconds is not None:
                self.sweep[flight] = run.seconds
        if self.sweep:
            self._runner.flight = min(self.sweep, key=self.sweep.__getitem__)

    async def runs(self) -> AsyncIterator[Run]:
        plan = self._plan
        for number in range(1, plan.rounds + 1):
            for case in plan.cases:
                taking_part = [it for it in self._contenders if it.takes_part(with_gangs=case.with_gangs)]
                shift = (number - 1) % len(taking_part)
                for contender in [*taking_part[shift:], *taking_part[:shift]]:
                    text = f"round {number} of {plan.rounds}, {case.title}, {contender.name}"
                    yield await self._run(contender, case, number, text)

    async def _run(self, contender: Contender, case: Case, number: int, text: str) -> Run:
        progress, pods = self._progress, case.shape.pods

        def told(bound: int, seconds: float) -> None:
            assert progress is not None
            progress(text, bound, pods, seconds)

        if progress is not None:
            progress(text, 0, pods, 0.0)
        return await self._runner.run(contender, case, number, told if progress is not None else None)


def rows_of(plan: Plan, contenders: Sequence[Contender], runs: Sequence[Run]) -> list[Row]:
    """Case by case, in the order of the contenders; without those that did not run."""
    found = []
    for case in plan.cases:
        of_case = [run for run in runs if run.shape == str(case.shape) and run.with_gangs == case.with_gangs]
        floor = {run.round: run.seconds for run in of_case if run.scheduler == NULL and run.seconds}
        by_scheduler = [[run for run in of_case if run.scheduler == it.name] for it in contenders]
        found += [_row(own, floor) for own in by_scheduler if own]
    return found


def _row(runs: list[Run], floor: dict[int, float]) -> Row:
    seconds = [run.seconds for run in runs if run.seconds is not None]
    is_done = len(seconds) == len(runs)
    ratios = [run.seconds / floor[run.round] for run in runs if run.seconds is not None and run.round in floor]
    has_ratio = is_done and bool(ratios)
    first = runs[0]
    return Row(
        shape=first.shape,
        with_gangs=first.with_gangs,
        scheduler=first.scheduler,
        seconds=statistics.median(seconds) if is_done else None,
        ratio=statistics.median(ratios) if has_ratio else None,
        ratio_lowest=min(ratios) if has_ratio else None,
        ratio_highest=max(ratios) if has_ratio else None,
        cpu_seconds=statistics.median(run.cpu_seconds for run in runs),
        peak_mib=max(run.peak_mib for run in runs),
        calls_per_pod=statistics.median(run.calls_per_pod for run in runs),
        group_writes_per_pod=statistics.median(run.group_writes_per_pod for run in runs),
        pods=first.pods,
        bound=min(run.bound for run in runs),
        half_gangs=max(run.half_gangs for run in runs),
        overfull_nodes=max(run.overfull_nodes for run in runs),
        runs=runs,
    )


def goals_of(rows: Sequence[Row]) -> list[Goal]:
    """Of ours, each by its worst row; none if we did not run."""
    ours = [row for row in rows if row.scheduler == OURS]
    if not ours:
        return []
    never = float("inf")

    def case(row: Row) -> str:
        return f"{row.shape} gangs {'on' if row.with_gangs else 'off'}"

    def worst(name: str, goal: float, values: list[tuple[float, Row]]) -> list[Goal]:
        if not values:
            return []
        value, row = max(values, key=lambda it: it[0])
        return [Goal(name=name, value=value, goal=goal, where=case(row))]

    peers = {(row.shape, row.with_gangs): row for row in rows if row.scheduler.startswith("kube-scheduler")}
    beside = [(row, peers[row.shape, row.with_gangs]) for row in ours if (row.shape, row.with_gangs) in peers]
    return [
        *worst("time ÷ null scheduler", GOAL_RATIO, [(row.ratio or never, row) for row in ours]),
        *worst(
            "time ÷ kube-scheduler",
            1.0,
            [((row.seconds or never) / peer.seconds, row) for row, peer in beside if peer.seconds],
        ),
        *worst(
            "CPU seconds ÷ kube-scheduler",
            GOAL_CPU,
            [(row.cpu_seconds / peer.cpu_seconds, row) for row, peer in beside if peer.cpu_seconds and peer.seconds],
        ),
        *worst("API calls per pod", GOAL_CALLS, [(row.calls_per_pod, row) for row in ours]),
        *worst("peak memory in MiB", GOAL_MIB, [(row.peak_mib, row) for row in ours]),
    ]
