"""Who follows a shared watch sees what its own would show, whoever comes, goes, lags behind, or breaks off."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.api.errors import StatusError, expired
from allhands.ports import EVERYTHING, Event, Query
from allhands.runtime.informer import STALL_SECONDS, Informer
from allhands.runtime.shared_watch import SharedWatch
from allhands.sim.virtual_time import VirtualTimeLoop, run_virtually
from allhands.store import InProcessObjects, Store
from tests.depth import examples
from tests.doubles import CountingIds, ManualClock
from tests.manifests import CONFIG_MAPS
from tests.virtual import on_virtual_time

if TYPE_CHECKING:
    from allhands.api.kinds import Resource


class Pipe:
    """A watch through which so many events come as the test lets through, until it breaks."""

    def __init__(self, watch: Any, allowed: float) -> None:
        self._watch = watch
        self._allowed = allowed
        self._changed = asyncio.Event()
        self.failure: Exception | None = None
        self.is_closed = False

    def let_through(self, number: float) -> None:
        self._allowed += number
        self._changed.set()

    def break_off(self) -> None:
        self.is_closed = True
        self._changed.set()

    def __aiter__(self) -> Pipe:
        return self

    async def __anext__(self) -> Event:
        while (event := self.poll()) is None:
            if not await self.more():
                raise StopAsyncIteration
        return event

    def poll(self) -> Event | None:
        event: Event | None = self._watch.poll() if self._allowed >= 1 and not self.is_closed else None
        self._allowed -= event is not None
        return None if event is None else Event(event.type, event.raw)

    async def more(self) -> bool:
        if self._allowed == math.inf and not self.is_closed:
            return bool(await self._watch.more())
        await self._changed.wait()
        self._changed.clear()
        if self.failure is not None:
            raise self.failure
        return not self.is_closed

    async def close(self) -> None:
        self.break_off()
        await self._watch.close()


class Cluster(InProcessObjects):
    """Whose watches are pipes."""

    def __init__(self, *, streams_lists: bool = True, allowed: float = math.inf) -> None:
        super().__init__(Store(ManualClock(), CountingIds()))
        self.streams_lists = streams_lists
        self.allowed = allowed
        self.pipes: list[Pipe] = []

    @property
    def open_pipes(self) -> list[Pipe]:
        return [it for it in self.pipes if not it.is_closed]

    async def watch(self, resource: Resource, query: Query = EVERYTHING, **more: Any) -> Any:
        pipe = Pipe(await super().watch(resource, query, **more), self.allowed)
        self.pipes.append(pipe)
        return pipe

    async def write(self, number: int, text: str) -> None:
        manifest = {"metadata": {"name": f"m{number}"}, "data": {"text": text}}
        try:
            await self.create(CONFIG_MAPS, manifest, "default")
        except StatusError:
            await self.patch(CONFIG_MAPS, f"m{number}", "merge", {"data": {"text": text}}, "default")

    async def remove(self, number: int) -> None:
        try:
            await self.delete(CONFIG_MAPS, f"m{number}", "default")
        except StatusError as refusal:
            assert refusal.code == 404

    async def there(self) -> dict[str, str]:
        page = await self.list(CONFIG_MAPS)
        return {it["metadata"]["name"]: it["data"]["text"] for it in map(msgspec.json.decode, page.items)}


def read(raw: bytes) -> tuple[str, str]:
    manifest = msgspec.json.decode(raw)
    return manifest["metadata"]["name"], manifest["data"]["text"]


class Followers:
    def __init__(self, cluster: Cluster) -> None:
        self._shared = SharedWatch(cluster, CONFIG_MAPS)
        self.all: list[tuple[Informer[tuple[str, str]], asyncio.Task[None]]] = []

    async def begin(self) -> Informer[tuple[str, str]]:
        informer = Informer(self._shared, CONFIG_MAPS, read)
        self.all.append((informer, asyncio.create_task(informer.run())))
        await asyncio.sleep(0)
        return informer

    async def end(self, number: int) -> None:
        _, task = self.all.pop(number)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def end_all(self) -> None:
        while self.all:
            await self.end(0)


DEEDS = ("write", "write", "write", "remove", "begin", "end", "break", "through", "through", "wait", "past")


@given(st.lists(st.tuples(st.sampled_from(DEEDS), st.integers(0, 5)), max_size=30), st.booleans())
@settings(max_examples=examples(150))
def test_everybody_ends_with_what_is_there(history: list[tuple[str, int]], streams: bool) -> None:
    async def live() -> None:
        cluster = Cluster(streams_lists=streams, allowed=0)
        followers = Followers(cluster)
        for step, (deed, number) in enumerate(history):
            await act(cluster, followers, deed, number, step)
        cluster.allowed = math.inf
        await followers.begin()
        for _ in range(20):
            for pipe in cluster.open_pipes:
                pipe.let_through(math.inf)
            await asyncio.sleep(10)
        await cluster.write(9, "end")  # who has seen less than the others learns so by the next event
        await asyncio.sleep(10)
        wanted = await cluster.there()
        for informer, _ in followers.all:
            assert dict(informer.all()) == wanted
            assert informer.synced.is_set()
        assert len(cluster.open_pipes) == 1, "for all together"
        await followers.end_all()
        assert not cluster.open_pipes

    run_virtually(VirtualTimeLoop(), live())


async def act(cluster: Cluster, followers: Followers, deed: str, number: int, step: int) -> None:
    pipes = cluster.open_pipes
    match deed:
        case "write":
            await cluster.write(number, str(step))
        case "remove":
            await cluster.remove(number)
        case "begin":
            await followers.begin()
        case "end" if followers.all:
            await followers.end(number % len(followers.all))
        case "break" if pipes:
            pipes[number % len(pipes)].break_off()
        case "through" if pipes:
            pipes[number % len(pipes)].let_through(number + 1)
        case "past" if pipes:
            pipes[number % len(pipes)].failure = expired("too old")
            pipes[number % len(pipes)].let_through(0)
        case "wait":
            await asyncio.sleep(number)
    await asyncio.sleep(0)


@on_virtual_time
async def test_who_comes_later_sees_all_and_then_shares() -> None:
    cluster = Cluster()
    await cluster.write(1, "a")
    followers = Followers(cluster)
    first = await followers.begin()
    await asyncio.sleep(1)
    later = await followers.begin()
    await asyncio.sleep(1)
    assert dict(later.all()) == {"m1": "a"}
    await cluster.write(2, "b")
    await asyncio.sleep(1)
    assert len(cluster.open_pipes) == 1
    assert dict(first.all()) == dict(later.all()) == {"m1": "a", "m2": "b"}
    await followers.end(0)
    await cluster.write(3, "c")
    await asyncio.sleep(1)
    assert len(later) == 3, "the one who began it may go"
    await followers.end_all()


@on_virtual_time
async def test_when_it_ends_all_go_on_by_one_new_watch() -> None:
    cluster = Cluster()
    followers = Followers(cluster)
    informers = [await followers.begin() for _ in range(3)]
    await asyncio.sleep(1)
    for number in range(3):
        await cluster.write(number, "x")
        await asyncio.sleep(1)
        for pipe in cluster.open_pipes:
            await pipe.close()
        await asyncio.sleep(60)
        assert [len(it) for it in informers] == [number + 1] * 3
    assert len(cluster.open_pipes) == 1
    await followers.end_all()


@on_virtual_time
async def test_one_whose_connection_is_dead_is_left_by_all() -> None:
    cluster = Cluster()
    followers = Followers(cluster)
    informers = [await followers.begin() for _ in range(3)]
    await asyncio.sleep(1)
    (dead,) = cluster.open_pipes
    dead.let_through(-math.inf)
    await cluster.write(1, "x")
    await asyncio.sleep(2 * STALL_SECONDS)
    assert [len(it) for it in informers] == [1, 1, 1]
    assert dead.is_closed
    assert len(cluster.open_pipes) == 1
    await followers.end_all()


@on_virtual_time
async def test_what_is_asked_for_in_part_is_watched_apart() -> None:
    cluster = Cluster()
    shared = SharedWatch(cluster, CONFIG_MAPS)
    for query in (Query(namespace="default"), Query(labels="a=b"), Query(fields="metadata.name=x")):
        assert isinstance(await shared.watch(CONFIG_MAPS, query), Pipe)


@on_virtual_time
async def test_a_failure_is_everybodys() -> None:
    cluster = Cluster(allowed=0)
    shared = SharedWatch(cluster, CONFIG_MAPS)
    version = (await cluster.list(CONFIG_MAPS)).version
    watches: list[Any] = [await shared.watch(CONFIG_MAPS, Query(resource_version=version)) for _ in range(2)]
    waiting = [asyncio.create_task(it.more()) for it in watches]
    await asyncio.sleep(1)
    for pipe in cluster.open_pipes:
        pipe.failure = StatusError(502, "", "an event is too large")
        pipe.let_through(0)
    for task in waiting:
        with pytest.raises(StatusError, match="too large"):
            await task
    for watch in watches:
        await watch.close()
    assert not cluster.open_pipes
