"""What stands against an apply: fields that it would change and that somebody else owns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.api.apply.path_element import shown_path
from allhands.api.errors import StatusError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allhands.api.apply.field_set import FieldSet
    from allhands.api.apply.owners import Owner

_CAUSE: Final = "FieldManagerConflict"


class ConflictsError(Exception):
    """The fields in question, by owner."""

    def __init__(self, fields: Mapping[Owner, FieldSet]) -> None:
        super().__init__("conflicts")
        self.fields = fields


def conflict_refusal(fields: Mapping[Owner, FieldSet]) -> StatusError:
    """The refusal, with every field and its owner."""
    owners = sorted(fields, key=lambda owner: owner.identifier())
    found = [(owner, shown_path(path)) for owner in owners for path in fields[owner].paths()]
    causes = [{"reason": _CAUSE, "message": f"conflict with {owner.shown()}", "field": path} for owner, path in found]
    if len(found) == 1:
        owner, path = found[0]
        message = f"Apply failed with 1 conflict: conflict with {owner.shown()}: {path}"
    else:
        lines: list[str] = []
        for owner in owners:
            lines.append(f"conflicts with {owner.shown()}:")
            lines += [f"- {path}" for other, path in found if other == owner]
        message = f"Apply failed with {len(found)} conflicts: " + "\n".join(lines)
    return StatusError(409, "Conflict", message, {"causes": causes})
