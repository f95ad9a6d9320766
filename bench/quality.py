"""How far the core's plans are from the best possible ones, on clusters so small that the best can be computed.

A gap has two causes, shown apart: the order in which groups are served, which is a promise and not a weakness, and the
places that are chosen for those who came first, which could have been better for those who come later.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, NamedTuple

from allhands.core.topology.columns import TopologyColumns
from allhands.core.topology.distance import domains_crossed
from allhands.model.podgroup import TopologyMode
from bench.figures import Figure, Goal, Report, command_line
from bench.instances import Gang, Instance, crowded, domains, node_name, plan_of, queued
from bench.optimum import Counts, fewest_crossed, fewest_victims, first_come, most_gangs, most_pods

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from allhands.core.plan import Plan

BATCHES = 5
LEAST_MEAN_OF_GANGS = 0.85
LEAST_MEAN_OF_PODS = 0.75
MOST_MEAN_CROSSED = 1.0
MOST_MEAN_VICTIMS = 1.0
"""Bounds on the mean over some dozens of instances: generous, so that only a mistake breaks them."""


class Gap(NamedTuple):
    """What the core reached, and what is possible, in one instance."""

    core: int
    best: int

    @property
    def ratio(self) -> float:
        """Of what is possible; 1 where nothing is."""
        return self.core / self.best if self.best else 1.0

    @property
    def distance(self) -> int:
        return abs(self.best - self.core)


class Placed(NamedTuple):
    gangs: Gap
    pods: Gap
    crossed: Gap
    starts: tuple[bool, ...]
    """Of the core, gang by gang in the order of their arrival."""
    first_come: tuple[bool, ...]
    """The same, of the best that keeps the order."""

    @property
    def lost_by_order(self) -> int:
        """Gangs fewer because nobody may be passed over for the sake of more others."""
        return self.gangs.best - sum(self.first_come)

    @property
    def lost_by_places(self) -> int:
        """Gangs fewer because earlier ones could have been put elsewhere; below 0 if that let small ones in."""
        return sum(self.first_come) - self.gangs.core


class Evicted(NamedTuple):
    """`pods` is None if the gang starts without evictions, or cannot start even with them."""

    pods: Gap | None
    surplus_first: Gap | None
    can_start: bool
    does_start: bool


def placed(seed: int) -> Placed:
    """One instance, by the core and by the best plans."""
    instance = queued(seed)
    plan = plan_of(instance)
    counts = _counts(instance, plan)
    return Placed(
        gangs=Gap(len(counts), most_gangs(instance)),
        pods=Gap(len(plan.binds), most_pods(instance)),
        crossed=Gap(_crossed(instance, plan), fewest_crossed(instance, counts)),
        starts=tuple(gang.name in counts for gang in instance.gangs),
        first_come=first_come(instance),
    )


def evicted(seed: int) -> Evicted:
    """One crowded instance: who goes for the gang of high priority."""
    instance = crowded(seed)
    plan = plan_of(instance)
    best = fewest_victims(instance)
    first = instance.gangs[-1].name
    starts = any(start.group.endswith(f"/{first}") for start in plan.starts)
    does_start = starts or bool(plan.evictions)
    if best is None or not does_start:
        return Evicted(None, None, best is not None, does_start)
    gone = len(plan.evictions)
    return Evicted(Gap(gone, best.pods), Gap(gone, best.pods_surplus_first), can_start=True, does_start=True)


def _counts(instance: Instance, plan: Plan) -> dict[str, Counts]:
    """How many pods of each kind of each gang are bound."""
    gangs = {gang.name: gang for gang in instance.gangs}
    found: dict[str, list[int]] = {}
    for bind in plan.binds:
        name, _, rank = bind.pod.partition("/")[2].rpartition("-")
        counts = found.setdefault(name, [0] * len(gangs[name].kinds))
        counts[_kind_of(gangs[name], int(rank))] += 1
    return {name: tuple(counts) for name, counts in found.items()}


def _kind_of(gang: Gang, rank: int) -> int:
    for index, kind in enumerate(gang.kinds):
        if rank < kind.number:
            return index
        rank -= kind.number
    raise AssertionError(f"{gang.name} has no such pod")


def _crossed(instance: Instance, plan: Plan) -> int:
    names = tuple(node_name(number) for number in range(len(instance.nodes)))
    row_by_name = {name: row for row, name in enumerate(names)}
    columns = TopologyColumns.build(domains(instance), names)
    total = 0
    for gang in instance.gangs:
        starts = [start for start in plan.starts if start.group.endswith(f"/{gang.name}")]
        if starts and gang.mode is TopologyMode.SOFT:
            total += domains_crossed(columns, [row_by_name[bind.node] for start in starts for bind in start.binds])
    return total


def report(*, quick: bool) -> Report:
    size = 10 if quick else 60
    batches = [range(number * size, (number + 1) * size) for number in range(BATCHES)]
    waiting = [[placed(seed) for seed in batch] for batch in batches]
    crowds = [[evicted(seed) for seed in batch] for batch in batches]
    return Report(
        name="quality",
        title="the core's plans and the best possible ones (OR-tools CP-SAT)",
        command=command_line("quality", quick=quick),
        settings=(
            f"{BATCHES} batches of {size} random clusters: 3 to 8 nodes, 2 to 10 gangs of 1 to 7 pods, default policy",
            "some gangs have two kinds of pods or are elastic; racks, some in blocks; soft, hard and no rules",
            "one figure a batch: the mean over its clusters, or the worst of them",
            "best: in any order, all at once; best in order: nobody takes the room of one who came earlier",
            "domains crossed: with the gangs that the core placed, only those with a soft rule counted",
            "victims: one gang of high priority in a full cluster; gangs that lose pods keep their minimum or end",
        ),
        figures=(*_figures_of_placing(waiting), *_figures_of_evicting(crowds)),
    )


def _figures_of_placing(batches: Sequence[Sequence[Placed]]) -> list[Figure]:
    def each(of: Callable[[Placed], Gap]) -> list[list[Gap]]:
        return [[of(it) for it in batch] for batch in batches]

    return [
        *_more_is_better("gangs placed", each(lambda it: it.gangs), LEAST_MEAN_OF_GANGS),
        _mean("gangs missing by the order of arrival, mean", "", [[it.lost_by_order for it in b] for b in batches]),
        _mean("gangs missing by where others were put, mean", "", [[it.lost_by_places for it in b] for b in batches]),
        *_more_is_better("pods placed", each(lambda it: it.pods), LEAST_MEAN_OF_PODS),
        _mean(
            "the very gangs of the best in order", "of 1", [[it.starts == it.first_come for it in b] for b in batches]
        ),
        *_less_is_better("domains crossed", each(lambda it: it.crossed), MOST_MEAN_CROSSED),
    ]


def _figures_of_evicting(batches: Sequence[Sequence[Evicted]]) -> list[Figure]:
    pods = [[it.pods for it in batch if it.pods is not None] for batch in batches]
    ordered = [[it.surplus_first for it in batch if it.surplus_first is not None] for batch in batches]
    starts = [[it.does_start for it in batch if it.can_start] for batch in batches]
    return [
        _mean("preemptor starts where it can", "of 1", starts),
        *_less_is_better("victims", pods, MOST_MEAN_VICTIMS),
        *_less_is_better("victims, surplus first", ordered, None),
    ]


def _more_is_better(what: str, batches: Sequence[Sequence[Gap]], least: float) -> list[Figure]:
    ratios = [[gap.ratio for gap in batch] for batch in batches]
    missing = [[gap.distance for gap in batch] for batch in batches]
    return [
        _mean(f"{what}, core ÷ best, mean", "×", ratios, Goal("at least", least)),
        Figure(name=f"{what}, core ÷ best, worst", unit="×", rounds=tuple(min(batch) for batch in ratios)),
        _mean(f"{what}, missing, mean", "", missing),
        Figure(name=f"{what}, missing, worst", unit="", rounds=tuple(max(batch) for batch in missing)),
    ]


def _less_is_better(what: str, batches: Sequence[Sequence[Gap]], most: float | None) -> list[Figure]:
    more = [[gap.distance for gap in batch] for batch in batches]
    goal = None if most is None else Goal("at most", most)
    totals = tuple(sum(gap.core for gap in batch) / max(1, sum(gap.best for gap in batch)) for batch in batches)
    return [
        Figure(name=f"{what}, core ÷ best, total", unit="×", rounds=totals),
        _mean(f"{what}, too many, mean", "", more, goal),
        Figure(name=f"{what}, too many, worst", unit="", rounds=tuple(max(batch, default=0) for batch in more)),
    ]


def _mean(name: str, unit: str, batches: Sequence[Iterable[float]], goal: Goal | None = None) -> Figure:
    return Figure(
        name=name, unit=unit, rounds=tuple(statistics.mean(batch) if batch else 0.0 for batch in batches), goal=goal
    )
