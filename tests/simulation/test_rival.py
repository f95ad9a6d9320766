"""A rival scheduler on the same nodes: overlap with it is at most our binds in flight, and it is seen and repaired.

The rival looks at what there is, chooses a node with room, and binds a moment later without asking anybody. The checker
knows when each of our binds was sent and which pods were where: a bind of ours may put a node over its room only if the
rival's pod came after it was sent. Nodes refuse what does not fit, as kubelets do, and owners make such pods anew.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from allhands.compose.nodes import NodeSize, add_node, node_manifest
from allhands.compose.simulated import SimulatedCluster
from allhands.compose.system import SystemOptions, system_parts
from allhands.model.pod import Pod
from allhands.model.pod_document import PodDocument
from allhands.runtime.scheduling.scheduler import SchedulerOptions
from allhands.sim.checkers import LawBrokenError
from allhands.sim.faults import NONE, Faults
from allhands.sim.supervision import Part
from allhands.sim.virtual_time import VirtualTimeLoop, run_virtually
from tests.depth import examples
from tests.manifests import JOBS, PODS

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.ports import Event, Objects

NODES, CPU = 4, 4
RIVAL_PODS = 40
REPAIRED_SECONDS = 5.0
SLOW = Faults(slow=0.7, slow_seconds=2.0)
_pods = msgspec.json.Decoder(PodDocument)


class NotedBinds:
    """The port of our scheduler, which notes when each bind was sent."""

    def __init__(self, objects: Objects, sent: dict[str, float], under_way: dict[str, str]) -> None:
        self._objects = objects
        self._sent = sent
        self._under_way = under_way

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._objects, verb)

    async def bind(self, namespace: str, name: str, binding: Manifest) -> None:
        uid = binding["metadata"]["uid"]
        self._sent[uid] = asyncio.get_running_loop().time()
        self._under_way[uid] = binding["target"]["name"]
        try:
            await self._objects.bind(namespace, name, binding)
        finally:
            self._under_way.pop(uid, None)


class Overlaps:
    """Follows every change of pods, and judges each bind that puts a node over its room."""

    def __init__(self, sent: dict[str, float], under_way: dict[str, str]) -> None:
        self._sent = sent
        self._under_way = under_way
        self._pods: dict[str, Pod] = {}
        self._bound_at: dict[str, float] = {}
        self._over_since: dict[str, float] = {}
        self.most_under_way = 0
        self.ours = 0
        """Binds of ours that put a node over its room."""
        self.longest_seconds = 0.0

    def see(self, event: Event, seconds: float) -> None:
        pod = Pod.from_document(_pods.decode(event.raw))
        before = self._pods.pop(pod.uid, None)
        if event.type != "DELETED":
            self._pods[pod.uid] = pod
            if pod.node_name and (before is None or not before.node_name):
                self._bound_at[pod.uid] = seconds
                self._judge(pod, seconds)
        self.most_under_way = max(self.most_under_way, len(self._under_way))
        self.look(seconds)

    def _used(self, node: str) -> int:
        return sum(it.requests["cpu"] for it in self._pods.values() if it.node_name == node and it.holds_resources)

    def _judge(self, pod: Pod, seconds: float) -> None:
        if pod.scheduler_name == "rival" or self._used(pod.node_name) <= CPU * 1000:
            return
        self.ours += 1
        sent = self._sent[pod.uid]
        for other in self._pods.values():
            if (
                other.scheduler_name == "rival"
                and other.node_name == pod.node_name
                and self._bound_at[other.uid] >= sent
            ):
                return
        raise LawBrokenError(f"at {seconds:.3f} s: {pod.key} was sent at {sent:.3f} s to {pod.node_name}, seen full")

    def look(self, seconds: float) -> None:
        """What is over its room must not stay so."""
        for number in range(NODES):
            node = f"node-{number}"
            if self._used(node) <= CPU * 1000:
                since = self._over_since.pop(node, seconds)
                self.longest_seconds = max(self.longest_seconds, seconds - since)
            elif seconds - self._over_since.setdefault(node, seconds) > REPAIRED_SECONDS:
                raise LawBrokenError(f"at {seconds:.3f} s: {node} is over its room since {self._over_since[node]:.3f}")


class Contested(SimulatedCluster):
    """The simulated system with a scheduler whose binds are noted, and a rival."""

    def __init__(self, loop: VirtualTimeLoop, seed: int, flight: int, faults: Faults) -> None:
        scheduler = SchedulerOptions(names=("allhands", "default-scheduler"), flight=flight, survives=False)
        options = SystemOptions(seed=seed, scheduler=scheduler)
        super().__init__(loop, seed, options, NONE)
        self.chance = random.Random(f"rival {seed}")
        self.sent: dict[str, float] = {}
        self.under_way: dict[str, str] = {}
        begin = system_parts(self.clock, options)["scheduler"]

        async def noted(objects: Objects) -> None:
            self.under_way.clear()
            await begin(NotedBinds(objects, self.sent, self.under_way))  # type: ignore[arg-type]

        self.parts["scheduler"] = Part("scheduler", self.objects, noted, faults, random.Random(f"ours {seed}"))
        self.overlaps = Overlaps(self.sent, self.under_way)

    async def watch_laws(self) -> None:
        watch = await self.objects.watch(PODS)
        async for event in watch:
            if event.type != "BOOKMARK":
                self.overlaps.see(event, self.seconds)

    async def look_again(self) -> None:
        """Time passes without any change too."""
        while True:
            await asyncio.sleep(0.5)
            self.overlaps.look(self.seconds)

    async def compete(self) -> None:
        """Pods of one or two CPUs on nodes that have room for them, one after the other."""
        for number in range(RIVAL_PODS):
            await asyncio.sleep(self.chance.random() * 6)
            cpu = self.chance.choice((1, 2))
            node = self.chance.choice([f"node-{it}" for it in range(NODES)])
            page = await self.objects.list(PODS)
            pods = [Pod.from_document(_pods.decode(raw)) for raw in page.items]
            used = sum(it.requests["cpu"] for it in pods if it.node_name == node and it.holds_resources)
            if used + cpu * 1000 > CPU * 1000:
                continue
            container = {"name": "main", "image": "work", "resources": {"requests": {"cpu": str(cpu)}}}
            annotations = {"sim.allhands.dev/run-seconds": str(self.chance.randint(5, 40))}
            spec = {"containers": [container], "schedulerName": "rival", "restartPolicy": "Never"}
            body = {"metadata": {"name": f"rival-{number}", "annotations": annotations}, "spec": spec}
            await self.objects.create(PODS, body, "default")
            await asyncio.sleep(self.chance.random() / 2)
            await self.objects.bind("default", f"rival-{number}", {"target": {"kind": "Node", "name": node}})

    async def submit(self, name: str, size: int) -> None:
        container = {"name": "main", "image": "work", "resources": {"requests": {"cpu": "1"}}}
        template = {
            "metadata": {"annotations": {"sim.allhands.dev/run-seconds": str(self.chance.randint(5, 30))}},
            "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]},
        }
        spec = {"parallelism": size, "completions": size, "backoffLimit": 1000, "template": template}
        body = {"metadata": {"name": name, "annotations": {"allhands.dev/min-available": "all"}}, "spec": spec}
        await self.objects.create(JOBS, body, "default")

    async def story(self) -> Contested:
        for number in range(NODES):
            await add_node(self.objects, node_manifest(f"node-{number}", NodeSize(str(CPU)), self.store.now()))
        await self.ready()
        beside = [asyncio.create_task(it) for it in (self.watch_laws(), self.look_again(), self.compete())]
        names = [f"gang-{number}" for number in range(12)]
        for name in names:
            await self.submit(name, self.chance.randint(1, 6))
            await asyncio.sleep(self.chance.random() * 10)
        give_up = self.seconds + 3600
        while not all([await self._is_complete(name) for name in names]):
            await asyncio.sleep(5)
            for task in beside:
                if task.done():
                    task.result()
            assert self.seconds < give_up, "not every gang has ended"
        for task in beside:
            task.cancel()
        return self

    async def _is_complete(self, name: str) -> bool:
        status = (await self.objects.get(JOBS, name, "default")).manifest().get("status") or {}
        return any(it["type"] == "Complete" and it["status"] == "True" for it in status.get("conditions", ()))


def contested(seed: int, flight: int, faults: Faults) -> Contested:
    loop = VirtualTimeLoop()

    async def main() -> Contested:
        cluster = Contested(loop, seed, flight, faults)
        return await cluster.run(cluster.story())

    return run_virtually(loop, main())


@pytest.mark.parametrize("flight", [1, 8])
def test_overlap_with_a_rival_is_at_most_the_binds_in_flight_and_is_seen_and_repaired(flight: int) -> None:
    overlaps = 0
    for seed in range(examples(16)):
        cluster = contested(seed, flight, SLOW)
        assert cluster.overlaps.most_under_way <= flight
        overlaps += cluster.overlaps.ours
    assert overlaps, "the rival came in between at least once"


def test_without_slow_binds_there_is_no_overlap_at_all() -> None:
    for seed in range(examples(3)):
        assert contested(seed, 8, NONE).overlaps.ours == 0


def test_a_history_with_a_rival_repeats() -> None:
    first, second = (contested(3, 8, SLOW) for _ in range(2))
    assert first.sent == second.sent
    assert first.overlaps.longest_seconds == second.overlaps.longest_seconds
