"""The parts as processes of their own, beside a real cluster: the scheduler, and the controllers that it lacks.

A process asks first whether it is let in and may do what it must; what it may not do otherwise is told by verb and
resource, and the rest runs. From then on it only ends when it is told to: whatever breaks is tried again.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import secrets
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from allhands.api.errors import StatusError
from allhands.api.volcano.queue import QUEUE
from allhands.compose.machine import SystemClock, spare_the_collector
from allhands.controllers.queue import QueueController
from allhands.core.policy import DEFAULT, Policy
from allhands.kube.objects import KubeObjects, Settings
from allhands.runtime.controller import ControllerLoop
from allhands.runtime.installation.permissions import Right, missing
from allhands.runtime.installation.rights import CONTROLLERS, SCHEDULER
from allhands.runtime.installing import first_queues
from allhands.runtime.keeper import Keeper
from allhands.runtime.leadership import ThreadedLeadership, counted
from allhands.runtime.metrics import MetricsRegistry
from allhands.runtime.performer import Performer
from allhands.runtime.recorder import Recorder
from allhands.runtime.scheduling.scheduler import Scheduler, SchedulerOptions
from allhands.server.health_server import HealthApp, serving_health
from allhands.server.process_metrics import measure_process
from allhands.server.serve import is_loopback

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
    from typing import Any

    from allhands.kube.access import Access
    from allhands.ports import Objects
    from allhands.runtime.controller import Controller
    from allhands.runtime.installation.rights import Rule

    Work: TypeAlias = Callable[[], Coroutine[Any, Any, None]]

SCHEDULER_LEASE: Final = "allhands-scheduler"
CONTROLLERS_LEASE: Final = "allhands-controllers"
FLIGHT: Final = 64
ESSENTIAL: Final = (
    Right("", "pods", "list"),
    Right("", "pods", "watch"),
    Right("", "nodes", "list"),
    Right("", "nodes", "watch"),
    Right("", "pods/binding", "create"),
)
"""Without these nothing can be scheduled at all."""
COUNTED: Final = (Right("", "pods", "list"), Right("", "pods", "watch"))
"""Without these no queue can be counted."""
START_SECONDS: Final = 20.0
"""So long the first answer may take."""
LOOK_AGAIN_SECONDS: Final = 30.0
FORBIDDEN, NOT_FOUND = 403, 404
_LOG = logging.getLogger(__name__)


class MissingRightsError(RuntimeError):
    """What must be allowed and is not, by verb and resource."""


class ProcessOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`leads_by_lease`: only one of several such processes works at a time, and it is the one that has the lease."""

    scheduler_names: tuple[str, ...] = ("allhands",)
    policy: Policy = DEFAULT
    leads_by_lease: bool = True
    lease_namespace: str = "allhands-system"
    identity: str = "allhands"
    metrics_host: str = "127.0.0.1"
    metrics_port: int = 0
    metrics_token: str = ""
    """Who reads /metrics beyond loopback must show it; without one nobody there may."""


class _Process:
    """What both processes have: a port, metrics, probes, and a lease."""

    def __init__(self, access: Access, options: ProcessOptions, lease: str) -> None:
        self._access = access
        self._options = options
        self._lease = lease
        self._settings = Settings(component=lease.removeprefix("allhands-"))
        self.clock = SystemClock()
        self.metrics = MetricsRegistry()
        self.keeper = Keeper(self.metrics)
        self.is_working = False
        measure_process(self.metrics)

    @contextlib.asynccontextmanager
    async def opened(self, essential: Sequence[Right], rules: Iterable[Rule]) -> AsyncIterator[Objects]:
        """The port, once it is known that we are let in."""
        async with KubeObjects(self._access, self.metrics, settings=self._settings) as objects:
            async with asyncio.timeout(START_SECONDS):
                lacking = await missing(objects, essential)
            if lacking:
                raise MissingRightsError(f"missing rights: {', '.join(str(right) for right in lacking)}")
            telling = asyncio.create_task(_tell_missing(objects, rules), name="rights")
            try:
                async with self._serving():
                    yield objects
            finally:
                telling.cancel()

    @contextlib.asynccontextmanager
    async def _serving(self) -> AsyncIterator[None]:
        options = self._options
        token = options.metrics_token
        if not token and not is_loopback(options.metrics_host):
            token = secrets.token_urlsafe(32)
            _LOG.warning("on %s /metrics is closed: it needs a token beyond loopback", options.metrics_host)
        app = HealthApp(self.metrics.text, ready=self._checks(), token=token)
        async with serving_health(app, options.metrics_host, options.metrics_port) as address:
            _LOG.info("metrics and health are at %s", address.url)
            yield

    def _checks(self) -> dict[str, Callable[[], bool]]:
        """One that waits for the lease is as ready as it can be."""

        def is_well(check: Callable[[], bool]) -> bool:
            return not self.is_working or check()

        return {name: functools.partial(is_well, check) for name, check in self.keeper.checks.items()}

    async def lead(self, work: Work) -> None:
        """Runs the work while we lead, until cancelled."""
        options = self._options

        async def working() -> None:
            self.is_working = True
            try:
                await work()
            finally:
                self.is_working = False

        if not options.leads_by_lease:
            await working()
            return
        leadership = ThreadedLeadership(
            lambda: KubeObjects(self._access, settings=self._settings),
            self.clock,
            name=self._lease,
            namespace=options.lease_namespace,
            identity=options.identity,
        )
        await leadership.lead(counted(working, self.metrics, self._lease))


async def run_scheduler(access: Access, options: ProcessOptions) -> None:
    """Until cancelled. Raises a StatusError, a MissingRightsError or an OSError if it cannot begin."""
    process = _Process(access, options, SCHEDULER_LEASE)
    latest: list[Scheduler] = []
    process.keeper.declare("scheduler", lambda: bool(latest) and latest[-1].is_well)
    async with process.opened(ESSENTIAL, SCHEDULER) as objects:

        async def begin() -> None:
            chosen = SchedulerOptions(
                names=options.scheduler_names,
                flight=FLIGHT,
                namespace=options.lease_namespace,
                decides_beside=True,
            )
            made = Scheduler(objects, process.clock, policy=options.policy, options=chosen, metrics=process.metrics)
            latest[:] = [made]
            sparing = asyncio.create_task(_spare_once_synced(made))
            try:
                await made.run()
            finally:
                sparing.cancel()

        _LOG.info("placing the pods of %s on %s", ", ".join(options.scheduler_names), access.server)
        await process.lead(lambda: process.keeper.keep("scheduler", begin))


async def _spare_once_synced(scheduler: Scheduler) -> None:
    await scheduler.synced.wait()
    spare_the_collector()


LACKING: Final[Mapping[str, Callable[[Objects, Sequence[str]], Controller]]] = {
    QueueController.name: lambda objects, names: QueueController(objects, scheduler_names=names),
}
"""The visible list of controllers that a real cluster has not: adding one is one line here."""


async def run_lacking_controllers(access: Access, options: ProcessOptions) -> None:
    """Until cancelled. Never those that kube-controller-manager runs."""
    process = _Process(access, options, CONTROLLERS_LEASE)
    for part in ("first-queues", "controller-events", *(f"{name}-controller" for name in LACKING)):
        process.keeper.declare(part)
    async with process.opened(COUNTED, CONTROLLERS) as objects:
        recorder = Recorder(objects, process.clock, "allhands-controllers")

        async def control(name: str) -> None:
            made = LACKING[name](objects, options.scheduler_names)
            performer = Performer(objects, recorder, flight=FLIGHT)
            await ControllerLoop(made, performer, process.clock, workers=4, metrics=process.metrics).run()

        async def work() -> None:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(process.keeper.keep("first-queues", lambda: add_first_queues(objects), ends=True))
                tasks.create_task(process.keeper.keep("controller-events", recorder.run))
                for name in LACKING:
                    begin = functools.partial(control, name)
                    tasks.create_task(process.keeper.keep(f"{name}-controller", begin))

        _LOG.info("controllers on %s: %s", access.server, ", ".join(LACKING))
        await process.lead(work)


async def add_first_queues(objects: Objects) -> None:
    """The queues that everybody expects, as soon as the cluster knows queues; who may not make them does without."""
    for manifest in first_queues():
        while True:
            try:
                await objects.create(QUEUE.resource, manifest)
            except StatusError as refusal:
                if refusal.code == NOT_FOUND:
                    await asyncio.sleep(LOOK_AGAIN_SECONDS)
                    continue
                if refusal.code == FORBIDDEN:
                    _LOG.warning("queue %s is not made: %s", manifest["metadata"]["name"], refusal.message)
                elif refusal.reason != "AlreadyExists":
                    raise
            break


async def _tell_missing(objects: Objects, rules: Iterable[Rule]) -> None:
    """One line for all that may not be done; each part says itself what it leaves out for it."""
    rights = [Right(rule.group, resource, verb) for rule in rules for resource in rule.resources for verb in rule.verbs]
    try:
        lacking = await missing(objects, rights)
    except StatusError as refusal:
        _LOG.warning("whether we have all rights cannot be found out: %s", refusal.message)
        return
    if lacking:
        _LOG.warning("missing rights: %s", ", ".join(str(right) for right in lacking))
