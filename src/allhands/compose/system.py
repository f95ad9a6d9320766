"""Everything that works on a cluster's objects, as parts that run side by side: scheduler, controllers, node agents.

The same parts run embedded and simulated; who composes them chooses the clock, the identifiers and the port.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from allhands.agents.behaviour import Behaviour
from allhands.agents.heartbeat import HeartbeatPolicy
from allhands.agents.logs import LogsOfNodes
from allhands.agents.process import ProcessAgent
from allhands.agents.simulated import SimulatedKubelets
from allhands.agents.workplace import Workplace
from allhands.controllers.catalog import ALWAYS, controllers
from allhands.core.policy import DEFAULT, Policy
from allhands.runtime.controller import ControllerLoop
from allhands.runtime.installing import install_kinds
from allhands.runtime.performer import Performer
from allhands.runtime.recorder import Recorder
from allhands.runtime.scheduling.scheduler import Scheduler, SchedulerOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from allhands.agents.local_node import LocalNode
    from allhands.agents.logs import Logs
    from allhands.ports import Clock, Metrics, Objects


class SystemOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`flight` is how many writes of one kind are under way at a time: 1 for a store in this process."""

    policy: Policy = DEFAULT
    scheduler: SchedulerOptions = SchedulerOptions(names=("allhands", "default-scheduler"), flight=1)
    flight: int = 1
    simulates_nodes: bool = True
    behaviour: Behaviour = Behaviour()
    heartbeats: HeartbeatPolicy = HeartbeatPolicy()
    seed: int = 0
    process_node: LocalNode | None = None
    """A node whose pods are processes of this machine."""
    process_folder: Path | None = None
    """Where its pods have their files; needed with a process node, and its own."""
    volume_folder: str = "/var/lib/allhands/volumes"
    """Where volumes that are made here are kept, on whichever node."""


def system_parts(
    clock: Clock,
    options: SystemOptions,
    on_kubelets: Callable[[SimulatedKubelets], None] | None = None,
    dead_nodes: dict[str, None] | None = None,
    *,
    on_scheduler: Callable[[Scheduler], None] | None = None,
    metrics: Metrics | None = None,
) -> dict[str, Callable[[Objects], Coroutine[Any, Any, None]]]:
    """By name, how to begin each part on a port. `on_kubelets` and `on_scheduler` are shown each incarnation."""

    async def scheduler(objects: Objects) -> None:
        made = Scheduler(objects, clock, policy=options.policy, options=options.scheduler, metrics=metrics)
        if on_scheduler is not None:
            on_scheduler(made)
        await made.run()

    async def control(objects: Objects) -> None:
        await run_controllers(objects, clock, options, metrics)

    async def kubelets(objects: Objects) -> None:
        agent = SimulatedKubelets(
            objects,
            clock,
            behaviour=options.behaviour,
            heartbeats=options.heartbeats,
            seed=options.seed,
            dead=dead_nodes,
        )
        if on_kubelets is not None:
            on_kubelets(agent)
        await agent.run()

    parts: dict[str, Callable[[Objects], Coroutine[Any, Any, None]]] = {"scheduler": scheduler, "controllers": control}
    if options.simulates_nodes:
        parts["kubelets"] = kubelets
    return parts


async def run_controllers(
    objects: Objects, clock: Clock, options: SystemOptions, metrics: Metrics | None = None
) -> None:
    """All controllers of the embedded cluster, until cancelled."""
    recorder = Recorder(objects, clock, "allhands-controllers")
    await install_kinds(objects)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(recorder.run(), name="controllers: events")
        for controller in controllers(objects, options.volume_folder):
            performer = Performer(objects, recorder, flight=options.flight)
            lazy = controller.name not in ALWAYS
            loop = ControllerLoop(controller, performer, clock, workers=options.flight, lazy=lazy, metrics=metrics)
            tasks.create_task(loop.run(), name=controller.name)


class System:
    """All parts on one port. `logs` serves what containers have written."""

    def __init__(self, objects: Objects, clock: Clock, options: SystemOptions, metrics: Metrics | None = None) -> None:
        self._objects = objects
        self._scheduler: Scheduler | None = None
        self._parts = system_parts(clock, options, on_scheduler=self._see_scheduler, metrics=metrics)
        agents: dict[str, Logs] = {}
        self._recorder = Recorder(objects, clock, "allhands-agent")
        self._agent: ProcessAgent | None = None
        if options.process_node is not None and options.process_folder is not None:
            workplace = Workplace(folder=options.process_folder)
            self._agent = ProcessAgent(objects, clock, options.process_node, workplace, recorder=self._recorder)
            agents[options.process_node.name] = self._agent
        self.logs: Logs = LogsOfNodes(objects, agents)

    def _see_scheduler(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def is_ready(self) -> bool:
        """Whether the scheduler has seen everything that was there."""
        return self._scheduler is not None and self._scheduler.synced.is_set()

    async def run(self) -> None:
        """Until cancelled."""
        await install_kinds(self._objects)
        async with asyncio.TaskGroup() as tasks:
            for name, begin in self._parts.items():
                tasks.create_task(begin(self._objects), name=name)
            if self._agent is not None:
                tasks.create_task(self._recorder.run(), name="agent: events")
                tasks.create_task(self._agent.run(), name="agent")
