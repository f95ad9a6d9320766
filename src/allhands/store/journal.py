"""The recent past of one collection: a bounded window of changes that watchers read at their own pace.

A watcher is a position in the window, nothing more: a new one copies nothing, a slow one holds nothing back, and one
that fell out of the window is told so (410 Gone) and lists again. Versions are unique and ascending in the window.
Where changes have to be on disk before anybody sees them, the last ones are hidden until they are revealed or undone.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from allhands.ports import Event, Head

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from allhands.store.record import Record

DEFAULT_WINDOW = 10_000


class Change:
    """One step of one object: created (no `old`), updated, or deleted (no `new`)."""

    __slots__ = ("_event", "new", "old", "version")

    def __init__(self, version: int, old: Record | None, new: Record | None) -> None:
        self.version = version
        self.old = old
        self.new = new
        self._event: Event | None = None

    @property
    def event(self) -> Event:
        """As those see it who watch all objects in the stored version; they share it."""
        event = self._event
        if event is None:
            event = self._event = self._made_event()
        return event

    def forget_event(self) -> None:
        """Its records are stated in another version now."""
        self._event = None

    def _made_event(self) -> Event:
        old, new = self.old, self.new
        if new is not None:
            return Event("ADDED" if old is None else "MODIFIED", new.raw, new.head)
        assert old is not None
        return Event("DELETED", old.at_version(self.version), Head(old.head.key, old.uid, self.version))


class Journal:
    """The last `window` changes of a collection."""

    def __init__(self, start_version: int, window: int = DEFAULT_WINDOW) -> None:
        self._changes: deque[Change] = deque()
        self._window = window
        self._waiting: dict[asyncio.Future[None], None] = {}
        """In the order in which they began to wait, so that a simulation repeats."""
        self._followers: dict[Callable[[], None], None] = {}
        self._is_telling = False
        self._loop: asyncio.AbstractEventLoop | None = None
        """That of the followers."""
        self._since: tuple[int, int, list[Change]] = (0, 0, [])
        """The last answer of `since`, with the positions that it is from and to: followers ask for the same."""
        self.first_position = 0
        """The position of the oldest change still held. Positions never repeat."""
        self.floor_version = start_version
        """Changes after this version are all held; about earlier ones nothing is known."""
        self._hidden = 0
        """How many of the last changes nobody may see yet."""
        self._before_hidden: dict[tuple[str, str], Record | None] = {}
        """What readers see in place of the objects that hidden changes are about."""

    @property
    def end_position(self) -> int:
        """Where the changes end that may be seen."""
        return self.first_position + len(self._changes) - self._hidden

    @property
    def last_version(self) -> int:
        """Of the last change, hidden ones too, or of what came before all that are held."""
        return self._changes[-1].version if self._changes else self.floor_version

    @property
    def last_seen_version(self) -> int:
        """Of the last change that may be seen, or of what came before all that are held."""
        seen = len(self._changes) - self._hidden
        return self._changes[seen - 1].version if seen else self.floor_version

    def append(self, change: Change) -> None:
        self._changes.append(change)
        if len(self._changes) > self._window:
            self.floor_version = self._changes.popleft().version
            self.first_position += 1
        self.wake()

    def restate(self, kind: str, before: str, now: str) -> None:
        """See `Record.restate`."""
        for change in self._changes:
            change.forget_event()
        for record in self.records():
            record.restate(kind, before, now)

    def records(self) -> Iterator[Record]:
        """Of all changes; one may come twice, as what was and as what became."""
        for change in self._changes:
            yield from (record for record in (change.old, change.new) if record is not None)

    @property
    def hides(self) -> bool:
        return self._hidden > 0

    def append_hidden(self, change: Change) -> None:
        """Takes in a change that nobody sees before it is revealed."""
        record = change.new or change.old
        assert record is not None
        self._changes.append(change)
        self._hidden += 1
        self._before_hidden.setdefault(record.key, change.old)

    def reveal(self, count: int) -> None:
        """Shows the first `count` of the hidden changes."""
        self._hidden -= count
        self._before_hidden = self.undone_to(self.last_seen_version) if self._hidden else {}
        while len(self._changes) - self._hidden > self._window:
            self.floor_version = self._changes.popleft().version
            self.first_position += 1
        self.wake()

    def undo_last(self) -> None:
        """The last change, which is hidden, never was. All hidden ones are undone before anybody reads."""
        self._hidden -= 1
        self._changes.pop()
        if not self._hidden:
            self._before_hidden = {}

    def seen_instead(self, key: tuple[str, str]) -> tuple[Record | None] | None:
        """What readers see of an object that a hidden change is about; None if there is no such change."""
        return (self._before_hidden[key],) if key in self._before_hidden else None

    def wake(self) -> None:
        """Lets every watcher look again, e.g. because the collection is going away."""
        waiting, self._waiting = self._waiting, {}
        for future in waiting:
            if not future.done():
                future.set_result(None)
        if self._followers and not self._is_telling and self._loop is not None and not self._loop.is_closed():
            self._is_telling = True
            self._loop.call_soon(self._tell)

    def _tell(self) -> None:
        self._is_telling = False
        for look in list(self._followers):
            if look in self._followers:  # one may end another
                look()

    def follow(self, look: Callable[[], None]) -> None:
        """Calls it soon after every change, once for changes that come together; `unfollow` ends that."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._is_telling = loop, False  # what another loop was to do, it does no more
        self._followers[look] = None

    def unfollow(self, look: Callable[[], None]) -> None:
        self._followers.pop(look, None)

    def position_after(self, version: int) -> int:
        """The position of the first change later than `version`, which must not be below the floor."""
        position = self.first_position + len(self._changes)
        for change in reversed(self._changes):
            if change.version <= version:
                break
            position -= 1
        return min(position, self.end_position)

    def at(self, position: int) -> Change | None:
        """The change at a position that has not left the window; None if it is still to come."""
        changes, place = self._changes, position - self.first_position
        return changes[place] if place < len(changes) - self._hidden else None

    def since(self, position: int) -> list[Change]:
        """All from a position on that has not left the window; nobody may change the list."""
        end = self.end_position
        if position >= end:
            return []
        first, last, changes = self._since
        if first != position or last != end:
            changes = [self._changes[place - self.first_position] for place in range(position, end)]
            self._since = (position, end, changes)
        return changes

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
