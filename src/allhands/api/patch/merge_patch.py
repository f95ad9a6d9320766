"""JSON merge patch (RFC 7386): objects merge, null removes, everything else replaces.

Like the server, and beyond the RFC, nulls inside the objects of a replaced list are dropped too: they mean nothing to
the API. A whole document is never replaced, since no object of the API is anything but a JSON object.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allhands.api.patch.errors import malformed, wrong_json_type
from allhands.api.patch.values import copied

if TYPE_CHECKING:
    from allhands.api.document import Json, Manifest


def merge_patch(document: Manifest, patch: Json) -> Manifest:
    """The object after the patch, or a `PatchError` when the patch is not an object."""
    if patch is None:
        raise malformed("Invalid JSON Patch")
    if not isinstance(patch, dict):
        raise malformed(f"error decoding patch: {wrong_json_type(patch, 'value of type map[string]interface {}')}")
    merged: Manifest = merged_value(document, patch)
    return merged


def sort_fields_where_patched(merged: Json, patch: Json) -> None:
    """Objects that a patch went into come out with their fields sorted: refusals name the first one."""
    if not isinstance(merged, dict) or not isinstance(patch, dict):
        return
    for name in sorted(merged):
        merged[name] = merged.pop(name)
    for name, part in patch.items():
        sort_fields_where_patched(merged.get(name), part)


def merged_value(target: Json, patch: Json) -> Json:
    """The rule of the RFC for any two values."""
    if not isinstance(patch, dict):
        return _without_nulls(patch)
    # A member that the patch names will be replaced or merged, so copying it first would be for nothing.
    base = target if isinstance(target, dict) else {}
    merged = {}
    for key, value in base.items():
        if key not in patch:
            merged[key] = copied(value)
        elif patch[key] is not None:
            merged[key] = merged_value(value, patch[key])
    for key, value in patch.items():
        if key not in base and value is not None:
            merged[key] = merged_value(None, value)
    return merged


def _without_nulls(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    if isinstance(value, list):
        return [_without_nulls(each) for each in value]
    return value
