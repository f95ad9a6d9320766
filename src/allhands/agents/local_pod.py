"""One pod as local processes: volumes, init containers in their order, sidecars, then all containers together.

It goes on by itself until its containers are over for good or it is told to stop, and tells by `changed` that there is
something to report. Cancelling it kills what runs; it never leaves a process behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from typing import TYPE_CHECKING, Final, Literal

from allhands.agents.before import CRASH_LOOP, back_off_seconds, before_by_name
from allhands.agents.local_container import LocalContainer
from allhands.agents.pod_status import (
    CREATING,
    FAILED,
    INITIALIZING,
    SUCCEEDED,
    PodReport,
    Running,
    Terminated,
    Waiting,
    never_seen_again,
)
from allhands.agents.references import ReferenceProblem
from allhands.agents.stages import DEADLINE_MESSAGE, QUIET_SECONDS
from allhands.agents.volumes import PodFolder

if TYPE_CHECKING:
    from collections.abc import Callable

    from allhands.agents.peers import Place
    from allhands.agents.references import References
    from allhands.agents.time_texts import TimeTexts
    from allhands.agents.workplace import MemoryWatch, Workplace
    from allhands.api.document import Manifest

EventType = Literal["Normal", "Warning"]
HOST_IP: Final = "127.0.0.1"
DEFAULT_GRACE_SECONDS: Final = 30


class LocalPod:
    def __init__(
        self,
        pod: Manifest,
        place: Place,
        workplace: Workplace,
        references: References,
        texts: TimeTexts,
        memory: MemoryWatch,
        changed: Callable[[], None],
        said: Callable[[EventType, str, str], None],
    ) -> None:
        """`changed`: there is something new to report. `said`: type, reason and message of an event for the user."""
        pod = {**pod, "status": {**pod.get("status", {}), "podIP": place.address, "hostIP": HOST_IP}}
        spec = pod["spec"]
        self.uid: str = pod["metadata"]["uid"]
        self.changes = 1
        self.written = 0
        self.shown: int | None = None
        self.finished = False
        self.start_time = pod["status"].get("startTime") or texts.now()
        self._pod = pod
        self._place = place
        self._workplace = workplace
        self._references = references
        self._texts = texts
        self._memory = memory
        self._changed = changed
        self._said = said
        self._folder = PodFolder(
            workplace.folder / "pods" / self.uid, workplace.host_paths, place.names, workplace.volume_folders
        )
        self._inits = [self._container(it, is_init=True) for it in spec.get("initContainers") or ()]
        self._mains = [self._container(it, is_init=False) for it in spec["containers"]]
        self._policy = spec.get("restartPolicy", "Always")
        self._grace = spec.get("terminationGracePeriodSeconds")
        self._deadline = spec.get("activeDeadlineSeconds")
        self._inherited = self._environment()
        self._stopping = asyncio.Event()
        self._mains_over = asyncio.Event()
        self._killers: list[asyncio.TimerHandle] = []
        self._killed_at = math.inf
        self._phase = ""
        self._reason = ""
        self._message = ""

    def _container(self, spec: Manifest, *, is_init: bool) -> LocalContainer:
        return LocalContainer(spec, self._pod, self._folder, is_init=is_init, log_bytes=self._workplace.log_bytes)

    def _environment(self) -> dict[str, str]:
        metadata, spec = self._pod["metadata"], self._pod["spec"]
        told = {
            "HOSTNAME": spec.get("hostname") or metadata["name"],
            "ALLHANDS_POD_UID": self.uid,
            "ALLHANDS_POD_IP": self._place.address,
        }
        if self._place.hosts:
            told["ALLHANDS_WORKER_HOSTS"] = ",".join(self._place.hosts)
        return self._workplace.inherited() | told

    # -- what others may ask

    @property
    def containers(self) -> list[LocalContainer]:
        return [*self._inits, *self._mains]

    def take_over(self) -> list[str]:
        """Goes on from what the API knows of containers that ran under an earlier agent. Returns the names of those
        that were lost with it. A pod that restarts nothing and of which a container had begun is over."""
        status, now = self._pod["status"], self._texts.now()
        before = before_by_name(status.get("initContainerStatuses")) | before_by_name(status.get("containerStatuses"))
        known = [it for it in self.containers if it.name in before]
        lost = [it for it in known if it.take_over(before[it.name], now)]
        if self._policy == "Never" and any(isinstance(it.state, Terminated) for it in self._mains):
            self._conclude()
            return [it.name for it in lost]
        for container in lost:
            container.begin_again(CREATING)
        for container in self._mains:
            if isinstance(container.state, Terminated) and self._restarts(container, container.state):
                container.last, container.state = container.state, Waiting(CRASH_LOOP)
        return [it.name for it in lost]

    def container(self, name: str) -> LocalContainer | None:
        """By name; without one, the first that is no init container."""
        if not name:
            return self._mains[0]
        return next((it for it in self.containers if it.name == name), None)

    def fail(self, message: str) -> None:
        """The agent itself could not go on with it."""
        self._reason = self._reason or "AgentError"
        self._message = message
        self._conclude()

    def report(self, generation: int) -> PodReport:
        return PodReport(
            [it.report() for it in self._mains],
            [it.report() for it in self._inits],
            self._policy,
            self._phase,
            self._reason,
            self._message,
            self.start_time,
            HOST_IP,
            self._place.address,
            generation,
        )

    def stop(self, grace_seconds: float) -> None:
        """SIGTERM to all containers, SIGKILL after the grace period. A second call can only shorten it."""
        if self.finished:
            return
        first = not self._stopping.is_set()
        self._stopping.set()
        self._kill_after(grace_seconds)
        if first:
            self._said("Normal", "Killing", f"stopping all containers, with {grace_seconds:g} s to end by themselves")
            for container in [*self._mains, *(it for it in self._inits if it.is_init)]:
                if container.child is not None:
                    container.child.terminate()

    def _kill_after(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._killed_at = min(self._killed_at, loop.time() + seconds)
        self._killers.append(loop.call_later(seconds, self._kill))

    def _kill(self) -> None:
        for container in self.containers:
            if container.child is not None:
                container.child.kill_now()

    def remove(self) -> None:
        """Removes its files, the logs too."""
        self._folder.remove()

    # -- its life

    async def run(self) -> None:
        deadline = None
        if self._deadline is not None:
            left = max(0.0, self._deadline - self._texts.seconds_since(self.start_time))
            deadline = asyncio.get_running_loop().call_later(left, self._exceed)
        sidecars: list[asyncio.Task[None]] = []
        try:
            if await self._prepare() and await self._initialise(sidecars):
                await asyncio.gather(*(self._supervise(it) for it in self._mains))
            self._mains_over.set()
            self._end_sidecars()
            await asyncio.gather(*sidecars)
            self._conclude()
        finally:
            if deadline is not None:
                deadline.cancel()
            for task in sidecars:
                task.cancel()
            await asyncio.shield(self._clear_away(sidecars))

    async def _clear_away(self, sidecars: list[asyncio.Task[None]]) -> None:
        for container in self.containers:
            if container.child is not None:
                await container.child.kill()
        await asyncio.gather(*sidecars, return_exceptions=True)
        for timer in self._killers:
            timer.cancel()

    def _exceed(self) -> None:
        self._reason, self._message = "DeadlineExceeded", DEADLINE_MESSAGE
        self.stop(DEFAULT_GRACE_SECONDS if self._grace is None else self._grace)

    async def _prepare(self) -> bool:
        """Makes the volumes, as soon as what they need is there; False if the pod was stopped before."""
        while not self._stopping.is_set():
            try:
                await self._folder.prepare(self._pod, self._references)
            except (ReferenceProblem, OSError) as problem:
                self._await_their_turn(
                    self._mains, Waiting("ContainerCreating", f"the volumes are not ready: {problem}")
                )
                self._said("Warning", "FailedMount", str(problem))
                self._tell()
                await self._pause(self._workplace.retry_seconds)
            else:
                self._await_their_turn(self.containers, INITIALIZING if self._inits else CREATING)
                return True
        return False

    def _await_their_turn(self, containers: list[LocalContainer], waiting: Waiting) -> None:
        """All but those that wait already after a failure, and those that are over for good: init containers run again
        under a new agent, others do not."""
        for container in containers:
            is_over = isinstance(container.state, Terminated) and container in self._mains
            if not is_over and not container.is_backing_off:
                container.state = waiting

    async def _initialise(self, sidecars: list[asyncio.Task[None]]) -> bool:
        """Init containers, one after the other; False if one failed for good or the pod was stopped."""
        for container in self._inits:
            if self._stopping.is_set():
                return False
            if container.sidecar:
                begun = asyncio.Event()
                sidecars.append(asyncio.create_task(self._supervise(container, begun)))
                await begun.wait()
            else:
                await self._supervise(container)
                if not isinstance(container.state, Terminated) or container.state.exit_code:
                    return False
        return not self._stopping.is_set()

    async def _supervise(self, container: LocalContainer, begun: asyncio.Event | None = None) -> None:
        """Runs a container until it is over for good, which it may have been before this agent was there."""
        if isinstance(container.state, Terminated):
            return
        pause = self._back_off_of(container)
        if container.is_backing_off:
            waited = self._texts.seconds_since(container.last.finished_at) if container.last is not None else 0.0
            pause = await self._back_off(container, pause, waited)
        loop = asyncio.get_running_loop()
        while not self._is_ending(container):
            since = loop.time()
            ended = await self._run_when_ready(container, begun)
            if ended is None:
                break
            if ended.reason == "StartError":
                self._said("Warning", "Failed", f"container {container.name}: {ended.message}")
            if self._is_ending(container) or not self._restarts(container, ended):
                container.state = ended
                self._tell()
                break
            if loop.time() - since >= QUIET_SECONDS:
                pause = 0.0
            container.last = ended
            pause = await self._back_off(container, pause)
        if begun is not None:
            begun.set()

    def _back_off_of(self, container: LocalContainer) -> float:
        """How long it waits if it fails next, by its restarts until now."""
        last = container.last
        if last is not None and last.started_at:
            ran = self._texts.seconds_since(last.started_at) - self._texts.seconds_since(last.finished_at)
            if ran >= QUIET_SECONDS:
                return 0.0
        place = self._workplace
        return back_off_seconds(container.restarts, place.first_back_off_seconds, place.most_back_off_seconds)

    async def _back_off(self, container: LocalContainer, pause: float, waited: float = 0.0) -> float:
        """Waits until it may be restarted, of which so much has passed; returns how long it waits the next time."""
        if pause > waited:
            told = f"back-off {pause:g}s restarting failed container {container.name}"
            container.state = Waiting(CRASH_LOOP, told)
            self._said("Warning", "BackOff", told)
            self._tell()
            await self._pause(pause - waited)
        if not self._is_ending(container):
            container.restarts += 1
        return min(self._workplace.most_back_off_seconds, pause * 2 or self._workplace.first_back_off_seconds)

    async def _run_when_ready(self, container: LocalContainer, begun: asyncio.Event | None) -> Terminated | None:
        """One run, as soon as what it needs is there; None if the pod was stopped before."""

        def changed() -> None:
            if begun is not None:
                begun.set()
            self._said("Normal", "Started", f"started container {container.name}")
            if self._stopping.is_set() and container.child is not None:
                # It was being started when the pod was stopped.
                late = asyncio.get_running_loop().time() >= self._killed_at
                (container.child.kill_now if late else container.child.terminate)()
            self._tell()

        while not self._is_ending(container):
            try:
                return await container.run_once(self._inherited, self._references, self._texts, self._memory, changed)
            except (ReferenceProblem, OSError) as problem:
                container.state = Waiting("CreateContainerConfigError", str(problem))
                self._said("Warning", "Failed", f"container {container.name}: {problem}")
                self._tell()
                await self._pause(self._workplace.retry_seconds)
        return None

    def _is_ending(self, container: LocalContainer) -> bool:
        return self._stopping.is_set() or (container.sidecar and self._mains_over.is_set())

    def _restarts(self, container: LocalContainer, ended: Terminated) -> bool:
        if container.sidecar:
            return True
        if container.is_init:
            return ended.exit_code != 0 and self._policy != "Never"
        return self._policy == "Always" or (self._policy == "OnFailure" and ended.exit_code != 0)

    def _end_sidecars(self) -> None:
        """Their work is done when that of the others is."""
        running = [it.child for it in self._inits if it.sidecar and it.child is not None]
        for child in running:
            child.terminate()
        if running:
            grace = DEFAULT_GRACE_SECONDS if self._grace is None else self._grace
            self._kill_after(grace)

    async def _pause(self, seconds: float) -> None:
        """Until then, or until the pod is stopped."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()

    def _conclude(self) -> None:
        """Nothing runs any more: how it ended."""
        now = self._texts.now()
        for container in self._mains:
            if not isinstance(container.state, Terminated):
                started = container.state.started_at if isinstance(container.state, Running) else None
                container.state = container.last or never_seen_again(started, now)
        succeeded = all(isinstance(it.state, Terminated) and it.state.exit_code == 0 for it in self._mains)
        self._phase = SUCCEEDED if succeeded and not self._reason else FAILED
        self.finished = True
        self._tell()

    def _tell(self) -> None:
        self.changes += 1
        self._changed()
