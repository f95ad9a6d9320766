"""A small world for controllers: the real store, a clock that moves when nothing else does, a kubelet, and crashes.

`settle` runs controllers until nothing is left to do. A plan of crashes kills all of them after some write, before or
after it took effect, and starts new ones that know nothing but what the store says.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import math
from typing import TYPE_CHECKING, Any

import msgspec

from allhands.api.errors import StatusError
from allhands.api.kinds import Resource
from allhands.lifecycle.instructions import Record
from allhands.runtime.performer import Performer
from allhands.runtime.workqueue import WorkQueue
from allhands.store import InProcessObjects, Store
from tests import pod_life
from tests.doubles import CountingIds, ManualClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence

    from allhands.api.document import Manifest

PODS = Resource("", "v1", "pods")
NODES = Resource("", "v1", "nodes")
JOBS = Resource("batch", "v1", "jobs")
_WRITES = frozenset({"create", "update", "patch", "delete", "bind", "evict"})
_CHANGING = frozenset(
    {
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "deletionTimestamp",
        "lastTransitionTime",
        "lastUpdateTime",
        "timeAdded",
        "createTime",
        "startTimestamp",
        "endTimestamp",
        "runningHistories",
    }
)
_TURNS = 12
"""So many turns of the event loop after which every watch has told what it knows."""


class Crash(BaseException):
    """The process ends here. Not an Exception: nobody may survive it."""


class CrashPlan:
    """After how many writes the next crash comes, and whether that write still takes effect."""

    def __init__(self, points: Iterable[tuple[int, bool]] = ()) -> None:
        self._points = list(points)
        self.writes = 0
        self._left = self._points[0][0] if self._points else -1

    def before_write(self) -> bool:
        """Whether to crash after this write; raises to crash before it."""
        self.writes += 1
        if not self._points:
            return False
        if self._left > 0:
            self._left -= 1
            return False
        _, takes_effect = self._points.pop(0)
        self._left = self._points[0][0] if self._points else -1
        if not takes_effect:
            raise Crash
        return True


class CrashingObjects:
    """The port, with the crashes of a plan."""

    def __init__(self, objects: InProcessObjects, plan: CrashPlan) -> None:
        self._objects = objects
        self._plan = plan

    def __getattr__(self, verb: str) -> Any:
        real = getattr(self._objects, verb)
        if verb not in _WRITES:
            return real

        async def write(*arguments: Any, **options: Any) -> Any:
            crash = self._plan.before_write()
            answer = await real(*arguments, **options)
            if crash:
                raise Crash
            return answer

        return write


class Telling:
    """Takes the place of the recorder of events."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def record(self, record: Record) -> None:
        self.records.append(record)


class World:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = Store(self.clock, CountingIds(), keeps_quotas=True)
        self.objects = InProcessObjects(self.store)
        self.telling = Telling()
        self.broken: Callable[[Manifest], bool] = lambda _pod: False
        """Which pods never become ready."""
        self.watchers: list[Callable[[World], None]] = []
        """Asked after every step; they raise if a law is broken."""
        self.nature: list[Callable[[World], Awaitable[bool]]] = []
        """What happens by itself at every step; each says whether anything did."""
        self.longest_jump_seconds = math.inf
        self.writes = 0
        self.steps = 0

    # -- reading and writing as a user does

    def all(self, resource: Resource) -> list[Manifest]:
        collection = self.store.collection(self.store.kind(resource))
        return [record.manifest() for record in sorted(collection, key=lambda it: it.key)]

    async def create(self, resource: Resource, manifest: Manifest, namespace: str = "default") -> Manifest:
        return (await self.objects.create(resource, manifest, namespace)).manifest()

    async def patch(
        self, resource: Resource, name: str, patch: Manifest, namespace: str = "default", subresource: str = ""
    ) -> Manifest:
        return (await self.objects.patch(resource, name, "merge", patch, namespace, subresource=subresource)).manifest()

    async def get(self, resource: Resource, name: str, namespace: str = "default") -> Manifest:
        return (await self.objects.get(resource, name, namespace)).manifest()

    def seconds(self) -> float:
        return self.clock.now().timestamp()

    # -- running

    async def settle(
        self,
        make: Callable[[Any], Sequence[Any]],
        crashes: Iterable[tuple[int, bool]] = (),
        *,
        horizon_seconds: float = 0.0,
        kubelet: bool = True,
        most_steps: int = 2_000,
    ) -> None:
        """Runs the controllers that `make` gives until all is quiet, looking ahead at most so many seconds."""
        plan = CrashPlan(crashes)
        end = self.seconds() + horizon_seconds
        while True:
            try:
                async with self._running(make, plan) as shells:
                    await self._run(shells, end, kubelet=kubelet, most_steps=most_steps)
                    break
            except Crash:
                continue
        self.writes += plan.writes

    @contextlib.asynccontextmanager
    async def _running(self, make: Callable[[Any], Sequence[Any]], plan: CrashPlan) -> AsyncIterator[list[Shell]]:
        objects = CrashingObjects(self.objects, plan)
        shells = [Shell(it, Performer(objects, self.telling), self) for it in make(objects)]  # type: ignore[arg-type]
        tasks = [asyncio.ensure_future(informer.run()) for shell in shells for informer in shell.controller.informers]
        try:
            for shell in shells:
                for informer in shell.controller.informers:
                    await informer.synced.wait()
            yield shells
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, shells: list[Shell], end_seconds: float, *, kubelet: bool, most_steps: int) -> None:
        for _ in range(most_steps):
            self.store.housekeeper.run_pending()
            for _ in range(_TURNS):
                await asyncio.sleep(0)
            busy = False
            for shell in shells:
                busy = await shell.work() or busy
            busy = (kubelet and await pod_life.step(self.objects, self.store.now(), is_broken=self.broken)) or busy
            for happening in self.nature:
                busy = await happening(self) or busy
            self.steps += 1
            for watcher in self.watchers:
                watcher(self)
            if busy:
                continue
            wakes = [shell.next_wake for shell in shells if shell.next_wake is not None]
            now = self.seconds()
            target = min([*wakes, end_seconds, now + self.longest_jump_seconds])
            if target >= end_seconds and now >= end_seconds:
                return
            self.clock.advance(max(0.001, target - now))
            for shell in shells:
                shell.wake(self.seconds())
        raise AssertionError("the controllers do not come to rest")


class Shell:
    """One controller with its queue, worked by hand."""

    def __init__(self, controller: Any, performer: Performer, world: World) -> None:
        self.controller = controller
        self._performer = performer
        self._world = world
        self._queue = WorkQueue()
        self._wakes: dict[str, float] = {}
        for informer in controller.informers:
            performer.show(informer)
        controller.wire(self._queue)

    @property
    def next_wake(self) -> float | None:
        return min(self._wakes.values(), default=None)

    def wake(self, now_seconds: float) -> None:
        for key in sorted(key for key, when in self._wakes.items() if when <= now_seconds):
            del self._wakes[key]
            self._queue.add(key)

    async def work(self) -> bool:
        """Looks at all keys that wait; whether anything was done."""
        busy = False
        for _ in range(len(self._queue)):
            key = await self._queue.take()
            refusal: StatusError | None = None
            outcome = self.controller.reconcile(key, self._world.seconds())
            try:
                await self._performer.perform(outcome.instructions)
            except StatusError as refused:
                refusal = refused
                self._wakes[key] = self._world.seconds() + 1
            else:
                self._wakes.pop(key, None)
                if outcome.wake_at_seconds is not None:
                    self._wakes[key] = max(outcome.wake_at_seconds, self._world.seconds() + 0.001)
            if hasattr(self.controller, "heard"):
                self.controller.heard(key, refusal)
            self._queue.done(key)
            busy = busy or any(not isinstance(it, Record) for it in outcome.instructions)
        return busy


def end_state(world: World, resources: Iterable[Resource]) -> list[str]:
    """All objects without what differs from run to run: identities, times, and names that the server makes up."""
    texts = []
    for resource in resources:
        for document in world.all(resource):
            metadata = document["metadata"]
            status = document.get("status") or {}
            if "observedGeneration" in status:
                status["observedGeneration"] -= metadata.get("generation", 0)
            metadata.pop("generation", None)
            if "generateName" in metadata:
                metadata["name"] = metadata["generateName"]
                document.get("spec", {}).pop("nodeName", None)
            texts.append(msgspec.json.encode([resource.plural, _steady(document)], order="sorted").decode())
    return sorted(texts)


def _steady(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _steady(it) for key, it in value.items() if key not in _CHANGING}
    return [_steady(it) for it in value] if isinstance(value, list) else value


def moment(text: str) -> float:
    return datetime.datetime.fromisoformat(text).timestamp()
