"""The scheduler as a process of its own, beside a real cluster.

From its beginning on it only ends when it is told to: whatever breaks is tried again.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from allhands.compose.early import ESSENTIAL
from allhands.compose.machine import spare_the_collector
from allhands.compose.process import Process
from allhands.kube.flight import MAX_IN_FLIGHT
from allhands.runtime.installation.rights import SCHEDULER
from allhands.runtime.scheduling.scheduler import Scheduler, SchedulerOptions

if TYPE_CHECKING:
    from allhands.compose.process import Lacking, ProcessOptions
    from allhands.kube.access import Access
    from allhands.kube.objects import KubeObjects
    from allhands.runtime.metrics import MetricsRegistry

SCHEDULER_LEASE: Final = "allhands-scheduler"
CALM_SECONDS: Final = 1.0
MOST_CALM_LOOKS: Final = 60
_LOG = logging.getLogger(__name__)


async def run_scheduler(
    access: Access,
    options: ProcessOptions,
    opened: KubeObjects | None = None,
    metrics: MetricsRegistry | None = None,
    lacking: Lacking | None = None,
) -> None:
    """Until cancelled; on a port that was `opened` with these metrics, if there is one, and where it was asked already
    what we are `lacking`. Raises a StatusError, a MissingRightsError or an OSError if it cannot begin."""
    process = Process(access, options, SCHEDULER_LEASE, opened=opened, metrics=metrics)
    latest: list[Scheduler] = []
    process.keeper.declare("scheduler", lambda: bool(latest) and latest[-1].is_well)
    async with process.opened(ESSENTIAL, SCHEDULER, lacking) as objects:

        async def begin() -> None:
            chosen = SchedulerOptions(
                names=options.scheduler_names,
                flight=MAX_IN_FLIGHT,
                namespace=options.lease_namespace,
                decides_beside=True,
            )
            made = Scheduler(objects, process.clock, policy=options.policy, options=chosen, metrics=process.metrics)
            latest[:] = [made]
            sparing = asyncio.create_task(_spare_once_calm(made))
            try:
                await made.run()
            finally:
                sparing.cancel()

        _LOG.info("placing the pods of %s on %s", ", ".join(options.scheduler_names), access.server)
        await process.lead(lambda: process.keeper.keep("scheduler", begin))


async def _spare_once_calm(scheduler: Scheduler) -> None:
    """Looking through all that was loaded takes a while: those who wait to be bound go first."""
    await scheduler.synced.wait()
    for _ in range(MOST_CALM_LOOKS):
        await asyncio.sleep(CALM_SECONDS)
        if scheduler.executor.is_idle:
            break
    spare_the_collector()
