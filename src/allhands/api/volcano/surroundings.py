"""What rules of Volcano's kinds may ask about other objects, and who serves here; passed in by whoever admits.

The embedded server answers from its store, the webhook from its informers. Nothing here looks anything up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from allhands.api.definitions import OURS
from allhands.api.volcano.plugin_names import JOB_PLUGINS
from allhands.api.volcano.queue import DEFAULT, ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from allhands.api.document import Manifest
    from allhands.api.errors import FieldError

QUEUE_OF_NAMESPACE: Final = "scheduling.volcano.sh/queue-name"
HIERARCHY: Final = "volcano.sh/hierarchy"
HIERARCHY_WEIGHTS: Final = "volcano.sh/hierarchy-weights"
OPEN_STATES: Final = ("", "Open")
"""A queue that nobody has looked at yet has no state; it is open, since nobody has closed it."""


class QueueFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What others must know of a queue."""

    name: str
    parent: str = ""
    state: str = ""
    allocated_pods: str = "0"
    capability: Mapping[str, Any] = {}
    deserved: Mapping[str, Any] = {}
    guarantee: Mapping[str, Any] = {}
    hierarchy: str = ""

    @property
    def is_open(self) -> bool:
        return self.state in OPEN_STATES


def queue_facts(queue: Manifest) -> QueueFacts:
    metadata, spec, status = queue["metadata"], queue.get("spec") or {}, queue.get("status") or {}
    name = metadata.get("name", "")
    return QueueFacts(
        name=name,
        parent="" if name == ROOT else spec.get("parent") or ROOT,
        state=status.get("state") or "",
        allocated_pods=str((status.get("allocated") or {}).get("pods", "0")),
        capability=spec.get("capability") or {},
        deserved=spec.get("deserved") or {},
        guarantee=(spec.get("guarantee") or {}).get("resource") or {},
        hierarchy=(metadata.get("annotations") or {}).get(HIERARCHY, ""),
    )


ALWAYS_THERE: Final = {
    ROOT: QueueFacts(name=ROOT),
    DEFAULT: QueueFacts(name=DEFAULT, parent=ROOT),
}
"""Queues that exist even before somebody has written them down."""


def _no_queues() -> Mapping[str, QueueFacts]:
    return {}


def _no_annotations(_namespace: str) -> Mapping[str, str]:
    return {}


def _no_complaints(_job: Manifest) -> list[FieldError]:
    return []


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """Questions to whoever admits. Asked only by rules that need the answer."""

    queues: Callable[[], Mapping[str, QueueFacts]] = _no_queues
    """Every queue that is stored, by name."""
    namespace_annotations: Callable[[str], Mapping[str, str]] = _no_annotations
    scheduler_name: str = OURS
    """The scheduler of Jobs that name none."""
    plugins: frozenset[str] = JOB_PLUGINS
    plugin_errors: Callable[[Manifest], list[FieldError]] = _no_complaints
    """What the plugins that a Job names have against it."""

    def queue(self, name: str) -> QueueFacts | None:
        return self.queues().get(name) or ALWAYS_THERE.get(name)

    def children(self, name: str) -> list[str]:
        """The queues right below one, by name."""
        return sorted(it.name for it in self.queues().values() if it.parent == name)
