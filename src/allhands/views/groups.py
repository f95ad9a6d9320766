"""Jobs and PodGroups of every system with their pods, as one list of groups: who belongs to whom, and which object
speaks for it.

A Job whose pods name a PodGroup is one thing to its owner: it is shown once, as the Job, and what the PodGroup says
counts for it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from allhands.dialects.groups import GroupRecord, job_group_name
from allhands.model.group_status import NO_STATUS, GroupStatus
from allhands.views.picture import API_GROUPS, JOB, VCJOB

if TYPE_CHECKING:
    from collections.abc import Iterable

    from allhands.views.picture import JobSeen, Picture, PodGroupSeen, PodSeen, QueueSeen

DEFAULT_QUEUE: Final = "default"
"""Who names no queue is in this one, if there is one."""

GroupKind = Literal["job", "vcjob", "podgroup", "pod"]


class Group(msgspec.Struct, frozen=True):
    """Pods that are one thing to their owner. A bare pod is a group of its own.

    `shares_name`: a PodGroup of another system beside it has the same name."""

    kind: GroupKind
    declared: GroupRecord
    """As its Job, its PodGroup or the pod itself says it."""
    pods: tuple[PodSeen, ...] = ()
    job: JobSeen | None = None
    pod_group: PodGroupSeen | None = None
    queue: str = ""
    is_gang: bool = False
    shares_name: bool = False

    @property
    def namespace(self) -> str:
        return self.declared.namespace

    @property
    def name(self) -> str:
        return self.declared.name

    @property
    def label(self) -> str:
        """How to ask about it."""
        return f"{self.full_kind if self.shares_name else self.kind}/{self.name}"

    @property
    def full_kind(self) -> str:
        """As the API's own tools print it."""
        kind = self.kind if self.job is None else JOB
        return f"{kind}.{self.api_group}" if self.api_group else kind

    @property
    def api_group(self) -> str:
        if self.kind == "podgroup" and self.pod_group is not None:
            return self.pod_group.api_group
        return "" if self.job is None else API_GROUPS[self.job.kind]

    @property
    def status(self) -> GroupStatus:
        """What the scheduler has written down about it as a whole."""
        if self.pod_group is not None:
            return self.pod_group.record.status
        if self.kind == "pod":
            return self.pods[0].record.status if self.pods else NO_STATUS
        return self.declared.status

    @property
    def min_count(self) -> int:
        return self.pod_group.record.min_count if self.pod_group is not None else self.declared.min_count

    @property
    def live_pods(self) -> tuple[PodSeen, ...]:
        return tuple(it for it in self.pods if not it.record.pod.is_finished and not it.record.pod.deleting)

    @property
    def keys(self) -> tuple[str, ...]:
        """The names by which the scheduler speaks of it, in reasons about others."""
        names = [job_group_name(self.name)] if self.kind == JOB else []
        if self.pod_group is not None:
            names.append(self.pod_group.record.group_name)
        return (*(f"{self.namespace}/{name}" for name in names), *(f"{self.namespace}/pod:{it}" for it in self._names))

    @property
    def _names(self) -> list[str]:
        return [it.record.pod.name for it in self.pods]


def groups_of(picture: Picture, *, bare_pods: bool = False) -> list[Group]:
    """Jobs and PodGroups by namespace and name; with `bare_pods` those that belong to neither, too."""
    by_job, by_group, alone = _sorted_pods(picture.pods)
    pod_groups = {(it.record.namespace, it.record.group_name): it for it in picture.pod_groups}
    same_name = Counter((it.record.namespace, it.record.name) for it in picture.pod_groups)
    queues = {it.name: it for it in picture.queues or ()}
    found: list[Group] = []
    spoken_for: set[tuple[str, str]] = set()
    for job in picture.jobs:
        namespace, name = job.record.namespace, job.record.name
        if job.kind == VCJOB:
            pods, named = by_group.get((namespace, job.group_name), []), job.group_name
            is_its_own = True
        else:
            pods = by_job.get((namespace, name), [])
            named = job.group_name or next((it.record.group_name for it in pods if it.record.group_name), "")
            is_its_own = all(it.record.job_name == name for it in by_group.get((namespace, named), ()))
        pod_group = pod_groups.get((namespace, named))
        if pod_group is not None and is_its_own:
            spoken_for.add((namespace, named))
        found.append(_of_job(job, tuple(pods), pod_group, queues))
    for key, pod_group in pod_groups.items():
        if key not in spoken_for:
            shares_name = same_name[pod_group.record.namespace, pod_group.record.name] > 1
            found.append(_of_pod_group(pod_group, tuple(by_group.get(key, ())), queues, shares_name=shares_name))
    if bare_pods:
        known = {(it.record.namespace, it.record.name) for it in picture.jobs if it.kind == JOB}
        found.extend(of_pod(it, queues) for it in alone)
        of_jobs = {(it.record.namespace, it.group_name) for it in picture.jobs if it.kind == VCJOB}
        orphans = (pods for key, pods in by_job.items() if key not in known)
        found.extend(of_pod(it, queues) for pods in orphans for it in pods)
        unheard = (pods for key, pods in by_group.items() if key not in pod_groups and key not in of_jobs)
        found.extend(of_pod(it, queues) for pods in unheard for it in pods if not it.record.job_name)
    return sorted(found, key=lambda it: (it.namespace, it.kind, it.name, it.api_group))


def groups_named(picture: Picture, namespace: str, kind: str, name: str, api_group: str = "") -> list[Group]:
    """All Jobs and PodGroups that these words may mean; a `kind` or an `api_group` of "" is any. A Job answers to the
    name of its PodGroup too, where no PodGroup that stands for itself does."""
    here = [it for it in groups_of(picture) if it.namespace == namespace]
    found = [it for it in here if it.name == name and kind in ("", it.kind) and api_group in ("", it.api_group)]
    if found or kind in API_GROUPS:
        return found
    return [
        it
        for it in here
        if it.pod_group is not None
        and it.pod_group.record.name == name
        and api_group in ("", it.pod_group.api_group)
        and kind in ("", "podgroup")
    ]


def _sorted_pods(
    pods: Iterable[PodSeen],
) -> tuple[dict[tuple[str, str], list[PodSeen]], dict[tuple[str, str], list[PodSeen]], list[PodSeen]]:
    by_job: dict[tuple[str, str], list[PodSeen]] = defaultdict(list)
    by_group: dict[tuple[str, str], list[PodSeen]] = defaultdict(list)
    alone: list[PodSeen] = []
    for seen in sorted(pods, key=lambda it: it.record.pod.key):
        record = seen.record
        if record.job_name:
            by_job[record.pod.namespace, record.job_name].append(seen)
        if record.group_name:
            by_group[record.pod.namespace, record.group_name].append(seen)
        if not record.job_name and not record.group_name:
            alone.append(seen)
    return by_job, by_group, alone


def _of_job(
    job: JobSeen, pods: tuple[PodSeen, ...], pod_group: PodGroupSeen | None, queues: dict[str, QueueSeen]
) -> Group:
    named = job.record.queue or (pod_group.record.queue if pod_group is not None else "")
    queue = queue_of(named, queues)
    if pod_group is not None:
        is_gang = bool(pod_group.record.is_gang)
    elif job.record.is_gang is not None:
        is_gang = job.record.is_gang
    else:
        known = queues.get(queue)
        is_gang = known is not None and known.record is not None and known.record.gang_by_default
    return Group(job.kind, job.record, pods, job, pod_group, queue, is_gang)


def _of_pod_group(
    pod_group: PodGroupSeen, pods: tuple[PodSeen, ...], queues: dict[str, QueueSeen], *, shares_name: bool
) -> Group:
    record = pod_group.record
    queue = queue_of(record.queue, queues)
    return Group("podgroup", record, pods, None, pod_group, queue, bool(record.is_gang), shares_name)


def of_pod(seen: PodSeen, queues: dict[str, QueueSeen]) -> Group:
    pod, record = seen.record.pod, seen.record
    declared = GroupRecord(pod.name, pod.namespace, pod.uid, pod.created_at_seconds, is_gang=False)
    return Group("pod", declared, (seen,), queue=queue_of(record.queue, queues))


def queue_of(named: str, queues: dict[str, QueueSeen]) -> str:
    return named or (DEFAULT_QUEUE if DEFAULT_QUEUE in queues else "")
