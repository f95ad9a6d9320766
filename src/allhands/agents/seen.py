"""Pods and nodes as an agent sees them: the few fields that it acts on, decoded in one pass, small enough for many.

Pods of a gang have equal specs; what a spec says is worked out once for each text of it.
"""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from allhands.agents.before import CRASH_LOOP
from allhands.agents.behaviour import PREFIX
from allhands.agents.pod_status import Terminated
from allhands.model.affinity_document import AffinityDocument, node_affinity_of
from allhands.model.node import NodeDocument, Taint, Toleration
from allhands.model.pod import ANY_ADDRESS, HostPort
from allhands.model.pod_document import PodDocument, PodSpec
from allhands.model.pod_requests import effective_requests
from allhands.model.resources import ResourceVector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from allhands.api.document import Manifest
    from allhands.model.affinity import NodeAffinity

MOST_SPECS: Final = 8_192
DEFAULT_GRACE_SECONDS: Final = 30
_NONE: Final[dict[str, str]] = {}


class ResourcesSeen(msgspec.Struct, frozen=True, gc=False):
    requests: dict[str, str] | None = None


class ContainerSeen(msgspec.Struct, frozen=True, rename="camel", gc=False):
    name: str = ""
    image: str = ""
    restart_policy: str | None = None
    resources: ResourcesSeen = ResourcesSeen()

    @property
    def is_sidecar(self) -> bool:
        return self.restart_policy == "Always"


class _SpecDocument(msgspec.Struct, frozen=True, rename="camel"):
    """What a kubelet asks of a spec beyond what a scheduler does."""

    containers: tuple[ContainerSeen, ...] = ()
    init_containers: tuple[ContainerSeen, ...] | None = None
    restart_policy: str = "Always"
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
    node_selector: dict[str, str] | None = None
    tolerations: tuple[Toleration, ...] | None = None
    affinity: AffinityDocument | None = None


class SpecSeen(msgspec.Struct, frozen=True):
    """What the spec of a pod asks of its node. Shared by all pods with the same text."""

    containers: tuple[ContainerSeen, ...]
    init_containers: tuple[ContainerSeen, ...]
    restart_policy: str
    grace_seconds: int
    active_deadline_seconds: int | None
    requests: ResourceVector
    node_selector: Mapping[str, str]
    node_affinity: NodeAffinity
    tolerations: tuple[Toleration, ...]
    host_ports: tuple[HostPort, ...] = ()


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    annotations: dict[str, str] | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = ""
    reason: str = ""
    start_time: str | None = None
    pod_ip: str = msgspec.field(default="", name="podIP")
    conditions: msgspec.Raw = msgspec.Raw(b"[]")
    container_statuses: msgspec.Raw = msgspec.Raw(b"[]")
    init_container_statuses: msgspec.Raw = msgspec.Raw(b"[]")


class _NodeName(msgspec.Struct, frozen=True):
    name: str = msgspec.field(default="", name="nodeName")


class _Pod(msgspec.Struct, frozen=True):
    metadata: _Metadata
    spec: msgspec.Raw
    status: _Status = _Status()


class PodSeen(msgspec.Struct, frozen=True, gc=False):
    """One pod at one version."""

    namespace: str
    name: str
    uid: str
    version: str
    generation: int
    node_name: str
    spec: SpecSeen
    annotations: Mapping[str, str]
    """Only those that tell simulated pods what to do."""
    deleting: bool
    grace_seconds: int
    """How long its end may take, once it is being deleted."""
    phase: str
    start_time: str
    pod_ip: str
    conditions: bytes
    containers: bytes
    """Its container statuses as JSON; empty where the agent knows better."""
    digest: int
    """Of all that is reported about the pod: a change of it that is not the agent's own must be set right."""

    def conditions_before(self) -> list[Manifest]:
        return _conditions.decode(self.conditions) or []


_conditions: Final = msgspec.json.Decoder(list[dict[str, Any]] | None)
_pods: Final = msgspec.json.Decoder(_Pod)
_specs: Final = msgspec.json.Decoder(_SpecDocument)
_scheduling: Final = msgspec.json.Decoder(PodSpec)
_node_names: Final = msgspec.json.Decoder(_NodeName)


class PodReader:
    """Decodes pods. `knows` says of a uid that its containers need not be read again."""

    def __init__(self, knows: Callable[[str, str, str], bool]) -> None:
        self._knows = knows
        self._known: dict[bytes, tuple[SpecSeen, str]] = {}

    def __call__(self, raw: bytes) -> PodSeen:
        pod = _pods.decode(raw)
        metadata, status = pod.metadata, pod.status
        spec, node_name = self._spec(bytes(pod.spec))
        containers, inits = bytes(status.container_statuses), bytes(status.init_container_statuses)
        conditions = bytes(status.conditions)
        return PodSeen(
            metadata.namespace,
            metadata.name,
            metadata.uid,
            metadata.resource_version,
            metadata.generation,
            node_name,
            spec,
            _ours(metadata.annotations) if metadata.annotations else _NONE,
            metadata.deletion_timestamp is not None,
            metadata.deletion_grace_period_seconds or 0,
            status.phase,
            status.start_time or "",
            status.pod_ip,
            conditions,
            b"" if self._knows(metadata.namespace, metadata.name, metadata.uid) else containers,
            hash((status.phase, status.reason, conditions, containers, inits)),
        )

    def _spec(self, text: bytes) -> tuple[SpecSeen, str]:
        found = self._known.get(text)
        if found is None:
            if len(self._known) >= MOST_SPECS:
                self._known.clear()
            found = self._known[text] = (_spec_seen(text), _node_names.decode(text).name)
        return found


def _ours(annotations: dict[str, str]) -> Mapping[str, str]:
    return {name: value for name, value in annotations.items() if name.startswith(PREFIX)} or _NONE


def _spec_seen(text: bytes) -> SpecSeen:
    spec = _specs.decode(text)
    scheduling = _scheduling.decode(text)
    grace = spec.termination_grace_period_seconds
    return SpecSeen(
        spec.containers,
        spec.init_containers or (),
        spec.restart_policy,
        DEFAULT_GRACE_SECONDS if grace is None else grace,
        spec.active_deadline_seconds,
        effective_requests(PodDocument(spec=scheduling)),
        spec.node_selector or _NONE,
        node_affinity_of(spec.affinity),
        spec.tolerations or (),
        tuple(_host_ports(scheduling)),
    )


def _host_ports(spec: PodSpec) -> Iterator[HostPort]:
    sidecars = (it for it in spec.init_containers or () if it.is_sidecar)
    for container in (*(spec.containers or ()), *sidecars):
        for port in container.ports or ():
            if port.host_port > 0:
                yield HostPort(port.host_ip or ANY_ADDRESS, port.protocol or "TCP", port.host_port)


class _StateDocument(msgspec.Struct, frozen=True):
    waiting: dict[str, Any] | None = None
    running: dict[str, Any] | None = None
    terminated: dict[str, Any] | None = None


class _ContainerStatus(msgspec.Struct, frozen=True, rename="camel"):
    restart_count: int = 0
    state: _StateDocument = _StateDocument()
    last_state: _StateDocument = _StateDocument()


class ContainerBefore(msgspec.Struct, frozen=True):
    """What the API knows of the first container of a pod."""

    restarts: int
    last: Terminated | None
    started_at: datetime.datetime | None
    """Since when it is running; None if it is not."""
    started_text: str = ""
    backs_off: bool = False
    """Whether it waits after a failure."""


_statuses: Final = msgspec.json.Decoder(list[_ContainerStatus])


def container_before(text: bytes) -> ContainerBefore | None:
    """From a pod's container statuses; None if there are none."""
    statuses = _statuses.decode(text) if text else []
    if not statuses:
        return None
    status, last = statuses[0], statuses[0].last_state.terminated
    ended = None
    if last is not None:
        code, reason = int(last.get("exitCode", 0)), str(last.get("reason", ""))
        ended = Terminated(code, reason, last.get("startedAt"), str(last.get("finishedAt") or ""))
    started = (status.state.running or {}).get("startedAt")
    if not started:
        backs_off = (status.state.waiting or {}).get("reason") == CRASH_LOOP
        return ContainerBefore(status.restart_count, ended, None, backs_off=backs_off)
    moment = msgspec.convert(started, datetime.datetime, strict=False)
    return ContainerBefore(status.restart_count, ended, moment, started)


class _Address(msgspec.Struct, frozen=True):
    type: str = ""
    address: str = ""


class _NodeStatus(msgspec.Struct, frozen=True):
    addresses: tuple[_Address, ...] | None = None
    conditions: list[dict[str, Any]] | None = None


class _NodeExtra(msgspec.Struct, frozen=True):
    status: _NodeStatus = _NodeStatus()


class NodeSeen(msgspec.Struct, frozen=True):
    """One node at one version."""

    name: str
    uid: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    allocatable: ResourceVector
    address: str
    conditions: list[Manifest]

    @property
    def is_ready(self) -> bool:
        return any(it.get("type") == "Ready" and it.get("status") == "True" for it in self.conditions)


_nodes: Final = msgspec.json.Decoder(NodeDocument)
_node_extras: Final = msgspec.json.Decoder(_NodeExtra)


def node_seen(raw: bytes) -> NodeSeen:
    document = _nodes.decode(raw)
    extra = _node_extras.decode(raw).status
    given = document.status.allocatable
    return NodeSeen(
        document.metadata.name,
        document.metadata.uid,
        document.metadata.labels or _NONE,
        document.spec.taints or (),
        ResourceVector.from_quantities(document.status.capacity if given is None else given),
        next((it.address for it in extra.addresses or () if it.type == "InternalIP"), ""),
        extra.conditions or [],
    )
