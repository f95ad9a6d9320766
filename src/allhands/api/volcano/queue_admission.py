"""What is refused of a Queue when it comes, changes or goes: its own contradictions, then those with other queues.

Pure. One whose spec and annotations stay is never refused: its status must be written, and it must be able to go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from allhands.api.errors import FieldError, invalid
from allhands.api.volcano import queue_tree_rules
from allhands.api.volcano.queue import ROOT, Affinity, NodeGroupAffinity, QueueSpec
from allhands.api.volcano.queue_rules import GUARANTEE, place_error, spec_errors
from allhands.api.volcano.queue_tree_rules import deletion_error, tree_errors
from allhands.api.volcano.surroundings import HIERARCHY, HIERARCHY_WEIGHTS

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.api.volcano.surroundings import Surroundings

GOES: Final = "spec.affinity.nodeGroupAffinity"
STAYS_AWAY: Final = "spec.affinity.nodeGroupAntiAffinity"
MUST: Final = "requiredDuringSchedulingIgnoredDuringExecution"
SHOULD: Final = "preferredDuringSchedulingIgnoredDuringExecution"

__all__ = ["complete_queue", "deletion_error", "queue_errors"]


def complete_queue(queue: Manifest, _around: Surroundings) -> None:
    queue_tree_rules.complete_queue(queue)


def queue_errors(queue: Manifest, old: Manifest | None, around: Surroundings) -> list[FieldError]:
    """Why a queue that is new, or has changed, is refused."""
    if old is not None and _wanted(queue) == _wanted(old):
        return []
    name = queue["metadata"].get("name", "")
    try:
        spec = msgspec.convert(queue.get("spec") or {}, QueueSpec)
    except msgspec.ValidationError:
        return []  # the schema says what is wrong, and says it better
    errors = spec_errors(name, spec) + _promise_errors(spec)
    if old is None or (old.get("spec") or {}).get("affinity") != queue.get("spec", {}).get("affinity"):
        errors += _node_group_errors(spec)
    parents = {it.name: it.parent or None for it in around.queues().values()}
    parents |= {ROOT: None, name: None if name == ROOT else spec.parent or ROOT}
    misplaced = place_error(name, parents)
    if misplaced is not None:
        return [*errors, misplaced] if misplaced not in errors else errors
    return errors or tree_errors(queue, old, around)


def _promise_errors(spec: QueueSpec) -> list[FieldError]:
    """What is guaranteed is a part of what is deserved, so both are said; the scheduler does without."""
    promised = (spec.guarantee.resource if spec.guarantee is not None else None) or {}
    missing = [resource for resource in promised if resource not in (spec.deserved or {})]
    return [
        invalid(f"{GUARANTEE}[{it}]", promised[it], "spec.deserved must name it too, with at least as much")
        for it in missing
    ]


def _node_group_errors(spec: QueueSpec) -> list[FieldError]:
    """Node groups have names, and none is both one to go to and one to stay away from."""
    affinity = spec.affinity or Affinity()
    goes, away = (it or NodeGroupAffinity() for it in (affinity.node_group_affinity, affinity.node_group_anti_affinity))
    errors: list[FieldError] = []
    for path, groups in ((GOES, goes), (STAYS_AWAY, away)):
        for field, names in (
            (MUST, groups.required_during_scheduling_ignored_during_execution),
            (SHOULD, groups.preferred_during_scheduling_ignored_during_execution),
        ):
            errors += [
                invalid(f"{path}.{field}[{at}]", it, "must be the name of a node group")
                for at, it in enumerate(names or ())
                if not it.strip()
            ]
    needed = goes.required_during_scheduling_ignored_during_execution or ()
    for at, name in enumerate(away.required_during_scheduling_ignored_during_execution or ()):
        if name.strip() and name in needed:
            errors.append(invalid(f"{STAYS_AWAY}.{MUST}[{at}]", name, f"{GOES}.{MUST} names it too; only one can hold"))
    return errors


def _wanted(queue: Manifest) -> tuple[object, ...]:
    """What the rules look at; controllers write annotations of their own."""
    annotations = queue["metadata"].get("annotations") or {}
    return queue.get("spec"), annotations.get(HIERARCHY), annotations.get(HIERARCHY_WEIGHTS)
