"""The recent past of one collection: a bounded window of changes that watchers read at their own pace.

A watcher is a position in the window, nothing more: a new one copies nothing, a slow one holds nothing back, and one
that fell out of the window is told so (410 Gone) and lists again. Versions are unique and ascending in the window.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from allhands.store.record import Record

DEFAULT_WINDOW = 10_000


class Change:
    """One step of one object: created (no `old`), updated, or deleted (no `new`)."""

    __slots__ = ("new", "old", "version")

    def __init__(self, version: int, old: Record | None, new: Record | None) -> None:
        self.version = version
        self.old = old
        self.new = new


class Journal:
    """The last `window` changes of a collection."""

    def __init__(self, start_version: int, window: int = DEFAULT_WINDOW) -> None:
        self._changes: deque[Change] = deque()
        self._window = window
        self._waiting: dict[asyncio.Future[None], None] = {}
        """In the order in which they began to wait, so that a simulation repeats."""
        self.first_position = 0
        """The position of the oldest change still held. Positions never repeat."""
        self.floor_version = start_version
        """Changes after this version are all held; about earlier ones nothing is known."""

    @property
    def end_position(self) -> int:
        return self.first_position + len(self._changes)

    def append(self, change: Change) -> None:
        self._changes.append(change)
        if len(self._changes) > self._window:
            self.floor_version = self._changes.popleft().version
            self.first_position += 1
        self.wake()

    def wake(self) -> None:
        """Lets every watcher look again, e.g. because the collection is going away."""
        waiting, self._waiting = self._waiting, {}
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def position_after(self, version: int) -> int:
        """The position of the first change later than `version`, which must not be below the floor."""
        position = self.end_position
        for change in reversed(self._changes):
            if change.version <= version:
                break
            position -= 1
        return position

    def at(self, position: int) -> Change:
        """The change at a position that the window still holds."""
        return self._changes[position - self.first_position]

    def undone_to(self, version: int) -> dict[tuple[str, str], Record | None]:
        """What changed since `version`: for each such object its record back then, None if there was none."""
        earlier: dict[tuple[str, str], Record | None] = {}
        for change in reversed(self._changes):
            if change.version <= version:
                break
            record = change.new or change.old
            assert record is not None
            earlier[record.key] = change.old
        return earlier

    async def changed(self) -> None:
        """Returns when something was appended after the call."""
        future = asyncio.get_running_loop().create_future()
        self._waiting[future] = None
        try:
            await future
        finally:
            self._waiting.pop(future, None)
