"""Disks that enter through the port: they keep batches when a test says so, refuse them, or lose their power."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from allhands.store import Store
from allhands.store.committing import Committer
from allhands.store.disk import Batch, DiskError, Head, Kept
from allhands.store.durable import DurableObjects
from tests.doubles import CountingIds, ManualClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from allhands.ports import Clock
    from allhands.store.disk import Disk
    from allhands.store.record import Key


class MemoryDisk:
    """What it was given is there for whoever begins anew on it. While `held`, batches wait to be let go or refused."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, Key], Kept] = {}
        self.written = Head(1, 1, 1, {})
        self.held = False
        self.fault: DiskError | None = None
        self.batches: list[Batch] = []
        self._waiting: list[tuple[Batch, asyncio.Future[None]]] = []

    def head(self) -> Head:
        return self.written

    def objects(self) -> Iterator[Kept]:
        return iter(sorted(self.kept.values(), key=lambda kept: (kept.resource, kept.key)))

    def begin(self, ceiling: int) -> None:
        self.written = Head(self.written.version, ceiling, self.written.floor, self.written.touched)

    async def write(self, batch: Batch) -> None:
        if self.held:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((batch, future))
            await future
        else:
            await asyncio.sleep(0)
        if self.fault is not None:
            raise self.fault
        self._take(batch)

    def _take(self, batch: Batch) -> None:
        self.batches.append(batch)
        self.kept |= {(kept.resource, kept.key): kept for kept in batch.puts}
        for where in batch.removals:
            self.kept.pop(where, None)
        touched = self.written.touched | batch.touched
        self.written = Head(batch.version, batch.ceiling, self.written.floor, touched)

    async def close(self, version: int) -> None:
        self.written = Head(self.written.version, version, self.written.floor, self.written.touched)

    def let_go(self) -> None:
        """The batch that waits is written, or refused if there is a fault."""
        waiting, self._waiting = self._waiting, []
        for _, future in waiting:
            if not future.done():
                future.set_result(None)

    def lose_power(self, *, in_time: bool) -> None:
        """Nobody will be told of the batch that waits; it is kept if it was `in_time`."""
        waiting, self._waiting = self._waiting, []
        for batch, _ in waiting if in_time else ():
            self._take(batch)


class Life:
    """One life of a store on a disk, from its beginning to its end or its crash."""

    def __init__(self, disk: Disk, clock: Clock | None = None, window: int = 10_000) -> None:
        self.committer = Committer(disk)
        self.store = Store(
            clock or ManualClock(), CountingIds(), committer=self.committer, window=window, keeps_quotas=True
        )
        self.objects = DurableObjects(self.store, self.committer)


@contextlib.asynccontextmanager
async def living(disk: Disk, clock: Clock | None = None, window: int = 10_000) -> AsyncIterator[Life]:
    """A life that ends as a process does that is killed: nothing is said goodbye to."""
    life = Life(disk, clock, window)
    writing = asyncio.create_task(life.committer.run())
    try:
        yield life
    finally:
        writing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await writing


async def turns(count: int = 20) -> None:
    """Lets everything happen that waits for nothing."""
    for _ in range(count):
        await asyncio.sleep(0)
