"""The controllers that a real cluster lacks, as a process of their own.

Never those that kube-controller-manager runs: two that make the same pods make twice as many.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from typing import TYPE_CHECKING, Final, NamedTuple

from allhands.api.errors import StatusError
from allhands.api.volcano.queue import QUEUE
from allhands.api.volcano.workloads import SCHEDULER_NAME
from allhands.compose.process import Process
from allhands.controllers.catalog import ALWAYS
from allhands.controllers.cron_job import VolcanoCronJobController
from allhands.controllers.hyper_node import HyperNodeController
from allhands.controllers.job_flow import JobFlowController
from allhands.controllers.job_template import JobTemplateController
from allhands.controllers.numatopology import NumatopologyController
from allhands.controllers.queue import QueueController
from allhands.controllers.volcano_job import VolcanoJobController
from allhands.controllers.workload_group import WorkloadGroupController
from allhands.kube.flight import MAX_IN_FLIGHT
from allhands.runtime.controller import ControllerLoop
from allhands.runtime.installation.permissions import Right
from allhands.runtime.installation.rights import of_controllers
from allhands.runtime.installing import first_queues
from allhands.runtime.keys import new_keys
from allhands.runtime.performer import Performer
from allhands.runtime.pod_probes import PodProbes
from allhands.runtime.recorder import Recorder
from allhands.runtime.scheduling.resources import PODS
from allhands.runtime.shared_watch import SharedWatch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from allhands.compose.process import ProcessOptions
    from allhands.kube.access import Access
    from allhands.ports import Collections, Objects
    from allhands.runtime.controller import Controller

CONTROLLERS_LEASE: Final = "allhands-controllers"
COUNTED: Final = (Right("", "pods", "list"), Right("", "pods", "watch"))
"""Without these no queue can be counted."""
LOOK_AGAIN_SECONDS: Final = 30.0
FORBIDDEN, NOT_FOUND = 403, 404
_LOG = logging.getLogger(__name__)


class Around(NamedTuple):
    """What controllers are given. `pods`: by what all pods are followed, once for all who do."""

    objects: Objects
    names: Sequence[str]
    pods: Collections


LACKING: Final[Mapping[str, Callable[[Around], Controller]]] = {
    QueueController.name: lambda it: QueueController(it.objects, scheduler_names=it.names, pods=it.pods),
    VolcanoJobController.name: lambda it: VolcanoJobController(
        it.objects, scheduler_names=it.names, new_keys=new_keys, pods=it.pods
    ),
    VolcanoCronJobController.name: lambda it: VolcanoCronJobController(it.objects),
    JobFlowController.name: lambda it: JobFlowController(it.objects, probes=PodProbes(it.objects)),
    JobTemplateController.name: lambda it: JobTemplateController(it.objects),
    HyperNodeController.name: lambda it: HyperNodeController(it.objects),
    NumatopologyController.name: lambda it: NumatopologyController(it.objects),
    WorkloadGroupController.name: lambda it: WorkloadGroupController(it.objects),
}
"""The visible list of controllers that a real cluster has not: adding one is one line here."""


def wanted(scheduler_names: Sequence[str]) -> tuple[str, ...]:
    """By name, those that have something to do: only whose pods were written for Volcano get groups made."""
    return tuple(it for it in LACKING if it != WorkloadGroupController.name or SCHEDULER_NAME in scheduler_names)


async def run_lacking_controllers(access: Access, options: ProcessOptions) -> None:
    """Until cancelled."""
    process = Process(access, options, CONTROLLERS_LEASE)
    names = wanted(options.scheduler_names)
    for part in ("first-queues", "controller-events", *(f"{name}-controller" for name in names)):
        process.keeper.declare(part)
    async with process.opened(COUNTED, of_controllers(options.scheduler_names)) as objects:
        around = Around(objects, options.scheduler_names, SharedWatch(objects, PODS))
        loops: dict[str, ControllerLoop] = {}
        recorder = Recorder(
            objects,
            process.clock,
            "allhands-controllers",
            is_busy=lambda: any(it.queue.is_hurried for it in loops.values()),
        )

        async def control(name: str) -> None:
            made = LACKING[name](around)
            performer = Performer(objects, recorder, flight=MAX_IN_FLIGHT)
            lazy = name not in ALWAYS
            loop = ControllerLoop(made, performer, process.clock, workers=4, lazy=lazy, metrics=process.metrics)
            loops[name] = loop
            await loop.run()

        async def work() -> None:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(process.keeper.keep("first-queues", lambda: add_first_queues(objects), ends=True))
                tasks.create_task(process.keeper.keep("controller-events", recorder.run))
                for name in names:
                    begin = functools.partial(control, name)
                    tasks.create_task(process.keeper.keep(f"{name}-controller", begin))

        _LOG.info("controllers on %s: %s", access.server, ", ".join(names))
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
