"""Checks of taints, which keep pods off nodes, and of the tolerations that let pods in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allhands.api import names
from allhands.api.builtin.gostructs import go_struct
from allhands.api.errors import Fault, FieldError, invalid, not_supported, required

if TYPE_CHECKING:
    from allhands.api.document import Manifest

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def check_tolerations(tolerations: list[Manifest], path: str, errors: list[FieldError]) -> None:
    for index, toleration in enumerate(tolerations):
        key, operator = toleration.get("key", ""), toleration.get("operator", "")
        effect = toleration.get("effect", "")
        if key:
            if not names.is_qualified_name(key):
                errors += [invalid(f"{path}[{index}].key", key, text) for text in names.qualified_name(key)]
        elif operator != "Exists":
            detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            errors.append(invalid(f"{path}[{index}].operator", operator, detail))
        if "tolerationSeconds" in toleration and effect != "NoExecute":
            detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            errors.append(invalid(f"{path}[{index}].effect", effect, detail))
        value = toleration.get("value", "")
        if operator != "Exists" or value:
            _check_operator(operator, value, f"{path}[{index}].operator", errors)
        if effect and effect not in _EFFECTS:
            errors.append(not_supported(f"{path}[{index}].effect", effect, _EFFECTS))


def _check_operator(operator: str, value: str, path: str, errors: list[FieldError]) -> None:
    if operator in ("", "Equal"):
        texts = names.label_value(value)
        if texts:
            errors.append(invalid(path, value, ";".join(texts)))
    elif operator == "Exists":
        if value:
            errors.append(invalid(path, value, "value must be empty when `operator` is 'Exists'"))
    elif operator in ("Lt", "Gt"):
        # Known, but behind a feature gate that is off: the server lists them all the same.
        errors.append(not_supported(path, operator, ("Equal", "Exists", "Lt", "Gt")))
    else:
        errors.append(not_supported(path, operator, ("Equal", "Exists")))


def check_taints(taints: list[Manifest], path: str, errors: list[FieldError]) -> None:
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        where = f"{path}[{index}]"
        key, value, effect = taint.get("key", ""), taint.get("value", ""), taint.get("effect", "")
        errors += [invalid(f"{where}.key", key, text) for text in names.qualified_name(key)]
        texts = names.label_value(value)
        if texts:
            errors.append(invalid(f"{where}.value", value, ";".join(texts)))
        if not effect:
            errors.append(required(f"{where}.effect"))
        elif effect not in _EFFECTS:
            errors.append(not_supported(f"{where}.effect", effect, _EFFECTS))
        if (key, effect) in seen:
            shown = go_struct(Key=key, Value=value, Effect=effect, TimeAdded=taint.get("timeAdded"))
            detail = "taints must be unique by key and effect pair"
            errors.append(FieldError(Fault.DUPLICATE, where, shown, detail))
        seen.add((key, effect))
