"""The loop: something changed, a snapshot is taken, the core decides, the executor does. Never busy when idle.

After idle it decides at once; while events keep coming it waits a moment to see more of them together, at most 20 ms.
Time alone can change a plan too: the core says when.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from allhands.core.cycle import cycle
from allhands.core.memo import Memo
from allhands.core.plan import NOTHING
from allhands.core.policy import DEFAULT
from allhands.dialects.topology_labels import DEFAULT_LABELS
from allhands.runtime.backoff import Backoff
from allhands.runtime.metrics import Unmeasured
from allhands.runtime.recorder import Recorder
from allhands.runtime.scheduling.completions import Completions
from allhands.runtime.scheduling.emitted import Emitted
from allhands.runtime.scheduling.executor import Executor
from allhands.runtime.scheduling.explainer import PER_SECOND, Explainer
from allhands.runtime.scheduling.group_statuses import GroupStatuses
from allhands.runtime.scheduling.history import NAMESPACE, History
from allhands.runtime.scheduling.measures import SchedulingMeasures
from allhands.runtime.scheduling.records import Records
from allhands.runtime.scheduling.watched_world import WatchedWorld

if TYPE_CHECKING:
    from collections.abc import Callable

    from allhands.core.plan import Plan
    from allhands.core.policy import Policy
    from allhands.core.snapshot import Snapshot
    from allhands.ports import Clock, Metrics, Objects

MOST_GATHER_SECONDS: Final = 0.02
FIRST_GATHER_SECONDS: Final = 0.001
EXPLAIN_SECONDS: Final = 1.0
_LOG = logging.getLogger(__name__)


class SchedulerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`flight`: how many binds are under way at a time; 1 for a store in this process."""

    names: tuple[str, ...] = ("allhands",)
    topology_labels: tuple[str, ...] = DEFAULT_LABELS
    flight: int = 64
    component: str = "allhands"
    namespace: str = NAMESPACE
    """Where it keeps what it must remember beyond its groups."""
    survives: bool = True
    """Whether it goes on after a cycle that failed. Simulations do not: they are there to find that."""
    decides_beside: bool = False
    """Whether cycles run in a thread of their own, so that binding begins while others are still being decided about:
    where binds wait for a network. Not on virtual time."""


class Scheduler:
    """`watcher` sees every plan with the snapshot and the moment that it was made of, before it is carried out."""

    def __init__(
        self,
        objects: Objects,
        clock: Clock,
        *,
        policy: Policy = DEFAULT,
        options: SchedulerOptions | None = None,
        watcher: Callable[[Plan, Snapshot, int], None] | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        chosen = options or SchedulerOptions()
        self._clock = clock
        self._watcher = watcher
        self._woken = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._quick = _Deciding(msgspec.structs.replace(policy, explains=False, tells_promises=False))
        self._telling = _Deciding(policy)
        self._told_at = -EXPLAIN_SECONDS
        self._tell_seconds = EXPLAIN_SECONDS
        """How long after the last time everybody's waiting is explained again: no sooner than it could be told."""
        self._survives = chosen.survives
        self._backoff = Backoff(1.0, 60.0)
        self._is_failing = False
        self._last: Plan = NOTHING
        self._gather_seconds = 0.0
        self._ended_at = -1.0
        self.watched = WatchedWorld(
            objects,
            scheduler_names=chosen.names,
            topology_labels=chosen.topology_labels,
            changed=self._woken.set,
            is_busy=lambda: not self.executor.is_idle,
            is_thronged=lambda: self.executor.is_thronged,
            policy=policy,
        )
        records = Records(objects, self.watched)
        self._completions = Completions(self.watched, records)
        self._recorder = Recorder(objects, clock, chosen.component, is_busy=lambda: not self.executor.is_idle)
        self._counted = counted = metrics or Unmeasured()
        self._measures = SchedulingMeasures(counted, self.watched, clock, chosen.names[0])
        self._history = History(objects, self.watched, self._recorder, clock, policy, counted, chosen.namespace)
        self._statuses = GroupStatuses(objects, self.watched, clock, self._is_behind)
        self._explainer = Explainer(objects, self.watched, records, self._recorder, clock, self._statuses)
        self.executor = Executor(
            objects,
            self.watched,
            records,
            self._recorder,
            clock,
            flight=chosen.flight,
            measures=self._measures,
            on_whole=self._statuses.started,
        )
        self._thread = ThreadPoolExecutor(1, "deciding") if chosen.decides_beside else None
        self._thinking: asyncio.Future[tuple[Plan, Memo]] | None = None
        self.cycles = 0
        self.synced = asyncio.Event()
        """Set once everything that was there has been seen."""

    def _is_behind(self) -> bool:
        """Whether something is being bound, or was and is not looked at yet: what is told of a group may be old."""
        return not self.executor.is_idle or self.watched.pods.count_put_off > 0

    @property
    def is_well(self) -> bool:
        """Whether it has seen everything and its last cycle came to an end."""
        return self.synced.is_set() and not self._is_failing

    async def run(self) -> None:
        """Until cancelled."""
        try:
            await self._run()
        finally:
            if self._thinking is not None and not self._thinking.done():
                await asyncio.wait((self._thinking,))  # what it has charged is being changed as long as it thinks
            if self._thread is not None:
                self._thread.shutdown(wait=False)
            if self.synced.is_set():
                await self._history.end()

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for informer in self.watched.informers:
                tasks.create_task(informer.run(), name=f"scheduler: {informer.resource.plural}")
            for informer in self.watched.informers:
                await informer.synced.wait()
            await self._history.begin()
            self.watched.begin()
            self._completions.begin()
            self.synced.set()
            tasks.create_task(self.executor.run(), name="scheduler: executor")
            tasks.create_task(self._explainer.run(), name="scheduler: explainer")
            tasks.create_task(self._statuses.run(), name="scheduler: statuses")
            tasks.create_task(self._completions.run(), name="scheduler: completions")
            tasks.create_task(self._recorder.run(), name="scheduler: events")
            tasks.create_task(self._history.run(), name="scheduler: history")
            self._woken.set()
            while True:
                await self._woken.wait()
                await self._gather()
                self._woken.clear()
                try:
                    await self._decide()
                except Exception:
                    if not self._survives:
                        raise
                    await self._recover()

    async def _recover(self) -> None:
        """A cycle failed, which is a mistake of ours: what was learned is forgotten, and it is tried again later."""
        pause = self._backoff.next_seconds()
        self._is_failing = True
        self._counted.count("allhands_cycles_failed_total")
        _LOG.exception("a cycle failed; what runs goes on, and the next one comes in %g s", pause)
        self._quick.memo, self._telling.memo = Memo(), Memo()
        self._last = NOTHING
        await asyncio.sleep(pause)
        self._woken.set()

    async def _gather(self) -> None:
        """Sees more of what comes together, if the last cycle ended just now."""
        now = asyncio.get_running_loop().time()
        if now - self._ended_at > MOST_GATHER_SECONDS:
            self._gather_seconds = 0.0
            await asyncio.sleep(0)
            return
        self._gather_seconds = min(MOST_GATHER_SECONDS, max(FIRST_GATHER_SECONDS, self._gather_seconds * 2))
        await asyncio.sleep(self._gather_seconds)

    async def _decide(self) -> None:
        """One cycle, and what comes of it."""
        begun = self._begin_cycle()
        deciding, emitted = begun.deciding, None
        thinks = functools.partial(cycle, begun.snapshot, deciding.policy, deciding.memo, begun.now)
        if self._thread is None:
            plan, deciding.memo = thinks()
        else:
            loop = asyncio.get_running_loop()
            self.executor.begin_plan()
            emitted = Emitted(
                loop, functools.partial(self.executor.take_starts, now_seconds=begun.now, news=begun.news)
            )
            self._thinking = loop.run_in_executor(self._thread, functools.partial(thinks, emit=emitted.emit))
            plan, deciding.memo = await asyncio.shield(self._thinking)
            emitted.end()
        self._end_cycle(begun, plan, has_starts=emitted is not None and emitted.count > 0)

    def _begin_cycle(self) -> _Begun:
        """Why everybody waits is worked out once a second; in between it is only decided who starts."""
        now = int(self._clock.now().timestamp())
        loop = asyncio.get_running_loop()
        began_at = loop.time()
        tells = began_at - self._told_at >= self._tell_seconds
        self._history.deciding(now)
        snapshot = self.watched.snapshot()
        self._measures.begun(snapshot, began_at)
        deciding = self._telling if tells else self._quick
        news = self.watched.news
        return _Begun(now, began_at, loop.time(), snapshot, news, deciding, tells, self.executor.has_skipped)

    def _end_cycle(self, begun: _Begun, plan: Plan, *, has_starts: bool) -> None:
        """`has_starts`: whether the executor has the plan's starts already."""
        loop = asyncio.get_running_loop()
        snapshot, deciding, tells = begun.snapshot, begun.deciding, begun.tells
        self.cycles += 1
        decided_at = loop.time()
        self._history.decided(snapshot, deciding.memo, begun.now)
        self._measures.cycle(begun.began_at, begun.snapshot_at, decided_at, tells=tells)
        if tells:
            self._told_at = begun.began_at
            self._tell_seconds = max(EXPLAIN_SECONDS, len(plan.waits) / PER_SECOND)
        if plan is not self._last or begun.had_skipped:
            self._last = plan
            if self._watcher is not None:
                self._watcher(plan, snapshot, begun.now)
            self._measures.planned(plan, snapshot, tells=tells)
            if not has_starts:
                self.executor.begin_plan()
                self.executor.take_starts(plan.starts, begun.now, begun.news)
            self.executor.take_evictions(plan, snapshot, begun.now)
            self._explainer.take(plan, snapshot)
            self._measures.handed_over(loop.time() - decided_at)
        self._ended_at = begun.began_at if self._thread is None else decided_at
        self._is_failing = False
        self._backoff.reset()
        until_told = None if tells else self._told_at + self._tell_seconds - begun.began_at
        self._wake_at(deciding.memo.wakes_at, until_told)

    def _wake_at(self, moment: int | None, telling_seconds: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        pauses = [telling_seconds] if telling_seconds is not None else []
        if moment is not None:
            pauses.append(max(0.0, moment - self._clock.now().timestamp()) + 0.001)
        if pauses:
            self._timer = asyncio.get_running_loop().call_later(min(pauses), self._woken.set)


class _Begun(NamedTuple):
    """What a cycle is about."""

    now: int
    began_at: float
    snapshot_at: float
    snapshot: Snapshot
    news: int
    deciding: _Deciding
    tells: bool
    had_skipped: bool
    """Whether something of the plan before was left out."""


class _Deciding:
    """A policy and what its last cycle learned."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.memo = Memo()
