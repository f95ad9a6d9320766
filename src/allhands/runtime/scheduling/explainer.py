"""Tells the owners of waiting groups why they wait and until when: on the pods, on the group, and as an event.

Only what is news is written, at most so many a second, the oldest first: whoever waits hears it in the end, and the
API server hears no more of it than it must.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from allhands.api.errors import StatusError
from allhands.lifecycle.instructions import Record
from allhands.model.group_status import Said
from allhands.model.pod import PodPhase
from allhands.model.reason import Reason
from allhands.model.time_text import utc_text
from allhands.ports import WriteOptions
from allhands.runtime.backoff import Backoff
from allhands.runtime.scheduling import resources
from allhands.runtime.scheduling.records import MANAGER, Records

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from allhands.api.document import Manifest
    from allhands.core.plan import Plan, Wait
    from allhands.core.snapshot import GroupEntry, PodRef, Snapshot
    from allhands.dialects.pods import PodRecord
    from allhands.ports import Clock, Objects
    from allhands.runtime.recorder import Recorder
    from allhands.runtime.scheduling.group_statuses import GroupStatuses
    from allhands.runtime.scheduling.watched_world import WatchedWorld

PER_SECOND: Final = 50
FORMING: Final = frozenset({Reason.GANG_INCOMPLETE, Reason.SUB_GROUP_INCOMPLETE})
FORMING_SECONDS: Final = 5.0
MOST_FORMING_SECONDS: Final = 30.0
"""So long it is waited for a group's pods while pods are being made, of whomever: its turn may be yet to come."""
HAVE_FAILED: Final = (
    "{failed} of its pods have failed, and these do not count: it starts again if they are made anew, as a policy for "
    "failed pods or a restart does, or if its minimum is lowered."
)
UNSCHEDULABLE: Final = "Unschedulable"
MESSAGE_LIMIT: Final = 4_096
TRY_AGAIN_CODES: Final = frozenset({409, 429, 500, 502, 503, 504})
"""The server may answer otherwise another time."""
T = TypeVar("T")
_OPTIONS: Final = WriteOptions(field_manager=MANAGER)
_LOG = logging.getLogger(__name__)


def sentence(wait: Wait) -> str:
    """The whole of what a group is told."""
    text = str(wait.explanation)
    if wait.explanation.is_never:
        return text[:MESSAGE_LIMIT]  # whoever ends, and when, does not matter
    if wait.expected_start_seconds is not None:
        text = f"{text} Expected start: {utc_text(wait.expected_start_seconds)}."
    elif wait.unknown_because_of:
        text = f'{text} No start can be expected: nobody knows when "{wait.unknown_because_of}" ends.'
    return text[:MESSAGE_LIMIT]


class Explainer:
    def __init__(
        self,
        objects: Objects,
        watched: WatchedWorld,
        records: Records,
        recorder: Recorder,
        clock: Clock,
        statuses: GroupStatuses,
        *,
        per_second: int = PER_SECOND,
    ) -> None:
        self._objects = objects
        self._watched = watched
        self._records = records
        self._recorder = recorder
        self._clock = clock
        self._statuses = statuses
        self._pause_seconds = 1 / per_second
        self._news: dict[str, Wait] = {}
        """What is to be told, the oldest first; a newer word takes the place of an older one about the same group."""
        self._pods: dict[str, str] = {}
        """Pods that are to be told, and what."""
        self._forming: dict[str, tuple[Wait, GroupEntry, float]] = {}
        """Groups whose pods do not all exist yet: told if that lasts until then. The oldest come first."""
        self._pod_came_at = -FORMING_SECONDS
        """When the last pod was seen for the first time."""
        self._timer: asyncio.TimerHandle | None = None
        self._told: dict[str, str] = {}
        """Pod uid -> what it was last told."""
        self._looked_at: dict[str, GroupEntry] = {}
        """Those who waited the last time, as they were then: their pods need not be looked at again."""
        self._backoff = Backoff(1.0, 60.0)
        self._changed = asyncio.Event()
        watched.pods.on_change(self._forget)

    def _forget(self, key: str, before: PodRecord | None, after: PodRecord | None) -> None:
        if before is None:
            self._pod_came_at = asyncio.get_running_loop().time()
        elif after is None or after.pod.uid != before.pod.uid:
            self._told.pop(before.pod.uid, None)
            self._pods.pop(key, None)

    def take(self, plan: Plan, snapshot: Snapshot) -> None:
        looked_at, self._looked_at = self._looked_at, {}
        for wait in plan.waits:
            entry = snapshot.groups.get(wait.group)
            if wait.say and entry is not None and not _has_pods(entry) and not self._statuses.concerns_us(wait.group):
                continue
            if entry is not None and wait.say and wait.explanation.reason in FORMING:
                self._hold_back(wait, entry)
                continue
            if wait.say:
                self._news[wait.group] = wait
            self._forming.pop(wait.group, None)
            if entry is None:
                continue
            self._looked_at[wait.group] = entry
            if wait.say or looked_at.get(wait.group) is not entry:
                self._note_pods(wait, entry)
        if not plan.waits:
            self._looked_at = looked_at
        for start in plan.starts:
            self._news.pop(start.group, None)
            self._forming.pop(start.group, None)
            for bind in start.binds:
                self._pods.pop(bind.pod, None)
                self._told.pop(bind.uid, None)
        if self._news or self._pods:
            self._changed.set()

    def _note_pods(self, wait: Wait, entry: GroupEntry) -> None:
        """All of its pods are to be told what is news, and those that came since what is not."""
        text = sentence(wait) if wait.say else ""
        for members in entry.pending:
            for pod in members.pods:
                if not pod.uid or (self._told.get(pod.uid) == text if wait.say else not self._is_new(pod)):
                    continue
                self._pods[pod.key] = text = text or sentence(wait)

    def _is_new(self, pod: PodRef) -> bool:
        """Whether nobody has told it anything yet: it came after its group was told, or the leader before us ended."""
        if pod.uid in self._told or pod.key in self._pods:
            return False
        record = self._watched.pods.get(pod.key)
        return record is not None and not record.is_told

    def _hold_back(self, wait: Wait, entry: GroupEntry) -> None:
        """A group whose pods are just being made needs no word about it, unless it stays so."""
        if wait.group in self._news:
            return
        loop = asyncio.get_running_loop()
        if self._timer is None:
            self._timer = loop.call_later(FORMING_SECONDS, self._tell_forming)
        known = self._forming.get(wait.group)
        if known is not None and _waiting(entry) <= _waiting(known[1]):
            self._forming[wait.group] = (wait, entry, known[2])
            return
        self._forming.pop(wait.group, None)  # it grows: from now on it is the last
        self._forming[wait.group] = (wait, entry, loop.time() + FORMING_SECONDS)

    def _tell_forming(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        quiet_at = self._pod_came_at + FORMING_SECONDS
        while self._forming:
            group = next(iter(self._forming))
            wait, entry, due = self._forming[group]
            due = max(due, min(quiet_at, due - FORMING_SECONDS + MOST_FORMING_SECONDS))
            if due > loop.time():
                self._timer = loop.call_at(due, self._tell_forming)
                break
            del self._forming[group]
            self._news[group] = wait
            self._note_pods(wait, entry)
            self._changed.set()

    async def run(self) -> None:
        while True:
            while not self._news and not self._pods:
                self._changed.clear()
                await self._changed.wait()
            pause = self._pause_seconds
            try:
                if self._news:
                    await self._tell_next(self._news, self._tell_group)
                else:
                    await self._tell_next(self._pods, self._tell_pod)
            except StatusError as refusal:
                _LOG.info("explaining: %s", refusal.message)
                pause = self._backoff.next_seconds()
            else:
                self._backoff.reset()
            await asyncio.sleep(pause)

    async def _tell_next(self, waiting: dict[str, T], tell: Callable[[str, T], Awaitable[None]]) -> None:
        """The oldest. Whom it is no use to tell is left out; whom nobody could reach comes last."""
        key, what = next(iter(waiting.items()))
        del waiting[key]
        try:
            await tell(key, what)
        except StatusError as refusal:
            if refusal.code in TRY_AGAIN_CODES:
                waiting.setdefault(key, what)
                raise
            _LOG.info("explaining to %s: %s", key, refusal.message)

    async def _tell_group(self, group: str, wait: Wait) -> None:
        home = self._watched.homes.home(group)
        if home is None or not self._statuses.concerns_us(group):
            return
        wait = self._with_failed(group, wait)
        text = sentence(wait)
        self._statuses.waits(group, text)
        said = Said(wait.explanation, wait.expected_start_seconds)
        if self._records.announce(wait.group, said=said):
            await self._records.write(wait.group)
        outside = self._statuses.why_outside(group) if wait.explanation.reason in FORMING else ""
        self._recorder.record(Record(home.reference, "Warning", "FailedScheduling", outside or text))

    def _with_failed(self, group: str, wait: Wait) -> Wait:
        """Who lacks members is told of those that have failed: nobody makes these anew by himself."""
        if wait.explanation.reason not in FORMING:
            return wait
        failed = sum(it.pod.phase is PodPhase.FAILED for it in self._watched.pods.by("group", group))
        if not failed:
            return wait
        return msgspec.structs.replace(wait, explanation=wait.explanation.with_more(HAVE_FAILED, failed=failed))

    def _condition(self, type: str, status: str, reason: str, text: str) -> Manifest:
        now = utc_text(int(self._clock.now().timestamp()))
        return {"type": type, "status": status, "reason": reason, "message": text, "lastTransitionTime": now}

    async def _tell_pod(self, key: str, text: str) -> None:
        record = self._watched.pods.get(key)
        if record is None or record.pod.node_name:
            return
        condition = self._condition("PodScheduled", "False", UNSCHEDULABLE, text)
        patch: Manifest = {"metadata": {"uid": record.pod.uid}, "status": {"conditions": [condition]}}
        await self._objects.patch(
            resources.PODS, record.pod.name, "strategic", patch, record.pod.namespace, _OPTIONS, subresource="status"
        )
        self._told[record.pod.uid] = text


def _waiting(entry: GroupEntry) -> int:
    return sum(len(members.pods) for members in entry.pending)


def _has_pods(entry: GroupEntry) -> bool:
    """Of ours: those that others schedule are nobody's members."""
    return bool(entry.pending or entry.present or entry.gated or entry.leaving)
