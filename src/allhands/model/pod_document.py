"""The part of a Pod object that scheduling reads, as types for one-pass decoding of its JSON; all else is skipped.

Field names are the API's. It is for objects that a server has accepted: what a server may leave out has a default,
lists and maps may be null, and anything of the wrong type fails with the path of the field.
"""

import datetime
from typing import Annotated, Final

import msgspec

from allhands.model.affinity_document import AffinityDocument, Int32, SpreadDocument
from allhands.model.node import Toleration
from allhands.model.pod_volume import VolumeDocument

QuantityMap = dict[str, str | int | float]
"""Resource name -> amount, as it stands in JSON."""

Timestamp = Annotated[datetime.datetime, msgspec.Meta(tz=True)]
"""A moment in RFC 3339, which always says its zone."""

_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_SECOND: Final = datetime.timedelta(seconds=1)


def seconds_of(moment: datetime.datetime | None) -> int | None:
    """Whole seconds since 1970; a fraction is dropped."""
    return None if moment is None else (moment - _EPOCH) // _SECOND


class ResourceRequirements(msgspec.Struct, frozen=True):
    requests: QuantityMap | None = None
    limits: QuantityMap | None = None


class ContainerPort(msgspec.Struct, frozen=True, rename="camel"):
    host_port: Int32 = 0
    protocol: str = ""
    host_ip: str = msgspec.field(default="", name="hostIP")


class Container(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    image: str = ""
    ports: tuple[ContainerPort, ...] | None = None
    resources: ResourceRequirements | None = None
    restart_policy: str | None = None

    @property
    def is_sidecar(self) -> bool:
        """Of an init container: whether it stays alive beside the others."""
        return self.restart_policy == "Always"


class ContainerStatus(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    resources: ResourceRequirements | None = None
    allocated_resources: QuantityMap | None = None


class PodCondition(msgspec.Struct, frozen=True, rename="camel"):
    type: str = ""
    status: str = ""
    reason: str = ""
    last_transition_time: Timestamp | None = None


class SchedulingGate(msgspec.Struct, frozen=True):
    name: str = ""


class ResourceClaimReference(msgspec.Struct, frozen=True):
    name: str = ""


class OwnerReference(msgspec.Struct, frozen=True):
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class PodMetadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    namespace: str = "default"
    uid: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    creation_timestamp: Timestamp | None = None
    deletion_timestamp: str | None = None
    owner_references: tuple[OwnerReference, ...] | None = None


class PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    containers: tuple[Container, ...] | None = None
    init_containers: tuple[Container, ...] | None = None
    overhead: QuantityMap | None = None
    resources: ResourceRequirements | None = None
    node_name: str = ""
    scheduler_name: str = "default-scheduler"
    priority: Int32 | None = None
    scheduling_gates: tuple[SchedulingGate, ...] | None = None
    node_selector: dict[str, str] | None = None
    tolerations: tuple[Toleration, ...] | None = None
    affinity: AffinityDocument | None = None
    topology_spread_constraints: tuple[SpreadDocument, ...] | None = None
    volumes: tuple[VolumeDocument, ...] | None = None
    resource_claims: tuple[ResourceClaimReference, ...] | None = None
    preemption_policy: str | None = None


class PodStatus(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = "Pending"
    nominated_node_name: str = ""
    start_time: Timestamp | None = None
    conditions: tuple[PodCondition, ...] | None = None
    container_statuses: tuple[ContainerStatus, ...] | None = None
    init_container_statuses: tuple[ContainerStatus, ...] | None = None
    resources: ResourceRequirements | None = None
    allocated_resources: QuantityMap | None = None


class PodDocument(msgspec.Struct, frozen=True):
    metadata: PodMetadata = PodMetadata()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()
