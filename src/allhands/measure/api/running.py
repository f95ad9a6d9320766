"""One run: pods wait, a scheduler is started, the judge sees the last bind, the process's use is read, all is removed.

The clock starts before the process does and ends with the last bind as the API server has written it down. What comes
after that (events, statuses) is waited for, so that nobody's calls and processor time are cut off.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

import msgspec

from allhands.measure.api.audit import USER, AuditLog, Calls
from allhands.measure.api.contenders import Contender, ContenderError, Places, objects_of, prepared
from allhands.measure.api.usage import usage_of_group
from allhands.measure.api.workload import Gangs, Shape
from allhands.measure.processes import ServiceEndedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from allhands.measure.api.cluster import BenchCluster, Placed
    from allhands.measure.processes import Service

LOOK_SECONDS: Final = 0.1
QUIET_SECONDS: Final = 2.0
"""A scheduler that has asked for nothing for so long is done."""
MOST_QUIET_SECONDS: Final = 30.0
STOP_SECONDS: Final = 5.0
MOST_POINTS: Final = 200
"""Of a curve that is kept."""


class Case(msgspec.Struct, frozen=True):
    """What is scheduled: a row of the table for each scheduler."""

    shape: Shape
    with_gangs: bool

    @property
    def title(self) -> str:
        return f"{self.shape} gangs {'on' if self.with_gangs else 'off'}"


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """`seconds`: from the start of the process to the last bind; None if it was not reached in time."""

    scheduler: str
    shape: str
    with_gangs: bool
    round: int
    pods: int
    bound: int
    seconds: float | None
    first_bind_seconds: float | None
    cpu_seconds: float
    """Of the scheduler's process, until it asked for nothing more."""
    cpu_seconds_at_last_bind: float
    peak_mib: float
    server_cpu_seconds: float
    """Of kube-apiserver and etcd, from the start to the last bind."""
    calls: Calls
    half_gangs: int
    overfull_nodes: int
    curve: list[tuple[float, int]]
    """Seconds since the start, and how many were bound by then."""

    @property
    def calls_per_pod(self) -> float:
        """Without what is written about groups."""
        return (self.calls.total - self.calls.group_writes) / self.pods

    @property
    def group_writes_per_pod(self) -> float:
        return self.calls.group_writes / self.pods


class Runner:
    """Runs schedulers one after the other. `progress` is told how many pods are bound, and the seconds."""

    def __init__(self, cluster: BenchCluster, limit_seconds: float, flight: int) -> None:
        self._cluster = cluster
        self._plane = cluster.plane
        self._limit_seconds = limit_seconds
        self._audit = AuditLog(cluster.plane.audit_log)
        self._installed: set[str] = set()
        self.flight = flight
        """Of the null scheduler."""

    async def run(
        self, contender: Contender, case: Case, number: int, progress: Callable[[int, float], None] | None = None
    ) -> Run:
        gangs = contender.gangs if case.with_gangs else Gangs.NONE
        if contender.name not in self._installed:
            await self._cluster.create(objects_of(contender))
            self._installed.add(contender.name)
        start = prepared(contender, self._places())
        namespace = await self._cluster.fill(case.shape, gangs, contender.scheduler_name)
        await self._cluster.calm()
        self._audit.begin()
        server_before = self._plane.server_cpu_seconds()
        began = time.time()
        service = self._plane.start(f"run-{contender.name}", start.command, start.environment)
        try:
            is_done = await self._last_bind(service, case.shape.pods, began, progress)
            at_last_bind = usage_of_group(service.pid)
            server_used = self._plane.server_cpu_seconds() - server_before
            if is_done:
                await self._quiet(service)
            in_the_end = usage_of_group(service.pid)
        except ServiceEndedError as error:
            raise ContenderError(f"{contender.name}: {error}") from None
        finally:
            service.stop(STOP_SECONDS)
        placed = await self._cluster.placed(namespace)
        await self._cluster.empty(namespace, gangs)
        return self._result(
            contender, case, number, began, placed,
            cpu=(at_last_bind.cpu_seconds, in_the_end.cpu_seconds), peak_mib=in_the_end.peak_mib, server=server_used,
        )  # fmt: skip

    def _places(self) -> Places:
        plane = self._plane
        return Places(kubeconfig=plane.kubeconfig_of(USER), folder=plane.folder, tools=plane.tools, flight=self.flight)

    async def _last_bind(
        self, service: Service, pods: int, began: float, progress: Callable[[int, float], None] | None
    ) -> bool:
        """False if the time that there is ended before."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self._audit.read()
            seconds = time.time() - began
            if progress is not None:
                progress(len(self._audit.bound_at), seconds)
            if len(self._audit.bound_at) >= pods:
                return True
            if seconds > self._limit_seconds:
                return False
            service.check_alive()
            self._plane.raise_if_ended()

    async def _quiet(self, service: Service) -> None:
        begin = heard = time.monotonic()
        while time.monotonic() - heard < QUIET_SECONDS and time.monotonic() - begin < MOST_QUIET_SECONDS:
            await asyncio.sleep(LOOK_SECONDS)
            service.check_alive()
            if self._audit.read():
                heard = time.monotonic()

    def _result(
        self, contender: Contender, case: Case, number: int, began: float, placed: Placed, *,
        cpu: tuple[float, float], peak_mib: float, server: float,
    ) -> Run:  # fmt: skip
        times = sorted(moment - began for moment in self._audit.bound_at)
        is_done = placed.bound >= case.shape.pods and bool(times)
        return Run(
            scheduler=contender.name,
            shape=str(case.shape),
            with_gangs=case.with_gangs,
            round=number,
            pods=case.shape.pods,
            bound=placed.bound,
            seconds=round(times[-1], 3) if is_done else None,
            first_bind_seconds=round(times[0], 3) if times else None,
            cpu_seconds=round(cpu[1], 2),
            cpu_seconds_at_last_bind=round(cpu[0], 2),
            peak_mib=round(peak_mib, 1),
            server_cpu_seconds=round(server, 2),
            calls=self._audit.calls(),
            half_gangs=placed.half_gangs,
            overfull_nodes=placed.overfull_nodes,
            curve=curve(times),
        )


def curve(times: list[float]) -> list[tuple[float, int]]:
    """How many were there by when, with at most so many points."""
    if not times:
        return []
    step = max(1, -(-len(times) // MOST_POINTS))
    counts = [*range(step, len(times), step), len(times)]
    return [(round(times[0], 3), 1), *((round(times[count - 1], 3), count) for count in counts if count > 1)]
