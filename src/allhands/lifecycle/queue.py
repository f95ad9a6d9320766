"""A Queue's status: whether it is open, how many groups are where, what their pods hold, and whether it makes sense.

Written only when it is different, and at most once in a while, however fast pods come and go. Whether a queue is open
is its owner's word: the machine only fills in a missing one, and settles between Closing and Closed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from allhands.api.volcano.queue import QUEUE, QueueSpec, QueueState
from allhands.api.volcano.queue_rules import parent_of
from allhands.lifecycle.changes import condition_of, time_text
from allhands.lifecycle.instructions import NOTHING_TO_DO, Outcome, Patch
from allhands.lifecycle.observed import Metadata
from allhands.lifecycle.queue_tally import Phase, QueueUse

if TYPE_CHECKING:
    from allhands.api.document import Manifest

ACCEPTED: Final = "Accepted"
PAUSE_SECONDS: Final = 1.0
"""At least so long between two writes of one queue's status."""
_STATES: Final = frozenset(QueueState)


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
) -> Outcome:
    """`own` is what its own groups are and hold, `whole` includes the queues below it."""
    if queue.metadata.is_going:
        return NOTHING_TO_DO
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
    if (conditions := _conditions(queue, accepted, now_seconds)) is not None:
        patch["conditions"] = conditions
    return patch


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


def _conditions(queue: QueueDocument, accepted: Manifest, now_seconds: float) -> list[Manifest] | None:
    """All of them with this one in its place; None if it is there already."""
    written = queue.written.get("conditions")
    present = [it for it in written if isinstance(it, dict)] if isinstance(written, list) else []
    known = condition_of(present, ACCEPTED)
    stamped = accepted | {"lastTransitionTime": time_text(now_seconds)}
    if queue.metadata.generation:
        stamped["observedGeneration"] = queue.metadata.generation
    if known is not None and known.get("status") == accepted["status"]:
        stamped["lastTransitionTime"] = known.get("lastTransitionTime", stamped["lastTransitionTime"])
        if known == stamped:
            return None
    return [*(it for it in present if it is not known), stamped]
