"""Volcano's Queue as a queue of the model, field by field.

| field | what it means here |
|---|---|
| weight | its part among its siblings of what is not given out by `deserved` |
| capability, deserved, guarantee.resource | the quota's numbers; what is not named is not limited |
| reclaimable: false | others take nothing back from it |
| parent | who is charged too; root where none is named |
| priority | served first, reclaimed from last |
| dequeueStrategy | fifo: nobody passes the first; traverse: those who fit may pass |
| status.state | Closed and Closing take and start nothing |
| affinity | the node groups that its pods may use (`model.node_groups`) |
| annotations `volcano.sh/hierarchy`, `-weights` | its place where levels are compared (`queue_hierarchy`) |
| extendClusters, type | kept, and not read yet (`notes` says so) |

An object that makes no sense never disappears: its queue is held (starts nothing, keeps what runs) and `problem` says
why. What can be left out without harm is left out and said in `notes`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from allhands.api.volcano.queue import ROOT, DequeueStrategy, NodeGroupAffinity, QueueSpec
from allhands.api.volcano.queue import QueueState as WrittenState
from allhands.api.volcano.queue_rules import parent_of, spec_errors
from allhands.dialects.annotations import GANG_BY_DEFAULT, AnnotationError, expected_seconds, flag
from allhands.dialects.decoding import what_is_wrong
from allhands.dialects.queue_hierarchy import Branch, HierarchyError, branch_of
from allhands.model.node_groups import NodeGroups
from allhands.model.queue import Queue, QueueOrder, QueueState, Quota
from allhands.model.resources import EMPTY, ResourceVector

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from allhands.api.field_types import ResourceList
    from allhands.api.volcano.queue import Affinity

__all__ = ["ROOT", "QueueRecord", "read_queue"]

MOST_PROBLEMS: Final = 5
MOST_LEVELS: Final = 64
GROUP_LIMITS: Final = "volcano.sh/nodegroup-resource-limits"
_ORDERS: Final = {
    DequeueStrategy.FIFO: QueueOrder.FIFO_STRICT,
    DequeueStrategy.TRAVERSE: QueueOrder.FIFO_BEST_EFFORT,
}
_CLOSED: Final = (WrittenState.CLOSED, WrittenState.CLOSING)


class _Metadata(msgspec.Struct, frozen=True):
    name: str = ""
    annotations: dict[str, str] | None = None


class _State(msgspec.Struct, frozen=True):
    """Of the status, only this is read: numbers that somebody else has written cannot spoil a queue."""

    state: str | None = None


class _Document(msgspec.Struct, frozen=True):
    metadata: _Metadata = _Metadata()
    spec: QueueSpec | None = None
    status: _State | None = None


class _Envelope(msgspec.Struct, frozen=True):
    """What is left of an object whose spec cannot be read."""

    metadata: _Metadata = _Metadata()


_documents = msgspec.json.Decoder(_Document)
_envelopes = msgspec.json.Decoder(_Envelope)


class QueueRecord(msgspec.Struct, frozen=True):
    """`problem`: why the queue is held, "" if it is not. `notes`: what of it is not used, and why."""

    queue: Queue
    gang_by_default: bool = False
    problem: str = ""
    notes: tuple[str, ...] = ()
    node_groups: NodeGroups | None = None
    branch: Branch | None = None
    """Where it is by annotations."""


def read_queue(raw: bytes) -> QueueRecord:
    """Raises only if there is no object at all in the text."""
    try:
        document = _documents.decode(raw)
    except msgspec.DecodeError as error:  # a document that is no JSON at all fails again below
        name = _envelopes.decode(raw).metadata.name
        return QueueRecord(_held(name, parent_of(name, None)), problem=what_is_wrong(error))
    name, spec = document.metadata.name, document.spec or QueueSpec()
    annotations = document.metadata.annotations or {}
    problems = [str(error) for error in spec_errors(name, spec)]
    notes = _unused(spec, annotations)
    gang_by_default, duration = False, None
    try:
        gang_by_default = flag(GANG_BY_DEFAULT, annotations.get(GANG_BY_DEFAULT, "false"))
    except AnnotationError as error:
        problems.append(str(error))  # who might be a gang must not be started in parts
    try:
        duration = expected_seconds(annotations)
    except AnnotationError as error:
        notes.append(str(error))
    branch = None
    try:
        branch = branch_of(annotations)
    except HierarchyError as error:
        notes.append(f"{error}; the queue is right below the root")
    groups = _node_groups(spec.affinity)
    parent = parent_of(name, spec)
    if problems:
        parent = ROOT if parent == name else parent
        return QueueRecord(_held(name, parent), gang_by_default, _joined(problems), tuple(notes), groups)
    queue = Queue(
        name=name,
        parent=parent,
        quotas=_quotas(spec),
        weight_millis=1000 * spec.weight,
        priority=spec.priority,
        reclaimable=spec.reclaimable,
        state=_state(document.status),
        order=_ORDERS[spec.dequeue_strategy],
        default_duration_seconds=duration,
    )
    return QueueRecord(queue, gang_by_default, notes=tuple(notes), node_groups=groups, branch=branch)


def node_groups_of(name: str, found: Callable[[str], QueueRecord | None]) -> NodeGroups | None:
    """Those that a queue names, or the nearest queue above it that names any. `found` gives queues by name."""
    queue: str | None = name
    for _ in range(MOST_LEVELS):
        record = None if queue is None else found(queue)
        if record is None:
            return None
        if record.node_groups is not None:
            return record.node_groups
        queue = record.queue.parent
    return None  # a circle


def _held(name: str, parent: str | None) -> Queue:
    return Queue(name=name, parent=parent, state=QueueState.HOLD)


def _state(status: _State | None) -> QueueState:
    return QueueState.CLOSED if status is not None and status.state in _CLOSED else QueueState.OPEN


def _node_groups(affinity: Affinity | None) -> NodeGroups | None:
    """None where nothing is named; then the queue above may."""
    if affinity is None:
        return None
    wanted = affinity.node_group_affinity or NodeGroupAffinity()
    unwanted = affinity.node_group_anti_affinity or NodeGroupAffinity()
    groups = NodeGroups(
        wanted.required_during_scheduling_ignored_during_execution or (),
        wanted.preferred_during_scheduling_ignored_during_execution or (),
        unwanted.required_during_scheduling_ignored_during_execution or (),
        unwanted.preferred_during_scheduling_ignored_during_execution or (),
    )
    return None if groups.says_nothing else groups


def _unused(spec: QueueSpec, annotations: Mapping[str, str]) -> list[str]:
    """What means something upstream and is not read here."""
    notes = []
    if GROUP_LIMITS in annotations:
        notes.append(f"metadata.annotations[{GROUP_LIMITS}]: limits for each node group are not supported")
    if spec.extend_clusters:
        notes.append("spec.extendClusters: work is not sent to other clusters yet")
    return notes


def _quotas(spec: QueueSpec) -> tuple[Quota, ...]:
    capability, deserved = _vector(spec.capability), _vector(spec.deserved)
    guarantee = _vector(spec.guarantee.resource) if spec.guarantee is not None else EMPTY
    return tuple(
        Quota(
            resource,
            guarantee=_amount(guarantee, resource),
            deserved=_amount(deserved, resource),
            capability=_amount(capability, resource),
        )
        for resource in sorted({*capability, *deserved, *guarantee})
    )


def _vector(quantities: ResourceList | None) -> ResourceVector:
    return ResourceVector.from_quantities(dict(quantities)) if quantities else EMPTY


def _amount(amounts: ResourceVector, resource: str) -> int | None:
    """What is not named is not limited; nothing and zero are different things."""
    return amounts[resource] if resource in amounts else None  # noqa: SIM401


def _joined(problems: list[str]) -> str:
    more = len(problems) - MOST_PROBLEMS
    return "; ".join(problems[:MOST_PROBLEMS]) + (f"; and {more} more" if more > 0 else "")
