"""What every process of ours beside a real cluster has: a port, metrics, probes, a lease, and rights that it asks for.

A process asks first whether it is let in and may do what it must; what it may not do otherwise is told by verb and
resource, and the rest runs. What it works at is not known here.
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
from allhands.compose.early import PACKED
from allhands.compose.machine import SystemClock
from allhands.core.policy import DEFAULT, Policy
from allhands.kube.objects import KubeObjects, Settings
from allhands.runtime.installation.permissions import Right, missing
from allhands.runtime.keeper import Keeper
from allhands.runtime.leadership import ThreadedLeadership, counted
from allhands.runtime.metrics import MetricsRegistry
from allhands.server.listening import is_loopback
from allhands.server.process_metrics import measure_process
from allhands.server.when_asked import serving_when_asked

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
    from typing import Any

    from allhands.kube.access import Access
    from allhands.ports import Objects
    from allhands.runtime.installation.rights import Rule
    from allhands.server.when_asked import Serve

    Work: TypeAlias = Callable[[], Coroutine[Any, Any, None]]
    Lacking: TypeAlias = Awaitable[list[Right]]

START_SECONDS: Final = 20.0
"""So long the first answer may take."""
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


class Process:
    """What both processes have: a port, metrics, probes, and a lease."""

    def __init__(
        self,
        access: Access,
        options: ProcessOptions,
        lease: str,
        *,
        opened: KubeObjects | None = None,
        metrics: MetricsRegistry | None = None,
    ) -> None:
        """`opened`: the port, if somebody has opened it already, with `metrics`; he closes it, too."""
        self._access = access
        self._opened = opened
        self._options = options
        self._lease = lease
        self._settings = Settings(component=lease.removeprefix("allhands-"), packed=PACKED)
        self.clock = SystemClock()
        self.metrics = metrics or MetricsRegistry()
        self.keeper = Keeper(self.metrics)
        self.is_working = False
        measure_process(self.metrics)

    @contextlib.asynccontextmanager
    async def opened(
        self, essential: Sequence[Right], rules: Iterable[Rule], lacking: Lacking | None = None
    ) -> AsyncIterator[Objects]:
        """The port, once it is known that we are let in and what of the `essential` rights is `lacking`."""
        async with self._port() as objects:
            async with asyncio.timeout(START_SECONDS):
                lacked = await (missing(objects, essential) if lacking is None else lacking)
            if lacked:
                raise MissingRightsError(f"missing rights: {', '.join(str(right) for right in lacked)}")
            telling = asyncio.create_task(_tell_missing(objects, rules), name="rights")
            try:
                async with self._serving():
                    yield objects
            finally:
                telling.cancel()

    def _port(self) -> contextlib.AbstractAsyncContextManager[KubeObjects]:
        if self._opened is not None:
            return contextlib.nullcontext(self._opened)
        return KubeObjects(self._access, self.metrics, settings=self._settings)

    @contextlib.asynccontextmanager
    async def _serving(self) -> AsyncIterator[None]:
        options = self._options
        token = options.metrics_token
        if not token and not is_loopback(options.metrics_host):
            token = secrets.token_urlsafe(32)
            _LOG.warning("on %s /metrics is closed: it needs a token beyond loopback", options.metrics_host)

        def load() -> Serve:
            from allhands.server.health_server import HealthApp, serving_health  # noqa: PLC0415 (see `when_asked`)

            app = HealthApp(self.metrics.text, ready=self._checks(), token=token)
            return functools.partial(serving_health, app)

        async with serving_when_asked(load, options.metrics_host, options.metrics_port) as address:
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
