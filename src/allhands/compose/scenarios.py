"""Carries out a scenario on the whole simulated system, and says what came of it."""

from __future__ import annotations

import asyncio
import math
import random
from typing import TYPE_CHECKING, Any, Final

import msgspec

from allhands.agents.behaviour import EXIT_CODE, RUN_SECONDS, Behaviour, Fixed, Uniform
from allhands.agents.heartbeat import HeartbeatPolicy
from allhands.api.kinds import Resource
from allhands.api.volcano.queue import QUEUE as VOLCANO_QUEUE
from allhands.compose.nodes import NodeSize, add_node, node_manifest
from allhands.compose.simulated import simulate
from allhands.compose.system import SystemOptions
from allhands.core.configuration.building import build_policy
from allhands.core.policy import DEFAULT
from allhands.dialects.annotations import AFTER, EXPECTED_DURATION, MIN_AVAILABLE, QUEUE, TOPOLOGY
from allhands.dialects.topology_labels import DEFAULT_LABELS
from allhands.model.quantity import Quantity
from allhands.sim.job_log import JobLog, ideal_makespan_seconds, pod_run_seconds
from allhands.sim.metrics import SHORTEST_SECONDS, spread
from allhands.sim.scenario import Range

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from allhands.api.document import Manifest
    from allhands.compose.simulated import SimulatedCluster
    from allhands.ports import Event
    from allhands.sim.scenario import Nodes, Scenario, Workload

PODS: Final = Resource("", "v1", "pods")
JOBS: Final = Resource("batch", "v1", "jobs")
PRIORITY_CLASSES: Final = Resource("scheduling.k8s.io", "v1", "priorityclasses")
RACK: Final = DEFAULT_LABELS[0]
LOOK_SECONDS: Final = 1.0


class ScenarioResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it; times in seconds of the simulation. ideal: every job, in order, starts the instant it fits,
    with the very run times that came up. lower bound: the area of all pods over that of the cluster, or the longest."""

    jobs_succeeded: int
    jobs_failed: int
    jobs_unfinished: int
    makespan_seconds: float
    ideal_seconds: float
    lower_bound_seconds: float
    jct_mean_seconds: float
    jct_p50_seconds: float
    jct_p99_seconds: float
    wait_mean_seconds: float
    wait_p50_seconds: float
    wait_p99_seconds: float
    bounded_slowdown_mean: float
    utilisation: float
    pods: int
    writes: int


def run_scenario(
    scenario: Scenario, *, seed: int | None = None, progress: Callable[[int, int, float], None] | None = None
) -> ScenarioResult:
    """`progress` is told, now and then, how many of how many jobs have ended, and the time of the simulation."""
    chosen = scenario.seed if seed is None else seed
    options = SystemOptions(
        policy=DEFAULT if scenario.policy is None else build_policy(scenario.policy),
        behaviour=Behaviour(start=_distribution(scenario.start_delay_seconds)),
        heartbeats=HeartbeatPolicy(most_per_second=scenario.heartbeats_per_second),
        seed=chosen,
    )

    async def act(cluster: SimulatedCluster) -> ScenarioResult:
        return await _Acting(cluster, scenario, chosen, progress).run()

    return simulate(act, seed=chosen, options=options, faults=scenario.faults)


def _distribution(value: float | Range) -> Fixed | Uniform:
    return Uniform(value.least, value.most) if isinstance(value, Range) else Fixed(value)


class _Acting:
    def __init__(
        self,
        cluster: SimulatedCluster,
        scenario: Scenario,
        seed: int,
        progress: Callable[[int, int, float], None] | None,
    ) -> None:
        self._cluster = cluster
        self._scenario = scenario
        self._objects = cluster.objects
        self._seed = seed
        self._progress = progress
        self._log = JobLog()

    async def run(self) -> ScenarioResult:
        cluster, scenario = self._cluster, self._scenario
        for nodes in scenario.nodes:
            for manifest in _node_manifests(nodes, cluster.store.now()):
                await add_node(self._objects, manifest)
        await cluster.ready()
        for queue in scenario.queues:
            metadata = {"name": queue.name, "annotations": dict(queue.annotations)}
            await self._objects.create(VOLCANO_QUEUE.resource, {"metadata": metadata, "spec": dict(queue.spec)})
        for priority in scenario.priority_classes:
            await self._objects.create(PRIORITY_CLASSES, {"metadata": {"name": priority.name}, "value": priority.value})
        background = [
            asyncio.create_task(self._follow(PODS, self._log.see_pod)),
            asyncio.create_task(self._follow(JOBS, self._log.see_job)),
            *(asyncio.create_task(self._outage(it.node, it.at_seconds, it.for_seconds)) for it in scenario.outages),
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
        return self._result(begin)

    async def _follow(self, resource: Resource, see: Callable[[Event, float], None]) -> None:
        watch = await self._objects.watch(resource)
        async for event in watch:
            if event.type in ("ADDED", "MODIFIED", "DELETED"):
                see(event, self._cluster.seconds)

    async def _outage(self, node: str, at_seconds: float, for_seconds: float) -> None:
        await asyncio.sleep(at_seconds)
        self._cluster.kill_node(node)
        await asyncio.sleep(for_seconds)
        self._cluster.revive_node(node)

    async def _submit(self, workload: Workload) -> None:
        chance = random.Random(f"{workload.name} {self._seed}")  # noqa: S311 (a workload, not a secret)
        digits = len(str(workload.jobs - 1))
        await asyncio.sleep(workload.start_seconds)
        for number in range(workload.jobs):
            name = workload.name if workload.jobs == 1 else f"{workload.name}-{number:0{digits}d}"
            self._log.submitted(name, self._cluster.seconds)
            await self._objects.create(JOBS, job_manifest(workload, name), "default")
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

    def _result(self, begin: float) -> ScenarioResult:
        jobs = list(self._log.jobs.values())
        ended = [(job, job.ended) for job in jobs if job.ended is not None]
        completion = spread([end - job.submitted for job, end in ended])
        waits = spread([job.started - job.submitted for job, _ in ended if job.started is not None])
        slowdowns = [
            max(1.0, (end - job.submitted) / max(SHORTEST_SECONDS, end - job.started))
            for job, end in ended
            if job.started is not None
        ]
        makespan = max((end for _, end in ended), default=begin) - min((job.submitted for job in jobs), default=begin)
        capacity = self._capacity_pods()
        runs = pod_run_seconds(jobs)
        area = sum(runs)
        return ScenarioResult(
            jobs_succeeded=sum(job.succeeded for job in jobs),
            jobs_failed=sum(not job.succeeded for job, _ in ended),
            jobs_unfinished=len(jobs) - len(ended),
            makespan_seconds=makespan,
            ideal_seconds=ideal_makespan_seconds(jobs, capacity),
            lower_bound_seconds=max(area / capacity, max(runs, default=0.0)),
            jct_mean_seconds=completion.mean,
            jct_p50_seconds=completion.p50,
            jct_p99_seconds=completion.p99,
            wait_mean_seconds=waits.mean,
            wait_p50_seconds=waits.p50,
            wait_p99_seconds=waits.p99,
            bounded_slowdown_mean=spread(slowdowns).mean,
            utilisation=area / (capacity * makespan) if makespan else 0.0,
            pods=sum(len(job.pods) for job in jobs),
            writes=self._cluster.store.version,
        )

    def _capacity_pods(self) -> int:
        """How many pods of the first workload the cluster holds; the measure for workloads that are all alike."""
        workload = self._scenario.workloads[0]
        need = {"cpu": _amount(workload.cpu), "memory": _amount(workload.memory), "gpus": workload.gpus}
        total = 0
        for nodes in self._scenario.nodes:
            have = {"cpu": _amount(nodes.cpu), "memory": _amount(nodes.memory), "gpus": nodes.gpus}
            total += nodes.count * min(have[name] // amount for name, amount in need.items() if amount)
        return max(1, total)


def _amount(text: str) -> int:
    return Quantity.parse(text).nanos


def _node_manifests(nodes: Nodes, now: str) -> Iterator[Manifest]:
    digits = len(str(nodes.count - 1))
    size = NodeSize(nodes.cpu, nodes.memory, nodes.gpus)
    for number in range(nodes.count):
        labels = dict(nodes.labels)
        if nodes.racks:
            labels[RACK] = f"rack-{number % nodes.racks}"
        yield node_manifest(f"{nodes.name}-{number:0{digits}d}", size, now, labels)


def job_manifest(workload: Workload, name: str) -> Manifest:
    annotations: dict[str, str] = {}
    for key, value in (
        (QUEUE, workload.queue),
        (MIN_AVAILABLE, workload.min_available),
        (EXPECTED_DURATION, f"{workload.expected_seconds:g}s" if workload.expected_seconds is not None else None),
        (TOPOLOGY, workload.topology),
        (AFTER, workload.after),
    ):
        if value:
            annotations[key] = str(value)
    run = workload.run_seconds
    runs = f"{run.least:g}-{run.most:g}" if isinstance(run, Range) else f"{run:g}"
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
