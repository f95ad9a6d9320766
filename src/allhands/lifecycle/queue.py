"""A Queue's status: whether it is open, how many groups are where, what their pods hold, and whether it makes sense.

Written only when it is different, and at most once in a while, however fast pods come and go. Whether a queue is open
is its owner's word, given by a Command or written into the status: the machine only fills in a missing one, and settles
between Closing and Closed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

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
_STATES: Final = frozenset(QueueState)
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
) -> Outcome:
    """`own` is what its own groups are and hold, `whole` includes the queues below it."""
    if queue.metadata.is_going:
        return NOTHING_TO_DO
    if commands:
        return Outcome(tuple(_obey(queue, own, sorted(commands, key=lambda it: it.order))))
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


def _obey(queue: QueueDocument, own: QueueUse, commands: Sequence[CommandDocument]) -> list[Instruction]:
    """The last word counts. What is done comes before the removal: who is stopped between does the same once more."""
    told: list[Instruction] = []
    wanted = next((_ORDERS[it.action] for it in reversed(commands) if it.action in _ORDERS), None)
    involved = object_reference(QUEUE.api_version, QUEUE.kind, queue.metadata)
    if wanted is QueueState.CLOSED and queue.metadata.name == ROOT:
        wanted = None
        told.append(Record(involved, "Warning", "CommandIgnored", "The queue root is above all others and stays open."))
    if wanted is not None and (state := next_state(wanted, own.live_groups)) != queue.state:
        status: Manifest = {"state": state.value}
        if "allocated" not in queue.written:
            status["allocated"] = {}
        told.append(Patch(QUEUE.resource, "", queue.metadata.name, {"status": status}, subresource="status"))
    for it in commands:
        if it.action not in _ORDERS:
            known = " and ".join(_ORDERS)
            message = f'Command {it.metadata.key}: a queue knows no action "{it.action}", only {known}.'
            told.append(Record(involved, "Warning", "UnknownCommand", message))
    return [*told, *(it.removal() for it in commands)]


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
