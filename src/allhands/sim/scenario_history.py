"""The history of a scenario, for the same measures and plots as that of a trace: what its pods held, who waited.

It is counted in one resource, the scarcest: that of which the pods used the largest part. Nothing is judged here.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final

import msgspec

from allhands.model.quantity import Quantity
from allhands.sim.history import History, Moment, Ran
from allhands.sim.job_log import run_seconds_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from allhands.sim.job_log import JobRun, PodRun
    from allhands.sim.scenario import Nodes, Scenario, Workload

GIB: Final = 1 << 30
NANOS: Final = 10**9
UNITS: Final = {"cpu": 1, "memory": GIB, "nvidia.com/gpu": 1}
"""What counts as one of each resource, in plots and tables."""
NO_QUEUE: Final = "(no queue)"
_PLACED, _LEFT, _SUBMITTED, _ENDED = range(4)


class Cluster(msgspec.Struct, frozen=True):
    """Nodes by the resource that counts; `units` are cores, GiB or GPUs."""

    units: float
    nodes: int
    resource: str

    @property
    def is_pool(self) -> bool:
        return False


class Work(msgspec.Struct, frozen=True, gc=False):
    """A job of a scenario. Its run time is that of its longest pod, as if all had begun together."""

    name: str
    submit_seconds: float
    run_seconds: float
    width: float
    area: float
    queue: str
    user: str = ""


class Measure(msgspec.Struct, frozen=True):
    """How much of the resource that counts each job's pods take, and how much of it there is: in nanos of it."""

    resource: str
    capacity: int
    need: Mapping[str, int]
    """By workload, of each pod."""

    def units(self, nanos: int) -> float:
        return nanos / UNITS[self.resource] / NANOS


def needs(it: Nodes | Workload) -> dict[str, int]:
    """What a node has, or a pod asks for."""
    amounts = {"cpu": Quantity.parse(it.cpu).nanos, "memory": Quantity.parse(it.memory).nanos}
    return {**amounts, "nvidia.com/gpu": it.gpus * NANOS}


def scarcest(scenario: Scenario) -> Measure:
    """By what all jobs together ask for, for as long as they are expected to run."""
    have = {name: sum(nodes.count * needs(nodes)[name] for nodes in scenario.nodes) for name in UNITS}
    asked = {
        name: sum(it.jobs * it.pods * needs(it)[name] * max(it.run_seconds_mean, 1.0) for it in scenario.workloads)
        for name in UNITS
    }
    resource = max((name for name in UNITS if have[name]), key=lambda name: asked[name] / have[name])
    return Measure(resource, have[resource], {it.name: needs(it)[resource] for it in scenario.workloads})


def pod_slots(scenario: Scenario) -> Measure | None:
    """The same counted in pods, where all ask for the same: what a node cannot use for another pod does not count."""
    asked = [needs(it) for it in scenario.workloads]
    if any(it != asked[0] for it in asked):
        return None
    slots = sum(
        nodes.count * min(needs(nodes)[name] // amount for name, amount in asked[0].items() if amount)
        for nodes in scenario.nodes
    )
    return Measure("pods", slots, {it.name: 1 for it in scenario.workloads}) if slots else None


class ScenarioJobs:
    """Jobs as they were logged, with the workloads that they are of."""

    def __init__(self, scenario: Scenario, jobs: Sequence[tuple[Workload, JobRun]], end_seconds: float) -> None:
        self.measure = scarcest(scenario)
        self._scenario = scenario
        self._jobs = jobs
        self._end = end_seconds
        """When looking ended: whoever still ran then, ran until then."""

    def history(self, policy: str) -> History:
        measure, scenario = self.measure, self._scenario
        nodes = sum(it.count for it in scenario.nodes)
        ended = sorted(
            ((job.ended, workload, job) for workload, job in self._jobs if job.ended is not None and job.succeeded),
            key=lambda it: it[0],
        )
        return History(
            Cluster(measure.units(measure.capacity), nodes, measure.resource),
            policy,
            tuple(self._ran(workload, job, end) for end, workload, job in ended),
            (),
            tuple(self._work(workload, job) for workload, job in self._jobs if not job.succeeded),
            tuple(self._moments()),
            0,
            start_whole=all(it.min_available in ("all", it.pods) for it in scenario.workloads),
            used_by_queue=self._used_by_queue(),
        )

    @property
    def used_area(self) -> float:
        """Units times seconds that pods ran, whatever became of it."""
        return sum(self._area(workload, pod) for workload, _, pod in self._pods())

    @property
    def wasted_area(self) -> float:
        """The part of it that was lost, and had to be done again or never was."""
        return sum(
            self._area(workload, pod)
            for workload, job, pod in self._pods()
            if pod.ended is not None and (not pod.is_done or (job.ended is not None and not job.succeeded))
        )

    def _pods(self) -> Iterator[tuple[Workload, JobRun, PodRun]]:
        for workload, job in self._jobs:
            for pod in job.pods.values():
                yield workload, job, pod

    def _area(self, workload: Workload, pod: PodRun) -> float:
        if pod.started is None:
            return 0.0
        end = self._end if pod.ended is None else pod.ended
        return self._unit(workload) * (end - pod.started)

    def _unit(self, workload: Workload) -> float:
        return self.measure.units(self.measure.need[workload.name])

    def _work(self, workload: Workload, job: JobRun) -> Work:
        runs, unit = run_seconds_of(job), self._unit(workload)
        width = unit * workload.pods
        return Work(job.name, job.submitted, max(runs, default=0.0), width, unit * sum(runs), workload.queue)

    def _ran(self, workload: Workload, job: JobRun, end: float) -> Ran:
        start = job.submitted if job.started is None else job.started
        idle = end - job.submitted - _covered_seconds(job)
        return Ran(self._work(workload, job), start, end, _times_taken_back(job), max(0.0, idle))

    def _events(self) -> list[tuple[float, int, Workload, JobRun, bool]]:
        """What changed who holds what, in the order of time; at last whether a pod that left was done."""
        events = []
        for workload, job in self._jobs:
            events.append((job.submitted, _SUBMITTED, workload, job, False))
            if job.ended is not None:
                events.append((job.ended, _ENDED, workload, job, False))
            for pod in job.pods.values():
                if pod.bound is not None:
                    events.append((pod.bound, _PLACED, workload, job, False))
                    if pod.ended is not None:
                        events.append((pod.ended, _LEFT, workload, job, pod.is_done))
        return sorted(events, key=lambda it: it[0])

    def _moments(self) -> Iterator[Moment]:
        """A job waits as long as it lacks pods that neither have a place nor are done."""
        lacking: dict[str, int] = {}
        over: set[str] = set()
        waiting, waiting_width, used = 0, 0.0, 0
        for at, together in groupby(self._events(), key=lambda it: it[0]):
            for _, what, workload, job, is_done in together:
                need = self.measure.need[workload.name]
                before = max(0, lacking.get(job.name, 0))
                if what == _SUBMITTED:
                    lacking[job.name] = workload.pods
                elif what == _ENDED:
                    over.add(job.name)
                    lacking[job.name] = 0
                else:
                    used += need if what == _PLACED else -need
                    if job.name not in over:
                        lacking[job.name] += -1 if what == _PLACED else not is_done
                after = max(0, lacking[job.name])
                waiting += bool(after) - bool(before)
                waiting_width += self.measure.units((after - before) * need)
            yield Moment(at, self.measure.units(used), waiting, waiting_width if waiting else 0.0)
        if waiting or used:
            yield Moment(self._end, self.measure.units(used), waiting, waiting_width)

    def _used_by_queue(self) -> dict[str, tuple[tuple[float, float], ...]]:
        """Empty unless there are several."""
        queues = sorted({workload.queue or NO_QUEUE for workload, _ in self._jobs})
        if len(queues) < 2:
            return {}
        used = dict.fromkeys(queues, 0)
        lines: dict[str, list[tuple[float, float]]] = {name: [] for name in queues}
        for at, what, workload, _, _ in self._events():
            if what in (_PLACED, _LEFT):
                name, need = workload.queue or NO_QUEUE, self.measure.need[workload.name]
                used[name] += need if what == _PLACED else -need
                if lines[name] and lines[name][-1][0] == at:
                    lines[name].pop()
                lines[name].append((at, self.measure.units(used[name])))
        return {name: tuple(points) for name, points in lines.items()}


def _covered_seconds(job: JobRun) -> float:
    """For how long at least one of its pods ran."""
    pods = job.pods.values()
    spans = sorted((it.started, it.ended) for it in pods if it.started is not None and it.ended is not None)
    covered, until = 0.0, float("-inf")
    for begin, end in spans:
        if end > until:
            covered += end - max(begin, until)
            until = end
    return covered


def _times_taken_back(job: JobRun) -> int:
    """How often it lost pods; those that it lost before it got new ones are one time."""
    times, got_new = 0, True
    steps = [(it.ended, True) for it in job.pods.values() if it.is_lost and it.ended is not None]
    steps += [(it.bound, False) for it in job.pods.values() if it.bound is not None]
    for _, is_loss in sorted(steps):
        if is_loss and got_new:
            times += 1
        got_new = not is_loss
    return times
