"""Carries out a scenario on the whole simulated system, and says what came of it."""

from __future__ import annotations

import asyncio
import math
import random
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from allhands.agents.behaviour import EXIT_CODE, RUN_SECONDS, Behaviour, Fixed, Uniform
from allhands.agents.heartbeat import HeartbeatPolicy
from allhands.api.kinds import Resource
from allhands.api.volcano.queue import QUEUE as VOLCANO_QUEUE
from allhands.compose.nodes import NodeSize, add_node, node_manifest
from allhands.compose.simulated import simulate
from allhands.compose.system import SystemOptions
from allhands.core.configuration.building import build_policy
from allhands.core.policy import DEFAULT, Policy
from allhands.dialects.annotations import AFTER, EXPECTED_DURATION, MIN_AVAILABLE, QUEUE, TOPOLOGY
from allhands.dialects.topology_labels import DEFAULT_LABELS
from allhands.ports import Query
from allhands.sim.job_log import JobLog, ideal_makespan_seconds, run_seconds_of
from allhands.sim.metrics import Summary, idle_while_waiting, summarise
from allhands.sim.scenario import Range, RunTime
from allhands.sim.scenario_history import ScenarioJobs, pod_slots

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from allhands.api.document import Manifest
    from allhands.compose.simulated import SimulatedCluster
    from allhands.ports import Event
    from allhands.sim.history import History
    from allhands.sim.scenario import Nodes, Outage, QueueUse, Scenario, Workload

PODS: Final = Resource("", "v1", "pods")
JOBS: Final = Resource("batch", "v1", "jobs")
PRIORITY_CLASSES: Final = Resource("scheduling.k8s.io", "v1", "priorityclasses")
RACK: Final = DEFAULT_LABELS[0]
LOOK_SECONDS: Final = 1.0
UNFINISHED_SHOWN: Final = 10
MOST_RUN_SECONDS: Final = 1e9


class NamedPolicy(NamedTuple):
    """How a result calls it, and what it is."""

    name: str
    policy: Policy


class ScenarioResult(Summary, frozen=True, kw_only=True):
    """What came of it, with the measures of traces (docs/simulation.md); times in seconds of the simulation."""

    jobs_unfinished: int
    ideal_seconds: float
    """Every job, in order, starts the instant it fits, with the very run times that came up."""
    wasted: float
    """Of the machine, what was run in vain: taken away, failed, or of jobs that failed."""
    pods: int
    writes: int
    unfinished: dict[str, str]
    """Of the first jobs that were not done in the end: what their pods were told last."""


class ScenarioRun(NamedTuple):
    result: ScenarioResult
    history: History


def run_scenario(
    scenario: Scenario,
    *,
    seed: int | None = None,
    policy: NamedPolicy | None = None,
    progress: Callable[[int, int, float], None] | None = None,
) -> ScenarioRun:
    """`policy` goes before that of the scenario. `progress` is told, now and then, how many of how many jobs have
    ended, and the time of the simulation."""
    chosen = scenario.seed if seed is None else seed
    if policy is None:
        own = scenario.policy
        policy = NamedPolicy("default", DEFAULT) if own is None else NamedPolicy("own", build_policy(own))
    options = SystemOptions(
        policy=policy.policy,
        behaviour=Behaviour(
            start=_distribution(scenario.start_delay_seconds),
            failure_rate=scenario.failure_rate,
            notice_seconds=scenario.notice_seconds,
        ),
        heartbeats=HeartbeatPolicy(most_per_second=scenario.heartbeats_per_second),
        seed=chosen,
    )

    async def act(cluster: SimulatedCluster) -> ScenarioRun:
        return await _Acting(cluster, scenario, policy.name, chosen, progress).run()

    return simulate(act, seed=chosen, options=options, faults=scenario.faults.faults)


def _distribution(value: float | Range) -> Fixed | Uniform:
    return Uniform(value.least, value.most) if isinstance(value, Range) else Fixed(value)


class _Acting:
    def __init__(
        self,
        cluster: SimulatedCluster,
        scenario: Scenario,
        policy: str,
        seed: int,
        progress: Callable[[int, int, float], None] | None,
    ) -> None:
        self._cluster = cluster
        self._scenario = scenario
        self._policy = policy
        self._objects = cluster.objects
        self._seed = seed
        self._progress = progress
        self._log = JobLog()
        self._workloads: dict[str, Workload] = {}
        """By name of the job."""

    async def run(self) -> ScenarioRun:
        cluster, scenario = self._cluster, self._scenario
        for nodes in scenario.nodes:
            for manifest in _node_manifests(nodes, cluster.store.now()):
                await add_node(self._objects, manifest)
        await cluster.ready()
        for queue in _parents_first(scenario.queues):
            metadata = {"name": queue.name, "annotations": dict(queue.annotations)}
            await self._objects.create(VOLCANO_QUEUE.resource, {"metadata": metadata, "spec": dict(queue.spec)})
        for priority in scenario.priority_classes:
            await self._objects.create(PRIORITY_CLASSES, {"metadata": {"name": priority.name}, "value": priority.value})
        background = [
            asyncio.create_task(self._follow(PODS, self._log.see_pod)),
            asyncio.create_task(self._follow(JOBS, self._log.see_job)),
            *(asyncio.create_task(self._outage(it)) for it in scenario.outages),
        ]
        begin = cluster.seconds
        try:
            async with asyncio.timeout(scenario.limit_seconds):
                await asyncio.gather(*(self._submit(workload) for workload in scenario.workloads))
                await self._wait(background)
        except TimeoutError:
            pass
        finally:
            for task in background:
                task.cancel()
        return self._result(begin, await self._unfinished())

    async def _unfinished(self) -> dict[str, str]:
        """One of each workload goes first: those that are alike mostly wait for the same."""
        left = [name for name, job in self._log.jobs.items() if job.ended is None]
        firsts = {self._workloads[name].name: name for name in reversed(left)}
        names = list(dict.fromkeys([*reversed(firsts.values()), *left]))
        return {name: await self._told(name) for name in names[:UNFINISHED_SHOWN]}

    async def _told(self, job: str) -> str:
        """Why a pod of it is on no node."""
        query = Query(namespace="default", labels=f"job-name={job}")
        for raw in (await self._objects.list(PODS, query)).items:
            conditions = msgspec.json.decode(raw)["status"].get("conditions", ())
            for it in conditions:
                if it["type"] == "PodScheduled" and it["status"] == "False":
                    return str(it.get("message", ""))
        return ""

    async def _follow(self, resource: Resource, see: Callable[[Event, float], None]) -> None:
        def take(event: Event) -> None:
            if event.type in ("ADDED", "MODIFIED", "DELETED"):
                see(event, self._cluster.seconds)

        watch = await self._objects.watch(resource)
        await watch.feed(take)

    async def _outage(self, outage: Outage) -> None:
        nodes = self._scenario.nodes_in(outage)
        await asyncio.sleep(outage.at_seconds)
        for node in nodes:
            self._cluster.kill_node(node)
            self._log.node_died(node, self._cluster.seconds)
        await asyncio.sleep(outage.for_seconds)
        for node in nodes:
            self._cluster.revive_node(node)

    async def _submit(self, workload: Workload) -> None:
        chance = random.Random(f"{workload.name} {self._seed}")  # noqa: S311 (a workload, not a secret)
        after = ",".join(self._scenario.jobs_before(workload))
        await asyncio.sleep(workload.start_seconds)
        for name in workload.names:
            manifest = job_manifest(workload, name, run_seconds_text(workload.run_seconds, chance), after)
            self._workloads[name] = workload
            self._log.submitted(name, self._cluster.seconds)
            await self._objects.create(JOBS, manifest, "default")
            pause = workload.every_seconds
            if workload.mean_seconds:
                pause = -math.log(1.0 - chance.random()) * workload.mean_seconds
            if pause:
                await asyncio.sleep(pause)

    async def _wait(self, background: list[asyncio.Task[None]]) -> None:
        total = sum(workload.jobs for workload in self._scenario.workloads)
        while self._log.ended < total:
            await asyncio.sleep(LOOK_SECONDS)
            for task in background:
                if task.done():
                    task.result()
            if self._progress is not None:
                self._progress(self._log.ended, total, self._cluster.seconds)

    def _result(self, begin: float, unfinished: dict[str, str]) -> ScenarioRun:
        jobs, now = list(self._log.jobs.values()), self._cluster.seconds
        seen = ScenarioJobs(self._scenario, [(self._workloads[job.name], job) for job in jobs], now)
        history = seen.history(self._policy)
        measured = summarise(history)
        ends = [job.ended for job in jobs if job.ended is not None]
        makespan = max(ends, default=begin) - min((job.submitted for job in jobs), default=begin)
        room = history.machine.units * (max(makespan, now - begin) if len(ends) < len(jobs) else makespan)
        slots = pod_slots(self._scenario) or seen.measure
        ideal = ideal_makespan_seconds(jobs, slots.capacity, lambda job: slots.need[self._workloads[job.name].name])
        bound = measured.lower_bound_seconds
        if slots is not seen.measure:
            bound = max(bound, sum(run for job in jobs for run in run_seconds_of(job)) / slots.capacity)
        whole = msgspec.structs.asdict(measured) | {
            "jobs_failed": sum(not job.succeeded for job in jobs if job.ended is not None),
            "makespan_seconds": makespan,
            "lower_bound_seconds": bound,
            "utilisation": seen.used_area / room if room else 0.0,
            "fragmentation": idle_while_waiting(history) / room if room else 0.0,
        }
        result = ScenarioResult(
            **whole,
            jobs_unfinished=len(jobs) - len(ends),
            ideal_seconds=ideal,
            wasted=seen.wasted_area / room if room else 0.0,
            pods=sum(len(job.pods) for job in jobs),
            writes=self._cluster.store.version,
            unfinished=unfinished,
        )
        return ScenarioRun(result, history)


def _node_manifests(nodes: Nodes, now: str) -> Iterator[Manifest]:
    size = NodeSize(nodes.cpu, nodes.memory, nodes.gpus)
    for number, name in enumerate(nodes.names):
        labels = dict(nodes.labels)
        if rack := nodes.rack_of(number):
            labels[RACK] = rack
        yield node_manifest(name, size, now, labels)


def run_seconds_text(run: float | RunTime, chance: random.Random) -> str:
    """As pods of simulated nodes are told it."""
    if not isinstance(run, RunTime):
        return f"{run!r}"
    if run.median is None:
        return f"{run.least!r}-{run.most!r}"
    drawn = run.median * math.exp(run.sigma * chance.gauss())
    return f"{min(drawn, MOST_RUN_SECONDS if run.most is None else run.most):.3f}"


def job_manifest(workload: Workload, name: str, runs: str, after: str = "") -> Manifest:
    annotations: dict[str, str] = {}
    for key, value in (
        (QUEUE, workload.queue),
        (MIN_AVAILABLE, workload.min_available),
        (EXPECTED_DURATION, f"{workload.expected_seconds:g}s" if workload.expected_seconds is not None else None),
        (TOPOLOGY, workload.topology),
        (AFTER, after),
    ):
        if value:
            annotations[key] = str(value)
    said = {RUN_SECONDS: runs}
    if workload.exit_code:
        said[EXIT_CODE] = str(workload.exit_code)
    requests: dict[str, Any] = {"cpu": workload.cpu, "memory": workload.memory}
    limits = {}
    if workload.gpus:
        requests["nvidia.com/gpu"] = limits["nvidia.com/gpu"] = str(workload.gpus)
    container = {"name": "main", "image": "simulated", "resources": {"requests": requests, "limits": limits}}
    pod: Manifest = {"restartPolicy": "Never", "containers": [container]}
    if workload.priority_class:
        pod["priorityClassName"] = workload.priority_class
    spec: Manifest = {
        "parallelism": workload.pods,
        "completions": workload.pods,
        "backoffLimit": workload.backoff_limit,
        "template": {"metadata": {"annotations": said}, "spec": pod},
    }
    if workload.deadline_seconds is not None:
        spec["activeDeadlineSeconds"] = workload.deadline_seconds
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "annotations": annotations},
        "spec": spec,
    }


def _parents_first(queues: Sequence[QueueUse]) -> list[QueueUse]:
    """As they were written, but for those whose parent comes later; a circle is left to the server to refuse."""
    names = {it.name for it in queues}
    made: dict[str, QueueUse] = {}
    waiting = list(queues)
    while waiting:
        ready = [it for it in waiting if (parent := it.spec.get("parent")) not in names or parent in made]
        made.update((it.name, it) for it in ready or waiting)
        waiting = [it for it in waiting if it.name not in made]
    return list(made.values())
