"""Queues as their users see them: what each may have, what it uses, who runs and who waits in it.

Use is counted from the pods on nodes, as the scheduler counts it, and charged to every queue above as well. Who may not
see all pods is told what the queues' own status says, which is written a moment later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from allhands.model.queue import QueueState
from allhands.model.resources import EMPTY, PODS, ResourceVector
from allhands.views.groups import groups_of
from allhands.views.picture import WrittenUse
from allhands.views.rows import GroupState, held_by, row_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from allhands.model.queue import Queue
    from allhands.views.groups import Group
    from allhands.views.picture import Picture, QueueSeen
    from allhands.views.rows import GroupRow

NO_QUEUE: Final = ""
INVALID: Final = "Invalid"
CLOSING: Final = "Closing"
MOST_LEVELS: Final = 64


class QuotaRow(msgspec.Struct, frozen=True):
    """One resource, in base units; None where nothing is said."""

    resource: str
    used: int
    guarantee: int | None = None
    deserved: int | None = None
    capability: int | None = None


class QueueRow(msgspec.Struct, frozen=True, kw_only=True):
    """`share_percent` is the largest part of any resource that it uses: of what it deserves, or if it deserves nothing
    in particular, of what the cluster has. Counts are of groups directly in it."""

    name: str
    parent: str = ""
    state: str = "Open"
    weight: float = 1.0
    priority: int = 0
    reclaimable: bool = True
    gang_by_default: bool = False
    share_percent: int = 0
    share_resource: str = ""
    quotas: tuple[QuotaRow, ...] = ()
    running: int = 0
    waiting: int = 0
    problem: str = ""
    """Why it is held, or what is wrong with it."""
    notes: tuple[str, ...] = ()
    """What of it is not used, and why."""


class QueueUse(msgspec.Struct, frozen=True):
    """What is in one queue."""

    held: ResourceVector = EMPTY
    rows: tuple[GroupRow, ...] = ()


def queue_rows(picture: Picture) -> list[QueueRow]:
    """By name; last, without a name, what is in no queue, if anything is."""
    uses = queue_uses(picture)
    total = EMPTY
    for node in picture.nodes:
        total = total + node.allocatable
    known = {it.name: it for it in picture.queues or ()}
    if not shows_everybody(picture):
        return [_row_as_written(known[name], total) for name in sorted(known)]
    held = _charged_upwards(known, uses)
    rows = [
        _row(known[name], held.get(name, EMPTY), _counts(uses.get(name, QueueUse())), total) for name in sorted(known)
    ]
    for name in sorted(set(uses) - set(known)):
        use = uses[name]
        if any(not it.state.is_over for it in use.rows):
            problem = f'queue "{name}" does not exist' if name != NO_QUEUE else ""
            rows.append(_unknown(name, use, total, problem))
    return rows


def shows_everybody(picture: Picture) -> bool:
    """Whether all that is in queues can be counted."""
    return not picture.hidden & {"jobs", "pods"}


def queue_uses(picture: Picture) -> dict[str, QueueUse]:
    """By queue: what its groups hold, and a row for each of them."""
    by_queue: dict[str, list[Group]] = {}
    for group in groups_of(picture, bare_pods=True):
        by_queue.setdefault(group.queue, []).append(group)
    uses = {}
    for name, groups in by_queue.items():
        held = EMPTY
        for group in groups:
            held = held + held_by(group)
        uses[name] = QueueUse(held, tuple(map(row_of, groups)))
    return uses


def path_of(name: str, known: Mapping[str, QueueSeen]) -> list[str]:
    """The queue and all above it. Parents that do not exist end it, and so does a circle."""
    path = [name]
    while len(path) < MOST_LEVELS:
        record = known[path[-1]].record if path[-1] in known else None
        parent = record.queue.parent if record is not None else None
        if parent is None or parent not in known or parent in path:
            break
        path.append(parent)
    return path


def _charged_upwards(known: Mapping[str, QueueSeen], uses: Mapping[str, QueueUse]) -> dict[str, ResourceVector]:
    held: dict[str, ResourceVector] = {}
    for name, use in uses.items():
        for above in path_of(name, known):
            held[above] = held.get(above, EMPTY) + use.held
    return held


def _row_as_written(seen: QueueSeen, total: ResourceVector) -> QueueRow:
    written = seen.written or WrittenUse()
    return _row(seen, written.held, (written.running, written.waiting), total)


def _row(seen: QueueSeen, held: ResourceVector, counts: tuple[int, int], total: ResourceVector) -> QueueRow:
    running, waiting = counts
    if seen.record is None:
        return QueueRow(name=seen.name, state=INVALID, running=running, waiting=waiting, problem=seen.problem)
    queue = seen.record.queue
    said = {it.resource: it for it in queue.quotas}
    quotas = tuple(
        QuotaRow(name, held.get(name), quota.guarantee, quota.deserved, quota.capability)
        if (quota := said.get(name)) is not None
        else QuotaRow(name, held.get(name))
        for name in sorted({*said, *held} - {PODS})
    )
    deserved = ResourceVector.of({it.resource: it.deserved for it in quotas if it.deserved is not None})
    if any(deserved[it] for it in deserved):
        # Of a resource that it names no part of, it deserves no part in particular, and not nothing.
        share = ResourceVector.of({it: held.get(it) for it in deserved}).dominant_share(deserved)
    else:
        share = held.dominant_share(total)
    return QueueRow(
        name=seen.name,
        parent=queue.parent or "",
        state=INVALID if seen.record.problem else _state(seen, queue),
        weight=queue.weight_millis / 1000,
        priority=queue.priority,
        reclaimable=queue.reclaimable,
        gang_by_default=seen.record.gang_by_default,
        share_percent=int(share.share * 100),
        share_resource=share.resource,
        quotas=quotas,
        running=running,
        waiting=waiting,
        problem=seen.record.problem,
        notes=seen.record.notes,
    )


def _unknown(name: str, use: QueueUse, total: ResourceVector, problem: str) -> QueueRow:
    running, waiting = _counts(use)
    share = use.held.dominant_share(total)
    quotas = tuple(QuotaRow(it, use.held.get(it)) for it in sorted({*use.held} - {PODS}))
    return QueueRow(
        name=name,
        state="Missing" if problem else "-",
        share_percent=int(share.share * 100),
        share_resource=share.resource,
        quotas=quotas,
        running=running,
        waiting=waiting,
        problem=problem,
    )


def _counts(use: QueueUse) -> tuple[int, int]:
    states: Sequence[GroupState] = [it.state for it in use.rows]
    running = sum(state in (GroupState.RUNNING, GroupState.STARTING) for state in states)
    return running, sum(state is GroupState.WAITING for state in states)


def _state(seen: QueueSeen, queue: Queue) -> str:
    """One that is closed and still has groups says so."""
    return CLOSING if queue.state is QueueState.CLOSED and seen.written_state == CLOSING else queue.state.value
