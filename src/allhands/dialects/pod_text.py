"""A Pod object cut, not read: what each pod has of its own as values, what many have in common as text.

Most pods of a cluster are equal to others but for their name, their node and a few moments. From the same text the same
is read, so the text can be the key to what was read before. What is skipped here is skipped by whoever reads the whole
object too; nothing is left out that `Pod` depends on.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw

ABSENT: Final = Raw(b"null")
"""Only what may be null, and then means the same as nothing, is kept as text: the key does not tell the two apart."""


class ContainerText(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """Without its environment and mounts, which tell the pods of a gang apart and are nothing to us."""

    name: str = ""
    image: str = ""
    ports: Raw = ABSENT
    resources: Raw = ABSENT
    restart_policy: Raw = ABSENT


class VolumeText(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """Without its name, which is random for that of the service account; it is read only of ephemeral ones."""

    persistent_volume_claim: Raw = ABSENT
    ephemeral: Raw = ABSENT
    image: Raw = ABSENT
    gce_persistent_disk: Raw = ABSENT
    aws_elastic_block_store: Raw = ABSENT
    azure_disk: Raw = ABSENT
    cinder: Raw = ABSENT
    portworx_volume: Raw = ABSENT
    iscsi: Raw = ABSENT
    rbd: Raw = ABSENT


class ContainerStatusText(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    name: str = ""
    resources: Raw = ABSENT
    allocated_resources: Raw = ABSENT


class ConditionText(msgspec.Struct, frozen=True, rename="camel", gc=False):
    type: str = ""
    status: str = ""
    reason: str = ""
    last_transition_time: str | None = None


class SchedulingGroup(msgspec.Struct, frozen=True, rename="camel", gc=False):
    pod_group_name: str = ""


class MetadataText(msgspec.Struct, frozen=True, rename="camel", gc=False):
    name: str = ""
    namespace: str = "default"
    uid: str = ""
    resource_version: str = ""
    labels: Raw = ABSENT
    annotations: dict[str, str] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    owner_references: Raw = ABSENT


class SpecText(msgspec.Struct, frozen=True, rename="camel", gc=False):
    containers: tuple[ContainerText, ...] | None = None
    init_containers: tuple[ContainerText, ...] | None = None
    overhead: Raw = ABSENT
    resources: Raw = ABSENT
    node_name: str = ""
    scheduler_name: str = "default-scheduler"
    priority: Raw = ABSENT
    scheduling_gates: Raw = ABSENT
    node_selector: Raw = ABSENT
    tolerations: Raw = ABSENT
    affinity: Raw = ABSENT
    topology_spread_constraints: Raw = ABSENT
    volumes: tuple[VolumeText, ...] | None = None
    resource_claims: Raw = ABSENT
    preemption_policy: Raw = ABSENT
    scheduling_group: SchedulingGroup | None = None


class StatusText(msgspec.Struct, frozen=True, rename="camel", gc=False):
    phase: str = "Pending"
    nominated_node_name: str = ""
    start_time: str | None = None
    conditions: tuple[ConditionText, ...] | None = None
    container_statuses: tuple[ContainerStatusText, ...] | None = None
    init_container_statuses: tuple[ContainerStatusText, ...] | None = None
    resources: Raw = ABSENT
    allocated_resources: Raw = ABSENT


class PodText(msgspec.Struct, frozen=True, gc=False):
    metadata: MetadataText = MetadataText()
    spec: SpecText = SpecText()
    status: StatusText = StatusText()

    def key_of_requests(self, *, is_resize_infeasible: bool) -> bytes:
        """All that the effective requests depend on, as a text of its own that keeps nothing else alive."""
        spec, status = self.spec, self.status
        return _encode(
            (
                spec.containers,
                spec.init_containers,
                spec.overhead,
                spec.resources,
                status.container_statuses,
                status.init_container_statuses,
                status.resources,
                status.allocated_resources,
                is_resize_infeasible,
            )
        )

    def key(self, *, is_resize_infeasible: bool) -> bytes:
        """All that a pod depends on beside what it has of its own: its names and labels, its owner, its node, what it
        is nominated to, its phase and its moments."""
        spec, status = self.spec, self.status
        return _encode(
            (
                self.metadata.namespace,
                spec.containers,
                spec.init_containers,
                spec.overhead,
                spec.resources,
                spec.scheduler_name,
                spec.priority,
                spec.scheduling_gates,
                spec.node_selector,
                spec.tolerations,
                spec.affinity,
                spec.topology_spread_constraints,
                spec.volumes,
                spec.resource_claims,
                spec.preemption_policy,
                status.container_statuses,
                status.init_container_statuses,
                status.resources,
                status.allocated_resources,
                is_resize_infeasible,
            )
        )


_encode = msgspec.json.Encoder().encode
decode_text = msgspec.json.Decoder(PodText).decode
