"""The port with faults: refused, lost and slow requests, watches that lag, break and expire, and crashes.

One `FaultyObjects` stands between one incarnation of one part and the cluster. Chance comes from a seeded generator,
so that a history repeats. When the part crashes, its port is dead: whatever it still tries never returns.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from allhands.api.errors import StatusError, expired
from allhands.ports import DEFAULT_DELETE, DEFAULT_WRITE, EVERYTHING, Event

if TYPE_CHECKING:
    import random
    from collections.abc import AsyncIterator, Awaitable, Callable

    from allhands.api.document import Manifest
    from allhands.api.kinds import Resource
    from allhands.ports import (
        Deleted,
        DeleteOptions,
        Document,
        Objects,
        Page,
        PatchType,
        Query,
        Watch,
        WriteOptions,
    )

T = TypeVar("T")


class Faults(msgspec.Struct, frozen=True, kw_only=True):
    """How often what goes wrong, as a part of one; times in seconds."""

    refused: float = 0.0
    """A write is refused with a conflict, too many requests or an internal error, and nothing happens."""
    lost: float = 0.0
    """A write happens, and its answer is lost."""
    slow: float = 0.0
    slow_seconds: float = 2.0
    """A request takes up to so long, half of it before it happens."""
    crash: float = 0.0
    """The part ends before or after a write."""
    watch_ends: float = 0.0
    """A watch ends after an event."""
    watch_expires: float = 0.0
    """A watch is told after an event that it is too old."""
    watch_lags: float = 0.0
    watch_lag_seconds: float = 5.0
    """An event, and all behind it, comes up to so much later."""


class CrashAt(NamedTuple):
    """Ends a part at its write of this number, from 1 on: before or after it took effect."""

    write: int
    takes_effect: bool


NONE = Faults()


class FaultyObjects:
    """`on_crash` is told when the part is to end; from then on no call returns."""

    def __init__(self, objects: Objects, faults: Faults, chance: random.Random, on_crash: Callable[[], None]) -> None:
        self._objects = objects
        self.faults = faults
        self._chance = chance
        self._on_crash = on_crash
        self.is_dead = False
        self.writes = 0
        self.crash_at: CrashAt | None = None

    def kill(self) -> None:
        self.is_dead = True

    # -- requests

    async def _never(self) -> None:
        await asyncio.get_running_loop().create_future()

    async def _crash(self) -> None:
        self.is_dead = True
        self._on_crash()
        await self._never()

    async def _pause(self) -> None:
        if self._chance.random() < self.faults.slow:
            await asyncio.sleep(self._chance.random() * self.faults.slow_seconds / 2)
        if self.is_dead:
            await self._never()

    async def _read(self, request: Callable[[], Awaitable[T]]) -> T:
        if self.faults is NONE and not self.is_dead:
            return await request()
        await self._pause()
        answer = await request()
        await self._pause()
        return answer

    async def _write(self, request: Callable[[], Awaitable[T]]) -> T:
        faults, chance = self.faults, self._chance
        self.writes += 1
        if self.crash_at is not None and self.crash_at.write == self.writes and not self.is_dead:
            if self.crash_at.takes_effect:
                await request()
            await self._crash()
        if faults is NONE and not self.is_dead:
            return await request()
        await self._pause()
        crashes = chance.random() < faults.crash
        if crashes and chance.random() < 0.5:
            await self._crash()
        if chance.random() < faults.refused:
            raise chance.choice(_REFUSALS)()
        answer = await request()
        if crashes:
            await self._crash()
        await self._pause()
        if chance.random() < faults.lost:
            raise StatusError(503, "ServiceUnavailable", "the answer was lost")
        return answer

    @property
    def _is_plain(self) -> bool:
        """Whether nothing can happen to a write; then it is only counted."""
        return self.faults is NONE and self.crash_at is None and not self.is_dead

    async def get(
        self, resource: Resource, name: str, namespace: str = "", *, subresource: str = "", resource_version: str = ""
    ) -> Document:
        return await self._read(
            lambda: self._objects.get(
                resource, name, namespace, subresource=subresource, resource_version=resource_version
            )
        )

    async def list(self, resource: Resource, query: Query = EVERYTHING) -> Page:
        return await self._read(lambda: self._objects.list(resource, query))

    async def watch(
        self,
        resource: Resource,
        query: Query = EVERYTHING,
        *,
        bookmarks: bool = False,
        initial_events: bool | None = None,
    ) -> Watch:
        watch = await self._read(
            lambda: self._objects.watch(resource, query, bookmarks=bookmarks, initial_events=initial_events)
        )
        return watch if self.faults is NONE else FaultyWatch(watch, self, self._chance)

    async def create(
        self, resource: Resource, body: Manifest | bytes, namespace: str = "", options: WriteOptions = DEFAULT_WRITE
    ) -> Document:
        if self._is_plain:
            self.writes += 1
            return await self._objects.create(resource, body, namespace, options)
        return await self._write(lambda: self._objects.create(resource, body, namespace, options))

    async def update(
        self,
        resource: Resource,
        name: str,
        body: Manifest | bytes,
        namespace: str = "",
        options: WriteOptions = DEFAULT_WRITE,
        *,
        subresource: str = "",
    ) -> Document:
        return await self._write(
            lambda: self._objects.update(resource, name, body, namespace, options, subresource=subresource)
        )

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch_type: PatchType,
        patch: Any,
        namespace: str = "",
        options: WriteOptions = DEFAULT_WRITE,
        *,
        subresource: str = "",
    ) -> Document:
        if self._is_plain:
            self.writes += 1
            return await self._objects.patch(
                resource, name, patch_type, patch, namespace, options, subresource=subresource
            )
        return await self._write(
            lambda: self._objects.patch(resource, name, patch_type, patch, namespace, options, subresource=subresource)
        )

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", options: DeleteOptions = DEFAULT_DELETE
    ) -> Deleted:
        return await self._write(lambda: self._objects.delete(resource, name, namespace, options))

    async def delete_all(
        self, resource: Resource, query: Query = EVERYTHING, options: DeleteOptions = DEFAULT_DELETE
    ) -> Page:
        return await self._write(lambda: self._objects.delete_all(resource, query, options))

    async def bind(self, namespace: str, name: str, binding: Manifest, options: WriteOptions = DEFAULT_WRITE) -> None:
        await self._write(lambda: self._objects.bind(namespace, name, binding, options))

    async def evict(self, namespace: str, name: str, eviction: Manifest, options: WriteOptions = DEFAULT_WRITE) -> None:
        await self._write(lambda: self._objects.evict(namespace, name, eviction, options))


class FaultyWatch:
    """Its faults are those that its port has at the moment."""

    def __init__(self, watch: Watch, port: FaultyObjects, chance: random.Random) -> None:
        self._watch = watch
        self._port = port
        self._chance = chance
        self._ended = False

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        if self._ended:
            raise StopAsyncIteration
        event = await self._watch.__anext__()
        faults, chance = self._port.faults, self._chance
        if faults is NONE:
            return event
        if chance.random() < faults.watch_lags:
            await asyncio.sleep(chance.random() * faults.watch_lag_seconds)
        if chance.random() < faults.watch_expires:
            self._ended = True
            return Event("ERROR", msgspec.json.encode(expired("too old resource version").status()))
        if chance.random() < faults.watch_ends:
            self._ended = True
        return event

    async def close(self) -> None:
        self._ended = True
        await self._watch.close()


_REFUSALS: tuple[Callable[[], StatusError], ...] = (
    lambda: StatusError(
        409, "Conflict", "the object has been modified; please apply your changes to the latest version"
    ),
    lambda: StatusError(
        429, "TooManyRequests", "the server has received too many requests and has asked us to try again"
    ),
    lambda: StatusError(500, "InternalError", "Internal error occurred: the store is busy"),
)
