"""A Queue's status: whether it is open, how many groups are where, what their pods hold, and whether it makes sense.

Written only when it is different, and at most once in a while, however fast pods come and go. Whether a queue is open
is its owner's word, given by a Command or written into the status: the machine only fills in a missing one, settles
between Closing and Closed, and closes and opens with a queue those below it that their owners have not closed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from allhands.api.volcano.lifecycle_policy import Action
from allhands.api.volcano.queue import QUEUE, ROOT, QueueSpec, QueueState
from allhands.api.volcano.queue_rules import parent_of
from allhands.lifecycle.changes import judged_conditions, object_reference, time_text
from allhands.lifecycle.instructions import NOTHING_TO_DO, Instruction, Outcome, Patch, Record
from allhands.lifecycle.observed import Metadata
from allhands.lifecycle.queue_tally import Phase, QueueUse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allhands.api.document import Manifest
    from allhands.lifecycle.command import CommandDocument

ACCEPTED: Final = "Accepted"
PAUSE_SECONDS: Final = 1.0
"""At least so long between two writes of one queue's status."""
CLOSED_BY_PARENT: Final = "volcano.sh/closed-by-parent"
"""On a queue that was closed with the one above it: "true". Volcano's own annotation."""
_STATES: Final = frozenset(QueueState)
_SHUT: Final = (QueueState.CLOSED, QueueState.CLOSING)
_ORDERS: Final = {Action.OPEN_QUEUE.value: QueueState.OPEN, Action.CLOSE_QUEUE.value: QueueState.CLOSED}


class QueueDocument(msgspec.Struct, frozen=True):
    """A queue as it is stored. `spec` and `status` may be anything: nobody's mistake may stop the machine."""

    metadata: Metadata = Metadata()
    spec: Any = None
    status: Any = None

    @property
    def state(self) -> str:
        return str(self.written.get("state") or "")

    @property
    def written(self) -> Manifest:
        """The status as it is, an empty one if it makes no sense."""
        return self.status if isinstance(self.status, dict) else {}

    @property
    def parent(self) -> str | None:
        named = self.spec.get("parent") if isinstance(self.spec, dict) else None
        return parent_of(self.metadata.name, QueueSpec(parent=named if isinstance(named, str) else ""))


class Parent(msgspec.Struct, frozen=True):
    """The queue right above another."""

    name: str
    state: str

    @property
    def is_shut(self) -> bool:
        return self.state in _SHUT and self.name != ROOT


class Problem(msgspec.Struct, frozen=True):
    """Why a queue starts nothing: a word for programs, a sentence for people."""

    reason: str
    message: str


def reconcile(
    queue: QueueDocument,
    own: QueueUse,
    whole: QueueUse,
    problem: Problem | None,
    notes: tuple[str, ...],
    now_seconds: float,
    *,
    written_at_seconds: float | None,
    pause_seconds: float = PAUSE_SECONDS,
    commands: Sequence[CommandDocument] = (),
    parent: Parent | None = None,
) -> Outcome:
    """`own` is what its own groups are and hold, `whole` includes the queues below it. `parent`: the queue above it,
    None if there is none that makes sense."""
    if queue.metadata.is_going:
        return NOTHING_TO_DO
    if commands:
        return Outcome(tuple(_obey(queue, own, sorted(commands, key=lambda it: it.order), parent)))
    if followed := _follow(queue, own, parent):
        return Outcome(tuple(followed))
    patch = _patch(queue, own, whole, _accepted(problem, notes), now_seconds)
    if not patch:
        return NOTHING_TO_DO
    since = None if written_at_seconds is None else now_seconds - written_at_seconds
    if since is not None and 0 <= since < pause_seconds and queue.state in _STATES:
        return Outcome(wake_at_seconds=now_seconds + pause_seconds - since)
    return Outcome((Patch(QUEUE.resource, "", queue.metadata.name, {"status": patch}, subresource="status"),))


def _patch(queue: QueueDocument, own: QueueUse, whole: QueueUse, accepted: Manifest, now_seconds: float) -> Manifest:
    before = queue.written
    patch: Manifest = {}
    if (state := next_state(queue.state, own.live_groups)) != queue.state:
        patch["state"] = state.value
    for phase in Phase:
        if before.get(phase.value) != own.count(phase):
            patch[phase.value] = own.count(phase)
    if (changes := _amount_changes(before.get("allocated"), whole.holds.to_quantities())) is not None:
        patch["allocated"] = changes
    conditions = judged_conditions(
        before.get("conditions"), accepted, queue.metadata.generation, time_text(now_seconds)
    )
    if conditions is not None:
        patch["conditions"] = conditions
    return patch


def _obey(
    queue: QueueDocument, own: QueueUse, commands: Sequence[CommandDocument], parent: Parent | None
) -> list[Instruction]:
    """The last word counts. What is done comes before the removal: who is stopped between does the same once more."""
    told: list[Instruction] = []
    wanted = next((_ORDERS[it.action] for it in reversed(commands) if it.action in _ORDERS), None)
    if wanted is QueueState.CLOSED and queue.metadata.name == ROOT:
        wanted = None
        told.append(_record(queue, "CommandIgnored", "The queue root is above all others and stays open."))
    elif wanted is QueueState.OPEN and parent is not None and parent.is_shut:
        wanted = None
        text = f"It is not opened: the queue {parent.name} above it is {parent.state}. Open that one first."
        told.append(_record(queue, "CommandIgnored", text))
    if wanted is not None and (state := next_state(wanted, own.live_groups)) != queue.state:
        told.append(_state_patch(queue, state))
    if wanted is not None and _is_closed_by_parent(queue):
        told.append(_note(queue, "false"))
    for it in commands:
        if it.action not in _ORDERS:
            known = " and ".join(_ORDERS)
            message = f'Command {it.metadata.key}: a queue knows no action "{it.action}", only {known}.'
            told.append(_record(queue, "UnknownCommand", message))
    return [*told, *(it.removal() for it in commands)]


def _follow(queue: QueueDocument, own: QueueUse, parent: Parent | None) -> list[Instruction]:
    """What is to be done because of the queue above. It is noted before it is closed, and forgotten after it is opened:
    so whoever is stopped in between does it again."""
    if parent is None or queue.metadata.name == ROOT:
        return []
    is_shut, noted = queue.state in _SHUT, _is_closed_by_parent(queue)
    if parent.is_shut and not is_shut:
        state = next_state(QueueState.CLOSED, own.live_groups)
        text = f"It is closed because the queue {parent.name} above it is {parent.state}."
        note = [] if noted else [_note(queue, "true")]
        return [*note, _state_patch(queue, state), _record(queue, Action.CLOSE_QUEUE, text, "Normal")]
    if noted and (parent.name == ROOT or parent.state == QueueState.OPEN):
        text = f"It is opened because the queue {parent.name} above it is open."
        opened = [_state_patch(queue, QueueState.OPEN), _record(queue, Action.OPEN_QUEUE, text, "Normal")]
        return [*(opened if is_shut else ()), _note(queue, "false")]
    return []


def _is_closed_by_parent(queue: QueueDocument) -> bool:
    return queue.metadata.annotation(CLOSED_BY_PARENT) == "true"


def _note(queue: QueueDocument, word: str) -> Patch:
    metadata = {"uid": queue.metadata.uid, "annotations": {CLOSED_BY_PARENT: word}}
    return Patch(QUEUE.resource, "", queue.metadata.name, {"metadata": metadata})


def _state_patch(queue: QueueDocument, state: QueueState) -> Patch:
    status: Manifest = {"state": state.value}
    if "allocated" not in queue.written:
        status["allocated"] = {}
    return Patch(QUEUE.resource, "", queue.metadata.name, {"status": status}, subresource="status")


def _record(queue: QueueDocument, reason: str, message: str, type: Literal["Normal", "Warning"] = "Warning") -> Record:
    return Record(object_reference(QUEUE.api_version, QUEUE.kind, queue.metadata), type, reason, message)


def next_state(state: str, live_groups: int) -> QueueState:
    """Nobody's word: open. Closing with nothing left: closed, and back if something is there after all."""
    if state in (QueueState.CLOSED, QueueState.CLOSING):
        return QueueState.CLOSING if live_groups else QueueState.CLOSED
    return QueueState.OPEN


def _amount_changes(before: Any, after: dict[str, str]) -> Manifest | None:
    """A merge patch from one map to the other; None if they are equal. What is no longer held is 0 once, then gone."""
    if not isinstance(before, dict):
        return dict(after)
    if before == after:
        return None
    gone: Manifest = {name: None for name in before if name not in after}
    return gone | {name: text for name, text in after.items() if before.get(name) != text}


def _accepted(problem: Problem | None, notes: tuple[str, ...]) -> Manifest:
    if problem is not None:
        return {"type": ACCEPTED, "status": "False", "reason": problem.reason, "message": problem.message}
    reason, message = ("PartlyUsed", "; ".join(notes)) if notes else ("Valid", "The queue makes sense.")
    return {"type": ACCEPTED, "status": "True", "reason": reason, "message": message}
