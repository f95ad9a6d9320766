"""Writes down what must be remembered of a group, on the object that it comes from. What is written counts at once.

One write per group is under way at a time, and the last word wins. Nothing that a new leader needs is kept only here.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from allhands.dialects.annotations import SCHEDULING
from allhands.dialects.scheduling_record import record_text
from allhands.ports import WriteOptions

if TYPE_CHECKING:
    from allhands.ports import Objects
    from allhands.runtime.scheduling.watched_world import WatchedWorld

MANAGER = "allhands-scheduler"


class Records:
    def __init__(self, objects: Objects, watched: WatchedWorld) -> None:
        self._objects = objects
        self._watched = watched
        self._unwritten: dict[str, int] = {}
        """Group -> how many changes have been announced and not written."""
        self._writing: dict[str, asyncio.Event] = {}
        """Set when the write that is under way has ended."""

    def announce(self, group: str, **changes: Any) -> bool:
        """Counts from now on, and is to be written soon; False if it says nothing new."""
        before = self._watched.status(group)
        after = msgspec.structs.replace(before, **changes)
        if after == before and group not in self._unwritten:
            return False
        self._unwritten[group] = self._unwritten.get(group, 0) + 1
        self._watched.assume_status(group, after)
        return True

    async def write(self, group: str) -> None:
        """Raises the API's refusal; then what was announced does not hold."""
        while (other := self._writing.get(group)) is not None:
            await other.wait()
        ended = self._writing[group] = asyncio.Event()
        try:
            await self._write(group)
        finally:
            del self._writing[group]
            ended.set()

    async def _write(self, group: str) -> None:
        count = self._unwritten.get(group)
        home = self._watched.homes.home(group)
        if count is None or home is None:
            self._settle(group, count)
            return
        text = record_text(self._watched.status(group))
        patch = {"metadata": {"uid": home.uid, "annotations": {SCHEDULING: text}}}
        try:
            document = await self._objects.patch(
                home.resource, home.name, "merge", patch, home.namespace, WriteOptions(field_manager=MANAGER)
            )
        except BaseException:
            self._settle(group, count)
            raise
        self._watched.homes.informer_of(home).observe(document.raw)
        self._settle(group, count)

    def _settle(self, group: str, count: int | None) -> None:
        if count is not None and self._unwritten.get(group) == count:
            del self._unwritten[group]
            self._watched.assume_status(group, None)
