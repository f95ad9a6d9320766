"""Whose an object is: a manager takes what fits and nobody has, and lets go what does not fit any more.

People relabel an object to look into it in peace; then it is nobody's. What somebody else manages is never touched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import msgspec

from allhands.lifecycle.changes import object_reference, owner_reference
from allhands.lifecycle.instructions import Instruction, Patch, Record
from allhands.lifecycle.observed import NO_LABELS, Metadata

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from allhands.api.document import Manifest
    from allhands.api.kinds import Resource
    from allhands.api.selectors import LabelSelector


class _Object(Protocol):
    @property
    def metadata(self) -> Metadata: ...


T = TypeVar("T", bound=_Object)
MOST_NAMED: Final = 10
"""Of more pods that come or go at once it is told how many: a thousand names would be in the way of what matters."""


class Manager(msgspec.Struct, frozen=True):
    """An object of the group `apps` that manages others."""

    kind: str
    metadata: Metadata
    api_version: str = "apps/v1"

    @property
    def reference(self) -> Manifest:
        return owner_reference(self.api_version, self.kind, self.metadata)

    def event(self, reason: str, message: str, *, warning: bool = False) -> Record:
        involved = object_reference(self.api_version, self.kind, self.metadata)
        return Record(involved, "Warning" if warning else "Normal", reason, message)


def claim(
    manager: Manager,
    resource: Resource,
    selector: LabelSelector,
    candidates: Iterable[T],
    is_eligible: Callable[[T], bool] = lambda _: True,
) -> tuple[list[T], list[Instruction]]:
    """Those that are the manager's from now on, and what has to be written for that."""
    mine: list[T] = []
    changes: list[Instruction] = []
    of = manager.metadata
    for each in candidates:
        metadata = each.metadata
        controller = metadata.controller
        fits = selector.matches(metadata.labels or NO_LABELS) and is_eligible(each)
        if controller is None:
            if fits and metadata.namespace == of.namespace and not metadata.is_going and not of.is_going:
                owners = [*map(msgspec.to_builtins, metadata.owner_references or ()), manager.reference]
                changes.append(owned_by(resource, metadata, owners))
                mine.append(each)
        elif controller.uid == of.uid:
            if fits or metadata.is_going or of.is_going:
                mine.append(each)
            else:
                others = [msgspec.to_builtins(it) for it in metadata.owner_references or () if it.uid != of.uid]
                changes.append(owned_by(resource, metadata, others))
    return mine, changes


def owned_by(resource: Resource, metadata: Metadata, owners: list[Manifest]) -> Patch:
    """Makes these the owners of that very object as it was seen."""
    patch = {"metadata": {"uid": metadata.uid, "ownerReferences": owners or None}}
    return Patch(resource, metadata.namespace, metadata.name, patch, version=metadata.resource_version)
