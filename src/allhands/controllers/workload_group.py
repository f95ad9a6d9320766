"""The shell of groups that are made for pods without one: what happens to pods and their owners is told to the group.

Only pods that were written for Volcano are watched at all; of those that are in somebody else's group nothing is kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from allhands.api.volcano.queue import DEFAULT, QUEUE
from allhands.api.volcano.workloads import PREFIX, SCHEDULER_NAME, group_name
from allhands.controllers.watching import Refusals, decoder
from allhands.dialects.pods import read_pod_use
from allhands.dialects.queues import read_queue
from allhands.dialects.volcano_groups import PREFIX as VOLCANO
from allhands.lifecycle.instructions import NOTHING_TO_DO, Outcome
from allhands.lifecycle.volcano_job.names import POD_GROUPS, PODS
from allhands.lifecycle.workload_group import (
    JOBS,
    REPLICA_SETS,
    STATEFUL_SETS,
    Workload,
    WorkloadGroup,
    WorkloadPod,
    group_of,
    reconcile,
)
from allhands.ports import Query
from allhands.runtime.informer import Informer, key_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from allhands.api.errors import StatusError
    from allhands.ports import Objects
    from allhands.runtime.workqueue import WorkQueue

ELSEWHERE: Final = WorkloadPod(group="-")
"""Stands for every pod that is in a group which is not made here."""
_KINDS: Final = {REPLICA_SETS: "ReplicaSet", STATEFUL_SETS: "StatefulSet", JOBS: "Job"}
_pods: Final = msgspec.json.Decoder(WorkloadPod)


class WorkloadGroupController:
    name: Final = "workload-group"

    def __init__(self, objects: Objects) -> None:
        self._pods: Informer[WorkloadPod] = Informer(
            objects,
            PODS,
            _read_pod,
            query=Query(fields=f"spec.schedulerName={SCHEDULER_NAME}"),
            indexes={"group": _group_of_pod},
        )
        self._owners: tuple[Informer[Workload], ...] = tuple(
            Informer(objects, resource, _reader_of(kind), indexes={"group": _group_of_owner}, optional=True)
            for resource, kind in _KINDS.items()
        )
        self._groups: Informer[WorkloadGroup] = Informer(objects, POD_GROUPS, decoder(WorkloadGroup), optional=True)
        self._queues: Informer[bool] = Informer(
            objects, QUEUE.resource, lambda raw: read_queue(raw).gang_by_default, optional=True
        )
        self._refusals = Refusals()
        self._queue: WorkQueue | None = None

    @property
    def informers(self) -> Sequence[Informer[Any]]:
        return (self._pods, *self._owners, self._groups, self._queues)

    def wire(self, queue: WorkQueue) -> None:
        self._queue = queue
        self._pods.on_change(lambda _key, old, new: _see(queue, _group_of_pod, old, new))
        for owners in self._owners:
            owners.on_change(lambda _key, old, new: _see(queue, _group_of_owner, old, new))
        self._groups.on_change(lambda key, _old, _new: self._see_group(queue, key))

    def _see_group(self, queue: WorkQueue, key: str) -> None:
        if key.partition("/")[2].startswith(PREFIX):
            queue.add(key)

    def heard(self, key: str, refusal: StatusError | None) -> None:
        """How the last attempt at a key ended."""
        self._refusals.hear(key, refusal, None)

    def reconcile(self, key: str, now_seconds: float) -> Outcome:
        """`key` is that of the group, whether or not it is there."""
        del now_seconds
        owner = next((it for owners in self._owners for it in owners.by("group", key)), None)
        pods = self._pods.by("group", key)
        group = self._groups.get(key)
        if not pods and (owner is None or group is None):
            return NOTHING_TO_DO
        refusal = self._refusals.of(key)
        return reconcile(
            pods,
            owner,
            group,
            refused="" if refusal is None else refusal.message,
            in_gang_queue=any(self._is_gang_queue(pod) for pod in pods if owner is not None and owner.kind == "Job"),
        )

    def _is_gang_queue(self, pod: WorkloadPod) -> bool:
        return bool(self._queues.get(read_pod_use(pod.raw).queue or DEFAULT))


def _see(queue: WorkQueue, groups: Callable[[Any], Sequence[str]], old: Any, new: Any) -> None:
    keys = dict.fromkeys(key for it in (old, new) if it is not None for key in groups(it))
    for key in keys:
        queue.add(key)


def _group_of_pod(pod: WorkloadPod) -> Sequence[str]:
    return () if pod is ELSEWHERE else (key_of(pod.metadata.namespace, group_of(pod.metadata)),)


def _group_of_owner(owner: Workload) -> Sequence[str]:
    return (key_of(owner.metadata.namespace, group_name(owner.metadata.uid)),)


def _read_pod(raw: bytes) -> WorkloadPod:
    group = read_pod_use(raw).group_name
    if group and not group.startswith(f"{VOLCANO}{PREFIX}"):
        return ELSEWHERE
    pod = _pods.decode(raw)
    if group and group != f"{VOLCANO}{group_of(pod.metadata)}":
        return ELSEWHERE
    return msgspec.structs.replace(pod, group=group, raw=raw)


def _reader_of(kind: str) -> Callable[[bytes], Workload]:
    """Items of lists do not say of which kind they are."""
    read = decoder(Workload)
    return lambda raw: msgspec.structs.replace(read(raw), kind=kind)
