"""A watch on a collection: a position in its journal and a filter. It keeps no events of its own.

Whether a change is an ADDED, MODIFIED or DELETED event depends on the watcher: an object that starts to match its
selectors is added for it, one that stops to match is deleted for it.
"""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from allhands.api.errors import expired
from allhands.ports import Event
from allhands.store.record import shown

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from allhands.api.document import Manifest
    from allhands.api.kinds import Kind
    from allhands.store.collection import Collection, Filter
    from allhands.store.journal import Change
    from allhands.store.record import Key, Record

FIRST_CHUNK = 256
BOOKMARK_AFTER_CHANGES = 1_000
"""A watcher that asked for bookmarks gets one after this many changes that were not for it."""


class StoreWatch:
    """The events of one watcher, in order, none lost, none doubled."""

    def __init__(
        self,
        collection: Collection,
        kind: Kind,
        wanted: Filter,
        *,
        position: int,
        after_version: int = 0,
        initial_version: int | None = None,
        mark_initial_end: bool = False,
        empty_object: Callable[[int], Manifest],
        bookmarks: bool = False,
    ) -> None:
        self._collection = collection
        self._kind = kind
        self._wanted = wanted
        self._position = position
        self._after_version = after_version
        self._initial_version = initial_version
        self._mark_initial_end = mark_initial_end
        self._chunk: list[Record] = []
        self._chunk_size = FIRST_CHUNK
        self._after: Key | None = None
        self._empty_object = empty_object
        self._bookmarks = bookmarks
        self._version = collection.seen_version
        self._skipped = 0
        self._ended = False
        self._home = collection.home
        self._sees_all = wanted.is_everything and kind.storage is None

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        while True:
            event = self.poll()
            if event is not None:
                return event
            if not await self.more():
                raise StopAsyncIteration

    async def feed(self, take: Callable[[Event], None]) -> None:
        """Gives every event to `take`, soon after it came to be, until the watch ends or `take` raises. It costs much
        less than waiting for each."""
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        collection = self._collection

        def look() -> None:
            try:
                self._drain(take)
            except Exception as error:  # whatever it is, it is for who waits
                journal.unfollow(look)
                if not ended.done():
                    ended.set_exception(error)
            else:
                if self._is_over and not ended.done():
                    ended.set_result(None)

        journal = collection.journal
        journal.follow(look)
        try:
            look()
            await ended
        finally:
            journal.unfollow(look)

    def _drain(self, take: Callable[[Event], None]) -> None:
        """What `poll` gives, one after the other, without asking everything anew for each."""
        journal, sees_all, after = self._collection.journal, self._sees_all, self._after_version
        if self._initial_version is None and not self._ended and self._collection.home == self._home:
            while self._position >= journal.first_position and (changes := journal.since(self._position)):
                for change in changes:
                    self._position += 1
                    self._version = change.version
                    event = change.event if sees_all and change.version > after else self._event(change)
                    if event is None:
                        self._skipped += 1
                    else:
                        self._skipped = 0
                        take(event)
        while (event := self.poll()) is not None:
            take(event)

    @property
    def _is_over(self) -> bool:
        """The watch ended, its kind did, or that is stored in another version since."""
        return self._ended or self._collection.closed or self._collection.home != self._home

    async def more(self) -> bool:
        """Returns when there may be more to `poll`; False if there never will be."""
        if self._is_over:
            return False
        await self._collection.journal.changed()
        return True

    def poll(self) -> Event | None:
        """The next event if there is one already."""
        if self._ended or self._collection.home != self._home:
            return None
        if self._initial_version is not None:
            event = self._next_initial(self._initial_version)
            if event is not None:
                return event
        journal = self._collection.journal
        if self._position < journal.first_position:
            return self._expire()
        while (change := journal.at(self._position)) is not None:
            self._position += 1
            self._version = change.version
            event = self._event(change)
            if event is not None:
                self._skipped = 0
                return event
            self._skipped += 1
        return self._due_bookmark()

    def _next_initial(self, version: int) -> Event | None:
        """The next object as it was when the watch began, read in growing chunks rather than copied at the start."""
        if not self._chunk:
            if version < self._collection.journal.floor_version:
                return self._expire()
            found = self._collection.find(self._wanted, version=version, after=self._after)
            self._chunk = list(islice(found, self._chunk_size))[::-1]
            self._chunk_size *= 2
        if self._chunk:
            record = self._chunk.pop()
            self._after = record.key
            return Event("ADDED", shown(self._kind, record.raw), record.head)
        self._initial_version = None
        if not self._mark_initial_end:
            return None
        document = self._empty_object(version)
        document["metadata"]["annotations"] = {"k8s.io/initial-events-end": "true"}
        return Event("BOOKMARK", msgspec.json.encode(document))

    def _expire(self) -> Event:
        self._ended = True
        return Event("ERROR", msgspec.json.encode(expired("too old resource version").status()))

    def _event(self, change: Change) -> Event | None:
        if change.version <= self._after_version:
            return None  # a watch from the future waits for it
        if self._sees_all:
            return change.event
        old, new = change.old, change.new
        before = old is not None and self._wanted.matches(old)
        now = new is not None and self._wanted.matches(new)
        if now:
            assert new is not None
            return Event("MODIFIED" if before else "ADDED", shown(self._kind, new.raw), new.head)
        if before:
            assert old is not None
            return Event("DELETED", shown(self._kind, old.at_version(change.version)))
        return None

    def _due_bookmark(self) -> Event | None:
        if self._bookmarks and self._skipped >= BOOKMARK_AFTER_CHANGES:
            return self.bookmark()
        return None

    def bookmark(self) -> Event:
        """A mark that everything up to the collection's present version was delivered."""
        self._skipped = 0
        return Event("BOOKMARK", msgspec.json.encode(self._empty_object(max(self._version, self._caught_up_version()))))

    def _caught_up_version(self) -> int:
        at_end = self._initial_version is None and self._position == self._collection.journal.end_position
        return self._collection.seen_version if at_end else 0

    async def close(self) -> None:
        self._ended = True
        self._collection.journal.wake()
