"""A pod as scheduling sees it: whose it is, where it is, what it needs. Small, since a cluster has a hundred thousand.

It is made from an object of the API and says nothing that the object does not say. What many pods have in common
(tolerations, images, affinity) is one shared value, not one for each.
"""

import enum
import functools
from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec

from allhands.model.affinity import NO_NODE_AFFINITY, NO_POD_AFFINITY, NodeAffinity, PodAffinity, SpreadConstraint
from allhands.model.affinity_document import node_affinity_of, pod_affinity_of, spread_of
from allhands.model.node import Toleration
from allhands.model.pod_document import OwnerReference, PodDocument, PodSpec, PodStatus, seconds_of
from allhands.model.pod_requests import effective_requests
from allhands.model.pod_volume import InlineVolume, VolumeDocument, inline_volumes
from allhands.model.resources import EMPTY, ResourceVector

Value = TypeVar("Value")


class PodPhase(enum.StrEnum):
    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


_PHASES: Final = {"": PodPhase.PENDING, **{phase.value: phase for phase in PodPhase}}

NO_LABELS: Final[Mapping[str, str]] = {}
"""Shared by all that have none. Nobody writes to it, as to any mapping of these values."""

ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104 -- the API's word for all addresses of a node; nothing is bound here


class HostPort(msgspec.Struct, frozen=True, order=True, gc=False):
    """A port of the node itself. No two pods on a node may have the same, and any address includes each one."""

    ip: str = ANY_ADDRESS
    protocol: str = "TCP"
    port: int = 0

    def conflicts_with(self, other: "HostPort") -> bool:
        if self.port != other.port or self.protocol != other.protocol:
            return False
        return self.ip == other.ip or ANY_ADDRESS in (self.ip, other.ip)


class Pod(msgspec.Struct, frozen=True, gc=False):
    """`requests` are the effective ones; the one pod slot that every pod takes is not among them.

    `claims` are all volume claims that it uses, sorted; those in `ephemeral_claims` are made for this pod alone and
    must be owned by it. `images` are normalised, one for each container and image volume that has one, sorted.
    `owner` is "Kind/name" of its controller, "" for a bare pod. `rank` is its place among the members of its group, the
    higher the earlier; None: its priority. Nobody outside of the group is outranked by it.
    """

    namespace: str
    name: str
    uid: str = ""
    labels: Mapping[str, str] = msgspec.field(default_factory=lambda: NO_LABELS)
    node_name: str = ""
    scheduler_name: str = "default-scheduler"
    priority: int = 0
    phase: PodPhase = PodPhase.PENDING
    deleting: bool = False
    scheduling_gates: tuple[str, ...] = ()
    node_selector: Mapping[str, str] = msgspec.field(default_factory=lambda: NO_LABELS)
    tolerations: tuple[Toleration, ...] = ()
    requests: ResourceVector = EMPTY
    node_affinity: NodeAffinity = NO_NODE_AFFINITY
    pod_affinity: PodAffinity = NO_POD_AFFINITY
    spread: tuple[SpreadConstraint, ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    images: tuple[str, ...] = ()
    container_count: int = 0
    claims: tuple[str, ...] = ()
    ephemeral_claims: tuple[str, ...] = ()
    volumes: tuple[InlineVolume, ...] = ()
    resource_claims: tuple[str, ...] = ()
    nominated_node: str = ""
    created_at_seconds: int = 0
    started_at_seconds: int | None = None
    bound_at_seconds: int | None = None
    preemption_policy_never: bool = False
    owner: str = ""
    rank: int | None = None

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def is_bound(self) -> bool:
        return self.node_name != ""

    @property
    def is_finished(self) -> bool:
        return self.phase in (PodPhase.SUCCEEDED, PodPhase.FAILED)

    @property
    def holds_resources(self) -> bool:
        """Whether its node must count it: bound and not finished. A pod being deleted still holds what it has."""
        return self.is_bound and not self.is_finished

    @property
    def awaits_placement(self) -> bool:
        """Whether a scheduler may place it now."""
        return not (self.is_bound or self.is_finished or self.deleting or self.scheduling_gates)

    @staticmethod
    def from_document(document: PodDocument) -> "Pod":
        metadata, spec, status = document.metadata, document.spec, document.status
        labels = _shared_labels(metadata.labels) if metadata.labels else NO_LABELS
        claims, ephemeral_claims = _claims(spec.volumes, metadata.name)
        return Pod(
            namespace=shared_text(metadata.namespace),
            name=metadata.name,
            uid=metadata.uid,
            labels=labels,
            node_name=shared_text(spec.node_name),
            scheduler_name=shared_text(spec.scheduler_name),
            priority=spec.priority or 0,
            phase=phase_named(status.phase),
            deleting=metadata.deletion_timestamp is not None,
            scheduling_gates=tuple(gate.name for gate in spec.scheduling_gates or ()),
            node_selector=_shared_labels(spec.node_selector) if spec.node_selector else NO_LABELS,
            tolerations=_shared(spec.tolerations) if spec.tolerations else (),
            requests=_shared(effective_requests(document)),
            node_affinity=_shared(node_affinity_of(spec.affinity)) if spec.affinity else NO_NODE_AFFINITY,
            pod_affinity=(
                _shared(pod_affinity_of(spec.affinity, metadata.namespace, labels))
                if spec.affinity
                else NO_POD_AFFINITY
            ),
            spread=_shared(spread_of(spec.topology_spread_constraints, labels)),
            host_ports=_host_ports(spec),
            images=_shared(_images(spec)),
            container_count=len(spec.containers or ()) + len(spec.init_containers or ()),
            claims=claims,
            ephemeral_claims=ephemeral_claims,
            volumes=inline_volumes(spec.volumes) if spec.volumes else (),
            resource_claims=tuple(claim.name for claim in spec.resource_claims or ()),
            nominated_node=status.nominated_node_name,
            created_at_seconds=_shared(seconds_of(metadata.creation_timestamp) or 0),
            started_at_seconds=_shared(seconds_of(status.start_time)),
            bound_at_seconds=_shared(_bound_at(status)),
            preemption_policy_never=spec.preemption_policy == "Never",
            owner=_owner(metadata.owner_references) if metadata.owner_references else "",
        )


def phase_named(text: str) -> PodPhase:
    return _PHASES.get(text, PodPhase.UNKNOWN)


def image_name(text: str) -> str:
    """The name by which nodes know an image: one without a tag is the latest."""
    return text if text.rfind(":") > text.rfind("/") else f"{text}:latest"


@functools.lru_cache(maxsize=1 << 12)
def _first_equal(value: Any) -> Any:
    return value


def _shared(value: Value) -> Value:
    """The first value that was equal to this one, so that equal values of many pods are kept once."""
    return _first_equal(value)  # type: ignore[no-any-return]


@functools.lru_cache(maxsize=1 << 16)
def shared_text(text: str) -> str:
    """The same, for names that thousands of pods have: those of nodes, namespaces, owners, labels."""
    return text


def _shared_labels(labels: Mapping[str, str]) -> Mapping[str, str]:
    return _first_equal_labels(tuple(labels.items()))


@functools.lru_cache(maxsize=1 << 12)
def _first_equal_labels(pairs: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    return labels_of_shared_texts(dict(pairs))


def labels_of_shared_texts(labels: Mapping[str, str]) -> Mapping[str, str]:
    """Equal labels, whose texts are kept once for all pods that have them."""
    return dict(zip(map(shared_text, labels), map(shared_text, labels.values()), strict=True))


def _host_ports(spec: PodSpec) -> tuple[HostPort, ...]:
    found = set()
    lasting = (it for it in spec.init_containers or () if it.is_sidecar)
    for container in (*(spec.containers or ()), *lasting):
        for port in container.ports or ():
            if port.host_port > 0:
                found.add(HostPort(port.host_ip or ANY_ADDRESS, port.protocol or "TCP", port.host_port))
    return tuple(sorted(found)) if found else ()


def _images(spec: PodSpec) -> tuple[str, ...]:
    names = [it.image for it in (*(spec.containers or ()), *(spec.init_containers or ())) if it.image]
    names.extend(volume.image.reference for volume in spec.volumes or () if volume.image is not None)
    return tuple(sorted(map(image_name, names)))


def _claims(volumes: tuple[VolumeDocument, ...] | None, pod_name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if not volumes:
        return (), ()
    named = {it.persistent_volume_claim.claim_name for it in volumes if it.persistent_volume_claim is not None}
    made = {
        f"{pod_name}-{it.name}" for it in volumes if it.persistent_volume_claim is None and it.ephemeral is not None
    }
    return tuple(sorted(named | made)), tuple(sorted(made))


def owner_name(owner: OwnerReference) -> str:
    return shared_text(f"{owner.kind}/{owner.name}")


def _owner(references: tuple[OwnerReference, ...]) -> str:
    return next((owner_name(it) for it in references if it.controller), "")


def _bound_at(status: PodStatus) -> int | None:
    for condition in status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "True":
            return seconds_of(condition.last_transition_time)
    return None
