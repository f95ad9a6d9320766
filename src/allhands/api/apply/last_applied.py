"""The note of what kubectl applied by itself, before the server could: what kubectl may take over because of it.

Only the manager named `kubectl` is meant by all of this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from allhands.api.apply.comparing import compare
from allhands.api.apply.field_set import NOTHING, FieldSet
from allhands.api.apply.path_element import go_json
from allhands.api.apply.typed import TypedError, check, field_set_of
from allhands.api.metadata import ANNOTATIONS_MAX_BYTES

if TYPE_CHECKING:
    from allhands.api.apply.structured import Typing
    from allhands.api.document import Manifest

KUBECTL: Final = "kubectl"
ANNOTATION: Final = "kubectl.kubernetes.io/last-applied-configuration"


def taken_over(typing: Typing, old: Manifest) -> FieldSet:
    """The fields that kubectl had applied and that are still as it applied them."""
    note = _annotations(old).get(ANNOTATION)
    if not note:
        return NOTHING
    try:
        applied: Any = msgspec.json.decode(note)
        if not isinstance(applied, dict) or applied.get("apiVersion") != typing.version:
            return NOTHING
        check(typing.type, old, duplicates=False)
        check(typing.type, applied, duplicates=False)
    except (msgspec.DecodeError, TypedError):
        return NOTHING
    changes = compare(typing.type, applied, old)
    return field_set_of(typing.type, applied) - changes.modified - changes.added - changes.removed


def renew_note(new: Manifest, config: Manifest) -> None:
    """Writes what was applied into the note of an object that has one, so that kubectl can go back to its own way."""
    annotations = _annotations(new)
    if not annotations.get(ANNOTATION):
        return
    noted = {**config, "metadata": {**(config.get("metadata") or {})}}
    others = {name: value for name, value in _annotations(config).items() if name != ANNOTATION}
    if "annotations" in noted["metadata"]:
        noted["metadata"]["annotations"] = others
    renewed = {**annotations, ANNOTATION: go_json(noted) + "\n"}
    if sum(len(name.encode()) + len(value.encode()) for name, value in renewed.items()) > ANNOTATIONS_MAX_BYTES:
        del renewed[ANNOTATION]
    new["metadata"] = {**new["metadata"], "annotations": renewed}


def _annotations(document: Manifest) -> dict[str, str]:
    return (document.get("metadata") or {}).get("annotations") or {}
