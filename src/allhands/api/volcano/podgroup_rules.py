"""What is filled into a PodGroup of Volcano, and what is refused, with the path of each field. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allhands.api.selectors import validate_label_selector
from allhands.api.volcano.queue import DEFAULT
from allhands.api.volcano.queue_tree_rules import submission_errors
from allhands.api.volcano.surroundings import QUEUE_OF_NAMESPACE
from allhands.api.volcano.topology_rules import topology_errors

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.api.errors import FieldError
    from allhands.api.volcano.surroundings import Surroundings


def complete_group(group: Manifest, around: Surroundings) -> None:
    """A group that names no queue, or the default one, goes to that of its namespace."""
    spec = group.setdefault("spec", {})
    if (spec.get("queue") or DEFAULT) != DEFAULT:
        return
    annotations = around.namespace_annotations(group["metadata"].get("namespace", ""))
    spec["queue"] = annotations.get(QUEUE_OF_NAMESPACE) or DEFAULT


def create_errors(group: Manifest, around: Surroundings) -> list[FieldError]:
    """Why a new group is refused."""
    spec = group.get("spec") or {}
    return submission_errors(spec.get("queue", DEFAULT), "spec.queue", around, to_a_leaf=False) + _spec_errors(spec)


def update_errors(new: Manifest, old: Manifest, around: Surroundings) -> list[FieldError]:
    """Why a changed group is refused. Its status is written by updates of the whole: then nothing is looked at."""
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    if spec == before:
        return []
    errors = _spec_errors(spec)
    queue = spec.get("queue", DEFAULT)
    if queue != before.get("queue", DEFAULT):
        errors += submission_errors(queue, "spec.queue", around, to_a_leaf=False)
    return errors


def _spec_errors(spec: Manifest) -> list[FieldError]:
    errors = topology_errors(spec.get("networkTopology"), "spec.networkTopology")
    for index, policy in enumerate(spec.get("subGroupPolicy") or ()):
        where = f"spec.subGroupPolicy[{index}]"
        errors += topology_errors(policy.get("networkTopology"), f"{where}.networkTopology")
        errors += validate_label_selector(policy.get("labelSelector"), f"{where}.labelSelector")
    return errors
