"""The shell of Queues: what pods and groups do is told to a tally, and every queue that this touches is looked at.

A queue's neighbours in the tree matter too: what it holds is held by those above it, and whether it makes sense
depends on them. When a queue was last written is remembered here only to be slow; losing it costs one more write.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

import msgspec

from allhands.api.volcano.queue import DEFAULT, QUEUE
from allhands.api.volcano.queue_rules import place_error
from allhands.controllers.watching import decoder
from allhands.dialects.annotations import SCHEDULING
from allhands.dialects.group_kinds import GROUP_KINDS
from allhands.dialects.groups import read_job
from allhands.dialects.pods import read_pod_use
from allhands.dialects.queues import read_queue
from allhands.lifecycle.command import COMMANDS, CommandDocument, decode_command
from allhands.lifecycle.instructions import NOTHING_TO_DO, Outcome
from allhands.lifecycle.queue import PAUSE_SECONDS, Parent, Problem, QueueDocument, reconcile
from allhands.lifecycle.queue_tally import GroupShare, PodPart, PodShare, QueueTally, QueueUse
from allhands.runtime.informer import Informer, split_key
from allhands.runtime.scheduling.resources import JOBS, NAMES_ALONE, PODS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from allhands.api.errors import StatusError
    from allhands.dialects.group_kinds import GroupKind
    from allhands.dialects.groups import GroupRecord
    from allhands.dialects.pods import PodUse
    from allhands.ports import Collections, Objects
    from allhands.runtime.workqueue import WorkQueue

_PARTS: Final = {
    "Running": PodPart.RUNS,
    "Succeeded": PodPart.SUCCEEDED,
    "Failed": PodPart.FAILED,
}
LET_IN: Final = "Inqueue"
COMMAND: Final = "command:"
"""Begins the key of a command whose queue is not there; no queue can have such a name."""
ENDED: Final = ("Completed", "Finished", "Failed")
"""Phases of foreign groups that count even when they have no pods: not yet, or not any more."""


class _Seen(msgspec.Struct, frozen=True):
    """A queue as its owner wrote it, and what the dialect says of it."""

    document: QueueDocument
    parent: str | None
    problem: str
    notes: tuple[str, ...]


class QueueController:
    """`scheduler_names` are ours: what others place is in no queue."""

    name: Final = "queue"

    def __init__(
        self,
        objects: Objects,
        *,
        scheduler_names: Sequence[str] = NAMES_ALONE,
        pause_seconds: float = PAUSE_SECONDS,
        pods: Collections | None = None,
    ) -> None:
        """`pods`: by what pods are followed, if not by `objects`."""
        self._ours = frozenset(scheduler_names)
        self._pause_seconds = pause_seconds
        self._tally = QueueTally(DEFAULT)
        self._written: dict[str, float] = {}
        self._children: dict[str, dict[str, None]] = {}
        self._attempts: dict[str, float] = {}
        self._first_look_seconds: float | None = None
        self._asleep: dict[str, None] = {}
        """Queues that are looked at again soon anyway, whatever happens until then."""
        self._queues: Informer[_Seen] = Informer(objects, QUEUE.resource, _reader(), optional=True)
        self._pods: Informer[PodShare] = Informer(pods or objects, PODS, self._read_pod)
        self._jobs: Informer[GroupShare] = Informer(
            objects, JOBS, lambda raw: self._share(read_job(raw)), optional=True
        )
        self._commands: Informer[CommandDocument] = Informer(
            objects, COMMANDS, decode_command, indexes={"queue": _told}, optional=True
        )
        self._groups: dict[str, Informer[GroupShare]] = {
            kind.prefix: Informer(objects, kind.resource, self._reader_of(kind), optional=True) for kind in GROUP_KINDS
        }

    @property
    def informers(self) -> Sequence[Informer[Any]]:
        return (self._queues, self._pods, self._jobs, self._commands, *self._groups.values())

    def wire(self, queue: WorkQueue) -> None:
        tally = self._tally
        self._queues.on_change(lambda key, old, new: self._see_queue(queue, key, old, new))
        self._pods.on_change(lambda key, _old, new: self._touch(queue, tally.set_pod(key, new)))
        self._jobs.on_change(lambda key, _old, new: self._touch(queue, tally.set_group(f"job:{key}", new)))
        self._commands.on_change(lambda key, _old, new: self._see_command(queue, key, new))
        for prefix, groups in self._groups.items():
            groups.on_change(functools.partial(self._see_group, queue, prefix))

    def heard(self, key: str, refusal: StatusError | None) -> None:
        """How the last attempt at a key ended."""
        attempted = self._attempts.pop(key, None)
        if refusal is None and attempted is not None:
            self._written[key] = attempted

    def reconcile(self, key: str, now_seconds: float) -> Outcome:
        if self._first_look_seconds is None:
            self._first_look_seconds = now_seconds
        if key.startswith(COMMAND):
            return self._reconcile_stray(key.removeprefix(COMMAND), self._first_look_seconds, now_seconds)
        self._asleep.pop(key, None)
        seen = self._queues.get(key)
        if seen is None:
            self._written.pop(key, None)
            return NOTHING_TO_DO
        uid, problem = seen.document.metadata.uid, self._problem(key, seen)
        above = None if problem is not None or seen.parent is None else self._queues.get(seen.parent)
        outcome = reconcile(
            seen.document,
            self._tally.use(key),
            self._whole(key),
            problem,
            seen.notes,
            now_seconds,
            written_at_seconds=self._written.get(key),
            pause_seconds=self._pause_seconds,
            commands=[it for it in self._commands.by("queue", key) if it.target is not None and it.target.uid == uid],
            parent=None if above is None else Parent(above.document.metadata.name, above.document.state),
        )
        if outcome.instructions:
            self._attempts[key] = now_seconds
        elif outcome.wake_at_seconds is not None:
            self._asleep[key] = None
        return outcome

    def _reconcile_stray(self, key: str, first_look_seconds: float, now_seconds: float) -> Outcome:
        command = self._commands.get(key)
        if command is None or command.target is None:
            return NOTHING_TO_DO
        queue = self._queues.get(command.target.name)
        if queue is not None and queue.document.metadata.uid == command.target.uid:
            return NOTHING_TO_DO
        return command.removed_in_time(first_look_seconds, now_seconds)

    # -- what concerns whom

    def _see_queue(self, queue: WorkQueue, key: str, old: _Seen | None, new: _Seen | None) -> None:
        parent_before = old.parent if old is not None else None
        parent = new.parent if new is not None else None
        if parent_before != parent:
            if parent_before is not None:
                self._children.get(parent_before, {}).pop(key, None)
            if parent is not None:
                self._children.setdefault(parent, {})[key] = None
        queue.add(key)
        if new is None:
            for command in self._commands.keys_by("queue", key):
                queue.add(COMMAND + command)
        if old is not None and new is not None and old.document.state != new.document.state:
            for name in self._children.get(key, ()):
                queue.add(name)
        if old is None or new is None or parent_before != parent:
            for name in self._below(key):
                queue.add(name)
            for name in (*self._above(key), *self._above(parent_before or ""), parent_before or ""):
                if name in self._queues:
                    queue.add(name)

    def _see_command(self, queue: WorkQueue, key: str, new: CommandDocument | None) -> None:
        for name in () if new is None else _told(new):
            if name in self._queues:
                queue.add(name)
            queue.add(COMMAND + key)

    def _see_group(
        self, queue: WorkQueue, prefix: str, key: str, _old: GroupShare | None, new: GroupShare | None
    ) -> None:
        namespace, name = split_key(key)
        self._touch(queue, self._tally.set_group(f"{namespace}/{prefix}{name}", new))

    def _touch(self, queue: WorkQueue, names: tuple[str, ...]) -> None:
        for name in names:
            for each in (name, *self._above(name)):
                if each not in self._asleep:
                    queue.add(each)

    def _above(self, key: str) -> tuple[str, ...]:
        """The queues that it is a part of, as far as they exist; in a cycle each once."""
        found: dict[str, None] = {}
        seen = self._queues.get(key)
        while seen is not None and seen.parent is not None and seen.parent not in found and seen.parent != key:
            found[seen.parent] = None
            seen = self._queues.get(seen.parent)
        return tuple(found)

    def _below(self, key: str) -> tuple[str, ...]:
        found: dict[str, None] = {}
        pending = [key]
        while pending:
            for child in self._children.get(pending.pop(), ()):
                if child not in found and child != key:
                    found[child] = None
                    pending.append(child)
        return tuple(found)

    # -- what the machine is shown

    def _whole(self, key: str) -> QueueUse:
        own = self._tally.use(key)
        holds = own.holds
        for name in self._below(key):
            holds = holds + self._tally.use(name).holds
        return QueueUse(own.phases, holds)

    def _problem(self, key: str, seen: _Seen) -> Problem | None:
        if seen.problem:
            return Problem("Invalid", seen.problem)
        parents = {name: it.parent for name in (key, *self._above(key)) if (it := self._queues.get(name)) is not None}
        error = place_error(key, parents)
        return None if error is None else Problem("NoPlaceInTree", str(error))

    def _read_pod(self, raw: bytes) -> PodShare:
        pod = read_pod_use(raw)
        if pod.group_name:
            group = f"{pod.namespace}/{pod.group_name}"
        elif pod.job_name:
            group = f"job:{pod.namespace}/{pod.job_name}"
        else:
            group = f"pod:{pod.namespace}/{pod.name}"
        return PodShare(group, pod.queue, _part(pod), pod.holds, pod.scheduler_name in self._ours)

    def _reader_of(self, kind: GroupKind) -> Callable[[bytes], GroupShare]:
        return lambda raw: self._share(kind.read(raw))

    def _share(self, record: GroupRecord) -> GroupShare:
        is_judged = SCHEDULING in record.annotations  # a group of Volcano's names no scheduler, only who judged it
        ours = record.scheduler_name in self._ours if record.scheduler_name else bool(record.queue) or is_judged
        return GroupShare(
            record.queue,
            max(1, record.min_count) if record.is_gang else 1,
            record.status.admitted_at_seconds is not None or record.written.phase == LET_IN,
            record.status.started_at_seconds is not None,
            record.has_ended or record.written.phase in ENDED,
            ours,
        )


def _told(command: CommandDocument) -> Iterator[str]:
    """The queue that it is about."""
    if command.target is not None and command.is_for(QUEUE.group, QUEUE.kind):
        yield command.target.name


def _part(pod: PodUse) -> PodPart:
    part = _PARTS.get(pod.phase)
    if part is None or (part is PodPart.RUNS and not pod.is_bound):
        return PodPart.BOUND if pod.is_bound else PodPart.WAITS
    return part


def _reader() -> Callable[[bytes], _Seen]:
    documents = decoder(QueueDocument)

    def read(raw: bytes) -> _Seen:
        record, document = read_queue(raw), documents(raw)
        return _Seen(document, document.parent, record.problem, record.notes)

    return read
