"""A copy of one collection, kept up to date by list and watch, as typed records; with indexes, and callbacks on change.

It never gives up: a refused list, a broken or expired watch and an object that cannot be read are noted and survived.
What this process itself has written is shown to it by `observe`, so that nobody acts twice for want of an echo.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from itertools import islice
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar, runtime_checkable

import msgspec

from allhands.api.errors import StatusError, status_from
from allhands.ports import EVERYTHING, LateWatch, Query, ReadyWatch
from allhands.runtime.backoff import Backoff
from allhands.runtime.heads import head_of, key_of, split_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from allhands.api.kinds import Resource
    from allhands.ports import Collections, Event, Head, Page

__all__ = ["Informer", "key_of", "split_key"]

T = TypeVar("T")

PAGE_SIZE: Final = 500
FIRST_PAGE: Final = Query(limit=PAGE_SIZE)
"""What is asked for first of all of a collection that is seen in pages."""
STALL_SECONDS: Final = 300.0
"""A watch that shows nothing for so long, not even a bookmark, is opened anew: its connection may be dead."""
SHORT_SECONDS: Final = 10.0
"""A watch that lasted longer has worked: what ends it then is no reason to wait long."""
FIRST_LOOK_AGAIN_SECONDS: Final = 0.5
LOOK_AGAIN_SECONDS: Final = 30.0
"""How often a kind that the server does not know is asked for again."""
FORBIDDEN: Final = 403
NOT_FOUND: Final = 404
GONE: Final = 410
CANNOT_STREAM: Final = frozenset({400, 405, 422})
INITIAL_EVENTS_END: Final = b"k8s.io/initial-events-end"
_LOG = logging.getLogger(__name__)


@runtime_checkable
class _Feeding(Protocol):
    """A watch that is in this process with what it watches: no connection of it can die."""

    async def feed(self, take: Callable[[Event], None]) -> None: ...


class _Seen:
    """What a list has shown so far."""

    __slots__ = ("keys", "uids")

    def __init__(self) -> None:
        self.keys: set[str] = set()
        self.uids: set[str] = set()

    def add(self, head: Head) -> None:
        self.keys.add(head.key)
        self.uids.add(head.uid)


class _Kept(Generic[T]):
    """A record at a version, and under which values the indexes know it."""

    __slots__ = ("indexed", "record", "uid", "version")

    def __init__(self, record: T, uid: str, version: int) -> None:
        self.record = record
        self.uid = uid
        self.version = version
        self.indexed: tuple[tuple[str, ...], ...] = ()


class Informer(Generic[T]):
    """`indexes` say, by name, under which values a record is found."""

    def __init__(
        self,
        objects: Collections,
        resource: Resource,
        decode: Callable[[bytes], T],
        *,
        query: Query = EVERYTHING,
        indexes: Mapping[str, Callable[[T], Iterable[str]]] | None = None,
        optional: bool = False,
        decode_headed: Callable[[bytes], tuple[T, Head]] | None = None,
        in_pages: bool = False,
    ) -> None:
        """`optional`: the server may not know the kind, or may not show it to us; then there are no such objects,
        until there are. `decode_headed`: decodes the same and says whose it is, for less than both would cost.
        `in_pages`: what is there is listed even if it could be the beginning of the watch, which costs one request
        less and, for each object, more than twice as much of the server's time: for what there are very many of."""
        self.resource = resource
        self._optional = optional
        self._is_missed = False
        self._objects = objects
        self._decode = decode
        self._decode_headed = decode_headed
        self._query = query
        self._kept: dict[str, _Kept[T]] = {}
        self._index_functions = tuple((indexes or {}).values())
        self._indexes: dict[str, dict[str, dict[str, None]]] = {name: {} for name in indexes or ()}
        self._callbacks: list[Callable[[str, T | None, T | None], None]] = []
        self._position = 0
        """The version up to which everything was seen."""
        self._put_off_if: Callable[[Event], Head | None] | None = None
        self._put_off: dict[str, Event] = {}
        """What was shown of objects that are kept, and is not looked at yet: of each the next event."""
        self._unreadable: msgspec.MsgspecError | None = None
        """What was found when something that had been put off was looked at."""
        self._gone: dict[str, int] = {}
        """Uids of what we ourselves have deleted and the watch has not, with the last version that was seen: what the
        watch still says of them is old."""
        self._watched_from = 0
        """The version that a watch goes on from; 0 if all that is there must be shown first."""
        self.in_pages = in_pages
        self._streams = not in_pages and bool(getattr(objects, "streams_lists", False))
        """Whether what is there is asked for as the beginning of the watch, as long as the server does that."""
        self.problems: dict[str, str] = {}
        """Objects that cannot be read, and why."""
        self.synced = asyncio.Event()
        """Set once everything that was there has been seen."""

    # -- reading

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, key: object) -> bool:
        return key in self._kept

    def get(self, key: str) -> T | None:
        kept = self._kept.get(key)
        return None if kept is None else kept.record

    def all(self) -> Iterator[T]:
        return (kept.record for kept in self._kept.values())

    def keys(self) -> Iterator[str]:
        return iter(self._kept)

    def by(self, index: str, value: str) -> list[T]:
        """Those that the index knows under this value, in the order of their keys."""
        return [self._kept[key].record for key in self.keys_by(index, value)]

    def keys_by(self, index: str, value: str) -> list[str]:
        return sorted(self._indexes[index].get(value, ()))

    def count_by(self, index: str, value: str) -> int:
        return len(self._indexes[index].get(value, ()))

    def on_change(self, callback: Callable[[str, T | None, T | None], None]) -> None:
        """Calls it with the key and the record before and after, None where there is none."""
        self._callbacks.append(callback)

    # -- putting off

    def put_off(self, if_shown: Callable[[Event], Head | None]) -> None:
        """From now on changes of which this says whose they are may be looked at later, by `look_at_put_off`; each is
        before anything else that is shown of its object."""
        self._put_off_if = if_shown

    @property
    def count_put_off(self) -> int:
        return len(self._put_off)

    def look_at_put_off(self, most: int) -> bool:
        """At so many; whether there are more."""
        for key in list(islice(self._put_off, most)):
            self._look_at(self._put_off.pop(key))
        return bool(self._put_off)

    def _look_at(self, event: Event) -> None:
        """Nobody is there to be told of what cannot even be named: the next event finds out."""
        try:
            raw = event.raw
        except msgspec.MsgspecError as error:
            self._unreadable = error
        else:
            self._see_raw(raw)

    def _is_put_off(self, event: Event) -> bool:
        head = None if self._put_off_if is None else self._put_off_if(event)
        known = None if head is None or head.key in self._put_off else self._kept.get(head.key)
        if head is None or known is None or known.uid != head.uid or known.version >= head.version:
            return False
        self._put_off[head.key] = event
        self._position = self._watched_from = head.version
        return True

    # -- being told

    def observe(self, raw: bytes, head: Head | None = None) -> None:
        """The answer to a write of our own: as good as an event, unless the watch has been past it already."""
        if head is None:
            head = head_of(raw)
        if head.version > self._position:
            self._see(raw, head)

    def observe_gone(self, key: str, uid: str) -> None:
        """The object was deleted by ourselves."""
        kept = self._kept.get(key)
        if kept is not None and (not uid or kept.uid == uid):
            if kept.uid:
                self._gone[kept.uid] = kept.version
            self._drop(key)

    # -- running

    async def run(self) -> None:
        """Keeps the copy up to date until cancelled."""
        backoff = Backoff()
        unknown = Backoff(FIRST_LOOK_AGAIN_SECONDS, LOOK_AGAIN_SECONDS)
        loop = asyncio.get_running_loop()
        while True:
            began, position = loop.time(), self._position
            try:
                if not self._watched_from and not self._streams:
                    await self._list()
                await self._follow()
            except StatusError as refusal:
                if self._streams and not self._watched_from and refusal.code in CANNOT_STREAM:
                    self._streams = False  # an older server: it lists
                    continue
                if refusal.code in (NOT_FOUND, FORBIDDEN) and self._optional:
                    self._do_without(refusal)
                    await asyncio.sleep(unknown.next_seconds())
                    continue
                if refusal.code == GONE:
                    self._watched_from = 0
                _LOG.warning("watching %s: %s", self.resource.plural, refusal.message)
            except msgspec.MsgspecError as error:
                # Not even a name can be read: whatever was meant, a new list shows it.
                self._watched_from = 0
                _LOG.warning("watching %s: an event cannot be read: %s", self.resource.plural, error)
            if loop.time() - began > SHORT_SECONDS:
                backoff.reset()
            if self._position == position or not self._watched_from:
                # A server that ends every watch at once, or refuses, is not asked without a pause.
                await asyncio.sleep(backoff.next_seconds())

    def _do_without(self, refusal: StatusError) -> None:
        """Told once. What was seen while we were allowed to look is kept: it is better than nothing."""
        if not self._is_missed:
            self._is_missed = True
            if refusal.code == NOT_FOUND:
                _LOG.info("%s is not served here; it is watched as soon as it is", _full_name(self.resource))
            else:
                _LOG.warning("%s is done without until we may: %s", _full_name(self.resource), refusal.message)
        self._watched_from = 0
        if refusal.code == NOT_FOUND:
            self._forget_all()
        self.synced.set()

    def _forget_all(self) -> None:
        """The server does not know the kind: there are none."""
        self._gone.clear()
        self.problems.clear()
        for key in list(self._kept):
            self._drop(key)

    async def _list(self) -> None:
        """What is there is seen page by page, so that not all of it is held twice."""
        seen, limit, token = _Seen(), PAGE_SIZE, ""
        ahead: asyncio.Task[Page] | None = None
        try:
            while True:
                try:
                    page = await (self._page(limit, token) if ahead is None else ahead)
                except StatusError as refusal:
                    if refusal.code != GONE or not token:
                        raise
                    # The pages of one moment could not be had in time: then all at once. Those of another moment,
                    # which the server offers, would leave a gap.
                    seen, limit, token, ahead = _Seen(), 0, "", None
                    continue
                token = page.continue_token
                if token:
                    ahead = asyncio.create_task(self._page(limit, token))
                    await asyncio.sleep(0)  # it is on its way while this one is looked at
                for raw in page.items:
                    seen.add(self._see_raw(raw))
                if not token:
                    break
        finally:
            if ahead is not None:
                ahead.cancel()
        self._seen_all(seen, int(page.version))

    async def _page(self, limit: int, token: str) -> Page:
        query = msgspec.structs.replace(self._query, limit=limit, continue_token=token)
        return await self._objects.list(self.resource, query)

    def _seen_all(self, seen: _Seen, version: int) -> None:
        """Everything of this version has been shown: what was not shown is no more."""
        for key in [key for key in self.problems if key not in seen.keys]:
            del self.problems[key]
        for key in [key for key, kept in self._kept.items() if key not in seen.keys and kept.version <= version]:
            self._drop(key)
        self._gone = {uid: last for uid, last in self._gone.items() if uid in seen.uids or last > version}
        self._position = self._watched_from = version
        self.synced.set()

    async def _follow(self) -> None:
        """Reads the watch until it ends. What ends without an error goes on from where it was."""
        seen = None if self._watched_from else _Seen()
        query = msgspec.structs.replace(self._query, resource_version=str(self._watched_from or ""))
        watch = await self._objects.watch(
            self.resource, query, bookmarks=True, initial_events=None if seen is None else True
        )
        if self._is_missed:
            self._is_missed = False
            _LOG.info("%s is there now, and watched", _full_name(self.resource))
        loop = asyncio.get_running_loop()
        alive = loop.time()
        ready = watch if isinstance(watch, ReadyWatch) else None  # asking takes longer than reading an event
        try:
            if seen is None and isinstance(watch, _Feeding):
                await watch.feed(self._take)
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(STALL_SECONDS) as deadline:
                    async for event in watch:
                        if seen is not None:
                            seen = self._take_initial(event, seen)
                            while seen is not None and ready is not None and (more := ready.poll()) is not None:
                                seen = self._take_initial(more, seen)
                        else:
                            self._take(event)
                            if ready is not None:
                                await self._take_all(ready, deadline)
                        if loop.time() - alive > 1:
                            alive = loop.time()
                            deadline.reschedule(alive + STALL_SECONDS)
            if seen is not None and deadline.expired():
                self._streams = False  # it takes the request, and does not know what it asks for
        finally:
            await watch.close()

    async def _take_all(self, watch: ReadyWatch, deadline: asyncio.Timeout) -> None:
        """The rest of a watch, with one wait for all that comes together."""
        loop = asyncio.get_running_loop()
        alive = loop.time()
        poll = watch.poll_late if self._put_off_if is not None and isinstance(watch, LateWatch) else watch.poll
        while True:
            while (event := poll()) is not None:
                self._take(event)
            if loop.time() - alive > 1:
                alive = loop.time()
                deadline.reschedule(alive + STALL_SECONDS)
            if not await watch.more():
                return

    def _take_initial(self, event: Event, seen: _Seen) -> _Seen | None:
        """What is there comes in any order of versions; a bookmark says that it was all."""
        if event.type == "ERROR":
            raise status_from(event.manifest())
        if event.type == "BOOKMARK":
            if INITIAL_EVENTS_END not in event.raw:
                return seen
            self._seen_all(seen, (event.head or head_of(event.raw)).version)
            return None
        if event.type == "DELETED":
            seen.keys.discard((event.head or head_of(event.raw)).key)
            return seen
        seen.add(self._see_event(event))
        return seen

    def _take(self, event: Event) -> None:
        if self._unreadable is not None:
            error, self._unreadable = self._unreadable, None
            raise error
        if (event.type == "MODIFIED" or event.type == "ADDED") and event.head is not None:
            self._see(event.raw, event.head)
            self._position = self._watched_from = event.head.version
            return
        if event.type == "MODIFIED" and self._is_put_off(event):
            return
        if event.type == "ERROR":
            raise status_from(event.manifest())
        if event.type == "DELETED":
            head = event.head or head_of(event.raw)
            kept = self._kept.get(head.key)
            self.problems.pop(head.key, None)
            self._gone.pop(head.uid, None)
            if kept is not None and kept.version <= head.version:
                self._drop(head.key)
        elif event.type == "BOOKMARK":
            head = event.head or head_of(event.raw)
        else:
            head = self._see_event(event)
        self._position = self._watched_from = head.version

    # -- keeping

    def _see_event(self, event: Event) -> Head:
        head = event.head
        if head is None:
            return self._see_raw(event.raw)
        self._see(event.raw, head)
        return head

    def _see_raw(self, raw: bytes) -> Head:
        """Of an object of which nobody has said whose it is: one look for all, if the reader can."""
        if self._decode_headed is not None:
            try:
                record, head = self._decode_headed(raw)
            except Exception:  # what cannot be read is looked at again below, where it is told
                record = None
            if record is not None:
                if not self._is_old(head):
                    self._keep(head, record)
                return head
        head = head_of(raw)
        self._see(raw, head)
        return head

    def _see(self, raw: bytes, head: Head) -> None:
        known = self._kept.get(head.key)
        if (known is not None and known.version >= head.version) or (self._gone and head.uid in self._gone):
            return
        try:
            record = self._decode(raw)
        except Exception as error:  # whatever is wrong with one object, the others must be seen
            self.problems[head.key] = str(error)
            _LOG.warning("%s %s cannot be read: %s", self.resource.plural, head.key, error)
            if head.key in self._kept:
                self._drop(head.key)
            return
        self._keep(head, record)

    def _is_old(self, head: Head) -> bool:
        known = self._kept.get(head.key)
        return (known is not None and known.version >= head.version) or head.uid in self._gone

    def _keep(self, head: Head, record: T) -> None:
        key = head.key
        if self._put_off and (earlier := self._put_off.pop(key, None)) is not None:
            self._look_at(earlier)
        known = self._kept.get(key)
        if self.problems:
            self.problems.pop(key, None)
        kept = _Kept(record, head.uid, head.version)
        self._kept[key] = kept
        if self._index_functions:
            self._reindex(key, known, kept)
        before = None if known is None else known.record
        for callback in self._callbacks:
            callback(key, before, record)

    def _drop(self, key: str) -> None:
        self._put_off.pop(key, None)
        known = self._kept.pop(key)
        self._reindex(key, known, None)
        for callback in self._callbacks:
            callback(key, known.record, None)

    def _reindex(self, key: str, old: _Kept[T] | None, new: _Kept[T] | None) -> None:
        if not self._index_functions:
            return
        values = () if new is None else tuple([tuple(values_of(new.record)) for values_of in self._index_functions])
        if new is not None:
            new.indexed = values
        before = () if old is None else old.indexed
        if before == values:
            return
        for index, gone in zip(self._indexes.values(), before, strict=False):
            for value in gone:
                known = index[value]
                known.pop(key, None)
                if not known:
                    del index[value]
        for index, present in zip(self._indexes.values(), values, strict=False):
            for value in present:
                keys = index.get(value)
                if keys is None:
                    index[value] = {key: None}
                else:
                    keys[key] = None


def _full_name(resource: Resource) -> str:
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural
