"""How the small kinds of the core group are shown: namespaces, configuration, accounts, quotas and events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.api.tables.cells import (
    age_of,
    at,
    condition_of,
    integer_at,
    mapping_at,
    name_of,
    quantity_text,
    text_at,
)
from allhands.api.tables.column import (
    AGE,
    CORE,
    NAME,
    Column,
    Printers,
    TablePrinter,
    described,
    documented,
)
from allhands.api.tables.duration import UNKNOWN, human_since

if TYPE_CHECKING:
    from datetime import datetime

    from allhands.api.document import Json, Manifest


def name_and_age_row(document: Manifest, now: datetime) -> list[Json]:
    return [name_of(document), age_of(document, now)]


def namespace_row(namespace: Manifest, now: datetime) -> list[Json]:
    return [name_of(namespace), text_at(namespace, "status", "phase") or "Active", age_of(namespace, now)]


def config_map_row(config_map: Manifest, now: datetime) -> list[Json]:
    entries = len(mapping_at(config_map, "data")) + len(mapping_at(config_map, "binaryData"))
    return [name_of(config_map), entries, age_of(config_map, now)]


def secret_row(secret: Manifest, now: datetime) -> list[Json]:
    return [name_of(secret), text_at(secret, "type") or "Opaque", len(mapping_at(secret, "data")), age_of(secret, now)]


def resource_quota_row(quota: Manifest, now: datetime) -> list[Json]:
    hard, used = mapping_at(quota, "status", "hard"), mapping_at(quota, "status", "used")
    requests: list[str] = []
    limits: list[str] = []
    for resource in sorted(hard):
        column = limits if resource.startswith("limits.") else requests
        column.append(f"{resource}: {quantity_text(used.get(resource))}/{quantity_text(hard[resource])}")
    return [name_of(quota), ", ".join(requests), ", ".join(limits), age_of(quota, now)]


def component_status_row(component: Manifest, _now: datetime) -> list[Json]:
    healthy = condition_of({"status": component}, "Healthy") or {}
    status = {"": "Unknown", "True": "Healthy"}.get(text_at(healthy, "status"), "Unhealthy")
    return [name_of(component), status, text_at(healthy, "message"), text_at(healthy, "error")]


def _as_core_event(event: Manifest) -> Manifest:
    """An event of the group events.k8s.io under the older names of its fields; a core event as it is."""
    if "regarding" not in event and "note" not in event:
        return event
    return {
        **event,
        "involvedObject": event.get("regarding"),
        "message": event.get("note"),
        "source": event.get("deprecatedSource"),
        "firstTimestamp": event.get("deprecatedFirstTimestamp"),
        "lastTimestamp": event.get("deprecatedLastTimestamp"),
        "count": event.get("deprecatedCount"),
        "reportingComponent": event.get("reportingController"),
    }


def _event_source(event: Manifest) -> str:
    component = text_at(event, "source", "component") or text_at(event, "reportingComponent")
    instance = text_at(event, "source", "host") or text_at(event, "reportingInstance")
    return f"{component}, {instance}" if instance else component


def _event_target(event: Manifest) -> str:
    kind, name = text_at(event, "involvedObject", "kind").lower(), text_at(event, "involvedObject", "name")
    return f"{kind}/{name}" if name else kind


def _event_times(event: Manifest, now: datetime) -> tuple[str, str, int]:
    """(when it was first seen, when last, how often)."""
    first = human_since(at(event, "firstTimestamp"), now)
    if first == UNKNOWN:
        first = human_since(at(event, "eventTime"), now)
    series = at(event, "series")
    if series is not None:
        return first, human_since(at(series, "lastObservedTime"), now), integer_at(series, "count")
    last = human_since(at(event, "lastTimestamp"), now)
    return first, first if last == UNKNOWN else last, integer_at(event, "count") or 1


def event_row(event: Manifest, now: datetime) -> list[Json]:
    event = _as_core_event(event)
    first, last, count = _event_times(event, now)
    return [
        last,
        text_at(event, "type"),
        text_at(event, "reason"),
        _event_target(event),
        text_at(event, "involvedObject", "fieldPath"),
        _event_source(event),
        text_at(event, "message").strip(),
        first,
        count,
        name_of(event),
    ]


_EVENT: Final = CORE + "Event"
_EVENT_PRINTER: Final = TablePrinter(
    (
        documented("Last Seen", _EVENT, "lastTimestamp"),
        documented("Type", _EVENT, "type"),
        documented("Reason", _EVENT, "reason"),
        documented("Object", _EVENT, "involvedObject"),
        documented("Subobject", CORE + "ObjectReference", "fieldPath", priority=1),
        documented("Source", _EVENT, "source", priority=1),
        documented("Message", _EVENT, "message"),
        documented("First Seen", _EVENT, "firstTimestamp", priority=1),
        documented("Count", _EVENT, "count", priority=1),
        Column("Name", format="name", description=NAME.description, priority=1),
    ),
    event_row,
)

PRINTERS: Final[Printers] = {
    ("", "Namespace"): TablePrinter((NAME, described("Status", "The status of the namespace"), AGE), namespace_row),
    ("", "ConfigMap"): TablePrinter((NAME, documented("Data", CORE + "ConfigMap", "data"), AGE), config_map_row),
    ("", "Secret"): TablePrinter(
        (NAME, documented("Type", CORE + "Secret", "type"), documented("Data", CORE + "Secret", "data"), AGE),
        secret_row,
    ),
    ("", "ServiceAccount"): TablePrinter((NAME, AGE), name_and_age_row),
    ("", "ResourceQuota"): TablePrinter(
        (
            NAME,
            described("Request", "Request represents a minimum amount of cpu/memory that a container may consume."),
            described(
                "Limit",
                "Limits control the maximum amount of cpu/memory that a container may use independent of contention "
                "on the node.",
            ),
            AGE,
        ),
        resource_quota_row,
    ),
    ("", "ComponentStatus"): TablePrinter(
        (
            NAME,
            described("Status", "Status of the component conditions"),
            described("Message", "Message of the component conditions"),
            described("Error", "Error of the component conditions"),
        ),
        component_status_row,
    ),
    ("", "Event"): _EVENT_PRINTER,
    ("events.k8s.io", "Event"): _EVENT_PRINTER,
}
