"""The kubelets of thousands of nodes in one object: one watch on pods, one on nodes, one queue of pods to look at.

Level-triggered: what a kubelet knows of its pod is compared with what the API shows, and the difference is reported; so
a lost reply, a conflict or a restart of the agent changes nothing in the end. Pods live by `stages`.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import math
from typing import TYPE_CHECKING, Final

from allhands.agents.addresses import Addresses
from allhands.agents.admission import Usage, refusal_of
from allhands.agents.agent import NODES, PODS, is_simulated
from allhands.agents.behaviour import AnnotationError, Behaviour, plan
from allhands.agents.heartbeat import HeartbeatPolicy, Heartbeats
from allhands.agents.pod_status import FINISHED, rejection, status_of
from allhands.agents.pod_writes import PodWrites
from allhands.agents.seen import NodeSeen, PodReader, PodSeen, container_before, node_seen
from allhands.agents.simulated_usage import running_usage
from allhands.agents.stages import PodRun, Stage
from allhands.agents.time_texts import TimeTexts
from allhands.agents.usage import NodeUsage, PodUsage, total
from allhands.ports import Query
from allhands.runtime.informer import Informer, key_of
from allhands.runtime.workqueue import WorkQueue, serve

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from allhands.agents.usage import InUse
    from allhands.ports import Clock, Objects

POD_NETWORK: Final = "10.0.0.0/9"
HOST_NETWORK: Final = "10.128.0.0/9"
SET_RIGHT_SECONDS: Final = 0.1
INVALID_ANNOTATION: Final = "InvalidSimulationAnnotation"
MEASURED_PER_TURN: Final = 1000
PODS_PER_TURN: Final = 32
"""After so many pods in a row others get their turn."""
_LOG = logging.getLogger(__name__)


class _Node:
    """A node that is played here."""

    __slots__ = ("host_ip", "seen", "usage")

    def __init__(self, seen: NodeSeen, host_ip: str) -> None:
        self.seen = seen
        self.usage = Usage()
        self.host_ip = host_ip


class _Fleet:
    """The nodes that are played here, and which of them are dead."""

    def __init__(self, dead: dict[str, None]) -> None:
        self.nodes: dict[str, _Node] = {}
        self.dead = dead

    def __len__(self) -> int:
        return len(self.nodes)

    def living(self, name: str) -> NodeSeen | None:
        node = None if name in self.dead else self.nodes.get(name)
        return None if node is None else node.seen


class SimulatedKubelets:
    """Plays the kubelet of every node that `owns` claims.

    `workers` is how many writes may be under way at a time: one where a write waits for nothing, more over a network.
    """

    def __init__(
        self,
        objects: Objects,
        clock: Clock,
        *,
        behaviour: Behaviour | None = None,
        seed: int = 0,
        owns: Callable[[str, Mapping[str, str]], bool] = is_simulated,
        heartbeats: HeartbeatPolicy | None = None,
        workers: int = 1,
        dead: dict[str, None] | None = None,
    ) -> None:
        """`dead`: nodes that are dead already, for those who outlive this object; it is kept up to date."""
        self._objects = objects
        self._clock = clock
        self._behaviour = behaviour or Behaviour()
        self._seed = seed
        self._owns = owns
        self._workers = workers
        self._texts = TimeTexts(clock)
        self._queue = WorkQueue()
        self._runs: dict[str, PodRun] = {}
        self._lost: dict[str, None] = {}
        """Pods on nodes that came back and that this agent has not seen running: what the API says of them is over."""
        self._fleet = _Fleet({} if dead is None else dead)
        self._addresses = Addresses(POD_NETWORK)
        self._hosts = Addresses(HOST_NETWORK)
        self._heartbeats = Heartbeats(objects, self._texts, self._fleet, heartbeats or HeartbeatPolicy())
        self._node_informer = Informer(objects, NODES, node_seen)
        self._pods = Informer(
            objects,
            PODS,
            PodReader(self._knows),
            query=Query(fields="spec.nodeName!="),
            indexes={"node": lambda pod: (pod.node_name,)},
        )
        self._writes = PodWrites(objects, self._pods.observe, self._pods.observe_gone)
        self._node_informer.on_change(self._node_changed)
        self._pods.on_change(self._pod_changed)

    # -- what others may ask

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._node_informer.run(), name="simulated kubelets: nodes")
            await self._node_informer.synced.wait()
            group.create_task(self._pods.run(), name="simulated kubelets: pods")
            group.create_task(self._heartbeats.run(), name="simulated kubelets: heartbeats")
            for number in range(self._workers):
                work = serve(self._queue, self._look, "pod", per_turn=PODS_PER_TURN)
                group.create_task(work, name=f"simulated kubelets: worker {number}")

    def kill(self, node: str) -> None:
        """The node stops, silently: nobody is told."""
        self._check(node)
        self._fleet.dead[node] = None

    def revive(self, node: str) -> None:
        """The node comes back, without what ran on it."""
        if node not in self._fleet.dead:
            self._check(node)
            return
        del self._fleet.dead[node]
        now, text = self._now()
        for key in self._pods.keys_by("node", node):
            run = self._runs.get(key)
            if run is not None:
                seen = self._pods.get(key)
                run.lose(now, text, deleting=seen is not None and seen.deleting)
                if run.is_over:
                    self._release(run)
            else:
                self._lost[key] = None
            self._queue.add(key)
        self._heartbeats.beat_now(node)

    @property
    def dead_nodes(self) -> tuple[str, ...]:
        return tuple(self._fleet.dead)

    @property
    def running_pods(self) -> int:
        """How many pods have running containers."""
        return sum(run.stage in (Stage.RUNNING, Stage.STOPPING) for run in self._runs.values())

    async def of_pods(self, keys: Sequence[str]) -> dict[str, PodUsage]:
        """What running pods are taken to use: what they request; see the port `Usages`."""
        found, now = {}, self._clock.now()
        for number, key in enumerate(keys, 1):
            used = self._used(key)
            if used:
                found[key] = PodUsage(used, now)
            if number % MEASURED_PER_TURN == 0:
                await asyncio.sleep(0)
        return found

    async def of_nodes(self, names: Sequence[str]) -> dict[str, NodeUsage]:
        """What the pods on each node use: nothing else is on them."""
        found, now, looked_at = {}, self._clock.now(), 0
        for name in names:
            if self._fleet.living(name) is None:
                continue
            keys = self._pods.keys_by("node", name)
            found[name] = NodeUsage(total(it for key in keys for it in self._used(key).values()), now)
            looked_at += 1 + len(keys)
            if looked_at >= MEASURED_PER_TURN:
                looked_at = 0
                await asyncio.sleep(0)
        return found

    def _used(self, key: str) -> Mapping[str, InUse]:
        run = self._runs.get(key)
        return {} if run is None or self._fleet.living(run.node_name) is None else running_usage(run)

    def _check(self, node: str) -> None:
        if node not in self._fleet.nodes:
            raise ValueError(f"there is no simulated node {node!r}; there are {len(self._fleet)} others")

    # -- what is heard

    def _now(self) -> tuple[float, str]:
        return asyncio.get_running_loop().time(), self._texts.now()

    def _knows(self, namespace: str, name: str, uid: str) -> bool:
        run = self._runs.get(key_of(namespace, name))
        return run is not None and run.uid == uid

    def _node_changed(self, key: str, old: NodeSeen | None, new: NodeSeen | None) -> None:
        node = self._fleet.nodes.get(key)
        if new is None or not self._owns(key, new.labels):
            if node is not None:
                del self._fleet.nodes[key]
                self._hosts.give_back(node.host_ip)
                for pod in self._pods.keys_by("node", key):
                    self._forget(pod)
            return
        if node is None:
            self._fleet.nodes[key] = _Node(new, new.address or self._hosts.take())
            for pod in self._pods.keys_by("node", key):
                self._queue.add(pod)
            self._heartbeats.beat_now(key)
            return
        node.seen = new
        if not new.is_ready and (old is None or old.is_ready):
            self._heartbeats.beat_now(key)

    def _pod_changed(self, key: str, _old: PodSeen | None, new: PodSeen | None) -> None:
        run = self._runs.get(key)
        if new is None:
            self._lost.pop(key, None)
            if run is not None:
                self._forget(key)
            return
        if run is not None and run.uid == new.uid:
            if key == self._writes.under_way:
                return
            if new.digest == run.shown and not new.deleting:
                return
            if not new.deleting and run.shown is not None and run.changes == run.written:
                # Somebody else has written its status. It is set right, but not in a race with whoever did.
                self._queue.add_after(key, SET_RIGHT_SECONDS)
                return
        elif run is None and (new.phase in FINISHED and not new.deleting):
            return
        self._queue.add(key)

    # -- what is done

    async def _look(self, key: str) -> None:
        """Brings one pod as far as it can come now, and the API up to date with it."""
        seen = self._pods.get(key)
        run = self._runs.get(key)
        if run is not None and (seen is None or seen.uid != run.uid):
            self._forget(key)
            run = None
        if seen is None:
            return
        node = self._fleet.nodes.get(seen.node_name)
        if node is None or seen.node_name in self._fleet.dead:
            return
        if run is None:
            if seen.phase in FINISHED:
                await self._writes.let_go(seen)
                return
            run = await self._take_in(key, seen, node)
            if run is None:
                return
        now, text = self._now()
        if seen.deleting:
            run.stop(now, text, seen.grace_seconds)
        run.advance(now, text)
        if run.is_over:
            self._release(run)
        if self._is_worth_telling(run, seen):
            await self._report(run, seen, node, text)
        self._settle(key, run)
        if run.is_over and seen.deleting:
            await self._writes.let_go(seen)

    def _is_worth_telling(self, run: PodRun, seen: PodSeen) -> bool:
        if run.stage <= Stage.STARTING and not self._behaviour.reports_creating and run.shown is None:
            return False
        return run.changes != run.written or seen.digest != run.shown

    def _settle(self, key: str, run: PodRun) -> None:
        """What is over and reported is forgotten; the rest is looked at again when its stage ends."""
        if self._runs.get(key) is not run:
            return
        if run.is_over and run.changes == run.written:
            del self._runs[key]
        elif run.wakes_at < math.inf:
            self._queue.add_after(key, max(0.0, self._noticed_at(run) - asyncio.get_running_loop().time()))

    def _noticed_at(self, run: PodRun) -> float:
        """When its node finds that its stage has ended."""
        step = self._behaviour.notice_seconds
        return math.ceil(run.wakes_at / step) * step if step and run.stage == Stage.RUNNING else run.wakes_at

    async def _take_in(self, key: str, seen: PodSeen, node: _Node) -> PodRun | None:
        """A pod that is new here: one to start, one that was running before the agent was, or one to refuse."""
        restarts_always = seen.spec.restart_policy == "Always"
        plan_of = functools.partial(
            plan, self._behaviour, self._seed, seen.uid, annotations=seen.annotations, restarts_always=restarts_always
        )
        try:
            run = PodRun(key, seen.uid, seen.node_name, seen.spec, plan_of)
        except AnnotationError as error:
            await self._refuse(seen, INVALID_ANNOTATION, str(error))
            return None
        if not seen.start_time and not seen.deleting:
            refusal = refusal_of(node.seen, node.usage, seen.spec)
            if refusal is not None:
                await self._refuse(seen, refusal.reason, refusal.message)
                return None
        run.start_time, run.pod_ip = seen.start_time, seen.pod_ip
        if run.pod_ip:
            self._addresses.adopt(run.pod_ip)
        else:
            run.pod_ip = self._addresses.take()
        self._runs[key] = run
        node.usage.take(seen.spec)
        now, text = self._now()
        run.set_deadline(now, self._texts.seconds_since(seen.start_time))
        before = container_before(seen.containers)
        if before is not None:
            run.remember(before.restarts, before.last)
        if before is not None and before.backs_off:
            ended_at = before.last.finished_at if before.last is not None else ""
            run.wait_on(now, self._texts.seconds_since(ended_at))
        elif before is None or before.started_at is None:
            run.begin(now, text)
        else:
            run.go_on(now, self._clock.now().timestamp() - before.started_at.timestamp(), before.started_text)
        if self._lost.pop(key, "") is None:
            run.lose(now, text, deleting=seen.deleting)
        return run

    def _release(self, run: PodRun) -> None:
        """Gives back what a pod held, once."""
        if run.pod_ip and not run.released:
            run.released = True
            self._addresses.give_back(run.pod_ip)
            node = self._fleet.nodes.get(run.node_name)
            if node is not None:
                node.usage.give_back(run.spec)

    def _forget(self, key: str) -> None:
        run = self._runs.pop(key, None)
        if run is not None:
            self._release(run)

    # -- what is written

    async def _report(self, run: PodRun, seen: PodSeen, node: _Node, text: str) -> None:
        changes = run.changes
        status = status_of(run.report(node.host_ip, seen.generation), seen.conditions_before(), text)
        version = await self._writes.report(seen, status)
        if version is None or self._runs.get(run.key) is not run:
            return
        run.written = changes
        shown = self._pods.get(run.key)
        run.shown = shown.digest if shown is not None and shown.version == version else None

    async def _refuse(self, seen: PodSeen, reason: str, message: str) -> None:
        status = rejection(reason, message, seen.conditions_before(), self._texts.now())
        await self._writes.report(seen, status)
