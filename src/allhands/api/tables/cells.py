"""What cells of many kinds have in common: reading a field that may be absent, and texts for labels and containers.

The printers read objects as they are stored, so an absent field means what Go's zero value means there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.api.tables.duration import human_since
from allhands.model.quantity import QuantityError, canonical_resource

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from allhands.api.document import Json, Manifest

NONE: Final = "<none>"
UNSET: Final = "<unset>"

_SELECTOR_WORDS: Final = {"In": "in", "NotIn": "notin"}


def at(document: Manifest, *path: str) -> Json:
    """The value under a path of field names; None where any of them is absent."""
    value: Json = document
    for field in path:
        if value is None:
            return None
        value = value.get(field)
    return value


def text_at(document: Manifest, *path: str) -> str:
    return str(at(document, *path) or "")


def integer_at(document: Manifest, *path: str) -> int:
    return int(at(document, *path) or 0)


def list_at(document: Manifest, *path: str) -> list[Json]:
    found: list[Json] = at(document, *path) or []
    return found


def mapping_at(document: Manifest, *path: str) -> dict[str, Json]:
    found: dict[str, Json] = at(document, *path) or {}
    return found


def or_default(value: Json, default: Json) -> Json:
    """`value`, but `default` where the field was absent: an explicit zero, false or empty text stays."""
    return default if value is None else value


def name_of(document: Manifest) -> str:
    return text_at(document, "metadata", "name")


def age_of(document: Manifest, now: datetime) -> str:
    return human_since(at(document, "metadata", "creationTimestamp"), now)


def is_terminating(document: Manifest) -> bool:
    return at(document, "metadata", "deletionTimestamp") is not None


def quantity_text(quantity: Json) -> str:
    """An entry of a resource list in canonical form; the zero quantity where there is none."""
    if quantity is None:
        return "0"
    try:
        return canonical_resource(quantity)
    except QuantityError:
        return str(quantity)


def labels_text(labels: dict[str, str] | None) -> str:
    return ",".join(sorted(f"{key}={value}" for key, value in (labels or {}).items())) or NONE


def selector_text(selector: Manifest | None) -> str | None:
    """A label selector in the syntax of a query; empty where it selects all or nothing, None where it is malformed."""
    requirements = [(key, f"{key}={value}") for key, value in mapping_at(selector or {}, "matchLabels").items()]
    for expression in list_at(selector or {}, "matchExpressions"):
        requirement = _requirement_text(expression)
        if requirement is None:
            return None
        requirements.append((expression["key"], requirement))
    requirements.sort(key=lambda requirement: requirement[0])
    return ",".join(text for _, text in requirements)


def _requirement_text(expression: Manifest) -> str | None:
    key, operator, values = text_at(expression, "key"), expression.get("operator"), list_at(expression, "values")
    if operator in _SELECTOR_WORDS:
        return f"{key} {_SELECTOR_WORDS[operator]} ({','.join(sorted(values))})" if values else None
    if values:
        return None
    return {"Exists": key, "DoesNotExist": f"!{key}"}.get(str(operator))


def selector_cell(selector: Manifest | None) -> str:
    text = selector_text(selector)
    return "<error>" if text is None else text or NONE


def container_cells(pod_spec: Manifest | None) -> list[Json]:
    """Two cells: the names of the containers of a template, and their images."""
    containers = list_at(pod_spec or {}, "containers")
    return [",".join(text_at(container, key) for container in containers) for key in ("name", "image")]


def first_few(texts: Iterable[str], *, limit: int = 3, empty: str = UNSET) -> str:
    """The first texts, and how many more there are."""
    every = list(texts)
    shown = ",".join(every[:limit])
    return f"{shown} + {len(every) - limit} more..." if len(every) > limit else shown or empty


def condition_of(document: Manifest, type: str) -> Manifest | None:
    """The first condition of a type in `status.conditions`."""
    for condition in list_at(document, "status", "conditions"):
        if condition.get("type") == type:
            found: Manifest = condition
            return found
    return None


def condition_is_true(document: Manifest, type: str) -> bool:
    condition = condition_of(document, type)
    return condition is not None and condition.get("status") == "True"
