"""A pod as its Volcano Job sees it: a few facts, worked out once when the pod is read, since a big Job asks often.

The facts are about one moment of one pod. What they mean depends on the Job.
"""

from typing import Final

import msgspec

from allhands.lifecycle.observed import OwnerReference, Timestamp, seconds_of
from allhands.lifecycle.volcano_job.names import JOB_VERSION, OUT_OF_SYNC, TASK, TASK_INDEX

NO_INDEX: Final = -1
_LONGEST_NUMBER: Final = 10


class _Metadata(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    annotations: dict[str, str] | None = None
    owner_references: tuple[OwnerReference, ...] | None = None
    creation_timestamp: Timestamp | None = None
    deletion_timestamp: Timestamp | None = None
    deletion_grace_period_seconds: int | None = None


class _Terminated(msgspec.Struct, rename="camel"):
    exit_code: int = 0
    finished_at: Timestamp | None = None


class _State(msgspec.Struct):
    terminated: _Terminated | None = None


class _ContainerStatus(msgspec.Struct, rename="camel"):
    ready: bool = False
    restart_count: int = 0
    state: _State | None = None


class _Status(msgspec.Struct, rename="camel"):
    phase: str = "Pending"
    container_statuses: tuple[_ContainerStatus, ...] | None = None
    init_container_statuses: tuple[_ContainerStatus, ...] | None = None


class _Document(msgspec.Struct):
    metadata: _Metadata
    status: _Status = msgspec.field(default_factory=_Status)


class TaskPod(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    name: str
    uid: str
    namespace: str = ""
    owner_name: str = ""
    owner_uid: str = ""
    """The Volcano Job that manages it, "" if none does."""
    task: str = ""
    index: int = NO_INDEX
    version: int = 0
    """Of the Job when it was made; with every restart of the whole it is one more."""
    phase: str = "Pending"
    is_going: bool = False
    """Was told to go."""
    is_told: bool = False
    """Was told so by its Job, or is about to be."""
    is_ready: bool = False
    """All of its containers are."""
    restarts: int = 0
    exit_codes: tuple[int, ...] = ()
    """Of containers that have ended, of pods that have failed."""
    created_at_seconds: float = 0.0
    gone_at_seconds: float = 0.0
    """When it was told to go."""
    ended_at_seconds: float = 0.0

    @property
    def has_ended(self) -> bool:
        return self.phase in ("Succeeded", "Failed")


_pods: Final = msgspec.json.Decoder(_Document)


def decode_pod(raw: bytes) -> TaskPod:
    document = _pods.decode(raw)
    meta, status = document.metadata, document.status
    owner = next((it for it in meta.owner_references or () if it.controller), None)
    if owner is None or owner.kind != "Job" or not owner.api_version.startswith("batch.volcano.sh/"):
        return TaskPod(name=meta.name, uid=meta.uid, namespace=meta.namespace)
    annotations = meta.annotations or {}
    containers, initial = status.container_statuses or (), status.init_container_statuses or ()
    ended = [it.state.terminated for it in (*containers, *initial) if it.state is not None and it.state.terminated]
    going_at = seconds_of(meta.deletion_timestamp)
    created_at = seconds_of(meta.creation_timestamp)
    return TaskPod(
        name=meta.name,
        uid=meta.uid,
        namespace=meta.namespace,
        owner_name=owner.name,
        owner_uid=owner.uid,
        task=annotations.get(TASK, ""),
        index=_number(annotations.get(TASK_INDEX), NO_INDEX),
        version=_number(annotations.get(JOB_VERSION), 0),
        phase=status.phase,
        is_going=meta.deletion_timestamp is not None,
        is_told=OUT_OF_SYNC in annotations,
        is_ready=all(it.ready for it in containers),
        restarts=sum([it.restart_count for it in (*containers, *initial)]),
        exit_codes=tuple([it.exit_code for it in ended]) if status.phase == "Failed" else (),
        created_at_seconds=created_at,
        gone_at_seconds=going_at - (meta.deletion_grace_period_seconds or 0) if going_at else 0.0,
        ended_at_seconds=max((seconds_of(it.finished_at) for it in ended), default=0.0) or created_at,
    )


def _number(text: str | None, otherwise: int) -> int:
    if text is None or not text.isascii() or not text.isdigit() or len(text) > _LONGEST_NUMBER:
        return otherwise
    return int(text)
