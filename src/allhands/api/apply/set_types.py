"""Sets of fields held against a type: which structs they imply, and what is left when the type has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allhands.api.apply.field_set import NOTHING, FieldSet
from allhands.api.apply.field_type import ListType, MapType

if TYPE_CHECKING:
    from allhands.api.apply.field_set import Path
    from allhands.api.apply.field_type import FieldType, Form
    from allhands.api.apply.path_element import PathElement


def with_structs(found: FieldSet, type: FieldType | None) -> FieldSet:
    """The set together with the declared fields that lead to its members: who removes all that a struct holds removes
    the struct."""
    fields = None if type is None else type.fields
    implied = (
        {step for step in found.children if step.startswith("f:") and fields.declares(step[2:])} if fields else set()
    )
    children = {step: with_structs(child, _below(type, step)) for step, child in found.children.items()}
    return FieldSet(found.members | implied, children)


def _below(type: FieldType | None, step: PathElement) -> FieldType | None:
    if type is None:
        return None
    if step.startswith("f:") and type.fields is not None:
        return type.fields.type_of(step[2:])
    return type.items.item if step.startswith("k:") and type.items is not None else None


def following(found: FieldSet, type: FieldType) -> FieldSet:
    """The set after its type became what it is: who owned parts of what is one piece now owns the piece."""
    pieces: list[Path] = []
    _find_pieces(found, type, (), pieces, is_whole=False)
    if not pieces:
        return found
    whole = FieldSet.of(pieces)
    return found.without_branches(whole) | whole


def _find_pieces(found: FieldSet, type: FieldType, path: Path, pieces: list[Path], *, is_whole: bool) -> None:
    form: Form | None = type.fields or type.scalar or type.items
    if isinstance(form, MapType):
        if form.deduced:
            return
        if form.atomic and not is_whole:
            if found:
                pieces.append(path)
            return
    elif isinstance(form, ListType):
        if form.atomic and not is_whole:
            pieces.append(path)
            return
    else:
        return
    for step in found.members | found.children.keys():
        below = (
            (form.type_of(step[2:]) if step.startswith("f:") else form.other)
            if isinstance(form, MapType)
            else form.item
        )
        if below is not None:
            alone = step in found.members and step not in found.children
            _find_pieces(found.children.get(step, NOTHING), below, (*path, step), pieces, is_whole=alone)
