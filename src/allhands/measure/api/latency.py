"""How long a pod waits that fits an idle cluster: pods come one at a time, at random moments, scheduler by scheduler.

Both moments are the API server's own, from its audit log: when it had answered the creation, and when it had answered
the binding. The floor is a null scheduler that watches and binds at once. It is no test of how fast a process starts:
the first pods, which no figure counts, show that it works.
"""

from __future__ import annotations

import asyncio
import math
import random
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from allhands.kube import kubeconfig
from allhands.kube.objects import KubeObjects
from allhands.measure.api.audit import CUSTOMER, USER, AuditLog, Moment
from allhands.measure.api.cluster import NAMESPACES, PODS, delete_everything
from allhands.measure.api.contenders import NULL, OURS, Contender, ContenderError, Places, objects_of, prepared
from allhands.measure.api.running import STOP_SECONDS
from allhands.measure.api.usage import usage_of_group
from allhands.measure.api.workload import NODE_CPU, pod_manifest
from allhands.measure.processes import ServiceEndedError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from allhands.measure.api.cluster import BenchCluster
    from allhands.measure.processes import Service

GOAL_MILLIS: Final = 50.0
"""Of allhands, at 99 of 100 pods."""
GOAL_SHARE: Final = 0.99
JUDGED_FROM_NODES: Final = 1_000
JUDGED_FROM_PODS: Final = 100
"""With fewer, the slowest pod alone is the 99th of 100."""
WARM_PODS: Final = 5
START_SECONDS: Final = 120.0
LAST_SECONDS: Final = 30.0
"""How long the last pods may take before they count as not bound."""
LOOK_SECONDS: Final = 0.1
FLIGHT: Final = 16
"""Of the null scheduler, which never needs as many."""
WATCHES: Final = "watch"


class LatencyPlan(msgspec.Struct, frozen=True, kw_only=True):
    """`per_second`: how many pods come on average; each pause is drawn anew, the same for every scheduler."""

    nodes: int = 1_000
    pods: int = 200
    rounds: int = 1
    per_second: float = 5.0
    seed: int = 0

    def problem(self) -> str:
        """Why it cannot be run; "" if it can."""
        room = self.nodes * NODE_CPU
        if self.pods + WARM_PODS > room:
            return f"{self.pods} pods do not fit on {self.nodes} nodes, which hold {room}: add nodes"
        return ""

    def pauses(self, number: int) -> list[float]:
        """Before each pod of this round, in seconds."""
        chance = random.Random(f"{self.seed}/{number}")  # noqa: S311 (a workload, not a secret)
        return [chance.expovariate(self.per_second) for _ in range(self.pods)]


class Wait(NamedTuple):
    """Of one pod, in milliseconds; all but the first part add up to its latency."""

    creating: float
    """The API server had its creation in hand."""
    asking: float
    """Until the API server got the binding: the watch, the scheduler, and the way back."""
    binding: float
    """The API server had its binding in hand."""

    @property
    def latency(self) -> float:
        return self.asking + self.binding


class LatencyRun(msgspec.Struct, frozen=True, kw_only=True):
    """One scheduler in one round."""

    scheduler: str
    round: int
    pods: int
    waits: list[Wait]
    """Of the pods that were bound in time, in the order of their creation."""
    cpu_millis_per_pod: float
    """Of the scheduler's process, from its first counted pod to its last."""
    peak_mib: float


class Spread(msgspec.Struct, frozen=True):
    """Milliseconds at so many of 100 pods."""

    p50: float
    p90: float
    p99: float
    max: float


class LatencyRow(msgspec.Struct, frozen=True, kw_only=True):
    """One scheduler over all rounds."""

    scheduler: str
    pods: int
    bound: int
    latency: Spread | None
    """None if nothing was bound."""
    creating: Spread | None
    asking: Spread | None
    binding: Spread | None
    cpu_millis_per_pod: float
    peak_mib: float
    runs: list[LatencyRun]


def watching(contenders: Sequence[Contender]) -> list[Contender]:
    """Those who take part here: where pods are alone, and the null scheduler as one that stays."""
    return [
        msgspec.structs.replace(it, command=(*it.command, WATCHES)) if it.name == NULL else it
        for it in contenders
        if it.takes_part(with_gangs=False)
    ]


class LatencyTest:
    """On a cluster whose nodes are there; `progress` is told what runs, and how many pods of how many are created."""

    def __init__(
        self,
        cluster: BenchCluster,
        contenders: Sequence[Contender],
        plan: LatencyPlan,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> None:
        self._cluster = cluster
        self._plane = cluster.plane
        self._contenders = list(contenders)
        self._plan = plan
        self._progress = progress
        self._audit = AuditLog(cluster.plane.audit_log)

    async def runs(self) -> AsyncIterator[LatencyRun]:
        """Round after round; who begins changes from round to round."""
        for contender in self._contenders:
            await self._cluster.create(objects_of(contender))
        async with KubeObjects(kubeconfig.load(self._plane.kubeconfig_of(CUSTOMER))) as customer:
            for number in range(1, self._plan.rounds + 1):
                shift = (number - 1) % len(self._contenders)
                for contender in [*self._contenders[shift:], *self._contenders[:shift]]:
                    yield await self._run(contender, number, customer)

    async def _run(self, contender: Contender, number: int, customer: KubeObjects) -> LatencyRun:
        namespace = f"latency-{number}-{contender.name}"
        places = Places(
            kubeconfig=self._plane.kubeconfig_of(USER),
            folder=self._plane.folder,
            tools=self._plane.tools,
            flight=FLIGHT,
        )
        start = prepared(contender, places)
        await self._cluster.objects.create(NAMESPACES, {"metadata": {"name": namespace}})
        self._audit.begin()
        service = self._plane.start(f"latency-{contender.name}", start.command, start.environment)
        try:
            for warm in range(WARM_PODS):
                await customer.create(PODS, pod_manifest(f"warm-{warm}", contender.scheduler_name), namespace)
                if not await self._bound(warm + 1, service, START_SECONDS):
                    raise ContenderError(f"{contender.name}: the first pod was not bound in {START_SECONDS:g} s")
            await self._cluster.calm()
            before = usage_of_group(service.pid)
            await self._create(customer, contender, namespace, number, service)
            await self._bound(WARM_PODS + self._plan.pods, service, LAST_SECONDS)
            after = usage_of_group(service.pid)
        except ServiceEndedError as error:
            raise ContenderError(f"{contender.name}: {error}") from None
        finally:
            service.stop(STOP_SECONDS)
        self._audit.read()
        await delete_everything(self._cluster.objects, PODS, namespace)
        return LatencyRun(
            scheduler=contender.name,
            round=number,
            pods=self._plan.pods,
            waits=self._waits(namespace),
            cpu_millis_per_pod=round((after.cpu_seconds - before.cpu_seconds) * 1000 / self._plan.pods, 2),
            peak_mib=round(after.peak_mib, 1),
        )

    async def _create(
        self, customer: KubeObjects, contender: Contender, namespace: str, number: int, service: Service
    ) -> None:
        """Each at its moment, whatever became of those before."""
        loop = asyncio.get_running_loop()
        text = f"round {number} of {self._plan.rounds}, {contender.name}"
        moment = loop.time()
        for done, pause in enumerate(self._plan.pauses(number)):
            if self._progress is not None:
                self._progress(text, done, self._plan.pods)
            moment += pause
            await asyncio.sleep(max(0.0, moment - loop.time()))
            await customer.create(PODS, pod_manifest(_name(done), contender.scheduler_name), namespace)
            service.check_alive()
            self._plane.raise_if_ended()

    async def _bound(self, count: int, service: Service, limit_seconds: float) -> bool:
        """False if that many are not bound in time."""
        loop = asyncio.get_running_loop()
        end = loop.time() + limit_seconds
        while True:
            self._audit.read()
            if len(self._audit.bindings) >= count:
                return True
            if loop.time() > end:
                return False
            await asyncio.sleep(LOOK_SECONDS)
            service.check_alive()
            self._plane.raise_if_ended()

    def _waits(self, namespace: str) -> list[Wait]:
        audit = self._audit
        keys = [f"{namespace}/{_name(number)}" for number in range(self._plan.pods)]
        return [wait_of(audit.creations[key], audit.bindings[key]) for key in keys if key in audit.bindings]


def _name(number: int) -> str:
    return f"pod-{number:05d}"


def wait_of(creation: Moment, binding: Moment) -> Wait:
    """A watch may show a pod before whoever created it is told: then nobody has waited yet."""
    asked = max(creation.answered, binding.received)
    parts = (creation.answered - creation.received, asked - creation.answered, max(0.0, binding.answered - asked))
    return Wait(*(round(1000 * seconds, 3) for seconds in parts))


def rows_of(contenders: Sequence[Contender], runs: Sequence[LatencyRun]) -> list[LatencyRow]:
    """In the order of the contenders; without those that did not run."""
    by_name = [[run for run in runs if run.scheduler == it.name] for it in contenders]
    return [_row(own) for own in by_name if own]


def _row(runs: list[LatencyRun]) -> LatencyRow:
    waits = [wait for run in runs for wait in run.waits]
    return LatencyRow(
        scheduler=runs[0].scheduler,
        pods=sum(run.pods for run in runs),
        bound=len(waits),
        latency=spread_of([wait.latency for wait in waits]),
        creating=spread_of([wait.creating for wait in waits]),
        asking=spread_of([wait.asking for wait in waits]),
        binding=spread_of([wait.binding for wait in waits]),
        cpu_millis_per_pod=round(sum(run.cpu_millis_per_pod for run in runs) / len(runs), 2),
        peak_mib=max(run.peak_mib for run in runs),
        runs=runs,
    )


def spread_of(millis: Sequence[float]) -> Spread | None:
    """Nearest rank: a value that a pod had, never one between two."""
    if not millis:
        return None
    ordered = sorted(millis)
    p50, p90, p99, most = (
        round(ordered[max(1, math.ceil(share * len(ordered))) - 1], 1) for share in (0.5, 0.9, GOAL_SHARE, 1.0)
    )
    return Spread(p50, p90, p99, most)


_COLUMNS: Final = "{:<21}{:>6}{:>9}{:>8}{:>8}{:>8}  {:>11}{:>11}{:>8}{:>6}"
HEADING: Final = _COLUMNS.format(
    "SCHEDULER", "PODS", "P50 MS", "P90", "P99", "MAX", "ASKED P99", "BOUND P99", "CPU MS", "MIB"
)
"""ASKED: until the API server got the binding. BOUND: how long it had it in hand. CPU MS: per pod."""


def table(plan: LatencyPlan, rows: Sequence[LatencyRow]) -> list[str]:
    return [HEADING, *map(_line, rows), *verdict(plan, rows)]


def _line(row: LatencyRow) -> str:
    missed = row.pods - row.bound
    if row.latency is None or row.asking is None or row.binding is None:
        return f"{row.scheduler:<21}{row.pods:>6}  none was bound"
    latency = row.latency
    line = _COLUMNS.format(
        row.scheduler, row.pods, latency.p50, latency.p90, latency.p99, latency.max,
        row.asking.p99, row.binding.p99, f"{row.cpu_millis_per_pod:.1f}", f"{row.peak_mib:.0f}",
    )  # fmt: skip
    return f"{line}  {missed} not bound" if missed else line


def is_met(row: LatencyRow) -> bool:
    """Pods that were not bound in time are slower than all others."""
    in_time = sum(wait.latency <= GOAL_MILLIS for run in row.runs for wait in run.waits)
    return in_time >= GOAL_SHARE * row.pods


def verdict(plan: LatencyPlan, rows: Sequence[LatencyRow]) -> list[str]:
    """Of ours, if it ran."""
    ours = next((row for row in rows if row.scheduler == OURS), None)
    if ours is None:
        return []
    if plan.nodes < JUDGED_FROM_NODES or ours.pods < JUDGED_FROM_PODS:
        return ["", f"With fewer than {JUDGED_FROM_NODES:,} nodes or {JUDGED_FROM_PODS} pods nothing is judged."]
    return ["", f"allhands: 99 of 100 pods bound within {GOAL_MILLIS:g} ms: {'met' if is_met(ours) else 'MISSED'}"]
