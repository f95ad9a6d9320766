"""Laws of a store on a disk, over random histories with full disks and power cuts at every step of a write.

What was acknowledged is there after any crash; what is there is one moment of the history, with no gap; no version is
given twice; nobody ever saw what a crash took back; a watch goes on without a gap, or is told that it cannot.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from allhands.api.errors import StatusError
from allhands.ports import Query
from allhands.store.disk import DiskError
from tests.depth import examples
from tests.disks import Life, MemoryDisk, turns
from tests.manifests import CONFIG_MAPS, config_map

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from allhands.store.watching import StoreWatch

State = dict[str, tuple[int, str]]
"""By name: version and value."""
NAMES = st.sampled_from(["a", "b", "c", "d"])
VALUES = st.sampled_from(["1", "2", "3"])
FAULTS = st.sampled_from(
    [DiskError("state.db: database or disk is full", is_full=True), DiskError("state.db: disk I/O error")]
)


def state_in(texts: list[dict[str, Any]]) -> State:
    return {
        it["metadata"]["name"]: (int(it["metadata"]["resourceVersion"]), it.get("data", {}).get("value", ""))
        for it in texts
    }


class Watcher:
    """A client with a copy, which lives longer than the store that it watches."""

    def __init__(self, watch: StoreWatch, state: State, version: int) -> None:
        self.watch, self.state, self.version = watch, state, version

    def catch_up(self) -> None:
        while (event := self.watch.poll()) is not None:
            assert event.type in ("ADDED", "MODIFIED", "DELETED")
            manifest = event.manifest()
            (name, told), *_ = state_in([manifest]).items()
            assert told[0] > self.version, "an event came twice or out of order"
            self.version = told[0]
            if event.type == "DELETED":
                del self.state[name]
            else:
                assert (name in self.state) == (event.type == "MODIFIED")
                self.state[name] = told


class DurableHistory(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.runner = asyncio.Runner()
        self.disk = MemoryDisk()
        self.given = 1
        """The highest version that any life has given."""
        self.acknowledged = 0
        """The version up to which somebody was told that all is kept."""
        self.moments: dict[int, State] = {}
        """What the store held at each version, as its writers saw it."""
        self.under_way: list[asyncio.Task[Any]] = []
        self.watchers: list[Watcher] = []
        self.run(self._live())
        self.moments[self.life.store.version] = {}

    def teardown(self) -> None:
        if hasattr(self, "runner"):
            with contextlib.suppress(AttributeError):
                self.runner.run(self._die())
            self.runner.close()

    def run(self, awaitable: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(awaitable)

    async def _live(self) -> None:
        self.disk.held, self.disk.fault = False, None
        self.life = Life(self.disk)
        self.writing = asyncio.create_task(self.life.committer.run())
        await self.life.committer.settled()
        self.disk.held = True

    async def _die(self) -> None:
        for task in (self.writing, *self.under_way):
            task.cancel()
        await asyncio.gather(self.writing, *self.under_way, return_exceptions=True)
        self.under_way = []

    def _head(self) -> State:
        """What writers see."""
        collection = self.life.store.collection(self.life.store.kind(CONFIG_MAPS))
        return state_in([record.manifest() for record in collection])

    async def _begin(self, verb: Coroutine[Any, Any, Any]) -> None:
        before = self.life.store.version
        task = asyncio.create_task(verb)
        self.under_way.append(task)
        await turns(3)
        now = self.life.store.version
        if now > before:
            assert now > self.given, "a version was given twice"
            self.given = now
            self.moments[now] = self._head()
        await self._hear(task)

    async def _hear(self, *tasks: asyncio.Task[Any]) -> None:
        """Who was answered: then everything that the answer rests on is kept."""
        for task in tasks:
            if not task.done() or task not in self.under_way:
                continue
            self.under_way.remove(task)
            refusal = task.exception()
            assert refusal is None or isinstance(refusal, StatusError)
            if refusal is None and (head := getattr(task.result(), "head", None)) is not None:
                self.acknowledged = max(self.acknowledged, head.version)

    @rule(name=NAMES, value=VALUES)
    def create(self, name: str, value: str) -> None:
        self.run(self._begin(self.life.objects.create(CONFIG_MAPS, config_map(name, value=value), "default")))

    @rule(name=NAMES, value=VALUES)
    def patch(self, name: str, value: str) -> None:
        change = {"data": {"value": value}}
        self.run(self._begin(self.life.objects.patch(CONFIG_MAPS, name, "merge", change, "default")))

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        self.run(self._begin(self.life.objects.delete(CONFIG_MAPS, name, "default")))

    @rule()
    def watch(self) -> None:
        async def begin() -> None:
            page = await self.life.objects.list(CONFIG_MAPS, Query(namespace="default"))
            watch = await self.life.objects.watch(
                CONFIG_MAPS, Query(namespace="default", resource_version=page.version)
            )
            state = state_in([it.manifest() for it in await self._all()])
            self.watchers.append(Watcher(watch, state, int(page.version)))

        if len(self.watchers) < 4:
            self.run(begin())

    async def _all(self) -> list[Any]:
        found = []
        for name in ("a", "b", "c", "d"):
            with contextlib.suppress(StatusError):
                found.append(await self.life.objects.get(CONFIG_MAPS, name, "default"))
        return found

    @rule()
    def the_disk_is_done(self) -> None:
        async def go() -> None:
            self.disk.let_go()
            await turns(6)
            await self._hear(*self.under_way)

        self.run(go())

    @rule(fault=FAULTS)
    def the_disk_refuses(self, fault: DiskError) -> None:
        async def go() -> None:
            self.disk.fault = fault
            refused = self.life.committer.pending
            self.disk.let_go()
            await turns(6)
            self.disk.fault = None
            if refused:
                assert self.life.committer.pending == 0
                seen = self.life.store.seen_version
                self.moments = {version: state for version, state in self.moments.items() if version <= seen}
                for task in list(self.under_way):
                    assert isinstance(task.exception(), StatusError)
                assert self._head() == self._moment(seen)
            await self._hear(*self.under_way)

        self.run(go())

    def _moment(self, version: int) -> State:
        return self.moments[max(at for at in self.moments if at <= version)]

    @precondition(lambda self: hasattr(self, "life"))
    @rule(in_time=st.booleans(), answered=st.booleans())
    def power_cut(self, in_time: bool, answered: bool) -> None:
        async def go() -> None:
            if answered:
                self.disk.let_go()
                await turns(6)
                await self._hear(*self.under_way)
            for watcher in self.watchers:
                watcher.catch_up()
            self.disk.lose_power(in_time=in_time)
            await self._die()
            last = max((kept.version for kept in self.disk.kept.values()), default=0)
            reached = max(self.disk.written.version, last)
            await self._live()
            assert self.life.store.version >= self.given, "a version may be given twice"
            self.moments = {at: state for at, state in self.moments.items() if at <= reached}
            assert self._head() == self._moment(reached), "what is there is no moment of the history"
            assert reached >= self.acknowledged, "something that was acknowledged is lost"
            self.given = max(self.given, self.life.store.version)
            await self._resume(reached)

        self.run(go())

    async def _resume(self, reached: int) -> None:
        """Watchers of before go on, or are told to begin anew, and never have seen more than is there."""
        going_on = []
        for watcher in self.watchers:
            assert watcher.version <= reached or watcher.state == self._moment(reached)
            query = Query(namespace="default", resource_version=str(watcher.version))
            try:
                watcher.watch = await self.life.objects.watch(CONFIG_MAPS, query)
            except StatusError as refusal:
                assert refusal.code == 410
                assert watcher.state != self._moment(reached) or watcher.version < reached
            else:
                assert watcher.state == self._moment(reached), "it goes on with a gap"
                going_on.append(watcher)
        self.watchers = going_on

    @invariant()
    def readers_see_what_is_kept(self) -> None:
        if not hasattr(self, "life"):
            return

        async def look() -> None:
            seen = self._moment(self.life.store.seen_version)
            page = await self.life.objects.list(CONFIG_MAPS, Query(namespace="default"))
            assert int(page.version) == self.life.store.seen_version
            assert len(page.items) == len(seen)
            assert state_in([it.manifest() for it in await self._all()]) == seen
            on_disk = {kept.key[1]: kept.version for kept in self.disk.objects() if kept.resource == "configmaps"}
            on_disk.pop("kube-root-ca.crt", None)
            assert {name: version for name, (version, _) in seen.items()} == on_disk
            for watcher in self.watchers:
                watcher.catch_up()
                assert watcher.state == seen

        self.run(look())


DurableHistory.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)
TestDurableHistory = DurableHistory.TestCase
