"""A pod as its Job sees it: a few facts, worked out once when the pod is read, since a big Job looks at them often.

The facts are about one moment of one pod. What they mean (failed, counted, to be replaced) depends on the Job.
"""

from typing import Final

import msgspec

from allhands.lifecycle.job.moments import moment_seconds

FINALIZER: Final = "batch.kubernetes.io/job-tracking"
INDEX: Final = "batch.kubernetes.io/job-completion-index"
INDEX_FAILURES: Final = "batch.kubernetes.io/job-index-failure-count"
INDEX_IGNORED: Final = "batch.kubernetes.io/job-index-ignored-failure-count"
_INDEX_TEXTS: Final = frozenset({INDEX, INDEX_FAILURES, INDEX_IGNORED})
NO_INDEX: Final = -1
_MOST: Final = 2**31 - 1
_NO_TEXTS: Final[dict[str, str]] = {}
_NONE: Final = (0, 0)
_PHASES: Final = {"Pending": 0, "Unknown": 1, "Running": 2}


class Owner(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """An owner reference with all of its fields, since a list of them is written back whole."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class _Metadata(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: tuple[str, ...] | None = None
    owner_references: tuple[Owner, ...] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None


class _InitContainer(msgspec.Struct, rename="camel"):
    name: str = ""
    restart_policy: str | None = None


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""
    init_containers: tuple[_InitContainer, ...] | None = None


class _Terminated(msgspec.Struct, rename="camel"):
    exit_code: int = 0
    finished_at: str | None = None


class _State(msgspec.Struct):
    terminated: _Terminated | None = None


class _ContainerStatus(msgspec.Struct, rename="camel"):
    name: str = ""
    restart_count: int = 0
    state: _State | None = None


class _Condition(msgspec.Struct, rename="camel"):
    type: str = ""
    status: str = ""
    reason: str = ""
    last_transition_time: str | None = None


class _Status(msgspec.Struct, rename="camel"):
    phase: str = "Pending"
    conditions: tuple[_Condition, ...] | None = None
    container_statuses: tuple[_ContainerStatus, ...] | None = None
    init_container_statuses: tuple[_ContainerStatus, ...] | None = None


class _Document(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


class JobPod(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    name: str
    uid: str
    namespace: str = ""
    version: str = ""
    labels: dict[str, str] = _NO_TEXTS
    phase: str = "Pending"
    index: int = NO_INDEX
    index_failures: int = 0
    """How often pods of this index had failed when this one was made."""
    index_ignored_failures: int = 0
    finalizers: tuple[str, ...] = ()
    owners: tuple[Owner, ...] = ()
    controller: Owner | None = None
    is_tracked: bool = False
    """Has our finalizer: it is not known to be in the counters yet."""
    is_going: bool = False
    """Was told to go."""
    is_ready: bool = False
    node: str = ""
    created: str = ""
    ready_since: str = ""
    restarts: int = 0
    """Of all containers together."""
    most_restarts: tuple[int, int] = (0, 0)
    """Of any one container, and of any one init container."""
    ended_at_seconds: float = 0.0
    """When it ended, as well as it can be told; 0 while it is active."""
    conditions: tuple[tuple[str, str], ...] = ()
    """Types and statuses, of pods that are not active."""
    exits: tuple[tuple[str, int], ...] = ()
    """Names and exit codes of ended containers, then of ended init containers, of pods that are not active."""
    was_taken_away: bool = False
    """By the cluster, for reasons of its own: preemption, a drain, the loss of its node."""

    @property
    def has_ended(self) -> bool:
        return self.phase in ("Succeeded", "Failed")

    @property
    def is_active(self) -> bool:
        return not self.is_going and self.phase not in ("Succeeded", "Failed")

    @property
    def is_terminating(self) -> bool:
        return self.is_going and self.phase not in ("Succeeded", "Failed")

    @property
    def removal_rank(self) -> tuple[float, ...]:
        """Of two pods of which one is too many, the lesser goes: the one that has done least.

        Unassigned before assigned, pending before running, not ready before ready, then the younger first.
        """
        ready_since = moment_seconds(self.ready_since) if self.is_ready else None
        return (
            bool(self.node),
            _PHASES.get(self.phase, 0),
            self.is_ready,
            float("-inf") if ready_since is None else -ready_since,
            -self.most_restarts[0],
            -self.most_restarts[1],
            -(moment_seconds(self.created) or 0.0),
        )

    @property
    def all_index_failures(self) -> int:
        return self.index_failures + self.index_ignored_failures


_pods: Final = msgspec.json.Decoder(_Document)


def decode_pod(raw: bytes) -> JobPod:
    document = _pods.decode(raw)
    meta, status = document.metadata, document.status
    annotations = meta.annotations
    index, index_failures, index_ignored = NO_INDEX, 0, 0
    if annotations is not None and not _INDEX_TEXTS.isdisjoint(annotations):
        index = _number(annotations, INDEX, NO_INDEX)
        index_failures = _number(annotations, INDEX_FAILURES, 0)
        index_ignored = _number(annotations, INDEX_IGNORED, 0)
    finalizers = meta.finalizers or ()
    owners = meta.owner_references or ()
    over = meta.deletion_timestamp is not None or status.phase in ("Succeeded", "Failed")
    ready = _ready(status)
    containers, init_containers = status.container_statuses or (), status.init_container_statuses or ()
    regular, initial = _restarts(containers), _restarts(init_containers)
    return JobPod(
        name=meta.name,
        uid=meta.uid,
        namespace=meta.namespace,
        version=meta.resource_version,
        labels=meta.labels or _NO_TEXTS,
        phase=status.phase,
        index=index,
        index_failures=index_failures,
        index_ignored_failures=index_ignored,
        finalizers=finalizers,
        owners=owners,
        controller=_controller(owners),
        is_tracked=FINALIZER in finalizers,
        is_going=meta.deletion_timestamp is not None,
        is_ready=ready is not None and ready.status == "True",
        node=document.spec.node_name,
        created=meta.creation_timestamp or "",
        ready_since=(ready.last_transition_time or "") if ready is not None else "",
        restarts=regular + initial,
        most_restarts=(_most_restarts(containers), _most_restarts(init_containers)) if regular + initial else _NONE,
        ended_at_seconds=_ended_at(document, ready) if over else 0.0,
        conditions=tuple([(it.type, it.status) for it in status.conditions or ()]) if over else (),
        exits=_exits(containers) + _exits(init_containers) if over else (),
        was_taken_away=over and status.phase != "Succeeded" and _was_taken_away(status),
    )


def _ready(status: _Status) -> _Condition | None:
    for condition in status.conditions or ():
        if condition.type == "Ready":
            return condition
    return None


def _was_taken_away(status: _Status) -> bool:
    """A kubelet that is short of something ends the pods that use too much of it: that one is the pod's own doing."""
    return any(
        it.type == "DisruptionTarget" and it.status == "True" and it.reason != "TerminationByKubelet"
        for it in status.conditions or ()
    )


def _controller(owners: tuple[Owner, ...]) -> Owner | None:
    for owner in owners:
        if owner.controller:
            return owner
    return None


def _number(texts: dict[str, str], key: str, otherwise: int) -> int:
    text = texts.get(key)
    if text is None or not text.isascii() or not text.isdigit() or len(text) > len(str(_MOST)):
        return otherwise
    number = int(text)
    return number if number <= _MOST else otherwise


def _exits(containers: tuple[_ContainerStatus, ...]) -> tuple[tuple[str, int], ...]:
    return tuple(
        [
            (it.name, it.state.terminated.exit_code)
            for it in containers
            if it.state is not None and it.state.terminated is not None
        ]
    )


def _restarts(containers: tuple[_ContainerStatus, ...]) -> int:
    return sum([it.restart_count for it in containers]) if containers else 0


def _most_restarts(containers: tuple[_ContainerStatus, ...]) -> int:
    return max((it.restart_count for it in containers), default=0)


def _ended_at(document: _Document, ready: _Condition | None) -> float:
    moment = _containers_ended_at(document)
    if moment is None and ready is not None and ready.status == "False":
        moment = moment_seconds(ready.last_transition_time)
    meta = document.metadata
    if moment is None and meta.deletion_timestamp is not None:
        going_at = moment_seconds(meta.deletion_timestamp)
        moment = None if going_at is None else going_at - (meta.deletion_grace_period_seconds or 0)
    return moment if moment is not None else moment_seconds(meta.creation_timestamp) or 0.0


def _containers_ended_at(document: _Document) -> float | None:
    """The end of the last container, sidecars included; None if one has not ended."""
    sidecars = {it.name for it in document.spec.init_containers or () if it.restart_policy == "Always"}
    status = document.status
    last: float | None = None
    relevant = [*(status.container_statuses or ())]
    if sidecars:
        relevant += [it for it in status.init_container_statuses or () if it.name in sidecars]
    for container in relevant:
        terminated = container.state.terminated if container.state is not None else None
        ended = None if terminated is None else moment_seconds(terminated.finished_at)
        if ended is None:
            return None
        last = ended if last is None else max(last, ended)
    return last
