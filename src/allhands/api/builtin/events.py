"""Events under two addresses: the names of their fields, and the rules of events.k8s.io/v1, the strict ones.

Both groups store one kind with the older group's names, so errors speak of `involvedObject` and `message` although
the client wrote `regarding` and `note`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.api.builtin.fieldchecks import IMMUTABLE
from allhands.api.errors import FieldError, invalid, required
from allhands.api.kinds import dotted
from allhands.api.names import dns1123_subdomain, qualified_name
from allhands.api.rules import Rules

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allhands.api.document import Json, Manifest

_MAX_TEXT_BYTES: Final = 128
_MAX_NOTE_BYTES: Final = 1024
_REFERENCE_FIELDS: Final = (
    ("Kind", "kind"),
    ("Namespace", "namespace"),
    ("Name", "name"),
    ("UID", "uid"),
    ("APIVersion", "apiVersion"),
    ("ResourceVersion", "resourceVersion"),
    ("FieldPath", "fieldPath"),
)
_IMMUTABLE_TEXTS: Final = (
    ("reason", "reason"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reason", "reason"),
    ("type", "type"),
    ("eventTime", "eventTime"),
    ("action", "action"),
    ("related", "related"),
    ("reportingController", "reportingController"),
    ("reportingInstance", "reportingInstance"),
)
"""(name in the error, name in the object), in the order of the checks."""

STORED_SELECTABLE: Final = (
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "type",
    "source",
)
STORED_NAMES: Final[Mapping[str, str]] = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
"""What the fields of an event of events.k8s.io are called where it is stored, as an event of the core group."""
SELECTABLE: Final = (
    *(path.replace("involvedObject", "regarding") for path in STORED_SELECTABLE[:8]),
    "reportingController",
    "type",
)
"""The same fields in the same order, as far as events.k8s.io selects by them."""


def select(event: Manifest) -> tuple[str, ...]:
    """The values of `STORED_SELECTABLE` for a stored event."""
    values = {path: dotted(event, path) for path in STORED_SELECTABLE}
    values["source"] = dotted(event, "source.component") or values["reportingComponent"]
    return tuple(values[path] for path in STORED_SELECTABLE)


def validate_event(event: Manifest) -> list[FieldError]:
    errors = _shared_errors(event) + _series_errors(event)
    if not event.get("eventTime"):
        errors.append(required("eventTime"))
    event_type = event.get("type", "")
    if event_type not in ("Normal", "Warning"):
        errors.append(invalid("type", "", f"has invalid value: {event_type}"))
    for shown, field in (
        ("firstTimestamp", "deprecatedFirstTimestamp"),
        ("lastTimestamp", "deprecatedLastTimestamp"),
        ("count", "deprecatedCount"),
    ):
        if event.get(field):
            errors.append(invalid(shown, "", "needs to be unset"))
    source = event.get("deprecatedSource") or {}
    if source.get("component") or source.get("host"):
        errors.append(invalid("source", "", "needs to be unset"))
    return errors


def validate_event_update(new: Manifest, old: Manifest) -> list[FieldError]:
    errors = _shared_errors(new)
    if new.get("series") != old.get("series"):
        errors += _series_errors(new)
    if (new.get("regarding") or {}) != (old.get("regarding") or {}):
        errors.append(invalid("involvedObject", _shown_reference(new.get("regarding") or {}), IMMUTABLE))
    for shown, field in _IMMUTABLE_TEXTS:
        if (new.get(field) or None) != (old.get(field) or None):
            errors.append(invalid(shown, _shown_value(field, new.get(field)), IMMUTABLE))
    return errors


def _shown_value(field: str, value: Json) -> Json:
    if field == "related":
        return value and _shown_reference(value)
    if field == "deprecatedSource":
        return {"Component": (value or {}).get("component", ""), "Host": (value or {}).get("host", "")}
    if field == "deprecatedCount":
        return value or 0
    return value if value or field.endswith(("Time", "Timestamp")) else ""


def _shown_reference(reference: Manifest) -> Json:
    return {shown: reference.get(field, "") for shown, field in _REFERENCE_FIELDS}


def _series_errors(event: Manifest) -> list[FieldError]:
    series = event.get("series")
    if series is None:
        return []
    errors = []
    if series.get("count", 0) < 2:
        errors.append(invalid("series.count", "", "should be at least 2"))
    if not series.get("lastObservedTime"):
        errors.append(required("series.lastObservedTime"))
    return errors


def _shared_errors(event: Manifest) -> list[FieldError]:
    namespace = event["metadata"].get("namespace", "")
    subject = (event.get("regarding") or {}).get("namespace", "")
    errors = []
    if event.get("eventTime"):
        agrees = bool(subject) or namespace in ("default", "kube-system")
    else:
        agrees = namespace == subject if subject else namespace in ("", "default")
    if not agrees:
        errors.append(invalid("involvedObject.namespace", subject, "does not match event.namespace"))
    if event.get("eventTime"):
        errors += _text_errors(event)
    return errors + [invalid("namespace", namespace, text) for text in dns1123_subdomain(namespace)]


def _text_errors(event: Manifest) -> list[FieldError]:
    controller = event.get("reportingController", "")
    errors = [] if controller else [required("reportingController")]
    errors += [invalid("reportingController", controller, text) for text in qualified_name(controller)]
    for field in ("reportingInstance", "action", "reason"):
        text = event.get(field, "")
        if not text:
            errors.append(required(field))
        if len(text.encode()) > _MAX_TEXT_BYTES:
            errors.append(invalid(field, "", f"can have at most {_MAX_TEXT_BYTES} characters"))
    if len(event.get("note", "").encode()) > _MAX_NOTE_BYTES:
        errors.append(invalid("message", "", f"can have at most {_MAX_NOTE_BYTES} characters"))
    return errors


RULES: Final = {"Event": Rules(validate_create=validate_event, validate_update=validate_event_update)}
