"""The kinds of metrics.k8s.io, for `kubectl top`: what nodes and pods use, as metrics-server shows it.

They are measured when somebody asks and stored nowhere, so they are never in the registry of a store: only a face that
has somebody to ask serves them, beside the kinds that are stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.api.errors import StatusError, no_such_object
from allhands.api.kinds import Kind, Resource
from allhands.api.schema.structural import StructuralShape
from allhands.api.tables.cells import name_of, text_at
from allhands.api.tables.column import NAME, Column, TablePrinter
from allhands.model.quantity import ZERO, Format, Quantity

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from allhands.api.document import Json, Manifest
    from allhands.api.kinds import Kinds

GROUP: Final = "metrics.k8s.io"
NODE_METRICS: Final = Resource(GROUP, "v1beta1", "nodes")
POD_METRICS: Final = Resource(GROUP, "v1beta1", "pods")

_TIMES: Final[Manifest] = {
    "timestamp": {"type": "string", "format": "date-time", "description": "When it was measured."},
    "window": {"type": "string", "description": "Over how long, up to then: 0s is the moment itself."},
}
_USAGE: Final[Manifest] = {
    "type": "object",
    "description": "How much processor time and memory is used.",
    "additionalProperties": {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "x-kubernetes-int-or-string": True,
    },
}
_NODE_SCHEMA: Final[Manifest] = {
    "type": "object",
    "description": "What a node uses.",
    "required": ["timestamp", "window", "usage"],
    "properties": {**_TIMES, "usage": _USAGE},
}
_POD_SCHEMA: Final[Manifest] = {
    "type": "object",
    "description": "What the running containers of a pod use.",
    "required": ["timestamp", "window", "containers"],
    "properties": {
        **_TIMES,
        "containers": {
            "type": "array",
            "description": "Each container that runs.",
            "items": {
                "type": "object",
                "required": ["name", "usage"],
                "properties": {
                    "name": {"type": "string", "description": "Its name in the pod."},
                    "usage": _USAGE,
                },
            },
        },
    },
}


def usage_document(cpu_nanos: int, memory_bytes: int) -> Manifest:
    """`cpu_nanos` is in billionths of a processor."""
    return {"cpu": str(Quantity(cpu_nanos)), "memory": str(Quantity.of_units(memory_bytes, Format.BINARY_SI))}


def no_metrics_of(resource: Resource, name: str, namespace: str = "") -> StatusError:
    """The words of metrics-server for what is there and has not been measured, such as a pod that does not run."""
    called = f"{namespace}/{name}" if namespace else name
    return no_such_object(GROUP, "podmetrics" if resource == POD_METRICS else "nodemetrics", called)


def _row(document: Manifest, now: datetime) -> list[Json]:
    """As metrics-server's: sums over the containers of a pod."""
    del now
    parts: Sequence[Manifest] = document.get("containers") or [document]
    sums = [
        sum((Quantity.parse((part.get("usage") or {}).get(resource, "0")) for part in parts), ZERO)
        for resource in ("cpu", "memory")
    ]
    return [name_of(document), *map(str, sums), text_at(document, "window")]


_PRINTER: Final = TablePrinter(
    (
        NAME,
        Column("cpu", format="quantity"),
        Column("memory", format="quantity"),
        Column("Window", format="duration"),
    ),
    _row,
)


def _kind(resource: Resource, kind: str, schema: Manifest, *, namespaced: bool) -> Kind:
    return Kind(
        resource=resource,
        kind=kind,
        singular="",
        namespaced=namespaced,
        verbs=("get", "list"),
        shape=StructuralShape(schema),
        printer=_PRINTER,
        open_api_schema=schema,
        is_measured=True,
    )


MEASURED_KINDS: Final = (
    _kind(NODE_METRICS, "NodeMetrics", _NODE_SCHEMA, namespaced=False),
    _kind(POD_METRICS, "PodMetrics", _POD_SCHEMA, namespaced=True),
)


class KindsBeside:
    """The kinds of a registry, as they are at the moment, and beside them some that nothing stores."""

    def __init__(self, stored: Kinds, beside: Sequence[Kind] = MEASURED_KINDS) -> None:
        self._stored = stored
        self._beside = {kind.resource: kind for kind in beside}

    @property
    def revision(self) -> int:
        return self._stored.revision

    def find(self, resource: Resource) -> Kind | None:
        return self._stored.find(resource) or self._beside.get(resource)

    def all(self) -> Sequence[Kind]:
        return [*self._stored.all(), *self._beside.values()]
