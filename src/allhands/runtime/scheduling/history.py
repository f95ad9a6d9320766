"""What the scheduler must remember beyond its groups: past use and past run times, durable in one ConfigMap.

It is counted at every event, and handed to the core and written together, at most every 30 seconds and at the end; so a
restart goes on from what was decided by. What cannot be read is told and kept aside, and never stops scheduling.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from allhands.api.errors import StatusError
from allhands.api.kinds import Resource
from allhands.lifecycle.instructions import Record
from allhands.ports import WriteOptions
from allhands.runtime.backoff import Backoff
from allhands.runtime.leadership import ensure_namespace
from allhands.runtime.scheduling.past_usage import PastUsage
from allhands.runtime.scheduling.run_times import RunTimes

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.core.memo import Memo
    from allhands.core.policy import Policy
    from allhands.core.snapshot import Snapshot
    from allhands.ports import Clock, Metrics, Objects
    from allhands.runtime.recorder import Recorder
    from allhands.runtime.scheduling.watched_world import WatchedWorld

CONFIG_MAPS: Final = Resource("", "v1", "configmaps")
NAMESPACE: Final = "allhands-system"
NAME: Final = "usage-ledger"
WRITE_SECONDS: Final = 30.0
READ_SECONDS: Final = 5.0
"""So long the first cycle waits for what earlier ones knew."""
END_SECONDS: Final = 2.0
WRITE_ATTEMPTS: Final = 4
UNREADABLE_LIMIT: Final = 64 * 1024
NOT_FOUND, CONFLICT = 404, 409
_USAGE, _RUNS, _UNREADABLE = "usage", "runs", "unreadable"
_OPTIONS: Final = WriteOptions(field_manager="allhands-scheduler")
_LOG = logging.getLogger(__name__)


class History:
    def __init__(
        self,
        objects: Objects,
        watched: WatchedWorld,
        recorder: Recorder,
        clock: Clock,
        policy: Policy,
        metrics: Metrics,
        namespace: str = NAMESPACE,
    ) -> None:
        self._namespace = namespace
        self._objects = objects
        self._watched = watched
        self._recorder = recorder
        self._clock = clock
        self._metrics = metrics
        self._usage = PastUsage(policy)
        self._runs = RunTimes(watched.jobs)
        self._news = asyncio.Event()
        self._is_known = False
        """Whether what an earlier process wrote has been read: before that, nothing is written over it."""
        self._version = ""
        self._unreadable = ""
        self._written_at = 0.0

    # -- counting

    def deciding(self, now: int) -> None:
        """A cycle is about to begin: what the last one charged was in use until now."""
        if self._usage.fold(now):
            self._news.set()

    def decided(self, snapshot: Snapshot, memo: Memo, now: int) -> None:
        """A cycle has ended."""
        self._usage.decided(snapshot, memo)
        roll = memo.roll
        if roll.version != snapshot.version:
            return  # nothing is different since this memo's last cycle
        if roll.version_before < 0:
            self._runs.keep_only(snapshot.groups)
        if self._runs.follow(snapshot, roll.changed, roll.gone, now):
            self._news.set()

    # -- keeping

    async def begin(self) -> None:
        """Reads what an earlier process knew, if that can be done soon; else `run` does it later."""
        self._written_at = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(READ_SECONDS):
                await self._read()
        except (StatusError, TimeoutError) as problem:
            _LOG.warning("the history cannot be read yet: %s", problem or "no answer")

    async def run(self) -> None:
        """Until cancelled."""
        backoff = Backoff(1.0)
        loop = asyncio.get_running_loop()
        while not self._is_known:
            await asyncio.sleep(backoff.next_seconds())
            try:
                await self._read()
            except StatusError as refusal:
                _LOG.info("the history cannot be read: %s", refusal.message)
        while True:
            await self._news.wait()
            await asyncio.sleep(max(0.0, self._written_at + WRITE_SECONDS - loop.time()))
            self._publish()
            await self._write(overwrites=True)

    async def end(self) -> None:
        """Writes what is new, if that can be done at once and nobody else has written since."""
        now = int(self._clock.now().timestamp())
        self._usage.fold(now)
        if not self._is_known or not (self._news.is_set() or self._usage.ledger.entries):
            return
        try:
            async with asyncio.timeout(END_SECONDS):
                await self._write(overwrites=False)
        except TimeoutError:
            _LOG.warning("the history could not be written at the end: no answer")

    def _publish(self) -> None:
        """From now on decisions are made by it."""
        facts = self._watched.facts
        ledger, runs = self._usage.ledger, self._runs.past_runs(facts.queues.keys())
        self._metrics.set("allhands_ledger_entries", len(ledger.entries))
        if ledger.entries != facts.ledger.entries:
            facts.ledger = ledger
        if runs != facts.past_runs:
            facts.past_runs = runs

    # -- the object

    async def _read(self) -> None:
        try:
            found = (await self._objects.get(CONFIG_MAPS, NAME, self._namespace)).manifest()
        except StatusError as refusal:
            if refusal.code != NOT_FOUND:
                raise
        else:
            self._version = found["metadata"]["resourceVersion"]
            self._take_over(found)
        self._is_known = True
        self._publish()

    def _take_over(self, found: Manifest) -> None:
        data = found.get("data") or {}
        problems = []
        now = int(self._clock.now().timestamp())
        if (text := data.get(_USAGE)) is not None:
            try:
                self._usage.decode(text.encode(), now)
            except ValueError as error:
                problems.append(f"data.{_USAGE}: {error}")
        if (text := data.get(_RUNS)) is not None:
            try:
                self._runs.decode(text.encode())
            except ValueError as error:
                problems.append(f"data.{_RUNS}: {error}")
        if not problems:
            return
        self._unreadable = f"{data}"[:UNREADABLE_LIMIT]
        message = (
            f"What is remembered of past use cannot be read and is counted anew: {'; '.join(problems)}. "
            f"The old text is kept in data.{_UNREADABLE}."
        )
        _LOG.warning("configmap %s/%s: %s", self._namespace, NAME, message)
        uid = found["metadata"].get("uid", "")
        involved = {"apiVersion": "v1", "kind": "ConfigMap", "namespace": self._namespace, "name": NAME, "uid": uid}
        self._recorder.record(Record(involved, "Warning", "HistoryUnreadable", message))

    async def _write(self, *, overwrites: bool) -> None:
        """Failing is no reason to stop: what is not written now is written next time."""
        self._written_at = asyncio.get_running_loop().time()
        self._news.clear()
        data = {_USAGE: self._usage.encode().decode(), _RUNS: self._runs.encode().decode()}
        if self._unreadable:
            data[_UNREADABLE] = self._unreadable
        problem: StatusError | None = None
        for _ in range(WRITE_ATTEMPTS):
            try:
                await self._put(data)
            except StatusError as refusal:
                problem = refusal
                if not await self._can_go_on(refusal, overwrites=overwrites):
                    break
            else:
                self._metrics.count("allhands_ledger_writes_total", result="written")
                return
        self._news.set()
        self._metrics.count("allhands_ledger_writes_total", result="failed")
        _LOG.warning("the history could not be written: %s", problem)

    async def _put(self, data: dict[str, str]) -> None:
        if self._version:
            patch: Manifest = {"metadata": {"resourceVersion": self._version}, "data": data}
            document = await self._objects.patch(CONFIG_MAPS, NAME, "merge", patch, self._namespace, _OPTIONS)
        else:
            labels = {"app.kubernetes.io/managed-by": "allhands"}
            body = {"metadata": {"name": NAME, "namespace": self._namespace, "labels": labels}, "data": data}
            document = await self._objects.create(CONFIG_MAPS, body, self._namespace, _OPTIONS)
        self._version = document.manifest()["metadata"]["resourceVersion"]

    async def _can_go_on(self, refusal: StatusError, *, overwrites: bool) -> bool:
        """Finds out what stands there now, or makes the place for it; False if neither can be done."""
        try:
            if refusal.code == CONFLICT and overwrites:
                # Who writes here leads: what another wrote meanwhile is older, or a person's mistake.
                found = await self._objects.get(CONFIG_MAPS, NAME, self._namespace)
                self._version = found.manifest()["metadata"]["resourceVersion"]
                return True
            if refusal.code == NOT_FOUND:
                if not self._version:
                    await ensure_namespace(self._objects, self._namespace)
                self._version = ""
                return True
        except StatusError as answer:
            return answer.code in (NOT_FOUND, CONFLICT)
        return False
