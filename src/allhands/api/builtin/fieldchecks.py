"""Checks of single fields that many kinds share: signs, immutability, percentages, selectors, conditions.

Each returns the field errors of a real kube-apiserver, in its order. Nothing here knows a kind.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from allhands.api.errors import FieldError, duplicate, invalid, not_supported, required, too_long
from allhands.api.names import percent, qualified_name, regex_text
from allhands.api.selectors import label_selector

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from allhands.api.document import Json, Manifest

NEGATIVE: Final = "must be greater than or equal to 0"
IMMUTABLE: Final = "field is immutable"

_NUMBER_OR_PERCENT_RE: Final = re.compile("[0-9]+%|[+-]?[0-9]+")
_MORE_DIGITS_THAN_MATTER: Final = 18

_MAX_CONDITION_REASON_BYTES: Final = 1024
_MAX_CONDITION_MESSAGE_BYTES: Final = 32 * 1024
_CONDITION_REASON: Final = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"
_CONDITION_REASON_RE: Final = re.compile(_CONDITION_REASON)
_CONDITION_REASON_TEXT: Final = regex_text(
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric "
    "characters or '_,:', and must end with an alphanumeric character or '_'",
    _CONDITION_REASON,
    "my_name",
    "MY_NAME",
    "MyName",
    "ReasonA,ReasonB",
    "ReasonA:ReasonB",
)


def negatives(section: Manifest, fields: Iterable[str], path: str) -> list[FieldError]:
    """An error for each of the fields that holds a number below zero."""
    return [invalid(f"{path}.{name}", section[name], NEGATIVE) for name in fields if section.get(name, 0) < 0]


def immutable(new: Manifest, old: Manifest, field: str, path: str, absent: Json = None) -> list[FieldError]:
    """The field may not differ between the two sections. `absent` is what the server shows for a field not there."""
    value = new.get(field, absent)
    if value == old.get(field, absent):
        return []
    return [invalid(f"{path}.{field}" if path else field, value, IMMUTABLE)]


def int_or_percent_value(value: Json) -> int:
    """The number in `3` or `"25%"`; any other text counts as the integer it spells, or zero."""
    if isinstance(value, int):
        return value
    if not _NUMBER_OR_PERCENT_RE.fullmatch(value):
        return 0
    digits = value.rstrip("%").lstrip("+-").lstrip("0")[:_MORE_DIGITS_THAN_MATTER] or "0"
    return -int(digits) if value[0] == "-" else int(digits)


def int_or_percent(value: Json, path: str) -> list[FieldError]:
    if isinstance(value, str):
        return [invalid(path, value, text) for text in percent(value)]
    return [invalid(path, value, NEGATIVE)] if value < 0 else []


def at_most_100_percent(value: Json, path: str) -> list[FieldError]:
    if isinstance(value, str) and not percent(value) and int_or_percent_value(value) > 100:
        return [invalid(path, value, "must not be greater than 100%")]
    return []


def sorted_labels(labels: Mapping[str, str] | None) -> dict[str, str] | None:
    """Labels as the server shows them in an error: by key, and `null` when there are none."""
    return None if labels is None else {key: labels[key] for key in sorted(labels)}


def shown_selector(selector: Manifest | None) -> Manifest | None:
    """A label selector as the server shows it in an error: labels by key."""
    if not selector or "matchLabels" not in selector:
        return selector
    return {**selector, "matchLabels": sorted_labels(selector["matchLabels"])}


def selector_matches(selector: Manifest | None, labels: Mapping[str, str] | None) -> bool:
    """Whether a valid selector selects these labels. No selector selects nothing, an empty one everything."""
    if selector is not None and "matchExpressions" not in selector:
        # Most selectors are a few labels; these need no selector value to be built.
        return (selector.get("matchLabels") or {}).items() <= (labels or {}).items()
    return label_selector(selector).matches(labels or {})


def validate_conditions(conditions: list[Manifest], path: str) -> list[FieldError]:
    """The conditions of a status that follows the shared `metav1.Condition` shape."""
    errors = []
    types: set[str] = set()
    for index, condition in enumerate(conditions):
        condition_type = condition.get("type", "")
        if condition_type in types:
            errors.append(duplicate(f"{path}[{index}].type", condition_type))
        types.add(condition_type)
        errors += _condition_errors(condition, f"{path}[{index}]")
    return errors


def _condition_errors(condition: Manifest, path: str) -> list[FieldError]:
    condition_type = condition.get("type", "")
    errors = [invalid(f"{path}.type", condition_type, text) for text in qualified_name(condition_type)]
    status = condition.get("status", "")
    if status not in ("True", "False", "Unknown"):
        errors.append(not_supported(f"{path}.status", status, ("False", "True", "Unknown")))
    generation = condition.get("observedGeneration", 0)
    if generation < 0:
        errors.append(invalid(f"{path}.observedGeneration", generation, "must be greater than or equal to zero"))
    if not condition.get("lastTransitionTime"):
        errors.append(required(f"{path}.lastTransitionTime"))
    reason = condition.get("reason", "")
    if not reason:
        errors.append(required(f"{path}.reason"))
    else:
        if not _CONDITION_REASON_RE.fullmatch(reason):
            errors.append(invalid(f"{path}.reason", reason, _CONDITION_REASON_TEXT))
        if len(reason.encode()) > _MAX_CONDITION_REASON_BYTES:
            errors.append(too_long(f"{path}.reason", _MAX_CONDITION_REASON_BYTES))
    if len(condition.get("message", "").encode()) > _MAX_CONDITION_MESSAGE_BYTES:
        errors.append(too_long(f"{path}.message", _MAX_CONDITION_MESSAGE_BYTES))
    return errors
