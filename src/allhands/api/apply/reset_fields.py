"""Fields that a write through a door cannot change: the status through the object, the spec through the status.

Nobody comes to own what he cannot change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.api.apply.field_set import NOTHING, FieldSet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allhands.api.kinds import Kind

_STATUS: Final = FieldSet.of([("f:status",)])
_SPEC: Final = FieldSet.of([("f:spec",)])
_ALL_BUT_STATUS: Final = FieldSet.of([("f:metadata",), ("f:spec",)])
_THROUGH_STATUS: Final = {
    "Deployment": FieldSet.of([("f:spec",), ("f:metadata", "f:labels")]),
    "Pod": FieldSet.of([("f:spec",), ("f:metadata", "f:deletionTimestamp"), ("f:metadata", "f:ownerReferences")]),
    "PodGroup": _ALL_BUT_STATUS,
    "VolumeAttachment": _ALL_BUT_STATUS,
}
"""Of built-in kinds that say more than that the spec stays."""


def reset_fields(kind: Kind, subresource: str) -> Mapping[str, FieldSet]:
    """By version, what stays as it is when the kind's objects are written through this door."""
    if subresource == "status":
        kept = _ALL_BUT_STATUS if kind.custom else _THROUGH_STATUS.get(kind.kind, _SPEC)
        return dict.fromkeys(kind.field_types, kept)
    if subresource in kind.rules.parts:
        return {}  # the real server forgets to say what stays, so writers own what they only tried to change
    return {kind.api_version: _STATUS if kind.has_status else NOTHING}
