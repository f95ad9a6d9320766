"""One watch of a collection for all informers of this process that follow it.

Whoever follows is shown what a watch of its own would show: it begins with one, and joins the shared one as soon as it
has seen no less; the first to get there makes its own the shared one. When that ends, it ends for everybody, and each
begins anew where it was. An event is told apart (whose, which version) once for all.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

import msgspec

from allhands.ports import EVERYTHING, Event, ReadyWatch
from allhands.runtime.heads import head_of
from allhands.runtime.informer import INITIAL_EVENTS_END, STALL_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from allhands.api.kinds import Resource
    from allhands.ports import Collections, Page, Query, Watch

_UNKNOWN: Final = -1


class SharedWatch:
    """Of all objects of `resource`; what else is asked for is passed on to `objects`."""

    def __init__(self, objects: Collections, resource: Resource) -> None:
        self._objects = objects
        self._resource = resource
        self._source: _Source | None = None
        self.streams_lists = bool(getattr(objects, "streams_lists", False))

    async def list(self, resource: Resource, query: Query = EVERYTHING) -> Page:
        return await self._objects.list(resource, query)

    async def watch(
        self,
        resource: Resource,
        query: Query = EVERYTHING,
        *,
        bookmarks: bool = False,
        initial_events: bool | None = None,
    ) -> Watch:
        version = query.resource_version
        is_whole = resource == self._resource and msgspec.structs.replace(query, resource_version="") == EVERYTHING
        if is_whole and version and not initial_events and (source := self.source(int(version))) is not None:
            return _Follower(self, None, source, int(version))
        own = await self._objects.watch(resource, query, bookmarks=bookmarks, initial_events=initial_events)
        if not is_whole or not isinstance(own, ReadyWatch):
            return own
        return _Follower(self, own, None, _UNKNOWN if initial_events or not version else int(version))

    def source(self, version: int) -> _Source | None:
        """The shared watch, if it will show all that comes after this version."""
        source = self._source
        return source if source is not None and source.is_alive and source.version <= version else None

    def joined(self, own: ReadyWatch, version: int) -> _Source | None:
        """What who has seen this version by its own watch follows from now on; None if it must go on by itself."""
        if self._source is None or not self._source.is_alive:
            self._source = _Source(own, version)
        return self.source(version)


class _Source:
    """Reads the shared watch while somebody follows. `version` is the last that everybody was shown."""

    def __init__(self, watch: ReadyWatch, version: int) -> None:
        self._watch = watch
        self.version = version
        self.is_over = False
        self.error: Exception | None = None
        self._followers: dict[_Follower, None] = {}
        self._shown_at = asyncio.get_running_loop().time()
        self._reading = asyncio.create_task(self._read(), name="shared watch")

    @property
    def is_alive(self) -> bool:
        """Whether it is worth following: one whose connection may be dead is not, whoever still does."""
        return not self.is_over and asyncio.get_running_loop().time() - self._shown_at < STALL_SECONDS

    def is_of(self, watch: ReadyWatch) -> bool:
        return self._watch is watch

    def follow(self, follower: _Follower) -> None:
        self._followers[follower] = None

    async def leave(self, follower: _Follower) -> None:
        self._followers.pop(follower, None)
        if not self._followers:
            self.is_over = True
            self._reading.cancel()
            try:
                await asyncio.wait((self._reading,))
            finally:
                await self._watch.close()

    async def _read(self) -> None:
        try:
            while True:
                while (event := self._watch.poll()) is not None:
                    self._show(event)
                if not await self._watch.more():
                    break
        except Exception as error:  # whatever it is, it is for those who follow
            self.error = error
        finally:
            self.is_over = True
            for follower in self._followers:
                follower.news.set()

    def _show(self, event: Event) -> None:
        told = _told_apart(event)
        self._shown_at = asyncio.get_running_loop().time()
        if told.head is not None:
            self.version = told.head.version
        for follower in self._followers:
            follower.show(told)


class _Follower:
    """A watch as its informer sees it: by a watch of its own until it may join the shared one."""

    def __init__(self, shared: SharedWatch, own: ReadyWatch | None, source: _Source | None, version: int) -> None:
        self._shared = shared
        self._own = own
        self._source = source
        self._version = version
        """The last that was seen; not known while what is there is shown, in whatever order."""
        self._events: deque[Event] = deque()
        self.news = asyncio.Event()
        if source is not None:
            source.follow(self)

    def show(self, event: Event) -> None:
        if event.head is None or event.head.version > self._version:
            self._events.append(event)
            self.news.set()

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        while (event := self.poll()) is None:
            if not await self.more():
                raise StopAsyncIteration
        return event

    def poll(self) -> Event | None:
        if self._own is None:
            return self._events.popleft() if self._events else None
        event = self._own.poll()
        if event is None:
            return None
        told = _told_apart(event)
        if told.head is not None and (self._version != _UNKNOWN or _is_whole(told)):
            self._version = told.head.version
        return told

    async def more(self) -> bool:
        """Everything that had come has been taken: this is the moment to change over."""
        if self._own is not None and self._version != _UNKNOWN:
            await self._join(self._own)
        if self._own is not None:
            return await self._own.more()
        assert self._source is not None
        while not self._events:
            if self._source.is_over:
                if self._source.error is not None:
                    raise self._source.error
                return False
            self.news.clear()
            await self.news.wait()
        return True

    async def _join(self, own: ReadyWatch) -> None:
        source = self._shared.joined(own, self._version)
        if source is None:
            return
        self._own, self._source = None, source
        source.follow(self)
        if not source.is_of(own):
            await own.close()

    async def close(self) -> None:
        if self._own is not None:
            await self._own.close()
        if self._source is not None:
            await self._source.leave(self)


def _told_apart(event: Event) -> Event:
    """With whose it is; what cannot be read is for whoever reads it."""
    if event.head is not None or event.type == "ERROR":
        return event
    try:
        return Event(event.type, event.raw, head_of(event.raw))
    except msgspec.MsgspecError:
        return event


def _is_whole(event: Event) -> bool:
    """Whether it says that everything that is there has been shown."""
    return event.type == "BOOKMARK" and INITIAL_EVENTS_END in event.raw
