"""A copy of one collection, kept up to date by list and watch, as typed records; with indexes, and callbacks on change.

It never gives up: a refused list, a broken or expired watch and an object that cannot be read are noted and survived.
What this process itself has written is shown to it by `observe`, so that nobody acts twice for want of an echo.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import msgspec

from allhands.api.errors import StatusError, status_from
from allhands.ports import EVERYTHING, Query
from allhands.runtime.backoff import Backoff

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from allhands.api.kinds import Resource
    from allhands.ports import Event, Objects

T = TypeVar("T")

PAGE_SIZE: Final = 500
STALL_SECONDS: Final = 300.0
"""A watch that shows nothing for so long, not even a bookmark, is opened anew: its connection may be dead."""
SHORT_SECONDS: Final = 10.0
"""A watch that lasted longer has worked: what ends it then is no reason to wait long."""
FIRST_LOOK_AGAIN_SECONDS: Final = 0.5
LOOK_AGAIN_SECONDS: Final = 30.0
"""How often a kind that the server does not know is asked for again."""
NOT_FOUND: Final = 404
GONE: Final = 410
_LOG = logging.getLogger(__name__)


class _Meta(msgspec.Struct, gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = msgspec.field(default="", name="resourceVersion")


class _Head(msgspec.Struct, gc=False):
    """What every object has."""

    metadata: _Meta


_heads = msgspec.json.Decoder(_Head)


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
        objects: Objects,
        resource: Resource,
        decode: Callable[[bytes], T],
        *,
        query: Query = EVERYTHING,
        indexes: Mapping[str, Callable[[T], Iterable[str]]] | None = None,
        optional: bool = False,
    ) -> None:
        """`optional`: the server may not know the kind; then there are no such objects, until there are."""
        self.resource = resource
        self._optional = optional
        self._objects = objects
        self._decode = decode
        self._query = query
        self._kept: dict[str, _Kept[T]] = {}
        self._index_functions = tuple((indexes or {}).values())
        self._indexes: dict[str, dict[str, dict[str, None]]] = {name: {} for name in indexes or ()}
        self._callbacks: list[Callable[[str, T | None, T | None], None]] = []
        self._position = 0
        """The version up to which everything was seen."""
        self._gone: dict[str, int] = {}
        """Uids of what we ourselves have deleted and the watch has not, with the last version that was seen: what the
        watch still says of them is old."""
        self._watched_from = ""
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

    def on_change(self, callback: Callable[[str, T | None, T | None], None]) -> None:
        """Calls it with the key and the record before and after, None where there is none."""
        self._callbacks.append(callback)

    # -- being told

    def observe(self, raw: bytes) -> None:
        """The answer to a write of our own: as good as an event, unless the watch has been past it already."""
        head = _heads.decode(raw)
        if int(head.metadata.resource_version or 0) > self._position:
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
                if not self._watched_from:
                    await self._list()
                await self._follow()
            except StatusError as refusal:
                if refusal.code == NOT_FOUND and self._optional:
                    self._forget_all()
                    await asyncio.sleep(unknown.next_seconds())
                    continue
                if refusal.code == GONE:
                    self._watched_from = ""
                _LOG.warning("watching %s: %s", self.resource.plural, refusal.message)
            except msgspec.MsgspecError as error:
                # Not even a name can be read: whatever was meant, a new list shows it.
                self._watched_from = ""
                _LOG.warning("watching %s: an event cannot be read: %s", self.resource.plural, error)
            if loop.time() - began > SHORT_SECONDS:
                backoff.reset()
            if self._position == position or not self._watched_from:
                # A server that ends every watch at once, or refuses, is not asked without a pause.
                await asyncio.sleep(backoff.next_seconds())

    def _forget_all(self) -> None:
        """The server does not know the kind: there are none."""
        self._watched_from = ""
        self._gone.clear()
        self.problems.clear()
        for key in list(self._kept):
            self._drop(key)
        self.synced.set()

    async def _list(self) -> None:
        found: dict[str, bytes] = {}
        uids: set[str] = set()
        token = ""
        while True:
            query = msgspec.structs.replace(self._query, limit=PAGE_SIZE, continue_token=token)
            page = await self._objects.list(self.resource, query)
            for raw in page.items:
                head = _heads.decode(raw)
                found[key_of(head.metadata.namespace, head.metadata.name)] = raw
                uids.add(head.metadata.uid)
            token = page.continue_token
            if not token:
                break
        version = int(page.version)
        for key in [key for key in self.problems if key not in found]:
            del self.problems[key]
        for key in [key for key, kept in self._kept.items() if key not in found and kept.version <= version]:
            self._drop(key)
        for raw in found.values():
            self._see(raw, _heads.decode(raw))
        self._gone = {uid: last for uid, last in self._gone.items() if uid in uids or last > version}
        self._position = version
        self._watched_from = page.version
        self.synced.set()

    async def _follow(self) -> None:
        """Reads the watch until it ends. What ends without an error goes on from where it was."""
        query = msgspec.structs.replace(self._query, resource_version=self._watched_from)
        watch = await self._objects.watch(self.resource, query, bookmarks=True)
        loop = asyncio.get_running_loop()
        alive = loop.time()
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(STALL_SECONDS) as deadline:
                    async for event in watch:
                        self._take(event)
                        if loop.time() - alive > 1:
                            alive = loop.time()
                            deadline.reschedule(alive + STALL_SECONDS)
        finally:
            await watch.close()

    def _take(self, event: Event) -> None:
        if event.type == "ERROR":
            raise status_from(event.manifest())
        head = _heads.decode(event.raw)
        version = head.metadata.resource_version
        if event.type == "DELETED":
            key = key_of(head.metadata.namespace, head.metadata.name)
            kept = self._kept.get(key)
            self.problems.pop(key, None)
            self._gone.pop(head.metadata.uid, None)
            if kept is not None and kept.version <= int(version):
                self._drop(key)
        elif event.type != "BOOKMARK":
            self._see(event.raw, head)
        self._position = int(version)
        self._watched_from = version

    # -- keeping

    def _see(self, raw: bytes, head: _Head) -> None:
        meta = head.metadata
        key = key_of(meta.namespace, meta.name)
        version = int(meta.resource_version or 0)
        known = self._kept.get(key)
        if (known is not None and known.version >= version) or meta.uid in self._gone:
            return
        try:
            record = self._decode(raw)
        except Exception as error:  # whatever is wrong with one object, the others must be seen
            self.problems[key] = str(error)
            _LOG.warning("%s %s cannot be read: %s", self.resource.plural, key, error)
            if known is not None:
                self._drop(key)
            return
        if self.problems:
            self.problems.pop(key, None)
        kept = _Kept(record, meta.uid, version)
        self._kept[key] = kept
        self._reindex(key, known, kept)
        before = None if known is None else known.record
        for callback in self._callbacks:
            callback(key, before, record)

    def _drop(self, key: str) -> None:
        known = self._kept.pop(key)
        self._reindex(key, known, None)
        for callback in self._callbacks:
            callback(key, known.record, None)

    def _reindex(self, key: str, old: _Kept[T] | None, new: _Kept[T] | None) -> None:
        if not self._index_functions:
            return
        values = () if new is None else tuple(tuple(values_of(new.record)) for values_of in self._index_functions)
        if new is not None:
            new.indexed = values
        before = () if old is None else old.indexed
        if before == values:
            return
        for index, gone in zip(self._indexes.values(), before, strict=False):
            for value in gone:
                keys = index[value]
                keys.pop(key, None)
                if not keys:
                    del index[value]
        for index, present in zip(self._indexes.values(), values, strict=False):
            for value in present:
                index.setdefault(value, {})[key] = None


def key_of(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name


def split_key(key: str) -> tuple[str, str]:
    """Namespace and name."""
    namespace, _, name = key.rpartition("/")
    return namespace, name
