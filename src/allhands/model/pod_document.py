"""The part of a Pod object that scheduling reads, as types for one-pass decoding of its JSON; all else is skipped.

Field names are the API's. It is for objects that a server has accepted: what a server may leave out has a default,
lists and maps may be null, and anything of the wrong type fails with the path of the field.
"""

import msgspec

from allhands.model.node import Toleration

QuantityMap = dict[str, str | int | float]
"""Resource name -> amount, as it stands in JSON."""


class ResourceRequirements(msgspec.Struct, frozen=True):
    requests: QuantityMap | None = None
    limits: QuantityMap | None = None


class Container(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
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


class PodCondition(msgspec.Struct, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""


class SchedulingGate(msgspec.Struct, frozen=True):
    name: str = ""


class PodMetadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    namespace: str = "default"
    uid: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    deletion_timestamp: str | None = None


class PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    containers: tuple[Container, ...] | None = None
    init_containers: tuple[Container, ...] | None = None
    overhead: QuantityMap | None = None
    resources: ResourceRequirements | None = None
    node_name: str = ""
    scheduler_name: str = "default-scheduler"
    priority: int | None = None
    scheduling_gates: tuple[SchedulingGate, ...] | None = None
    node_selector: dict[str, str] | None = None
    tolerations: tuple[Toleration, ...] | None = None


class PodStatus(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = "Pending"
    conditions: tuple[PodCondition, ...] | None = None
    container_statuses: tuple[ContainerStatus, ...] | None = None
    init_container_statuses: tuple[ContainerStatus, ...] | None = None
    resources: ResourceRequirements | None = None
    allocated_resources: QuantityMap | None = None


class PodDocument(msgspec.Struct, frozen=True):
    metadata: PodMetadata = PodMetadata()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()
