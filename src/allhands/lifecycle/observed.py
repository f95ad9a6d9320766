"""What machines look at: the few fields of objects that they decide by, as types for one-pass decoding of stored text.

It is for objects that a server has accepted: what may be left out has a default, lists and maps may be null, and all
other fields are skipped, so that a hundred thousand pods stay small.
"""

import datetime
from typing import Annotated, Final

import msgspec

from allhands.api.document import Manifest
from allhands.model.node import Taint, Toleration

Timestamp = Annotated[datetime.datetime, msgspec.Meta(tz=True)]
"""A moment in RFC 3339, which always says its zone."""

_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
NO_LABELS: Final[dict[str, str]] = {}


def seconds_of(moment: datetime.datetime | None, absent: float = 0.0) -> float:
    """Seconds since 1970, with their fraction."""
    return absent if moment is None else (moment - _EPOCH).total_seconds()


class OwnerReference(msgspec.Struct, frozen=True, rename="camel", gc=False):
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    api_version: str = ""
    block_owner_deletion: bool | None = None


class Metadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: Timestamp | None = None
    deletion_timestamp: Timestamp | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: tuple[OwnerReference, ...] | None = None
    finalizers: tuple[str, ...] | None = None

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def is_going(self) -> bool:
        return self.deletion_timestamp is not None

    @property
    def created_seconds(self) -> float:
        return seconds_of(self.creation_timestamp)

    @property
    def controller(self) -> OwnerReference | None:
        """The one owner that manages this object, if there is one."""
        return next((it for it in self.owner_references or () if it.controller), None)

    def label(self, key: str) -> str:
        return (self.labels or NO_LABELS).get(key, "")

    def annotation(self, key: str) -> str:
        return (self.annotations or NO_LABELS).get(key, "")


class Condition(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Whole, since conditions can only be written back as a whole list."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_probe_time: Timestamp | None = None
    last_transition_time: Timestamp | None = None
    observed_generation: int = 0


class ContainerStatus(msgspec.Struct, frozen=True, rename="camel", gc=False):
    restart_count: int = 0


class PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str = ""
    tolerations: tuple[Toleration, ...] | None = None
    active_deadline_seconds: int | None = None


class PodStatus(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = "Pending"
    conditions: tuple[Condition, ...] | None = None
    container_statuses: tuple[ContainerStatus, ...] | None = None


class Pod(msgspec.Struct, frozen=True):
    """A pod as its owners, budgets and node see it."""

    metadata: Metadata = Metadata()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def has_ended(self) -> bool:
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def is_active(self) -> bool:
        """Neither over nor told to go."""
        return not self.has_ended and self.metadata.deletion_timestamp is None

    @property
    def ready(self) -> Condition | None:
        """The condition that says it is ready; None while it is not."""
        return next((it for it in self.status.conditions or () if it.type == "Ready" and it.status == "True"), None)

    def available_at_seconds(self, min_ready_seconds: int) -> float | None:
        """From when on it counts as available; None while it is not ready."""
        ready = self.ready
        if ready is None:
            return None
        since = ready.last_transition_time
        if min_ready_seconds <= 0:
            return 0.0
        return None if since is None else seconds_of(since) + min_ready_seconds

    @property
    def restarts(self) -> int:
        return max((it.restart_count for it in self.status.container_statuses or ()), default=0)


class NodeTaint(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    key: str
    effect: str
    value: str = ""
    time_added: str | None = None

    @property
    def plain(self) -> Taint:
        return Taint(self.key, self.effect, self.value)


class NodeSpec(msgspec.Struct, frozen=True):
    taints: tuple[NodeTaint, ...] | None = None
    unschedulable: bool = False


class NodeCondition(msgspec.Struct, frozen=True, rename="camel"):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_heartbeat_time: str | None = None
    last_transition_time: str | None = None


class NodeStatus(msgspec.Struct, frozen=True):
    conditions: tuple[NodeCondition, ...] | None = None


class Node(msgspec.Struct, frozen=True):
    """A node as those who watch over its health see it."""

    metadata: Metadata = Metadata()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    def condition(self, type: str) -> NodeCondition | None:
        return next((it for it in self.status.conditions or () if it.type == type), None)


class LeaseSpec(msgspec.Struct, frozen=True, rename="camel"):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    renew_time: Timestamp | None = None


class Lease(msgspec.Struct, frozen=True):
    metadata: Metadata = Metadata()
    spec: LeaseSpec = LeaseSpec()


class Template(msgspec.Struct, frozen=True):
    """What pods or jobs are made from. It is handed on whole, never read field by field."""

    metadata: Manifest = {}
    spec: Manifest = {}

    @property
    def labels(self) -> dict[str, str]:
        return self.metadata.get("labels") or {}
