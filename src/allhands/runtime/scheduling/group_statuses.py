"""Writes what groups have come to on the PodGroups that they come from, in the words of each kind.

It comes after the binds, seldom, and only when something of ours is different: where another controller writes the same
status, the two do not chase each other. Nothing is decided by what is written here.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from typing import TYPE_CHECKING, Final

from allhands.api.errors import StatusError
from allhands.dialects.group_progress import progress_of
from allhands.model.time_text import utc_text
from allhands.ports import WriteOptions
from allhands.runtime.scheduling.enqueueing import OUTSIDE, TURN_SECONDS, Enqueueing
from allhands.runtime.scheduling.letting_in import LettingIn
from allhands.runtime.scheduling.records import MANAGER

if TYPE_CHECKING:
    from collections.abc import Callable

    from allhands.api.document import Manifest
    from allhands.api.kinds import Resource
    from allhands.dialects.group_kinds import GroupKind
    from allhands.dialects.group_progress import Progress
    from allhands.dialects.groups import GroupRecord
    from allhands.dialects.pods import PodRecord
    from allhands.ports import Clock, Objects, PatchType
    from allhands.runtime.scheduling.watched_world import WatchedWorld

PER_SECOND: Final = 20
SETTLE_SECONDS: Final = 1.0
"""From a change to its being written: more of them may come."""
PAUSE_SECONDS: Final = 5.0
"""Between two writes of one group."""
AGAIN_SECONDS: Final = 30.0
"""After a write that was refused for now."""
MOST_HELD_BACK_SECONDS: Final = 30.0
"""So long it lets binds go first."""
TIMES_SLOWER: Final = 10
"""While others are still busy after that."""
LOOK_SECONDS: Final = 0.1
ENQUEUE_SECONDS: Final = 5.0
ENQUEUE_PER_SECOND: Final = 100
"""How often it is told anew why a group is not let in: with many such more seldom."""
TRY_AGAIN_CODES: Final = frozenset({409, 429, 500, 502, 503, 504})
FORBIDDEN, NOT_FOUND = 403, 404
_OPTIONS: Final = WriteOptions(field_manager=MANAGER)
_LOG = logging.getLogger(__name__)


class GroupStatuses:
    """`is_busy`: whether pods are being bound, which goes first."""

    def __init__(
        self, objects: Objects, watched: WatchedWorld, clock: Clock, is_busy: Callable[[], bool] = lambda: False
    ) -> None:
        self._objects = objects
        self._watched = watched
        self._clock = clock
        self._is_busy = is_busy
        self._enqueueing = Enqueueing(watched, clock)
        self._letting_in = LettingIn(watched, self._enqueueing, self.concerns_us, self._write)
        self._others: set[str] = set()
        """Pods in groups that are let in, which somebody else schedules: then somebody else lets groups in."""
        self._due: list[tuple[float, str]] = []
        """When to look at which group: a heap."""
        self._noted: set[str] = set()
        self._sent: dict[str, tuple[float, Progress]] = {}
        """Group -> when it was last written, and what."""
        self._waits: dict[str, str] = {}
        """Group -> why it waits."""
        self._whole: set[str] = set()
        """Groups that have been bound whole since this process began."""
        self._without_status: set[Resource] = set()
        """Kinds whose status is no resource of its own."""
        self._refused: set[Resource] = set()
        """Kinds of which it was told that their status may not be written."""
        self._news = asyncio.Event()
        watched.pods.on_change(self._pod_changed)
        watched.pod_groups.on_change(self._group_changed)

    # -- being told

    def waits(self, group: str, text: str) -> None:
        """It waits with all of it, or with what it has beyond what must run together."""
        if self._watched.pod_groups.kind_of(group) is not None:
            self._waits[group] = text
            self._note(group)

    def concerns_us(self, group: str) -> bool:
        """Whether it is ours to say anything about: one of its pods is ours, or it has none yet and nobody else's word
        is waited for."""
        kind = self._watched.pod_groups.kind_of(group)
        if kind is None:
            return True
        members = self._watched.pods.by("group", group)
        if any(self._watched.is_ours(it.pod) for it in members):
            return True
        return not members and kind.is_enqueued and not self._others

    def why_outside(self, group: str) -> str:
        """Why a group is not let in, whose pods nobody makes before it is; "" if that is not what it waits for."""
        record, kind = self._watched.pod_groups.get(group), self._watched.pod_groups.kind_of(group)
        if record is None or kind is None or not kind.is_enqueued or record.written.phase not in OUTSIDE:
            return ""
        if record.problem or self._watched.pods.by("group", group):
            return ""
        verdict = self._enqueueing.verdict(group)
        return "" if isinstance(verdict, bool) else str(verdict)

    def started(self, group: str) -> None:
        """All that must run together has been bound."""
        if self._watched.pod_groups.kind_of(group) is not None:  # else it has no status of its own
            self._waits.pop(group, None)
            self._whole.add(group)
            self._note(group)

    def _pod_changed(self, key: str, before: PodRecord | None, after: PodRecord | None) -> None:
        record = after or before
        if record is None or not record.group_name:
            return
        self._count_others(key, after)
        if before is None or after is None or _part(before) != _part(after):
            self._note(f"{record.pod.namespace}/{record.group_name}")

    def _count_others(self, key: str, after: PodRecord | None) -> None:
        if after is None or self._watched.is_ours(after.pod):
            self._others.discard(key)
            return
        kind = self._watched.pod_groups.kind_of(f"{after.pod.namespace}/{after.group_name}")
        if kind is not None and kind.is_enqueued:
            self._others.add(key)

    def _group_changed(self, group: str, before: GroupRecord | None, after: GroupRecord | None) -> None:
        if after is None:
            self._sent.pop(group, None)
            self._waits.pop(group, None)
            self._whole.discard(group)
        elif before is None or before.min_count != after.min_count:
            self._note(group)

    def _note(self, group: str, after_seconds: float = SETTLE_SECONDS) -> None:
        if group in self._noted or self._watched.pod_groups.kind_of(group) is None:
            return
        self._noted.add(group)
        due = asyncio.get_running_loop().time() + after_seconds
        if (sent := self._sent.get(group)) is not None:
            due = max(due, sent[0] + PAUSE_SECONDS)
        heapq.heappush(self._due, (due, group))
        if self._due[0][1] == group:  # else nobody need look earlier than he meant to
            self._news.set()

    # -- writing

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._letting_in.run(), name="scheduler: letting groups in")
            tasks.create_task(self._tell(), name="scheduler: telling of groups")

    async def _tell(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            while not self._due:
                self._news.clear()
                await self._news.wait()
            due, group = self._due[0]
            late = loop.time() - due
            is_busy = self._is_busy()
            if late < 0 or (late < MOST_HELD_BACK_SECONDS and is_busy):
                await self._wait(-late if late < 0 else LOOK_SECONDS)
                continue
            heapq.heappop(self._due)
            self._noted.discard(group)
            if await self._write(group):
                await asyncio.sleep((TIMES_SLOWER if is_busy else 1) / PER_SECOND)

    async def _wait(self, seconds: float) -> None:
        """Until then, or until something is noted that may be due earlier."""
        self._news.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            pass

    async def _write(self, group: str) -> bool:
        """Whether there was anything to write."""
        record, kind = self._watched.pod_groups.get(group), self._watched.pod_groups.kind_of(group)
        if record is None or kind is None or not self.concerns_us(group):
            return False
        progress = self._progress(group, kind, record)
        if progress is None:
            return False
        if (sent := self._sent.get(group)) is not None and sent[1] == progress:
            return False
        status = kind.status_of(record, progress, utc_text(int(self._clock.now().timestamp())))
        if not status:
            return False
        try:
            await self._patch(kind, record, status)
        except StatusError as refusal:
            self._refuse(group, kind, refusal)
        else:
            self._sent[group] = (asyncio.get_running_loop().time(), progress)
        return True

    def _progress(self, group: str, kind: GroupKind, record: GroupRecord) -> Progress | None:
        """None for a group without pods of which there is nothing to say (yet): it has ended, or was let in."""
        members, waits = self._watched.pods.by("group", group), self._waits.get(group, "")
        progress = progress_of((it.pod for it in members), was_whole=group in self._whole, waits=waits)
        if not kind.is_enqueued or record.written.phase not in OUTSIDE:
            return progress if members else None
        if record.problem:
            return progress._replace(waits=waits or record.problem)
        if progress.bound:
            return progress._replace(is_enqueued=True)
        verdict = self._enqueueing.verdict(group)
        if verdict is True:
            # That it has no pods yet is as it should be.
            return progress._replace(is_enqueued=True, waits=waits if members else "")
        if verdict is False:
            self._note(group, TURN_SECONDS)
            return progress if members else None
        if members:
            return progress  # nobody waits for its phase
        self._note(group, ENQUEUE_SECONDS + self._letting_in.count / ENQUEUE_PER_SECOND)
        return progress._replace(waits=str(verdict), is_never=verdict.is_never)

    async def _patch(self, kind: GroupKind, record: GroupRecord, status: Manifest) -> None:
        patch: Manifest = {"metadata": {"uid": record.uid}, "status": status}
        resource, where = kind.resource, (record.namespace, _OPTIONS)
        document = None
        if resource not in self._without_status:
            sort: PatchType = "strategic" if kind.is_builtin else "merge"
            try:
                document = await self._objects.patch(resource, record.name, sort, patch, *where, subresource="status")
            except StatusError as refusal:
                if refusal.code != NOT_FOUND or kind.is_builtin:
                    raise
        if document is None:
            # The object is gone, or its kind has no status to write apart, as Volcano's own definition has not.
            document = await self._objects.patch(resource, record.name, "merge", patch, *where)
            self._without_status.add(resource)
        self._watched.pod_groups.informer_of(resource).observe(document.raw)

    def _refuse(self, group: str, kind: GroupKind, refusal: StatusError) -> None:
        if refusal.code in TRY_AGAIN_CODES:
            self._note(group, AGAIN_SECONDS)
        if refusal.code == FORBIDDEN:
            if kind.resource in self._refused:
                return
            self._refused.add(kind.resource)
            _LOG.warning("the status of pod-groups cannot be written: %s", refusal.message)
        else:
            _LOG.info("the status of %s: %s", group, refusal.message)


def _part(record: PodRecord) -> tuple[bool, str]:
    return record.pod.node_name != "", record.pod.phase
