"""Rules of RuntimeClass (node.k8s.io/v1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.api.builtin.fieldchecks import immutable
from allhands.api.builtin.requirements import check_requirements
from allhands.api.builtin.tolerations import check_tolerations
from allhands.api.errors import FieldError, duplicate, invalid, required
from allhands.api.metadata import validate_labels
from allhands.api.names import dns1123_label
from allhands.api.rules import Rules

if TYPE_CHECKING:
    from allhands.api.document import Json, Manifest


def validate_runtime_class(runtime_class: Manifest) -> list[FieldError]:
    handler = runtime_class.get("handler", "")
    errors = (
        [invalid("handler", handler, text) for text in dns1123_label(handler)] if handler else [required("handler")]
    )
    if "overhead" in runtime_class:
        check_requirements({"limits": runtime_class["overhead"].get("podFixed") or {}}, "overhead", (), errors)
    scheduling = runtime_class.get("scheduling")
    if scheduling is not None:
        errors += validate_labels(scheduling.get("nodeSelector") or {}, "scheduling.nodeSelector")
        errors += _toleration_errors(scheduling.get("tolerations") or [], "scheduling.tolerations")
    return errors


def _toleration_errors(tolerations: list[Manifest], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    check_tolerations(tolerations, path, errors)
    seen: set[tuple[str, ...]] = set()
    for index, toleration in enumerate(tolerations):
        identity = tuple(toleration.get(field, "") for field in ("key", "operator", "value", "effect"))
        if identity in seen:
            errors.append(duplicate(f"{path}[{index}]", _shown(toleration)))
        seen.add(identity)
    return errors


def _shown(toleration: Manifest) -> Json:
    """A toleration with the field names the real server shows in an error."""
    texts = {field.capitalize(): toleration.get(field, "") for field in ("key", "operator", "value", "effect")}
    return {**texts, "TolerationSeconds": toleration.get("tolerationSeconds")}


def validate_runtime_class_update(new: Manifest, old: Manifest) -> list[FieldError]:
    return validate_runtime_class(new) + immutable(new, old, "handler", "", absent="")


RULES: Final = {
    "RuntimeClass": Rules(validate_create=validate_runtime_class, validate_update=validate_runtime_class_update),
}
