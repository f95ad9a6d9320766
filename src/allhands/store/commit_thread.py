"""The thread that waits for the disk, so that the server does not, and one that folds the log into the file meanwhile.

Only the first one writes. Folding takes long and keeps no writer waiting; what came to the log meanwhile is little, and
is folded between two batches, so that the log begins anew.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from allhands.store.datafile import DataFile
    from allhands.store.disk import Batch, Head, Kept


class CommitThread:
    """A `Disk` over a data file."""

    def __init__(self, file: DataFile) -> None:
        self._file = file
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="commit")
        self._folding = ThreadPoolExecutor(max_workers=1, thread_name_prefix="fold")
        self._is_folding = False

    def head(self) -> Head:
        return self._file.head()

    def objects(self) -> Iterable[Kept]:
        return self._file.rows()

    def begin(self, ceiling: int) -> None:
        self._file.begin(ceiling)

    async def write(self, batch: Batch) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, self._file.write, batch)
        if self._file.is_checkpoint_due and not self._is_folding:
            self._is_folding = True
            self._folding.submit(self._fold)

    def _fold(self) -> None:
        try:
            self._file.checkpoint_aside()
            self._thread.submit(self._file.checkpoint)  # nobody waits for it but the next batch
        finally:
            self._is_folding = False

    async def close(self, version: int) -> None:
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self._folding.shutdown)
        await loop.run_in_executor(self._thread, self._file.close, version)
        self._thread.shutdown()
