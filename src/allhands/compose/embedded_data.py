"""The folder of an embedded cluster: who holds it, and the store that is kept in it.

One process at a time: a second one would take over the first one's kubeconfig and break its data.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
from typing import TYPE_CHECKING, Final

from allhands.store import InProcessObjects, Store
from allhands.store.commit_thread import CommitThread
from allhands.store.committing import Committer
from allhands.store.datafile import DataFile
from allhands.store.durable import DurableObjects
from allhands.store.safekeeping import backup, rescue, restore
from allhands.store.wal import has_log

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping
    from pathlib import Path

    from allhands.api.volcano.admission import Admission
    from allhands.ports import Clock, Ids
    from allhands.store.safekeeping import Copied

DATA_FILE: Final = "state.db"
LOCK_FILE: Final = "lock"
_EPHEMERAL: Final = "ephemeral\n"


def data_file(folder: Path) -> Path:
    """Where a cluster's objects are kept."""
    return folder / DATA_FILE


@contextlib.contextmanager
def owned(folder: Path, *, ephemeral: bool = False) -> Iterator[None]:
    """Holds the data folder; who comes second is told, and who looks sees whether its owner is `ephemeral`."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / LOCK_FILE
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OSError(errno.EWOULDBLOCK, "another cluster is running with this folder", str(path)) from None
        file.truncate(0)
        file.write(_EPHEMERAL if ephemeral else "")
        file.flush()
        yield


def is_ephemeral(folder: Path) -> bool:
    """Whether a cluster is running with this folder that keeps nothing in it."""
    with contextlib.suppress(OSError), (folder / LOCK_FILE).open("rb") as file:
        if file.read() != _EPHEMERAL.encode():
            return False
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False  # it was killed


class Stored:
    """A store and the two ways to it: `objects` answers when all is kept, `at_once` when it is done in memory."""

    def __init__(self, store: Store, committer: Committer | None) -> None:
        self.store = store
        self.committer = committer
        self.at_once = InProcessObjects(store)
        self.found = 0 if committer is None else committer.found
        self.objects = self.at_once if committer is None else DurableObjects(store, committer)

    async def settled(self) -> None:
        """Returns when everything that was done is kept."""
        if self.committer is not None:
            await self.committer.settled()

    def is_well(self) -> bool:
        """Whether the disk takes what it is given."""
        return self.committer is None or self.committer.is_well


@contextlib.asynccontextmanager
async def stored(
    folder: Path,
    clock: Clock,
    ids: Ids,
    webhooks: Mapping[tuple[str, str], Admission],
    *,
    durable: bool,
    keeps_quotas: bool = False,
) -> AsyncIterator[Stored]:
    """The store of an embedded cluster until the block ends, with all that was kept in the folder if it is `durable`;
    else it begins empty and leaves nothing."""
    if not durable:
        yield Stored(Store(clock, ids, webhooks=webhooks, keeps_quotas=keeps_quotas), None)
        return
    file = DataFile(data_file(folder))
    try:
        committer = Committer(CommitThread(file))
        store = Store(clock, ids, webhooks=webhooks, committer=committer, keeps_quotas=keeps_quotas)
    except BaseException:
        file.close()
        raise
    writing = asyncio.create_task(committer.run(), name="commits")
    try:
        yield Stored(store, committer)
    finally:
        await committer.close()
        await writing


def back_up(folder: Path, target: Path) -> Copied:
    """Copies the cluster in the folder, which may be running."""
    return backup(data_file(folder), target)


def save(folder: Path, target: Path, source: Path | None = None) -> Copied:
    """Copies what can be read of the damaged cluster in the folder, or of a damaged backup, the `source`."""
    return rescue(source or data_file(folder), target)


def bring_back(folder: Path, source: Path, clock: Clock) -> tuple[Copied, Path | None]:
    """Makes the cluster in the folder what a backup holds. Returns where the one that was there is now."""
    with owned(folder):
        target = data_file(folder)
        moment = clock.now().strftime("%Y%m%dT%H%M%SZ")
        aside = folder / f"{DATA_FILE}.replaced-{moment}"
        number = 1
        while aside.exists() or has_log(aside):
            number += 1
            aside = folder / f"{DATA_FILE}.replaced-{moment}-{number}"
        was_there = target.exists() or has_log(target)
        return restore(source, target, aside), aside if was_there else None
