"""A pod as scheduling sees it: whose it is, where it is, what it needs. Small, since a cluster has a hundred thousand.

It is made from an object of the API and says nothing that the object does not say.
"""

import enum
from collections.abc import Mapping
from typing import Final

import msgspec

from allhands.model.node import Toleration
from allhands.model.pod_document import PodDocument
from allhands.model.pod_requests import effective_requests
from allhands.model.resources import EMPTY, ResourceVector


class PodPhase(enum.StrEnum):
    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


_PHASES: Final = {"": PodPhase.PENDING, **{phase.value: phase for phase in PodPhase}}


class Pod(msgspec.Struct, frozen=True):
    """`requests` are the effective ones; the one pod slot that every pod takes is not among them."""

    namespace: str
    name: str
    uid: str = ""
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    node_name: str = ""
    scheduler_name: str = "default-scheduler"
    priority: int = 0
    phase: PodPhase = PodPhase.PENDING
    deleting: bool = False
    scheduling_gates: tuple[str, ...] = ()
    node_selector: Mapping[str, str] = msgspec.field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    requests: ResourceVector = EMPTY

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
        metadata, spec = document.metadata, document.spec
        return Pod(
            namespace=metadata.namespace,
            name=metadata.name,
            uid=metadata.uid,
            labels=metadata.labels or {},
            node_name=spec.node_name,
            scheduler_name=spec.scheduler_name,
            priority=spec.priority or 0,
            phase=_PHASES.get(document.status.phase, PodPhase.UNKNOWN),
            deleting=metadata.deletion_timestamp is not None,
            scheduling_gates=tuple(gate.name for gate in spec.scheduling_gates or ()),
            node_selector=spec.node_selector or {},
            tolerations=spec.tolerations or (),
            requests=effective_requests(document),
        )
