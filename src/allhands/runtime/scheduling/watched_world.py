"""Feeds a `World` from informers: which group each pod belongs to, what each group asks for, and where it came from.

A pod that a Job made waits until that very Job has been seen: it might be one of a gang. Whatever the order in which
objects are seen, the world ends up the same. Nothing is decided here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from allhands.api.policy import QueueChoice
from allhands.core.policy import DEFAULT
from allhands.core.world import NO_SLOT, World
from allhands.dialects.group_progress import NOTHING_WRITTEN
from allhands.dialects.groups import GroupRecord, job_group_name, pod_group_of, read_job
from allhands.dialects.topology_labels import DEFAULT_LABELS
from allhands.model.node import Node, NodeDocument
from allhands.model.pod import PodPhase
from allhands.model.podgroup import PodGroup, Slot, SubGroup
from allhands.model.reason import Explanation, Reason, explain
from allhands.runtime.informer import Informer, key_of, split_key
from allhands.runtime.scheduling import resources
from allhands.runtime.scheduling.default_spreading import DefaultSpreading
from allhands.runtime.scheduling.expected_changes import has_only_gone_on, is_expected
from allhands.runtime.scheduling.group_homes import JOB_PREFIX, POD_PREFIX, GroupHomes
from allhands.runtime.scheduling.group_members import GroupMembers
from allhands.runtime.scheduling.groups_to_be import GroupsToBe
from allhands.runtime.scheduling.late_looks import LateLooks
from allhands.runtime.scheduling.predecessors import why_not_yet
from allhands.runtime.scheduling.queue_places import QueuePlaces
from allhands.runtime.scheduling.succeeded import gone_members, gone_of_job, is_only_counted, without
from allhands.runtime.scheduling.watched_facts import PriorityClass, WatchedFacts, reading
from allhands.runtime.scheduling.watched_groups import WatchedGroups
from allhands.runtime.scheduling.watched_pods import watched_pods

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from allhands.core.policy import Policy
    from allhands.core.snapshot import Snapshot
    from allhands.dialects.pods import PodRecord
    from allhands.dialects.queues import QueueRecord
    from allhands.model.group_status import GroupStatus
    from allhands.model.pod import Pod
    from allhands.ports import Objects

DEFAULT_QUEUE: Final = "default"
"""Who names no queue is in this one, if there is one."""


class WatchedWorld:
    """`changed` is called whenever something that the core reads is different; `is_busy` says whether what was decided
    is still being done, so that it is about to be seen, `is_thronged` that much of it is."""

    def __init__(
        self,
        objects: Objects,
        *,
        scheduler_names: Sequence[str] = ("allhands",),
        topology_labels: tuple[str, ...] = DEFAULT_LABELS,
        changed: Callable[[], None],
        is_busy: Callable[[], bool] = lambda: False,
        is_thronged: Callable[[], bool] = lambda: False,
        policy: Policy = DEFAULT,
    ) -> None:
        self.world = World()
        hierarchical = policy.queue_choice is QueueChoice.HIERARCHICAL_DRF
        self.facts = WatchedFacts(objects, topology_labels, hierarchical=hierarchical)
        self._places = QueuePlaces(self.facts.queues, policy.node_groups, ordered=policy.orders_node_groups)
        self._spreading = DefaultSpreading(objects, self._spreading_changed)
        self._ours = frozenset(scheduler_names)
        self._changed = changed
        self.pods = watched_pods(objects)
        self._late_looks = LateLooks(self.pods, self.world, is_busy=is_busy, is_thronged=is_thronged, changed=changed)
        self.nodes: Informer[Node] = Informer(objects, resources.NODES, reading(NodeDocument, Node.from_document))
        self.jobs: Informer[GroupRecord] = Informer(
            objects,
            resources.JOBS,
            read_job,
            indexes={"after": lambda it: [key_of(it.namespace, name) for name in it.after]},
            optional=True,
        )
        self.pod_groups = WatchedGroups(objects)
        self.homes = GroupHomes(self.pods, self.jobs, self.pod_groups)
        self._members = GroupMembers(self.pods)
        self._groups_to_be = GroupsToBe(self._spreading.managers, self.jobs, self.pod_groups, self._spreading_changed)
        self._live = False
        self._unconfirmed: dict[str, GroupStatus] = {}
        self._jobs_told: dict[str, tuple[str, bool, str]] = {}
        """Job -> its uid, whether it is a gang and its queue, as its pods were last told."""
        self._with_groups: set[str] = set()
        """Pods that are groups of their own in a queue."""
        self.surprises = 0
        """How often a node was seen to change, or a pod on a node that we had not sent there: then what was decided
        before may not hold any more."""
        self.news = 0
        """How often anything was seen to change that we had not done ourselves: if it never did since a start was
        decided, the start holds."""
        self.pods.on_change(self._pod_changed)
        self.nodes.on_change(self._node_changed)
        self.jobs.on_change(self._job_changed)
        self.pod_groups.on_change(self._pod_group_changed)
        self.facts.queues.on_change(self._queue_changed)
        self.facts.priorities.on_change(self._priority_changed)
        self.facts.hyper_nodes.on_change(self._hyper_node_changed)
        for informer in self.facts.informers:
            informer.on_change(self._fact_changed)

    @property
    def informers(self) -> list[Informer[Any]]:
        """Groups before pods, so that a pod finds its group."""
        facts = (*self.facts.informers, *self._spreading.informers)
        return [*facts, self.nodes, *self.pod_groups.informers, self.jobs, self.pods]

    def begin(self) -> None:
        """Everything has been seen once: from now on the world is kept. Groups come before their pods."""
        self._live = True
        for node in self.nodes.all():
            self.world.set_node(node)
        for record in self.pod_groups.all():
            if record.is_gang:
                self._set_group(record, record.group_name)
        for key in list(self.jobs.keys()):
            self._set_job(key, self.jobs.get(key))
        for pod in self.pods.all():
            if not pod.job_name or key_of(pod.pod.namespace, pod.job_name) not in self.jobs:
                self._set_pod(pod)

    def snapshot(self, *, lasting: bool = True) -> Snapshot:
        """As the world's: one that is not `lasting` may be read only until something is awaited."""
        for key in self._members.take_stale():
            if (record := self.pod_groups.get(key)) is not None and record.is_gang and record.looks_at_pods:
                self._set_group(record, record.group_name)
        if self.facts.is_stale:
            self.world.set_facts(self.facts.renewed(self.nodes.all()))
        return self.world.snapshot(lasting=lasting)

    def status(self, group: str) -> GroupStatus:
        """What is remembered of a group, what is being written included."""
        known = self._unconfirmed.get(group)
        return self.homes.status(group) if known is None else known

    def completed_before(self, job: GroupRecord) -> tuple[str, ...]:
        """Those before it that were seen to complete, even if they are gone by now."""
        return self.status(key_of(job.namespace, job_group_name(job.name))).after_completed

    def assume_status(self, group: str, status: GroupStatus | None) -> None:
        """Overlay: what is being written about a group. None: it was written, or will not be."""
        if status is None:
            self._unconfirmed.pop(group, None)
        else:
            self._unconfirmed[group] = status
        _, name = split_key(group)
        if name.startswith(POD_PREFIX):
            if (pod := self.homes.pod(group)) is not None:
                self._set_pod(pod)
        elif name.startswith(JOB_PREFIX):
            if (job := self.homes.job(group)) is not None and self._is_gang(job):
                self._set_group(job, name)
        elif (found := self.pod_groups.get(group)) is not None and found.is_gang:
            self._set_group(found, name)

    def note_change(self) -> None:
        """Something that the core reads is different, by our own doing."""
        self._changed()

    def is_ours(self, pod: Pod) -> bool:
        return pod.scheduler_name in self._ours

    # -- events

    def _note_news(self) -> None:
        self.news += 1
        self._changed()

    def _node_changed(self, key: str, before: Node | None, after: Node | None) -> None:
        if not self._live or before == after:
            return
        self.surprises += 1
        if before is None or after is None or self._has_moved(before, after):
            self.facts.topology_changed()
        if after is None:
            self.world.delete_node(key)
        else:
            self.world.set_node(after)
        self._note_news()

    def _has_moved(self, before: Node, after: Node) -> bool:
        if self.facts.looks_at_all_labels and before.labels != after.labels:
            return True
        return any(before.labels.get(it) != after.labels.get(it) for it in self.facts.topology_labels)

    def _pod_changed(self, key: str, before: PodRecord | None, after: PodRecord | None) -> None:
        if not self._live or before == after:
            return
        if before is not None and after is not None and before.is_told != after.is_told:
            # What we tell a pod is nothing that the core reads.
            before = msgspec.structs.replace(before, is_told=after.is_told)
            if before == after:
                return
        if before is not None and (after is None or before.pod.uid != after.pod.uid):
            self.world.delete_pod(before.pod.uid)
        is_news = before is None or after is None or not is_expected(before.pod, after.pod, self.world)
        if after is None:
            self._forget_own_group(key)
            self._spreading.forget(split_key(key)[0], key)
            self._groups_to_be.forget(key)
            if before is not None and before.job_name and before.pod.phase is PodPhase.SUCCEEDED:
                self._recount(key_of(before.pod.namespace, before.job_name))
        elif before is not None and not is_news and has_only_gone_on(before, after) and self.world.renew_pod(after.pod):
            self._spreading.forget(after.pod.namespace, key)
        else:
            self._set_pod(after)
        if not is_news:
            self._late_looks.note()
        elif before is None and after is not None and self._is_forming(after):
            self.news += 1
            self._late_looks.note()
        else:
            self._count_surprise(before, after)
            self._note_news()

    def _is_forming(self, record: PodRecord) -> bool:
        """Whether it is one of a gang that lacks others yet. Nothing comes of it before the last of them is there, and
        looking at thousands of pods whenever one more comes would cost the square of their number."""
        if not record.group_name or record.pod.node_name:
            return False
        key = key_of(record.pod.namespace, record.group_name)
        group = self.pod_groups.get(key)
        return group is not None and bool(group.is_gang) and self.pods.count_by("group", key) < group.min_count

    def _count_surprise(self, before: PodRecord | None, after: PodRecord | None) -> None:
        there = "" if after is None else after.pod.node_name
        if there and (before is None or before.pod.node_name != there):
            self.surprises += 1

    def _set_pod(self, record: PodRecord) -> None:
        pod = record.pod
        ours = pod.scheduler_name in self._ours
        group = self._group_of(record) if ours else ""
        own = self._own_group(record) if ours and not group else ""
        if not own:
            self._forget_own_group(pod.key)
        if ours and not group:
            pod = self._spreading.completed(pod)
        group = group or own
        if ours and self._places.is_active:
            pod = self._places.completed(pod, self._queue_of(record, group))
        status = record.status
        if self._unconfirmed:
            status = self._unconfirmed.get(key_of(pod.namespace, f"{POD_PREFIX}{pod.name}"), status)
        self.world.set_pod(pod, group=group, slot=self._slot(record, group), ours=ours, status=status)

    def _slot(self, record: PodRecord, group: str) -> Slot:
        """Members are told apart by their tasks and labels only where the group does."""
        if not group or not (record.task or self._members.any_parts):
            return NO_SLOT
        declared = self.pod_groups.get(group)
        if declared is None or not (declared.parts or (declared.task_minimums and record.task)):
            return NO_SLOT
        return Slot(self._members.part(record, declared), record.task if declared.task_minimums else "")

    def _group_of(self, record: PodRecord) -> str:
        """The key of the gang that it belongs to, "" if it stands alone."""
        pod = record.pod
        if group_to_be := self._groups_to_be.of(record):
            return group_to_be
        if record.group_name:
            key = key_of(pod.namespace, record.group_name)
            group = self.pod_groups.get(key)
            return key if group is None or group.is_gang else ""
        if record.job_name:
            key = key_of(pod.namespace, record.job_name)
            job = self.jobs.get(key)
            gang = key_of(pod.namespace, job_group_name(record.job_name))
            if job is not None and job.uid != record.job_uid:
                return f"{gang}#{record.job_uid}"  # of another Job of this name, which is gone or yet to be seen
            if job is None or self._is_gang(job):
                return gang
        return ""

    def _own_group(self, record: PodRecord) -> str:
        """A pod that stands alone in a queue needs a group that says so."""
        pod = record.pod
        origin = self._origin(record)
        queue = self._queue(record.queue or (origin.queue if origin is not None else ""))
        if not queue and origin is None:
            return ""
        self._with_groups.add(pod.key)
        group = PodGroup(
            pod.namespace,
            f"{POD_PREFIX}{pod.name}",
            queue,
            uid=pod.uid,
            priority=pod.priority,
            created_at_seconds=pod.created_at_seconds,
            expected_duration_seconds=origin.expected_duration_seconds if origin is not None else None,
        )
        key = group.key
        status = self._unconfirmed.get(key, record.status)
        problem = origin.problem if origin is not None else ""
        self.world.set_group(group, status, problem=problem, waits_for=self._why_not_yet(origin, queue))
        return key

    def _forget_own_group(self, pod_key: str) -> None:
        if pod_key in self._with_groups:
            self._with_groups.discard(pod_key)
            namespace, name = split_key(pod_key)
            self.world.delete_group(key_of(namespace, f"{POD_PREFIX}{name}"))

    def _why_not_yet(self, record: GroupRecord | None, queue: str) -> Explanation | None:
        """What must happen before the group may begin, outside of what the core decides."""
        if record is not None and record.after:
            why = why_not_yet(record, self.jobs, self.completed_before(record))
            if why is not None:
                return why
        known = self.facts.queue(queue)
        if known is not None and known.problem:
            return explain(Reason.QUEUE_HELD, queue=queue).with_more("{problem}", problem=known.problem)
        return None

    def _queue_of(self, record: PodRecord, group: str) -> str:
        """The queue that a pod is in: that of its gang, else the one that it or its origin names."""
        gang = (self.homes.job(group) or self.pod_groups.get(group)) if group else None
        if gang is not None:
            return self._queue(gang.queue)
        origin = self._origin(record)
        return self._queue(record.queue or (origin.queue if origin is not None else ""))

    def _origin(self, record: PodRecord) -> GroupRecord | None:
        """Of a pod that stands alone: the group that is none, or the Job, that it comes from."""
        if record.group_name:
            return self.pod_groups.get(key_of(record.pod.namespace, record.group_name))
        return self.jobs.get(key_of(record.pod.namespace, record.job_name)) if record.job_name else None

    def _queue(self, named: str) -> str:
        return named or (DEFAULT_QUEUE if DEFAULT_QUEUE in self.facts.queues else "")

    def _is_gang(self, job: GroupRecord) -> bool:
        if job.is_gang is not None:
            return job.is_gang
        queue = self.facts.queue(self._queue(job.queue))
        return queue is not None and queue.gang_by_default

    def _job_changed(self, key: str, before: GroupRecord | None, after: GroupRecord | None) -> None:
        if not self._live or before == after:
            return
        if is_only_counted(before, after):
            if gone_of_job(before, self.pods) != gone_of_job(after, self.pods):
                self._recount(key)
            return
        self._set_job(key, after)
        if before is None or after is None or before.end != after.end or before.after != after.after:
            for waiting in self.jobs.keys_by("after", key):
                self._set_job(waiting, self.jobs.get(waiting))
        self._note_news()

    def _recount(self, job_key: str) -> None:
        """Members of its gang are needed no more: they have succeeded, and are gone."""
        job = self.jobs.get(job_key)
        if job is None or job.has_ended:
            return
        if self._is_gang(job):
            self._set_group(job, job_group_name(job.name))
        for name in sorted({it.group_name for it in self.pods.by("job", job_key) if it.group_name}):
            if (group := self.pod_groups.get(key_of(job.namespace, name))) is not None and group.is_gang:
                self._set_group(group, group.group_name)
        self._note_news()

    def _set_job(self, key: str, job: GroupRecord | None) -> None:
        namespace, name = split_key(key)
        is_gang = job is not None and self._is_gang(job)
        if job is not None and is_gang:
            self._set_group(job, job_group_name(name))
        else:
            self.world.delete_group(key_of(namespace, job_group_name(name)))
        told = (job.uid, is_gang, job.queue) if job is not None else None
        if self._jobs_told.get(key) != told or (job is not None and not is_gang):
            # Pods that stand alone carry what their Job says of duration and queue.
            if told is None:
                self._jobs_told.pop(key, None)
            else:
                self._jobs_told[key] = told
            for record in self.pods.by("job", key):
                self._set_pod(record)

    def _pod_group_changed(self, key: str, before: GroupRecord | None, after: GroupRecord | None) -> None:
        if not self._live or _but_for_its_status(before) == _but_for_its_status(after):
            return
        if after is not None and after.is_gang:
            self._set_group(after, after.group_name)
        else:
            self.world.delete_group(key)
            self._members.forget(key)
        if (
            before is None
            or after is None
            or not before.is_gang
            or not after.is_gang
            or _tells_tasks_anew(before, after)
            or (before.queue != after.queue and self._places.is_active)
        ):
            for record in self.pods.by("group", key):
                self._set_pod(record)
        self._note_news()

    def _set_group(self, record: GroupRecord, name: str) -> None:
        priorities = {record.priority_class: self.facts.priority(record.priority_class)}
        members = self._members.of(record, key_of(record.namespace, name))
        facts = self.facts
        group, problem = pod_group_of(
            record, name, priorities, facts.topology_labels, members, hyper_tiers=facts.hyper_tiers
        )
        if (queue := self._queue(record.queue)) != group.queue:
            group = msgspec.structs.replace(group, queue=queue)
        group = without(group, gone_members(record, group.key, self.pods, self.jobs))
        waits_for = self._why_not_yet(record, group.queue)
        if record.has_ended:
            # Nobody waits for the rest of it, and nothing of it starts any more.
            group = msgspec.structs.replace(group, members=SubGroup(min_count=0), suspended=True)
            problem, waits_for = "", None
        status = self._unconfirmed.get(group.key, record.status)
        self.world.set_group(group, status, problem=problem, waits_for=waits_for)

    def _spreading_changed(self, pods: list[str]) -> None:
        """A service or a controller is different, and so is how these pods are spread."""
        for key in pods:
            if (record := self.pods.get(key)) is not None:
                self._set_pod(record)
        self._note_news()

    def _fact_changed(self, key: str, before: object, after: object) -> None:
        del key
        if before != after:
            self._note_news()

    def _priority_changed(self, key: str, before: PriorityClass | None, after: PriorityClass | None) -> None:
        if not self._live or before == after:
            return
        names = {key}
        if any(it is not None and it.global_default for it in (before, after)):
            names.add("")
        for record in self.pod_groups.all():
            if record.priority_class in names and record.is_gang:
                self._set_group(record, record.group_name)
        for name in list(self.jobs.keys()):
            job = self.jobs.get(name)
            if job is not None and job.priority_class in names:
                self._set_job(name, job)

    def _hyper_node_changed(self, key: str, before: object, after: object) -> None:
        """Groups that say how close their pods must be may mean other domains now."""
        del key
        if not self._live or before == after:
            return
        for record in self.pod_groups.all():
            if record.is_gang and (record.rule is not None or record.parts):
                self._set_group(record, record.group_name)

    def _queue_changed(self, key: str, before: QueueRecord | None, after: QueueRecord | None) -> None:
        """Those who leave a choice to their queue, and everyone without a queue if the default one comes or goes."""
        if self._places.see(before, after) and self._live:
            for record in self.pods.all():
                self._set_pod(record)
        if not self._live or _choices(before) == _choices(after):
            return
        names = {key, ""} if key == DEFAULT_QUEUE else {key}
        for name in list(self.jobs.keys()):
            job = self.jobs.get(name)
            if job is not None and job.queue in names:
                self._set_job(name, job)
        for group in self.pod_groups.all():
            if group.queue in names and group.is_gang:
                self._set_group(group, group.group_name)
        for record in self.pods.all():
            if record.queue in names or record.group_name:
                self._set_pod(record)


def _but_for_its_status(record: GroupRecord | None) -> GroupRecord | None:
    """What we and others write there for people is nothing that the core reads."""
    return None if record is None else msgspec.structs.replace(record, written=NOTHING_WRITTEN)


def _tells_tasks_anew(before: GroupRecord, after: GroupRecord) -> bool:
    return bool(before.task_minimums) != bool(after.task_minimums) or before.parts != after.parts


def _choices(queue: QueueRecord | None) -> tuple[bool, str] | None:
    return None if queue is None else (queue.gang_by_default, queue.problem)
