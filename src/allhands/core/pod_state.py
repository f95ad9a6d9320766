"""One pod as the world counts it: what the API says of it, with our own unconfirmed writes on top."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from allhands.core.columns import ABSURD_UNITS
from allhands.core.snapshot import PodFlag
from allhands.model.pod import Pod, PodPhase
from allhands.model.resources import PODS

if TYPE_CHECKING:
    from allhands.core.columns import NodeColumns
    from allhands.model.group_status import GroupStatus
    from allhands.model.podgroup import Slot
    from allhands.model.shape import PodShape

MOST_PRIORITY: Final = 2**31 - 1
_STARTED, _LEAVING, _BARE, _NOMINATED = map(int, PodFlag)
"""As plain numbers: this is asked of every pod."""


class PodState:
    """It changes only while the world has forgotten it, or in nothing by which the world finds it."""

    __slots__ = (
        "assumed_at",
        "assumed_node",
        "counted",
        "evicted",
        "group",
        "node_row",
        "ours",
        "pod",
        "row",
        "shape",
        "slot",
        "status",
    )

    def __init__(self, pod: Pod, group: str, slot: Slot, *, ours: bool, shape: PodShape, status: GroupStatus) -> None:
        self.pod = pod
        self.group = group
        self.slot = slot
        self.ours = ours
        self.shape = shape
        self.status = status
        """Of a pod without a group: what the API remembers of it as a group of its own."""
        self.assumed_node = ""
        self.assumed_at: int | None = None
        self.evicted = False
        self.row = -1
        self.node_row = -1
        self.counted: tuple[tuple[int, int], ...] = ()
        """What was added to the columns of its node, to be taken off again exactly."""

    @property
    def node(self) -> str:
        """Where it holds room, by name; "" if it holds none."""
        if self.pod.is_finished:
            return ""
        nominated = "" if self.ours else self.pod.nominated_node
        return self.pod.node_name or self.assumed_node or nominated

    def stays(self, pod: Pod, group: str, slot: Slot, *, ours: bool) -> bool:
        """Whether it keeps its place in the group and its room, once the API says this of it."""
        if self.group != group or self.slot != slot or self.ours != ours or self.pod.name != pod.name:
            return False
        now = pod.node_name or self.assumed_node or ("" if ours else pod.nominated_node)
        return self.node == ("" if pod.is_finished else now)

    def renew(self, pod: Pod, status: GroupStatus) -> None:
        self.pod, self.status = pod, status
        if pod.node_name:
            # An assumed bind is confirmed by the watch as soon as it shows a node.
            self.assumed_node = ""

    @property
    def is_bound(self) -> bool:
        return bool(self.pod.node_name or self.assumed_node)

    @property
    def is_leaving(self) -> bool:
        return self.pod.deleting or self.evicted

    @property
    def flags(self) -> int:
        started = _STARTED if self.pod.phase is PodPhase.RUNNING else 0
        bare = 0 if self.pod.owner else _BARE
        nominated = 0 if self.is_bound else _NOMINATED
        return started | bare | nominated | (_LEAVING if self.is_leaving else 0)

    @property
    def priority(self) -> int:
        """As a column can hold it."""
        return min(max(self.pod.priority, -MOST_PRIORITY), MOST_PRIORITY)

    @property
    def since(self) -> int:
        """When it was started, or bound if it has not been, or else made."""
        pod = self.pod
        since = pod.started_at_seconds
        if since is None:
            since = pod.bound_at_seconds
        if since is None:
            since = pod.created_at_seconds if self.assumed_at is None else self.assumed_at
        return min(max(since, -ABSURD_UNITS), ABSURD_UNITS)


def units_counted(shape: PodShape, columns: NodeColumns) -> tuple[tuple[int, int], ...]:
    found = [(columns.column_by_resource[PODS], 1)]
    for name, units in shape.requests.entries:
        column = columns.column_by_resource.get(name)
        if column is not None and units > 0:
            found.append((column, min(units, ABSURD_UNITS)))
    return tuple(found)


def has_shape_of(pod: Pod, other: Pod) -> bool:
    """Whether it is plain that a later state of a pod has the shape that the pod had; False says nothing.

    Who changes a pod leaves most of it the very same, so that nothing need be compared but what is where.
    """
    return (
        pod.requests is other.requests
        and (pod.labels is other.labels or pod.labels == other.labels)
        and pod.node_selector is other.node_selector
        and pod.node_affinity is other.node_affinity
        and pod.tolerations is other.tolerations
        and pod.pod_affinity is other.pod_affinity
        and pod.spread is other.spread
        and pod.host_ports is other.host_ports
        and pod.claims is other.claims
        and pod.ephemeral_claims is other.ephemeral_claims
        and pod.volumes is other.volumes
        and pod.images is other.images
        and pod.resource_claims is other.resource_claims
        and pod.container_count == other.container_count
        and pod.namespace == other.namespace
        and pod.uid == other.uid
    )
