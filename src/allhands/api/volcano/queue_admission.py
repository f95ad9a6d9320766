"""What is refused of a Queue when it comes, changes or goes: its own contradictions, then those with other queues.

Pure. One whose spec and annotations stay is never refused: its status must be written, and it must be able to go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from allhands.api.errors import FieldError, invalid
from allhands.api.volcano import queue_tree_rules
from allhands.api.volcano.queue import ROOT, QueueSpec
from allhands.api.volcano.queue_rules import GUARANTEE, place_error, spec_errors
from allhands.api.volcano.queue_tree_rules import deletion_error, tree_errors

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.api.volcano.surroundings import Surroundings

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


def _wanted(queue: Manifest) -> tuple[object, object]:
    return queue.get("spec"), queue["metadata"].get("annotations")
