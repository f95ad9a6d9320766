"""A random small cluster with random jobs, as a scenario that is judged: everyone must end well, whatever went wrong.

One seed is one history. It makes nodes and jobs, lets faults happen for a while, kills and revives nodes, and then,
with the faults gone, waits until every job has ended. Laws are checked at every change.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from allhands.api.kinds import Resource
from allhands.dialects.annotations import EXPECTED_DURATION, MIN_AVAILABLE
from allhands.dialects.scheduling_record import read_record
from allhands.model.pod import Pod
from allhands.model.pod_document import PodDocument
from allhands.model.reason import Reason
from allhands.ports import Query
from allhands.sim.checkers import GangWatch, LawBrokenError, LawChecker
from allhands.sim.faults import NONE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from allhands.api.document import Manifest
    from allhands.ports import Event, Objects
    from allhands.sim.faults import Faults
    from allhands.sim.virtual_time import VirtualClock

PODS: Final = Resource("", "v1", "pods")
NODES: Final = Resource("", "v1", "nodes")
JOBS: Final = Resource("batch", "v1", "jobs")
LOOK_SECONDS: Final = 5.0
MOST_JOBS: Final = 12
PATIENCE_SECONDS: Final = 3_600.0
"""After the last fault, so long may it take until everyone has ended."""
VISIBLE: Final = frozenset({Reason.PARTLY_BOUND, Reason.GANG_INCOMPLETE, Reason.START_FAILED, Reason.BACKING_OFF})
"""What a gang that is partly bound may say of it: its rest has no room, or its owner has not made it yet."""
_pods = msgspec.json.Decoder(PodDocument)


class FuzzedCluster(Protocol):
    """What a scenario may do to the cluster it runs in."""

    @property
    def objects(self) -> Objects: ...

    @property
    def clock(self) -> VirtualClock: ...

    @property
    def seconds(self) -> float: ...

    def set_faults(self, faults: Faults) -> None: ...

    def crash(self, part: str) -> None: ...

    def kill_node(self, name: str) -> None: ...

    def revive_node(self, name: str) -> None: ...


class History(msgspec.Struct, frozen=True):
    """What came of one seed. `digest` is over every change of every pod and job, with its moment."""

    seconds: float
    jobs: int
    pods_bound: int
    changes: int
    digest: str


class Fuzz:
    def __init__(
        self, cluster: FuzzedCluster, seed: int, add_node: Callable[[str, int], Any], most_jobs: int | None = None
    ) -> None:
        self._cluster = cluster
        self._objects = cluster.objects
        self._chance = random.Random(f"fuzz {seed}")  # noqa: S311 (a history, not a secret)
        self._add_node = add_node
        self._most_jobs = MOST_JOBS if most_jobs is None else most_jobs
        self._laws = LawChecker()
        self._gangs = GangWatch()
        self._least: dict[str, int] = {}
        self._names: list[str] = []
        self._nodes: list[str] = []
        self._digest = hashlib.blake2b(digest_size=16)
        self._changes = 0

    async def run(self) -> History:
        chance = self._chance
        for number in range(chance.randint(2, 8)):
            self._nodes.append(f"node-{number}")
            await self._add_node(self._nodes[-1], 8)
        watching = [
            asyncio.create_task(self._follow(NODES, self._laws.node)),
            asyncio.create_task(self._follow(PODS, self._see_pod)),
            asyncio.create_task(self._follow(JOBS, lambda _: None)),
            asyncio.create_task(self._trouble()),
        ]
        try:
            for number in range(min(self._most_jobs, chance.randint(3, MOST_JOBS))):
                await asyncio.sleep(chance.random() * 20)
                await self._submit(number)
            await asyncio.sleep(60)
            watching.pop().cancel()
            self._cluster.set_faults(NONE)
            for node in self._nodes:
                self._cluster.revive_node(node)
            await self._end(watching)
        finally:
            for task in watching:
                task.cancel()
        self._laws.check_whole()
        return History(
            self._cluster.seconds, len(self._names), self._laws.bound, self._changes, self._digest.hexdigest()
        )

    def _see_pod(self, event: Event) -> None:
        self._laws.pod(event, self._cluster.seconds)

    async def _follow(self, resource: Resource, see: Callable[[Event], None]) -> None:
        watch = await self._objects.watch(resource)
        async for event in watch:
            if event.type in ("ADDED", "MODIFIED", "DELETED"):
                self._changes += 1
                self._digest.update(f"{self._cluster.seconds:.6f} {event.type} ".encode() + event.raw)
                see(event)

    async def _trouble(self) -> None:
        """What happens to machines: nodes die and return, parts crash, clocks jump."""
        chance = self._chance
        while True:
            await asyncio.sleep(chance.random() * 60)
            match chance.randrange(5):
                case 0:
                    node = chance.choice(self._nodes)
                    self._cluster.kill_node(node)
                    await asyncio.sleep(chance.random() * 200)
                    self._cluster.revive_node(node)
                case 1:
                    self._cluster.crash(chance.choice(("scheduler", "controllers", "kubelets")))
                case 2:
                    self._cluster.clock.jump(chance.choice((-30, -1, 1, 30)))
                case _:
                    pass

    async def _submit(self, number: int) -> None:
        name, size, least, body = self._job(number)
        self._least[name] = least
        self._names.append(name)
        await self._adorn(body, name, size, least)
        await self._objects.create(JOBS, body, "default")

    async def _adorn(self, body: Manifest, name: str, size: int, least: int) -> None:
        """Says of its members how many must start together, and makes what it needs beside itself."""
        del name
        if least > 1 or self._chance.random() < 0.5:
            stated = self._chance.choice(("all", str(size))) if least == size else str(least)
            body["metadata"]["annotations"][MIN_AVAILABLE] = stated

    def _job(self, number: int) -> tuple[str, int, int, Manifest]:
        """Its name, how many pods it has, how many of them must start together, and the Job."""
        chance = self._chance
        name = f"job-{number}"
        size = chance.randint(1, min(8, 2 * len(self._nodes)))
        least = chance.choice((size, chance.randint(1, size))) if chance.random() < 0.7 else 1
        annotations = {}
        if chance.random() < 0.5:
            annotations[EXPECTED_DURATION] = f"{chance.randint(20, 200)}s"
        container = {
            "name": "main",
            "image": "simulated",
            "resources": {"requests": {"cpu": str(chance.choice((1, 2, 3, 4))), "memory": "1Gi"}},
        }
        template = {
            "metadata": {"annotations": {"sim.allhands.dev/run-seconds": str(chance.randint(5, 120))}},
            "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 5, "containers": [container]},
        }
        spec: Manifest = {"parallelism": size, "completions": size, "backoffLimit": 1000, "template": template}
        if chance.random() < 0.5:
            spec["completionMode"] = "Indexed"
        return name, size, least, {"metadata": {"name": name, "annotations": annotations}, "spec": spec}

    async def _end(self, watching: list[asyncio.Task[None]]) -> None:
        give_up = self._cluster.seconds + PATIENCE_SECONDS
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            for task in watching:
                if task.done():
                    task.result()
            await self._look_at_gangs()
            endings = {name: await self._ending(name) for name in self._names}
            if all(endings.values()):
                break
            if self._cluster.seconds > give_up:
                raise LawBrokenError(await self._stuck(endings))
        if failed := [name for name, ending in endings.items() if ending == "Failed"]:
            raise LawBrokenError(f"jobs failed that nothing was wrong with: {', '.join(failed)}")

    async def _ending(self, name: str) -> str:
        status = (await self._objects.get(JOBS, name, "default")).manifest().get("status", {})
        for condition in status.get("conditions", ()):
            if condition["type"] in ("Complete", "Failed") and condition["status"] == "True":
                return str(condition["type"])
        return ""

    async def _look_at_gangs(self) -> None:
        gangs: dict[str, tuple[int, list[Pod]]] = {}
        for name, least in self._least.items():
            page = await self._objects.list(PODS, Query(namespace="default", labels=f"job-name={name}"))
            gangs[name] = (least, [Pod.from_document(_pods.decode(raw)) for raw in page.items])
        excused = [name for name in gangs if await self._says_so(name)]
        self._gangs.look(gangs, self._cluster.seconds, frozenset(excused))

    async def _says_so(self, name: str) -> bool:
        """Whether the job itself tells that it is partly there, and why."""
        metadata = (await self._objects.get(*self._home(name), "default")).manifest()["metadata"]
        said = read_record(metadata.get("annotations")).said
        return said is not None and said.explanation.reason in VISIBLE

    def _home(self, name: str) -> tuple[Resource, str]:
        """The object that tells how a job's gang is."""
        return JOBS, name

    async def _stuck(self, endings: Mapping[str, str]) -> str:
        """Who did not end, and what is known about it."""
        lines = [f"{sum(map(bool, endings.values()))} of {len(endings)} jobs ended"]
        for name in (name for name, ending in endings.items() if not ending):
            page = await self._objects.list(PODS, Query(namespace="default", labels=f"job-name={name}"))
            for raw in page.items:
                pod = msgspec.json.decode(raw)
                told = [
                    it.get("message", "") for it in pod["status"].get("conditions", ()) if it["type"] == "PodScheduled"
                ]
                where = pod["spec"].get("nodeName", "no node")
                lines.append(f"{name}: {pod['metadata']['name']} {pod['status'].get('phase')} on {where}: {told}")
            if not page.items:
                lines.append(f"{name}: no pods")
        return "; ".join(lines)
