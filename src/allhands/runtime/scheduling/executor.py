"""Carries out plans: prepare, then bind; evict; write down what must be remembered. It decides nothing.

A group is looked at once more before its first bind and then done whole or refused whole. Few groups are open at a
time, and each is finished before more are opened, so that a crash leaves few of them half done; whose volumes are being
prepared is not open yet, and delays nobody. What was sent counts at once (the overlay). What is refused is tried again,
ever more seldom.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Final

import msgspec

from allhands.api.errors import StatusError
from allhands.lifecycle.instructions import Record
from allhands.runtime.metrics import Unmeasured
from allhands.runtime.scheduling.binder import Binder
from allhands.runtime.scheduling.measures import SchedulingMeasures
from allhands.runtime.scheduling.nominations import Nominations
from allhands.runtime.scheduling.pauses import Pauses
from allhands.runtime.scheduling.staleness import why_stale
from allhands.runtime.scheduling.volumes import BOUND_WITHIN_SECONDS, VolumePreparer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from allhands.core.plan import Evict, Hold, Plan, Release, Start
    from allhands.core.snapshot import Snapshot
    from allhands.ports import Clock, Objects
    from allhands.runtime.recorder import Recorder
    from allhands.runtime.scheduling.records import Records
    from allhands.runtime.scheduling.watched_world import WatchedWorld

NOT_FOUND: Final = 404
AGAIN_SECONDS: Final = 5.0
MANY: Final = 128
"""So many that are to be bound are a throng."""
UNKNOWN_NEWS: Final = -1
"""Those of a start that was decided long ago."""
MOST_NAMED_NODES: Final = 1_000
"""A record is one annotation: it cannot name any number of nodes."""
_LOG = logging.getLogger(__name__)


class Executor:
    """`flight`: how many binds may be under way at a time; 1 where a write waits for nothing."""

    def __init__(
        self,
        objects: Objects,
        watched: WatchedWorld,
        records: Records,
        recorder: Recorder,
        clock: Clock,
        *,
        flight: int = 64,
        measures: SchedulingMeasures | None = None,
        on_whole: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`on_whole` is told of every group of which all that must run together has been bound."""
        self._objects = objects
        self._watched = watched
        self._records = records
        self._recorder = recorder
        self._clock = clock
        self._flight = flight
        self._on_whole = on_whole
        self._volumes = VolumePreparer(objects, watched)
        self._nominations = Nominations(objects, watched, flight)
        self._to_take_back: deque[str] = deque()
        """Groups for which room was to be made, and is not."""
        self._measures = measures or SchedulingMeasures(Unmeasured(), watched, clock, "")
        self._starts: deque[tuple[Start, int]] = deque()
        """With the news that it was decided by, see `WatchedWorld.news`."""
        self._leaving: deque[tuple[Hold | None, tuple[Evict, ...], Release | None]] = deque()
        self._to_forget: deque[str] = deque()
        """Groups whose record still says that others leave for them."""
        self._has_tidied = False
        self._work = asyncio.Event()
        self._binder = Binder(objects, watched, flight, self._ended, self._open_more)
        self._preparing = 0
        self._start_pauses = Pauses(watched.note_change)
        """Groups that are not to be started for a moment."""
        self._measures.paused = self._start_pauses
        self._leave_pauses = Pauses(watched.note_change)
        """Groups for which nobody is to be evicted for a moment."""
        self.bound = 0
        """Pods bound since the start of the process."""
        self.has_skipped = False
        """Whether something of the last plan was left out, because its group is paused."""
        self.refused = 0
        """Groups that were stale when it came to binding."""

    @property
    def is_idle(self) -> bool:
        return not self._starts and not self._leaving and not self._binder.open_binds and not self._preparing

    @property
    def is_thronged(self) -> bool:
        """So many are to be bound that nothing else should be done meanwhile which can wait."""
        return self._flight > 1 and self._binder.open_binds + len(self._starts) >= MANY

    def begin_plan(self) -> None:
        """What is taken from now on is of a new plan."""
        self.has_skipped = False

    def take_starts(self, starts: tuple[Start, ...], now_seconds: int, news: int) -> None:
        """From now on they count as done; `run` does them. `news`: those that the deciding one knew."""
        world = self._watched.world
        for start in starts:
            if start.is_admission:
                continue  # its pods are made by its owner first
            if start.group in self._start_pauses:
                self.has_skipped = True
                continue
            # The time for its start begins when it is bound, not while its volumes are made.
            bound_at = now_seconds + int(BOUND_WITHIN_SECONDS) if start.prepare else now_seconds
            for bind in start.binds:
                world.assume_bound(bind.uid, bind.node, bound_at)
            self._measures.taken(start)
            self._starts.append((start, news))
        if self._starts:
            self._work.set()

    def _tidy(self, snapshot: Snapshot) -> None:
        """The leader before us may have ended between the last bind of a group and forgetting who left for it."""
        for key, entry in snapshot.groups.items():
            if entry.is_whole and entry.bound and entry.status.preempting_since_seconds is not None:
                self._remind(key)

    def take_evictions(self, plan: Plan, snapshot: Snapshot, now_seconds: int) -> None:
        """The same with what else the plan says: who leaves, and for whom. `snapshot`: what it was made of."""
        if not self._has_tidied:
            self._has_tidied = True
            self._tidy(snapshot)
        by_group: dict[str, list[Evict]] = {}
        for evict in plan.evictions:
            group = evict.for_group or evict.group
            if group in self._leave_pauses:
                self.has_skipped = True
                continue
            by_group.setdefault(group, []).append(evict)
            self._watched.world.assume_evicted(evict.uid)
        for hold in plan.holds:
            if not hold.awaits_leaving or hold.group in self._leave_pauses:
                continue
            evictions = tuple(by_group.pop(hold.group, ()))
            since = self._watched.status(hold.group).preempting_since_seconds
            since = now_seconds if since is None or evictions else since
            nodes = hold.nodes if len(hold.nodes) <= MOST_NAMED_NODES else ()
            news = self._records.announce(hold.group, preempting_since_seconds=since, nominated_nodes=nodes)
            if news or evictions:
                self._leaving.append((hold, evictions, None))
        for release in plan.releases:
            if release.group in self._leave_pauses:
                continue
            failed = self._watched.status(release.group).failed_starts + 1
            self._records.announce(
                release.group,
                failed_starts=failed,
                retry_at_seconds=release.retry_at_seconds,
                avoid_nodes=release.avoid_nodes[:MOST_NAMED_NODES],
            )
            self._leaving.append((None, tuple(by_group.pop(release.group, ())), release))
        for rest in by_group.values():
            self._leaving.append((None, tuple(rest), None))
        self._to_take_back.extend(self._nominations.settled(plan))
        if self._leaving or self._to_take_back:
            self._work.set()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            self._binder.begin(tasks)
            while True:
                while not (self._is_leaving_due or (self._starts and self._binder.has_room)):
                    self._work.clear()
                    await self._work.wait()
                if self._to_take_back:
                    await self._nominations.take_back(self._to_take_back.popleft())
                elif self._to_forget:
                    await self._forget_preempting(self._to_forget.popleft())
                elif self._leaving:
                    await self._make_leave(*self._leaving.popleft())
                elif self._starts[0][0].prepare:
                    self._preparing += 1
                    tasks.create_task(self._prepare(self._starts.popleft()[0]))
                elif self._flight == 1:
                    await self._do_at_once(*self._starts.popleft())
                else:
                    self._open_more()

    @property
    def _is_leaving_due(self) -> bool:
        """What goes before starts."""
        return bool(self._leaving or self._to_forget or self._to_take_back)

    # -- starting

    async def _prepare(self, start: Start) -> None:
        """Its room is held meanwhile. It may take minutes, in which others start."""

        def problem_now() -> str:
            return why_stale(start, self._watched)

        try:
            if not (problem := problem_now()):
                await self._volumes.prepare(start.prepare, problem_now)
        except StatusError as refusal:
            problem = refusal.message
        finally:
            self._preparing -= 1
        if problem:
            self._refuse(start, problem)
            return
        now = int(self._clock.now().timestamp())
        for bind in start.binds:
            self._watched.world.assume_bound(bind.uid, bind.node, now)
        self._starts.append((msgspec.structs.replace(start, prepare=()), UNKNOWN_NEWS))
        self._work.set()

    def _open_more(self) -> None:
        """As many as there is room for."""
        while self._starts and self._binder.has_room:
            if self._is_leaving_due or self._starts[0][0].prepare:
                self._work.set()
                return
            start, news = self._starts.popleft()
            if self._still_holds(start, news):
                self._binder.open(start)

    async def _do_at_once(self, start: Start, news: int) -> None:
        if self._still_holds(start, news):
            surprises = self._watched.surprises
            rest = self._ended(start, [await self._binder.bind(bind, surprises) for bind in start.binds])
            if rest is not None:
                await rest

    def _still_holds(self, start: Start, news: int) -> bool:
        """Where nothing was seen since it was decided, another look would see the same."""
        if news == self._watched.news or not (problem := why_stale(start, self._watched)):
            return True
        self._refuse(start, problem)
        return False

    def _ended(self, start: Start, done: list[bool]) -> Awaitable[None] | None:
        """All its binds have ended; which of them were done. What is still to be written is returned: nearly always
        nothing, and there may be a thousand a second."""
        self._measures.started(start, done)
        if self.is_idle:
            self._measures.settle()
        bound = sum(done)
        self.bound += bound
        group, count = start.group, len(start.binds)
        if bound < count:
            self._start_pauses.begin(group)
        else:
            self._start_pauses.succeeded(group)
        if bound and self._recorder.has_room(if_few=count == 1):
            self._tell_bound(start, bound)
        if bound < count:
            return None
        if start.is_whole:
            self._on_whole(group)
        if self._watched.status(group).preempting_since_seconds is None:
            return None
        return self._forget_preempting(group)

    def _refuse(self, start: Start, problem: str) -> None:
        """It is decided anew, but not at once: it may be refused again."""
        self.refused += 1
        self._measures.refused(start)
        _LOG.info("%s does not start: %s", start.group, problem)
        for bind in start.binds:
            self._watched.world.assume_bound(bind.uid, "")
        self._start_pauses.begin(start.group)

    def _tell_bound(self, start: Start, bound: int) -> None:
        if (home := self._watched.homes.home(start.group)) is None:
            return
        nodes = len({bind.node for bind in start.binds})
        where = f" in {start.domain}" if start.domain else ""
        message = f"Bound {bound} {'pod' if bound == 1 else 'pods'} to {nodes} {'node' if nodes == 1 else 'nodes'}"
        telling = Record(home.reference, "Normal", "Scheduled", f"{message}{where}.")
        self._recorder.record(telling, if_few=len(start.binds) == 1)

    async def _forget_preempting(self, group: str) -> None:
        """Room that was made for it is used; it must not come before others for it another time."""
        if self._watched.status(group).preempting_since_seconds is None:
            return
        self._records.announce(group, preempting_since_seconds=None, nominated_nodes=())
        if not await self._write_record(group):
            asyncio.get_running_loop().call_later(AGAIN_SECONDS, self._remind, group)

    def _remind(self, group: str) -> None:
        self._to_forget.append(group)
        self._work.set()

    async def _write_record(self, group: str) -> bool:
        try:
            await self._records.write(group)
        except StatusError as refusal:
            _LOG.warning("%s: its record cannot be written: %s", group, refusal.message)
            return False
        return True

    # -- leaving

    async def _make_leave(self, hold: Hold | None, evictions: tuple[Evict, ...], release: Release | None) -> None:
        """Whom room is made for is written down first: a new leader must not give the room away."""
        group = hold.group if hold is not None else release.group if release is not None else ""
        if group and not await self._write_record(group):
            for evict in evictions:
                self._watched.world.assume_evicted(evict.uid, evicted=False)
            self._leave_pauses.begin(group)
            return
        if hold is not None:
            await self._nominations.announce(hold)
        group = group or next((evict.for_group or evict.group for evict in evictions), "")
        if await self._evict_all(evictions):
            self._leave_pauses.succeeded(group)
        else:
            self._leave_pauses.begin(group)

    async def _evict_all(self, evictions: tuple[Evict, ...]) -> bool:
        if self._flight == 1:
            return all([await self._evict(evict) for evict in evictions])
        free = asyncio.Semaphore(self._flight)

        async def one(evict: Evict) -> bool:
            async with free:
                return await self._evict(evict)

        return all(await asyncio.gather(*map(one, evictions)))

    async def _evict(self, evict: Evict) -> bool:
        """False if it was refused, for now. One that is gone stays evicted: the watch will say so."""
        namespace, _, name = evict.pod.partition("/")
        options: dict[str, object] = {"preconditions": {"uid": evict.uid}}
        if evict.grace_seconds is not None:
            options["gracePeriodSeconds"] = evict.grace_seconds
        try:
            await self._objects.evict(namespace, name, {"deleteOptions": options})
        except StatusError as refusal:
            _LOG.info("evicting %s: %s", evict.pod, refusal.message)
            if refusal.code == NOT_FOUND:
                return True
            self._watched.world.assume_evicted(evict.uid, evicted=False)
            return False
        self._measures.evicted(evict)
        reference = {"apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": name, "uid": evict.uid}
        self._recorder.record(Record(reference, "Normal", "Preempted", str(evict.why)))
        return True
