"""A node as scheduling sees it: what it can give, its labels, and the taints that keep pods away.

Only facts that the API states are kept. What a node has left is the snapshot's business, never this value's.
"""

import enum
import re
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from allhands.model.resources import EMPTY, MAX_UNITS, ResourceVector


class TaintEffect(enum.StrEnum):
    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class Taint(msgspec.Struct, frozen=True, omit_defaults=True):
    key: str
    effect: str
    value: str = ""

    def __str__(self) -> str:
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"

    @property
    def repels(self) -> bool:
        """Whether a pod that does not tolerate it must not start there."""
        return self.effect in (TaintEffect.NO_SCHEDULE, TaintEffect.NO_EXECUTE)


UNSCHEDULABLE_TAINT: Final = Taint("node.kubernetes.io/unschedulable", TaintEffect.NO_SCHEDULE.value)
"""What a cordoned node counts as having, whether or not the taint has been written."""

_DECIMAL_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}")


class Toleration(msgspec.Struct, frozen=True, rename="camel", gc=False):
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None

    def tolerates(self, taint: Taint, *, numeric_operators: bool = False) -> bool:
        """As the scheduler decides it; `Lt` and `Gt` match only in clusters that have switched them on."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator in ("", "Equal"):
            return self.value == taint.value
        if self.operator == "Exists":
            return True
        return numeric_operators and self._compares(taint)

    def _compares(self, taint: Taint) -> bool:
        bound, value = _int64(self.value), _int64(taint.value)
        if bound is None or value is None:
            return False
        return (self.operator == "Lt" and value < bound) or (self.operator == "Gt" and value > bound)


class NodeMetadata(msgspec.Struct, frozen=True):
    name: str
    uid: str = ""
    labels: dict[str, str] | None = None


class NodeSpecDocument(msgspec.Struct, frozen=True):
    unschedulable: bool = False
    taints: tuple[Taint, ...] | None = None


class NodeCondition(msgspec.Struct, frozen=True):
    type: str
    status: str


class NodeImage(msgspec.Struct, frozen=True, gc=False):
    """An image that the node already has; any of its names means it."""

    names: tuple[str, ...] = ()
    size_bytes: int = 0


class NodeImageDocument(msgspec.Struct, frozen=True, rename="camel"):
    names: tuple[str, ...] | None = None
    size_bytes: int = 0


class NodeStatusDocument(msgspec.Struct, frozen=True):
    allocatable: dict[str, str | int | float] | None = None
    capacity: dict[str, str | int | float] | None = None
    conditions: tuple[NodeCondition, ...] | None = None
    images: tuple[NodeImageDocument, ...] | None = None


class NodeDocument(msgspec.Struct, frozen=True):
    """The fields of a Node object that a `Node` is made of; decode JSON with this type, all else is skipped."""

    metadata: NodeMetadata
    spec: NodeSpecDocument = NodeSpecDocument()
    status: NodeStatusDocument = NodeStatusDocument()


class Node(msgspec.Struct, frozen=True):
    name: str
    uid: str = ""
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = False
    allocatable: ResourceVector = EMPTY
    capacity: ResourceVector = EMPTY
    images: tuple[NodeImage, ...] = ()

    @staticmethod
    def from_document(document: NodeDocument) -> "Node":
        metadata, spec, status = document.metadata, document.spec, document.status
        capacity = ResourceVector.from_quantities(status.capacity)
        allocatable = status.allocatable
        return Node(
            name=metadata.name,
            uid=metadata.uid,
            labels=metadata.labels or {},
            taints=spec.taints or (),
            unschedulable=spec.unschedulable,
            ready=any(it.type == "Ready" and it.status == "True" for it in status.conditions or ()),
            # The API server defaults it so; an older object may lack it.
            allocatable=capacity if allocatable is None else ResourceVector.from_quantities(allocatable),
            capacity=capacity,
            images=tuple(NodeImage(it.names or (), it.size_bytes) for it in status.images or ()),
        )

    def repelling_taint(self, tolerations: Iterable[Toleration]) -> Taint | None:
        """The first taint that keeps a pod with these tolerations away, being cordoned included."""
        tolerations = tuple(tolerations)
        taints = (*self.taints, UNSCHEDULABLE_TAINT) if self.unschedulable else self.taints
        for taint in taints:
            if taint.repels and not any(toleration.tolerates(taint) for toleration in tolerations):
                return taint
        return None


def _int64(text: str) -> int | None:
    if not _DECIMAL_INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -MAX_UNITS - 1 <= number <= MAX_UNITS else None
