"""Writes down on Jobs that wait for others which of those have been seen to complete: they may be removed afterwards.

What was seen counts at once and is written until it is there, so that a new leader knows it too. A Job that was removed
before anybody saw it complete is missing: nothing in the API says how it ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allhands.dialects.groups import job_group_name
from allhands.runtime.informer import key_of, split_key
from allhands.runtime.scheduling.predecessors import COMPLETE
from allhands.runtime.workqueue import WorkQueue, serve

if TYPE_CHECKING:
    from allhands.dialects.groups import GroupRecord
    from allhands.runtime.scheduling.records import Records
    from allhands.runtime.scheduling.watched_world import WatchedWorld


class Completions:
    def __init__(self, watched: WatchedWorld, records: Records) -> None:
        self._watched = watched
        self._jobs = watched.jobs
        self._records = records
        self._queue = WorkQueue()
        self._is_live = False
        self._unwritten: dict[str, tuple[str, dict[str, None]]] = {}
        """Job that waits -> its uid, and who was seen to complete and is not written down."""
        self._jobs.on_change(self._job_changed)

    def begin(self) -> None:
        """Everything has been seen once."""
        self._is_live = True
        for key in list(self._jobs.keys()):
            self._look(key)

    async def run(self) -> None:
        """Until cancelled."""
        await serve(self._queue, self._write, "what was completed before job")

    def _job_changed(self, key: str, before: GroupRecord | None, after: GroupRecord | None) -> None:
        if not self._is_live:
            return
        if after is None:
            self._unwritten.pop(key, None)
            return
        if before is None or before.uid != after.uid or before.after != after.after:
            self._look(key)
        if after.end == COMPLETE and (before is None or before.end != COMPLETE):
            for waiting in self._jobs.keys_by("after", key):
                self._look(waiting)

    def _look(self, key: str) -> None:
        """Who of those before it is complete, and not said to be so."""
        job = self._jobs.get(key)
        if job is None or not job.after or job.has_ended:
            return
        uid, news = self._unwritten.get(key, ("", {}))
        if uid != job.uid:
            news = {}
        known = self._watched.completed_before(job)
        for name in job.after:
            other = self._jobs.get(key_of(job.namespace, name))
            if name not in known and other is not None and other.end == COMPLETE:
                news[name] = None
        if news:
            self._unwritten[key] = (job.uid, news)
            self._announce(key, job)
            self._queue.add(key)

    def _announce(self, key: str, job: GroupRecord) -> None:
        _, news = self._unwritten[key]
        named = (*self._watched.completed_before(job), *news)
        # In the order of the Job itself, and nobody whom it does not wait for any more.
        completed = tuple(name for name in job.after if name in named)
        self._records.announce(_group(key), after_completed=completed)

    async def _write(self, key: str) -> None:
        job = self._jobs.get(key)
        uid, news = self._unwritten.get(key, ("", {}))
        if job is None or job.uid != uid or job.has_ended:
            self._unwritten.pop(key, None)
            return
        self._announce(key, job)
        written = dict(news)
        await self._records.write(_group(key))
        for name in written:
            news.pop(name, None)
        if not news:
            self._unwritten.pop(key, None)


def _group(key: str) -> str:
    namespace, name = split_key(key)
    return key_of(namespace, job_group_name(name))
