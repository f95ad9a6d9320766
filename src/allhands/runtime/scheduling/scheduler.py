"""The loop: something changed, a snapshot is taken, the core decides, the executor does. Never busy when idle.

After idle it decides at once; while events keep coming it waits a moment to see more of them together, at most 20 ms.
Time alone can change a plan too: the core says when.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

import msgspec

from allhands.core.cycle import cycle
from allhands.core.memo import Memo
from allhands.core.plan import NOTHING
from allhands.core.policy import DEFAULT
from allhands.dialects.topology_labels import DEFAULT_LABELS
from allhands.runtime.backoff import Backoff
from allhands.runtime.metrics import Unmeasured
from allhands.runtime.recorder import Recorder
from allhands.runtime.scheduling.executor import Executor
from allhands.runtime.scheduling.explainer import PER_SECOND, Explainer
from allhands.runtime.scheduling.history import History
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
    survives: bool = True
    """Whether it goes on after a cycle that failed. Simulations do not: they are there to find that."""


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
        self._last: Plan = NOTHING
        self._gather_seconds = 0.0
        self._ended_at = -1.0
        self.watched = WatchedWorld(
            objects,
            scheduler_names=chosen.names,
            topology_labels=chosen.topology_labels,
            changed=self._woken.set,
        )
        records = Records(objects, self.watched)
        self._recorder = Recorder(objects, clock, chosen.component)
        counted = metrics or Unmeasured()
        self._measures = SchedulingMeasures(counted, self.watched, clock, chosen.names[0])
        self._history = History(objects, self.watched, self._recorder, clock, policy, counted)
        self._explainer = Explainer(objects, self.watched, records, self._recorder, clock)
        self.executor = Executor(
            objects,
            self.watched,
            records,
            self._recorder,
            clock,
            flight=chosen.flight,
            measures=self._measures,
            on_whole=self._explainer.started,
        )
        self.cycles = 0
        self.synced = asyncio.Event()
        """Set once everything that was there has been seen."""

    async def run(self) -> None:
        """Until cancelled."""
        try:
            await self._run()
        finally:
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
            self.synced.set()
            tasks.create_task(self.executor.run(), name="scheduler: executor")
            tasks.create_task(self._explainer.run(), name="scheduler: explainer")
            tasks.create_task(self._recorder.run(), name="scheduler: events")
            tasks.create_task(self._history.run(), name="scheduler: history")
            self._woken.set()
            while True:
                await self._woken.wait()
                await self._gather()
                self._woken.clear()
                try:
                    self.decide()
                except Exception:
                    if not self._survives:
                        raise
                    await self._recover()

    async def _recover(self) -> None:
        """A cycle failed, which is a mistake of ours: what was learned is forgotten, and it is tried again later."""
        pause = self._backoff.next_seconds()
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

    def decide(self) -> None:
        """One cycle. Why everybody waits is worked out once a second; in between it is only decided who starts."""
        now = int(self._clock.now().timestamp())
        loop = asyncio.get_running_loop()
        loop_now = loop.time()
        tells = loop_now - self._told_at >= self._tell_seconds
        self._history.deciding(now)
        snapshot = self.watched.snapshot()
        snapshot_at = loop.time()
        deciding = self._telling if tells else self._quick
        plan, deciding.memo = cycle(snapshot, deciding.policy, deciding.memo, now)
        self.cycles += 1
        decided_at = loop.time()
        self._history.decided(snapshot, deciding.memo, now)
        self._measures.cycle(snapshot, loop_now, snapshot_at, decided_at, tells=tells)
        if tells:
            self._told_at = loop_now
            self._tell_seconds = max(EXPLAIN_SECONDS, len(plan.waits) / PER_SECOND)
        if plan is not self._last or self.executor.has_skipped:
            self._last = plan
            if self._watcher is not None:
                self._watcher(plan, snapshot, now)
            self._measures.planned(plan, snapshot, tells=tells)
            self.executor.take(plan, now)
            self._explainer.take(plan, snapshot)
            self._measures.handed_over(loop.time() - decided_at)
        self._ended_at = loop_now
        self._backoff.reset()
        self._wake_at(deciding.memo.wakes_at, None if tells else self._told_at + self._tell_seconds - loop_now)

    def _wake_at(self, moment: int | None, telling_seconds: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        pauses = [telling_seconds] if telling_seconds is not None else []
        if moment is not None:
            pauses.append(max(0.0, moment - self._clock.now().timestamp()) + 0.001)
        if pauses:
            self._timer = asyncio.get_running_loop().call_later(min(pauses), self._woken.set)


class _Deciding:
    """A policy and what its last cycle learned."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.memo = Memo()
