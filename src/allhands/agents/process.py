"""The kubelet of one node whose containers are local processes: real work on one machine, with no container runtime.

It is for one's own machine and one's own jobs: processes run as the user that runs the agent, and are not isolated from
each other. Images are ignored; what a `mountPath` means is said in `volumes`, how workers find each other in `peers`.
"""

from __future__ import annotations

import asyncio
import datetime
import functools
import logging
import shutil
from typing import TYPE_CHECKING, Final

import msgspec

from allhands.agents.admission import Usage, refusal_of
from allhands.agents.agent import NODES, PODS
from allhands.agents.heartbeat import HeartbeatPolicy, Heartbeats
from allhands.agents.local_pod import EventType, LocalPod
from allhands.agents.logs import EVERYTHING_WRITTEN, LogOptions, check_options
from allhands.agents.loopback import claimed_range
from allhands.agents.meter import MACHINE, Meter
from allhands.agents.peers import Peers
from allhands.agents.pod_status import FINISHED, RAN_WITH_THE_AGENT, Waiting, rejection, status_of
from allhands.agents.pod_writes import PodWrites
from allhands.agents.processes import kill_marked
from allhands.agents.references import References
from allhands.agents.seen import NodeSeen, PodReader, PodSeen, node_seen
from allhands.agents.time_texts import TimeTexts
from allhands.agents.usage import NodeUsage, PodUsage, total
from allhands.agents.workplace import MemoryWatch, Workplace
from allhands.api.errors import StatusError, bad_request, no_such_object
from allhands.lifecycle.instructions import Record
from allhands.ports import Query
from allhands.runtime.backoff import Backoff
from allhands.runtime.informer import Informer, key_of
from allhands.runtime.workqueue import WorkQueue, serve

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from allhands.agents.child import Child
    from allhands.agents.local_container import LocalContainer
    from allhands.agents.local_node import LocalNode
    from allhands.agents.log_files import LogFile
    from allhands.ports import Clock, Objects
    from allhands.runtime.recorder import Recorder

_LOG: Final = logging.getLogger(__name__)


class _Pod(msgspec.Struct, frozen=True):
    """A pod of this node: what the agent acts on, and the whole of it."""

    seen: PodSeen
    raw: bytes


class _Run:
    """A pod that was taken in. Kept until the pod is gone from the API, for its logs."""

    __slots__ = ("local", "requests_held", "seen", "task")

    def __init__(self, seen: PodSeen, local: LocalPod) -> None:
        self.seen = seen
        self.local = local
        self.task: asyncio.Task[None] | None = None
        self.requests_held = True


class ProcessAgent:
    """Registers its node and runs the pods that are bound to it, until cancelled."""

    def __init__(
        self,
        objects: Objects,
        clock: Clock,
        node: LocalNode,
        workplace: Workplace,
        *,
        heartbeats: HeartbeatPolicy | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        """`recorder` tells users by events what happens to their containers; whoever passes it runs it."""
        self._objects = objects
        self._clock = clock
        self._node = node
        self._workplace = workplace
        self._recorder = recorder
        self._texts = TimeTexts(clock)
        self._references = References(objects, node.resources())
        self._peers = Peers(objects)
        self._memory = MemoryWatch()
        self._meter = Meter()
        self._queue = WorkQueue()
        self._runs: dict[str, _Run] = {}
        self._ending: dict[str, asyncio.Task[None]] = {}
        self._usage = Usage()
        self._unknown = asyncio.Event()
        """Set when the node's object is gone."""
        self._read = PodReader(lambda *_: False)
        self._pods = Informer(objects, PODS, self._decode, query=Query(fields=f"spec.nodeName={node.name}"))
        self._nodes = Informer(objects, NODES, node_seen, query=Query(fields=f"metadata.name={node.name}"))
        self._writes = PodWrites(objects, self._pods.observe, self._pods.observe_gone)
        self._heartbeats = Heartbeats(objects, self._texts, self, heartbeats or HeartbeatPolicy())
        self._pods.on_change(self._pod_changed)
        self._nodes.on_change(self._node_changed)

    # -- what others may ask

    @property
    def node_name(self) -> str:
        return self._node.name

    def __len__(self) -> int:
        return 1

    def living(self, name: str) -> NodeSeen | None:
        return self._nodes.get(name)

    async def run(self) -> None:
        with claimed_range(f"{self._workplace.folder.resolve()}") as network:
            self._peers = Peers(self._objects, network)
            await self._run()

    async def _run(self) -> None:
        await self._begin()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._nodes.run(), name=f"{self.node_name}: node")
                await self._nodes.synced.wait()
                group.create_task(self._pods.run(), name=f"{self.node_name}: pods")
                group.create_task(self._heartbeats.run(), name=f"{self.node_name}: heartbeats")
                group.create_task(self._memory.run(), name=f"{self.node_name}: memory")
                group.create_task(serve(self._queue, self._look, "pod"), name=f"{self.node_name}: worker")
                group.create_task(self._stay_registered(), name=f"{self.node_name}: registration")
        finally:
            await self._shut_down()

    async def logs(self, namespace: str, pod: str, options: LogOptions = EVERYTHING_WRITTEN) -> AsyncIterator[bytes]:
        """What a container has written; see the port `Logs`."""
        check_options(options)
        run = self._runs.get(key_of(namespace, pod))
        if run is None:
            if key_of(namespace, pod) in self._pods:
                raise bad_request(f"the logs of pod {pod} are not on node {self.node_name} any more")
            raise no_such_object("", "pods", pod)
        container = run.local.container(options.container)
        if container is None:
            raise bad_request(f"container {options.container} is not valid for pod {pod}")
        log = _log_of(container, pod, previous=options.previous)
        return log.read(options, self._since(options))

    def _since(self, options: LogOptions) -> str:
        if options.since_seconds is not None:
            moment = self._clock.now() - datetime.timedelta(seconds=min(options.since_seconds, 1e9))
        elif options.since_time:
            try:
                moment = datetime.datetime.fromisoformat(options.since_time)
            except ValueError:
                raise bad_request(f"sinceTime: {options.since_time!r} is not a time as 2026-01-31T12:00:00Z") from None
        else:
            return ""
        return moment.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z")

    async def of_pods(self, keys: Sequence[str]) -> dict[str, PodUsage]:
        """What running pods use; see the port `Usages`."""
        asked = {key: found for key in keys if (found := self._children(key))}
        if not asked:
            return {}
        rates = await self._meter.rates([child for found in asked.values() for child in found.values()])
        now, measured = self._clock.now(), {}
        for key, found in asked.items():
            known = {name: rates[child.id] for name, child in found.items() if child.id in rates}
            if known:
                window = max(it.window_seconds for it in known.values())
                measured[key] = PodUsage({name: it.usage for name, it in known.items()}, now, window)
        return measured

    async def of_nodes(self, names: Sequence[str]) -> dict[str, NodeUsage]:
        """What this machine uses, with all that is on it besides pods: a kubelet says the same of its node."""
        if self.node_name not in names:
            return {}
        children = [child for key in self._runs for child in self._children(key).values()]
        rates = await self._meter.rates(children, machine=True)
        if not rates:
            return {}
        machine = rates.pop(MACHINE, None)
        pods = total(it.usage for it in rates.values())
        # Where the system tells little of the machine, what its pods use is known at least.
        usage = pods if machine is None else machine.usage.at_least(pods)
        window = max(it.window_seconds for it in ([machine] if machine is not None else rates.values()))
        return {self.node_name: NodeUsage(usage, self._clock.now(), window)}

    def _children(self, key: str) -> dict[str, Child]:
        """The running containers of a pod, by name."""
        run = self._runs.get(key)
        return {} if run is None else {it.name: it.child for it in run.local.containers if it.child is not None}

    # -- beginning and end

    async def _begin(self) -> None:
        """Ends what an agent before this one could not, and tells the cluster that the node is there."""
        folder = self._workplace.folder.resolve()
        kill_marked(f"ALLHANDS_POD_ROOT={folder}/")
        kill_marked(f"ALLHANDS_POD_ROOT={self._workplace.folder}/")
        shutil.rmtree(folder / "pods", ignore_errors=True)
        (folder / "pods").mkdir(parents=True)
        await self._register()

    async def _stay_registered(self) -> None:
        """A node that somebody deletes while its agent is alive comes back."""
        while True:
            await self._unknown.wait()
            self._unknown.clear()
            await self._register()

    async def _register(self) -> None:
        backoff = Backoff()
        while True:
            try:
                await self._node.register(self._objects, self._texts.now())
            except StatusError as refusal:
                _LOG.warning("node %s cannot be registered: %s", self.node_name, refusal.message)
                await asyncio.sleep(backoff.next_seconds())
            else:
                return

    async def _shut_down(self) -> None:
        """Ends all processes: politely, briefly, then for sure."""
        tasks = [run.task for run in self._runs.values() if run.task is not None] + list(self._ending.values())
        for run in self._runs.values():
            run.local.stop(self._workplace.shutdown_grace_seconds)
        try:
            if tasks:
                await asyncio.wait(tasks, timeout=self._workplace.shutdown_grace_seconds + 1)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    # -- what is heard

    def _decode(self, raw: bytes) -> _Pod:
        return _Pod(self._read(raw), raw)

    def _node_changed(self, key: str, old: NodeSeen | None, new: NodeSeen | None) -> None:
        if new is None:
            self._unknown.set()
        elif old is None or (old.is_ready and not new.is_ready):
            self._heartbeats.beat_now(key)

    def _pod_changed(self, key: str, _old: _Pod | None, new: _Pod | None) -> None:
        run = self._runs.get(key)
        known = new is not None and run is not None and run.local.uid == new.seen.uid
        if known and key == self._writes.under_way:
            return
        self._queue.add(key)

    # -- what is done

    async def _look(self, key: str) -> None:
        pod = self._pods.get(key)
        run = self._runs.get(key)
        if run is not None and (pod is None or pod.seen.uid != run.local.uid):
            self._forget(key, run)
            run = None
        if pod is None:
            return
        seen = pod.seen
        if run is None:
            if seen.phase in FINISHED:
                await self._writes.let_go(seen)
                return
            run = await self._take_in(key, pod)
            if run is None:
                return
        local = run.local
        if seen.deleting:
            local.stop(seen.grace_seconds)
        if local.finished:
            self._release(run)
        if local.changes != local.written or seen.digest != local.shown:
            await self._report(key, local, seen)
        if local.finished and seen.deleting:
            await self._writes.let_go(seen)

    async def _take_in(self, key: str, pod: _Pod) -> _Run | None:
        seen, node = pod.seen, self._nodes.get(self.node_name)
        if node is None:
            raise StatusError(503, "ServiceUnavailable", f"node {self.node_name} is not known yet")
        if not seen.deleting:
            refusal = refusal_of(node, self._usage, seen.spec)
            if refusal is not None:
                self._say(seen, "Warning", refusal.reason, refusal.message)
                status = rejection(refusal.reason, refusal.message, seen.conditions_before(), self._texts.now())
                await self._writes.report(seen, status)
                return None
        manifest = msgspec.json.decode(pod.raw)
        place = await self._peers.place(manifest)
        local = LocalPod(
            manifest,
            place,
            self._workplace,
            self._references,
            self._texts,
            self._memory,
            lambda: self._queue.add(key),
            functools.partial(self._say, seen),
        )
        run = self._runs[key] = _Run(seen, local)
        self._usage.take(seen.spec)
        lost = local.take_over()
        if lost:
            what = "the pod has failed" if local.finished else "it is started again"
            who = f"container {lost[0]}" if len(lost) == 1 else f"each of the containers {', '.join(lost)}"
            self._say(seen, "Warning", "ContainerStatusUnknown", f"{who} {RAN_WITH_THE_AGENT}: {what}")
        if local.finished:
            return run
        run.task = asyncio.create_task(self._live(key, local), name=f"{self.node_name}: {key}")
        return run

    async def _live(self, key: str, local: LocalPod) -> None:
        try:
            await local.run()
        except Exception as error:
            _LOG.exception("pod %s: its processes could not be kept", key)
            local.fail(f"the node agent failed: {error}")

    def _say(self, seen: PodSeen, kind: EventType, reason: str, message: str) -> None:
        if self._recorder is not None:
            about = {"apiVersion": "v1", "kind": "Pod", "namespace": seen.namespace, "name": seen.name, "uid": seen.uid}
            self._recorder.record(Record(about, kind, reason, message))

    def _release(self, run: _Run) -> None:
        if run.requests_held:
            run.requests_held = False
            self._usage.give_back(run.seen.spec)

    def _forget(self, key: str, run: _Run) -> None:
        """The pod is not there any more: its processes end, its files and its address are free."""
        del self._runs[key]
        run.local.stop(0)
        if run.task is None or run.task.done():
            self._clear_away(run)
        else:
            self._ending[run.local.uid] = run.task
            run.task.add_done_callback(lambda _: self._clear_away(run))

    def _clear_away(self, run: _Run) -> None:
        self._ending.pop(run.local.uid, None)
        self._release(run)
        self._peers.leave(run.local.uid)
        run.local.remove()

    async def _report(self, key: str, local: LocalPod, seen: PodSeen) -> None:
        changes = local.changes
        status = status_of(local.report(seen.generation), seen.conditions_before(), self._texts.now())
        version = await self._writes.report(seen, status)
        if version is None:
            return
        local.written = changes
        shown = self._pods.get(key)
        local.shown = shown.seen.digest if shown is not None and shown.seen.version == version else None


def _log_of(container: LocalContainer, pod: str, *, previous: bool) -> LogFile:
    logs = container.logs
    if previous:
        if len(logs) < 2 and container.ran_before:
            raise _log_is_gone(container, pod)
        if len(logs) < 2:
            raise bad_request(f'previous terminated container "{container.name}" in pod "{pod}" not found')
        return logs[-2]
    if not logs and container.ran_before:
        raise _log_is_gone(container, pod)
    if not logs:
        why = container.state.reason if isinstance(container.state, Waiting) else "ContainerCreating"
        raise bad_request(f'container "{container.name}" in pod "{pod}" is waiting to start: {why}')
    return logs[-1]


def _log_is_gone(container: LocalContainer, pod: str) -> StatusError:
    now = f"; it is waiting to start: {container.state.reason}" if isinstance(container.state, Waiting) else ""
    ran = f'container "{container.name}" in pod "{pod}" ran before allhands was started anew'
    return bad_request(f"{ran}: its log ended with the process that was stopped or killed{now}")
