"""Everything that works on a cluster's objects, as parts that run side by side: scheduler, controllers, node agents.

The same parts run embedded and simulated; who composes them chooses the clock, the identifiers and the port.
"""

from __future__ import annotations

import asyncio
import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from allhands.agents.behaviour import Behaviour
from allhands.agents.heartbeat import HeartbeatPolicy
from allhands.agents.logs import LogsOfNodes
from allhands.agents.process import ProcessAgent
from allhands.agents.simulated import SimulatedKubelets
from allhands.agents.usage import UsagesOfAgents
from allhands.agents.workplace import Workplace
from allhands.controllers.catalog import ALWAYS, controllers
from allhands.core.policy import DEFAULT, Policy
from allhands.runtime.controller import ControllerLoop
from allhands.runtime.installing import install_kinds
from allhands.runtime.keeper import Keeper
from allhands.runtime.keys import new_keys
from allhands.runtime.performer import Performer
from allhands.runtime.pod_probes import PodProbes
from allhands.runtime.recorder import Recorder
from allhands.runtime.scheduling.resources import NAMES_ALONE
from allhands.runtime.scheduling.scheduler import Scheduler, SchedulerOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from allhands.agents.local_node import LocalNode
    from allhands.agents.logs import Logs
    from allhands.agents.usage import Usages
    from allhands.lifecycle.volcano_job.extension import KeyPair
    from allhands.ports import Clock, Metrics, Objects
    from allhands.runtime.keeper import Begin


class SystemOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`flight` is how many writes of one kind are under way at a time: 1 for a store in this process."""

    policy: Policy = DEFAULT
    scheduler: SchedulerOptions = SchedulerOptions(names=NAMES_ALONE, flight=1)
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
    new_keys: Callable[[], KeyPair] = new_keys
    """Makes keys for Jobs whose pods log in to each other."""


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
            workers=options.flight,
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
    """All controllers of the embedded cluster as one part, until cancelled or one of them ends."""
    await install_kinds(objects)
    async with asyncio.TaskGroup() as tasks:
        for name, begin in controller_parts(objects, clock, options, metrics).items():
            tasks.create_task(begin(), name=name)


def controller_parts(
    objects: Objects, clock: Clock, options: SystemOptions, metrics: Metrics | None = None
) -> dict[str, Begin]:
    """By name, how to begin each controller and what tells users of their deeds. They need our kinds to be there."""
    recorder = Recorder(objects, clock, "allhands-controllers")
    # Pods of simulated nodes answer nobody; those that are processes do, on this machine.
    probes = None if options.process_node is None else PodProbes(objects, is_local=True)

    async def control(name: str) -> None:
        made = controllers(objects, options.volume_folder, options.new_keys, probes)
        controller = next(it for it in made if it.name == name)
        performer = Performer(objects, recorder, flight=options.flight)
        lazy = name not in ALWAYS
        await ControllerLoop(controller, performer, clock, workers=options.flight, lazy=lazy, metrics=metrics).run()

    parts: dict[str, Begin] = {"controller-events": recorder.run}
    for controller in controllers(objects, options.volume_folder, options.new_keys):
        parts[f"{controller.name}-controller"] = functools.partial(control, controller.name)
    return parts


class System:
    """All parts on one port, each begun anew if it ends. `logs` serves what containers have written, `usages` what they
    use."""

    def __init__(
        self,
        objects: Objects,
        clock: Clock,
        options: SystemOptions,
        metrics: Metrics | None = None,
        keeper: Keeper | None = None,
    ) -> None:
        """`keeper` keeps the parts; whoever passes it can ask it how they are."""
        self._objects = objects
        self._clock = clock
        self._options = options
        self._keeper = keeper or Keeper(metrics)
        self._scheduler: Scheduler | None = None
        self._tried = asyncio.Event()
        """Set once it was tried to bring our kinds into the cluster."""
        self._meters: dict[str, Usages] = {}
        """The present incarnation of each agent."""
        self.usages: Usages = UsagesOfAgents(self._meters)
        parts = system_parts(clock, options, self._see_kubelets, on_scheduler=self._see_scheduler, metrics=metrics)
        del parts["controllers"]  # here each of them is a part
        self._parts: dict[str, Begin] = {name: functools.partial(begin, objects) for name, begin in parts.items()}
        self._parts |= controller_parts(objects, clock, options, metrics)
        self._agents: dict[str, Logs] = {}
        self._recorder = Recorder(objects, clock, "allhands-agent")
        if options.process_node is not None and options.process_folder is not None:
            place = Workplace(folder=options.process_folder, volume_folders=(Path(options.volume_folder),))
            self._parts["agent"] = functools.partial(self._run_agent, options.process_node, place)
            self._parts["agent-events"] = self._recorder.run
        self.logs: Logs = LogsOfNodes(objects, self._agents)
        for name in ("kinds", *self._parts):
            self._keeper.declare(name, self.is_ready if name == "scheduler" else lambda: True)

    def _see_scheduler(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def _see_kubelets(self, kubelets: SimulatedKubelets) -> None:
        self._meters["simulated"] = kubelets

    def is_ready(self) -> bool:
        """Whether the scheduler has seen everything that was there, and can decide."""
        return self._scheduler is not None and self._scheduler.is_well

    async def _run_agent(self, node: LocalNode, workplace: Workplace) -> None:
        agent = ProcessAgent(self._objects, self._clock, node, workplace, recorder=self._recorder)
        self._agents[node.name] = self._meters["process"] = agent
        await agent.run()

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._keeper.keep("kinds", self._install, ends=True), name="kinds")
            await self._tried.wait()
            for name, begin in self._parts.items():
                tasks.create_task(self._keeper.keep(name, begin), name=name)

    async def _install(self) -> None:
        """Others begin when it is done, or when it has failed: who can do without our kinds need not wait for them."""
        try:
            await install_kinds(self._objects)
        finally:
            self._tried.set()
