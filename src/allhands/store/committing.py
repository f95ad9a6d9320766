"""Group commit: changes are taken in at once, and shown to others only when their batch is on disk.

While one batch is being written the next one gathers, so that many writers share one sync of the disk. Nobody but
writers sees a change before it is kept; what the disk refuses is taken back, newest first, as if it had never been, and
whoever waits for it is told. No version is ever given twice, not even one that was taken back.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Final

from allhands.api.errors import StatusError
from allhands.store.disk import Batch, DiskError, Kept
from allhands.store.recovery import load, resource_name

if TYPE_CHECKING:
    from allhands.store.collection import Collection
    from allhands.store.disk import Disk
    from allhands.store.journal import Change
    from allhands.store.record import Key
    from allhands.store.store import Store

RESERVED_VERSIONS: Final = 100_000
"""So many versions are set apart on disk at a time, before they are needed: who begins again goes on above them."""
MOST_IN_A_BATCH: Final = 5_000
AGAIN_SECONDS: Final = 1.0
"""So long what goes on by itself leaves a disk alone that has refused."""
_LOG = logging.getLogger(__name__)
_ENDED: Final = DiskError("the cluster is stopping", may_be_kept=True)


class Committer:
    """The changes of one store on their way to one disk. `run` writes them; without it nobody ever sees them."""

    def __init__(self, disk: Disk) -> None:
        head = disk.head()
        self._disk = disk
        self._head = head
        self._store: Store | None = None
        self.floor_version = head.floor
        """About what changed up to this version, an earlier life knows nothing."""
        self.seen_version = head.ceiling
        """The version of the last change that is on disk."""
        self.found = 0
        """How many objects the disk had kept when the store began."""
        self._ceiling = head.ceiling
        self._pending: list[tuple[Collection, Change]] = []
        """In order of version; the first ones may be under way."""
        self._under_way = 0
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        """Who waits, by the number of the change before which all must be on disk. Ascending."""
        self._kept = 0
        """How many changes came to an end: kept, or taken back."""
        self._wake = asyncio.Event()
        self._is_well = asyncio.Event()
        self._is_well.set()
        self._closing = False
        self._has_ended = False

    def begin(self, store: Store) -> None:
        """Gives the store what the disk has kept."""
        self._store = store
        store.version = self._head.ceiling
        load(store, self._head, self._disk.objects())
        self.found = sum(len(collection) for collection in store.collections())
        self._ceiling = self._head.ceiling + RESERVED_VERSIONS
        self._disk.begin(self._ceiling)

    # -- writers

    def take(self, collection: Collection, change: Change) -> None:
        self._pending.append((collection, change))
        self._wake.set()

    @property
    def pending(self) -> int:
        """How many changes are not on disk yet."""
        return len(self._pending)

    @property
    def is_well(self) -> bool:
        """Whether the disk took what it was given last."""
        return self._is_well.is_set()

    async def room(self) -> None:
        """Returns when it makes sense to change more: the disk is well, or worth another try, and not far behind."""
        if not self._is_well.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(AGAIN_SECONDS):
                    await self._is_well.wait()
        if len(self._pending) > MOST_IN_A_BATCH:
            with contextlib.suppress(StatusError):
                await self.settled()

    async def settled(self) -> None:
        """Returns when everything that was taken in so far is on disk; a `StatusError` says that it never will be."""
        if not self._pending:
            return
        if self._has_ended:
            raise refusal_of(_ENDED)
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((self._kept + len(self._pending), future))
        await future

    # -- the writing

    async def run(self) -> None:
        """Writes batch after batch, until `close`. Whoever comes after its end is refused, and waits for nothing."""
        try:
            while not (self._closing and not self._pending):
                if self._pending:
                    await self._write_batch()
                else:
                    self._wake.clear()
                    await self._wake.wait()
        finally:
            self._has_ended = True
            self._refuse_waiting(_ENDED)

    async def _write_batch(self) -> None:
        batch = self._next_batch()
        try:
            await self._disk.write(batch)
        except DiskError as error:
            self._take_back(error)
        except Exception as error:
            _LOG.exception("a batch of %d changes could not be written", self._under_way)
            self._take_back(DiskError(f"the changes could not be written: {error}", may_be_kept=True))
        else:
            self._show()

    async def close(self) -> None:
        """Waits until all is written, and leaves the disk in good order. `run` ends."""
        assert self._store is not None
        self._closing = True
        self._wake.set()
        try:
            await self.settled()
        except StatusError as refusal:
            _LOG.warning("the last changes are lost: %s", refusal.message)
        await self._disk.close(self._store.version)

    def _next_batch(self) -> Batch:
        changes = self._pending[:MOST_IN_A_BATCH]
        self._under_way = len(changes)
        last: dict[tuple[str, Key], Change] = {}
        touched: dict[str, int] = {}
        for collection, change in changes:
            record = change.new or change.old
            assert record is not None
            resource = resource_name(collection.home)
            last[resource, record.key] = change
            touched[resource] = change.version
        version = changes[-1][1].version
        if version > self._ceiling - RESERVED_VERSIONS // 2:
            self._ceiling = version + RESERVED_VERSIONS
        puts = tuple(Kept(name, key, it.new.version, it.new.raw) for (name, key), it in last.items() if it.new)
        removals = tuple(where for where, change in last.items() if change.new is None)
        return Batch(version, self._ceiling, puts, removals, touched)

    def _show(self) -> None:
        """What was under way is on disk."""
        done, self._pending = self._pending[: self._under_way], self._pending[self._under_way :]
        self._kept += self._under_way
        self._under_way = 0
        self.seen_version = done[-1][1].version
        counts: dict[Collection, int] = {}
        for collection, _ in done:
            counts[collection] = counts.get(collection, 0) + 1
        for collection, count in counts.items():
            collection.journal.reveal(count)
        self._is_well.set()
        reached = 0
        for number, future in self._waiting:
            if number > self._kept:
                break
            reached += 1
            if not future.done():
                future.set_result(None)
        del self._waiting[:reached]

    def _take_back(self, error: DiskError) -> None:
        """What was under way is not on disk; what came after it was built on it, and goes with it."""
        assert self._store is not None
        undone, self._pending = self._pending, []
        self._kept += len(undone)
        self._under_way = 0
        self._ceiling = 0  # so that the next batch reserves anew
        for collection, change in reversed(undone):
            self._store.undo(collection, change)
        if self._is_well.is_set():
            _LOG.error("%s; %d changes were taken back, reading goes on", error, len(undone))
        self._is_well.clear()
        self._refuse_waiting(error)
        for collection, change in undone:
            self._store.housekeeper.look_again(collection, change.new or change.old)

    def _refuse_waiting(self, error: DiskError) -> None:
        waiting, self._waiting = self._waiting, []
        for _, future in waiting:
            if not future.done():
                future.set_exception(refusal_of(error))


def refusal_of(error: DiskError) -> StatusError:
    """As a real API server refuses what its etcd has no room for."""
    if error.is_full:
        message = f"the disk of the cluster is full: {error}; nothing was changed, try again when there is room"
    elif error.may_be_kept:
        message = f"the disk of the cluster has failed: {error}; whether it was changed is not known"
    else:
        message = f"the disk of the cluster refuses to be written: {error}; nothing was changed"
    refusal = StatusError(500, "InternalError", message, {"causes": [{"message": str(error)}]})
    refusal.may_have_happened = error.may_be_kept
    return refusal
